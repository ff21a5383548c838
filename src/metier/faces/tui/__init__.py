"""The terminal app: it draws events and makes calls, and holds nothing that a replay would not bring back.

`command` is the click command; `app` the application on top of `actions` and `layout`.  `lines`, `picker`, `replay` and
`commands` are plain functions without textual; `log` on top of `view`, `prompt` with its `editor`, `find` and `spinner`
are the widgets.  `markdown` makes rows of a reply, and `growing` does so while it is written.
"""
