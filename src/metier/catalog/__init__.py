"""4. catalog: Verdicts -> Catalog.

`listing` builds the catalog that a model is shown and `fit` makes it fit its budget; `commands` is what a person may
type; `cards`, `rank` and `tokens` find skills for a request; `similarity` finds skills that look alike.
"""
