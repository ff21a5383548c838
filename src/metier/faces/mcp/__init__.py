"""Skills for any MCP client: `metier mcp` over standard input and output, or over HTTP.

`serve` (`server_for`, `serve_stdio`) and `http_server` (`serve_http`) serve a library; `clients` edits the
configuration of MCP clients and needs no extra. `server` has the protocol, `offers` and `resources` the content.
"""
