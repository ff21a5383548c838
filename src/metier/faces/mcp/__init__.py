"""Skills for any MCP client: `metier mcp` over standard input and output, or over HTTP."""
