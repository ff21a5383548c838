"""Serve the Agent Client Protocol on standard input and output until the editor disconnects."""

from __future__ import annotations

import asyncio
import os

from acp import run_agent

from ...host.daemon import claim_stdio
from .agent import EditorAgent, OpenAgent

LONGEST_LINE = 16_777_216
"""Bytes of a message: a prompt may carry whole files."""


def serve(open_agent: OpenAgent) -> None:
    asyncio.run(_serve_stdio(open_agent))


async def _serve_stdio(open_agent: OpenAgent) -> None:
    wire, restore_stdio = claim_stdio(LONGEST_LINE)
    loop = asyncio.get_running_loop()
    # Duplicates below: asyncio closes what it is given, and `restore_stdio` needs the descriptors.
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(wire.read_from), "rb"))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(os.dup(wire.write_to), "wb")
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    agent = EditorAgent(open_agent)
    try:
        await run_agent(agent, writer, reader)  # type: ignore[arg-type]  # has what it speaks
    finally:
        await agent.close()
        restore_stdio()
