"""Let programs that others wrote talk to `metier mcp`: the MCP inspector, and the protocol's conformance suite.

Needs npm and its registry, so it is no part of the tests: `make interop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TOOLS = HERE / ".bench" / "interop"
PACKAGES = ("@modelcontextprotocol/inspector@0.22.0", "@modelcontextprotocol/conformance@0.1.16", "node@22")
METIER = str(Path(sys.executable).parent / "metier")
SCENARIOS = (
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete",
    "server-sse-multiple-streams", "dns-rebinding-protection",
)  # fmt: skip
"""Of the suite's scenarios, those that do not ask for tools, prompts and resources of a certain test server."""
SKILL = """---
name: deploy
description: Deploys the app. Use when someone asks for a release.
argument-hint: "[staging|live]"
---
Deploy to $ARGUMENTS.
"""
ASKED: tuple[tuple[str, list[str], str], ...] = (
    ("tools/list", [], '"skill_run_script"'),
    ("tools/call", ["--tool-name", "skill_use", "--tool-arg", "skill_name=deploy"], "Deploy to"),
    ("prompts/list", [], '"deploy"'),
    ("prompts/get", ["--prompt-name", "deploy", "--prompt-args", "arguments=live"], "Deploy to live."),
    ("resources/list", [], "skill://deploy/SKILL.md"),
    ("resources/templates/list", [], "skill://{name}/{+path}"),
    ("resources/read", ["--uri", "skill://deploy/SKILL.md"], "name: deploy"),
)


def main() -> int:
    if not (TOOLS / "node_modules/.bin/conformance").exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", *PACKAGES]
        subprocess.run(command, cwd=TOOLS, check=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / ".metier/skills/deploy").mkdir(parents=True)
        (place / ".metier/skills/deploy/SKILL.md").write_text(SKILL)
        node = TOOLS / "node_modules/node/bin"
        env = {**os.environ, "HOME": folder, "PATH": f"{node}:{os.environ['PATH']}"}
        results = [*inspected(place, env), *asyncio.run(conformed(place, env))]
    for name, passed, said in results:
        print(f"{'pass' if passed else 'FAIL'}  {name}" + ("" if passed else f"\n{said}"))
    return 0 if all(passed for _, passed, _ in results) else 1


def inspected(place: Path, env: dict[str, str]) -> list[tuple[str, bool, str]]:
    """Every method through the inspector, which starts the server itself."""
    inspector = str(TOOLS / "node_modules/.bin/mcp-inspector")
    found = []
    for method, more, wanted in ASKED:
        command = [inspector, "--cli", METIER, "mcp", "--method", method, *more]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=place, timeout=120)
        said = done.stdout + done.stderr
        whole = done.stdout.strip().startswith("{") and bool(json.loads(done.stdout))
        found.append((f"inspector {method}", done.returncode == 0 and whole and wanted in said, said))
    return found


async def conformed(place: Path, env: dict[str, str]) -> list[tuple[str, bool, str]]:
    """The suite's scenarios over HTTP.  The suite has no token, so a relay adds it."""
    served = ["mcp", "--http", "--port", "0"]
    server = await asyncio.create_subprocess_exec(METIER, *served, stderr=asyncio.subprocess.PIPE, env=env, cwd=place)
    assert server.stderr is not None
    line = (await server.stderr.readline()).decode()
    port = re.search(r":(\d+)/mcp", line)
    assert port, line
    token = (place / ".metier/mcp-token").read_text().strip()
    relay = await asyncio.start_server(lambda r, w: relayed(r, w, int(port[1]), token), "127.0.0.1", 0)
    at = relay.sockets[0].getsockname()[1]
    suite = ["node", str(TOOLS / "node_modules/.bin/conformance"), "server", "--url", f"http://localhost:{at}/mcp"]
    found = []
    try:
        for name in SCENARIOS:
            pipe = asyncio.subprocess.PIPE
            one = await asyncio.create_subprocess_exec(*suite, "--scenario", name, stdout=pipe, stderr=pipe, env=env)
            out, errors = await asyncio.wait_for(one.communicate(), 120)
            said = (out + errors).decode(errors="replace")
            found.append((f"conformance {name}", one.returncode == 0 and "0 failed" in said, said))
    finally:
        relay.close()
        server.terminate()
        await server.wait()
    return found


async def relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, token: str) -> None:
    """One connection: each request with the token, and the port that the server knows itself by."""
    back, forth = await asyncio.open_connection("127.0.0.1", port)
    own = str(writer.get_extra_info("sockname")[1])
    answers = asyncio.ensure_future(copied(back, writer))
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            head = re.sub(rf"(?im)^(host|origin):(.*):{own}", rf"\1:\2:{port}", head)
            first, rest = head.split("\r\n", 1)
            forth.write(f"{first}\r\nAuthorization: Bearer {token}\r\n{rest}".encode("latin-1"))
            size = re.search(r"(?im)^content-length: *(\d+)", head)
            forth.write(await reader.readexactly(int(size[1]) if size else 0))
            await forth.drain()
    forth.close()
    await answers


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
