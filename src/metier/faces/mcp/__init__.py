"""Skills for any MCP client: `metier mcp` over standard input and output, or over HTTP.

`run` (`server_for`, `serve_stdio`) and `http` (`serve_http`) serve a library; `clients` edits the configuration of MCP
clients and needs no extra.  Inside: `server` has the protocol, `offers` and `resources` what it answers with.
"""
