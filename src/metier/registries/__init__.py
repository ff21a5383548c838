"""Registries of skills: places that are searched by words, and resolve a name to a source that can't change.

`protocol` says what every registry does; `clawhub`, `skills_sh`, `marketplace` and `listings` are the kinds there are,
and `configured` chooses among them by the configuration.  A registry only answers questions: what it resolves to is
fetched, checked and placed by `install` like any other source.
"""
