"""Skills in an MCP client: any client will do, this one is the official SDK's."""

import sys

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

server = StdioServerParameters(command=sys.executable, args=["-m", "metier", "mcp"])


async def main() -> None:
    async with Client(stdio_client(server)) as client:
        print([prompt.name for prompt in (await client.list_prompts()).prompts])
        answer = await client.call_tool("skill_use", {"skill_name": "release-notes"})
        assert "search is always fast now." in str(answer.content)


anyio.run(main)
