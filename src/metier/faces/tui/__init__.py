"""The terminal app: it draws events and makes calls, and holds nothing that a replay would not bring back.

`command` is the click command; `app` the application on top of `layout`.  `lines` and `picker` are plain functions
without textual, `log`, `prompt` and `spinner` the widgets.
"""
