"""Commands in a skill's body: read as a shell reads them, so that arguments stay data.

Bottom up: `lexer` (tokens), `words` (values), `programs` (tables), `variables`, `reader` (words), `rewrite` (scripts);
then the checks: `wrappers`, `inline_code`, `operands`, `options`, `places`, and `hazards`, which asks them all.
"""
