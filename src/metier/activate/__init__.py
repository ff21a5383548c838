"""5. activate: Catalog + Call -> Activation.

`render` turns a body into what the model is told, `deliver` puts it into messages, `template` has the placeholders,
`translate` writes a body for another dialect.  `shell` reads commands; `agent` also uses its `lexer` and `programs`.
"""
