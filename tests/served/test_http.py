"""The server over HTTP, a process of its own: who may ask, and that it withstands the rest."""

import asyncio
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.home import World
from tests.served.raw import METIER
from tests.served_files import Shop, make_shop
from uvicorn.server import ServerState

from metier.agent.agent import agent_for
from metier.agent.permissions import Permission
from metier.faces.loopback import HeaderTimeoutProtocol
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.errors import HostError

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


class Served(NamedTuple):
    port: int
    token: str
    shop: Shop
    errors: Path

    def ask(
        self, body: object = None, method: str = "POST", path: str = "/mcp", **headers: str
    ) -> tuple[int, str, Any]:
        """A request like a good client's, but for what is given; an empty header is left out."""
        usual = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            for name, value in {**usual, **given, "Content-Length": str(len(data))}.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read().decode() if method != "GET" or answer.status >= 400 else ""
            return answer.status, text, answer.headers
        finally:
            connection.close()


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("http")
    shop = make_shop(folder)
    errors = folder / "errors"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [*METIER, "--root", str(shop.skills), "mcp", "--http", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            cwd=shop.world.project,
            env={**shop.world.variables, "PATH": os.environ["PATH"]},
        )
    try:
        until = time.monotonic() + 120
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", errors.read_text())):
            assert process.poll() is None, errors.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        token = (shop.world.state / "mcp-token").read_text().strip()
        yield Served(int(found[1]), token, shop, errors)
    finally:
        process.terminate()
        process.wait(60)


def test_half_sent_requests_without_a_token_keep_nobody_out(served):
    with ExitStack() as held:
        for _ in range(600):
            one = held.enter_context(socket.create_connection(("127.0.0.1", served.port), 30))
            with suppress(OSError):  # it may have had to make room
                one.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")

        assert served.ask(message("initialize", **INITIALIZE))[0] == 200


def test_who_has_no_token_is_hung_up_on(served):
    assert served.ask(message("initialize", **INITIALIZE), Authorization="")[2]["Connection"] == "close"


def test_a_connection_that_does_not_say_what_it_wants_is_closed():
    class Hasty(HeaderTimeoutProtocol):
        seconds = 0.05

    async def main() -> bytes:
        config = uvicorn.Config(lambda scope: None, log_level="critical", lifespan="off")
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: Hasty(config, ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: ")
            try:
                return await asyncio.wait_for(reader.read(1), 30)
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(main()) == b""


def test_a_client_of_the_official_sdk_lists_calls_reads_and_gets_prompts(served):
    async def main() -> list[Any]:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as connection:
            transport = streamable_http_client(f"http://127.0.0.1:{served.port}/mcp", http_client=connection)
            async with Client(transport) as client:
                return [
                    (await client.list_tools()).tools[0].name,
                    (await client.call_tool("skill_use", {"skill_name": "greet"})).is_error,
                    (await client.read_resource("skill://greet/reference.md")).contents[0],
                    (await client.get_prompt("launch")).messages[0].content,
                ]

    tool, failed, file, prompt = anyio.run(main)
    assert (tool, failed) == ("skill_use", False)
    assert file.text == "Hello is the usual word.\n"
    assert "Launch it." in prompt.text


def test_the_token_is_long_its_file_private_and_nowhere_printed(served):
    file = served.shop.world.state / "mcp-token"
    assert len(served.token) >= 43
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert served.token not in served.errors.read_text()


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x"])
def test_without_the_token_nobody_is_answered(served, given):
    status, text, headers = served.ask(
        message("initialize", **INITIALIZE), Authorization=given.format(token=served.token)
    )
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert served.token not in text


def test_a_token_in_the_address_is_no_token(served):
    path = f"/mcp?token={served.token}&access_token={served.token}"
    assert served.ask(message("ping"), path=path, Authorization="")[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}"])
def test_a_host_of_another_name_is_not_answered(served, host):
    assert served.ask(message("initialize", **INITIALIZE), Host=host.format(port=served.port))[0] == 421


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:1", "file://"])
def test_a_page_of_another_origin_may_not_ask(served, origin):
    assert served.ask(message("initialize", **INITIALIZE), Origin=origin)[0] == 403


def test_a_page_that_a_browser_calls_foreign_may_not_ask(served):
    assert served.ask(message("initialize", **INITIALIZE), Sec_Fetch_Site="cross-site")[0] == 403


def test_a_session_can_not_be_guessed_or_used_after_its_end(served):
    status, _, headers = served.ask(message("initialize", **INITIALIZE))
    session = headers["mcp-session-id"]
    assert status == 200
    assert len(session) * 4 >= 128
    guess = session[:-1] + ("0" if session[-1] != "0" else "1")
    assert served.ask(message("tools/list"), Mcp_Session_Id=guess)[0] == 404
    assert served.ask(message("tools/list"), Mcp_Session_Id=session, Authorization="")[0] == 401
    assert served.ask(method="DELETE", Mcp_Session_Id=session)[0] in (200, 204)
    assert served.ask(message("tools/list"), Mcp_Session_Id=session)[0] == 404


@pytest.mark.parametrize(
    ("body", "headers", "wanted"),
    [
        (b"{", {}, 400),
        (b"x" * 5_000_000, {}, 413),
        (b"{}", {"Content_Type": "text/plain"}, 400),
        (b"[]", {}, 400),
    ],
)
def test_what_is_no_message_is_refused(served, body, headers, wanted):
    assert served.ask(body, **headers)[0] == wanted
    assert served.ask(message("initialize", **INITIALIZE))[0] == 200


@pytest.mark.parametrize("path", ["/", "/mcp/../etc/passwd", "//host", "/" + "a" * 60_000])
def test_no_other_path_is_served(served, path):
    assert served.ask(message("ping"), path=path)[0] in (400, 404, 405, 414)


def test_a_port_that_is_taken_is_said(served):
    done = subprocess.run(
        [*METIER, "--root", str(served.shop.skills), "mcp", "--http", "--port", str(served.port)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=served.shop.world.project,
        env={**served.shop.world.variables, "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 5
    assert f"can't listen on 127.0.0.1:{served.port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agent_uses_a_server_by_its_address_and_one_without_the_word_is_named(served: Served, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    state = home / ".metier"
    state.mkdir(parents=True)
    project.mkdir()
    table = f'[mcp.far]\nurl = "http://127.0.0.1:{served.port}/mcp"\n'
    (state / "config.toml").write_text(table + f'headers = {{ Authorization = "Bearer {served.token}" }}\n')
    world = World(home, project, state)
    tool = ToolCall("1", "mcp__far__skill_use", {"skill_name": "greet"})
    model = ScriptedModel([tool, "Done."])
    agent = replace(agent_for(world.open(), model), rules=Permission(otherwise="allow"))  # type: ignore[arg-type]
    ended = agent.run("look there")

    assert ended.text == "Done."
    assert any(one.name.startswith("mcp__far__") for one in model.requests[0].tools)
    assert not model.requests[1].messages[-1].failed

    (state / "config.toml").write_text(table)
    with pytest.raises(HostError, match="far"):
        agent_for(world.open(), ScriptedModel(["x"])).start().tools()  # type: ignore[arg-type]
