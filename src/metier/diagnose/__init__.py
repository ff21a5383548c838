"""Diagnose: which failures of a run are a skill's fault, and what the skill's text says about them.

- `notice`: the faults that a run shows.  `clusters`: failures of several runs that count together.
- `texts`: tools, paths and placeholders in prose.  `typos`: whether one name can only be a misspelling of another.
- `steps`: the commands that a text gives, and the one that a call came from.
- `scripts`: what a skill's own scripts accept, and how they are started.
- `demonstration`: a call that failed and the one that then worked, mapped back into the text.
- `meaning`: the steps, guards and words that a change loses or adds.
"""
