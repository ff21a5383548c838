"""Tools of MCP servers, from the configuration to the answer."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from threading import enumerate as enumerate_threads

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.agent.talking import call, spoken

from metier.agent.agent import agent_for
from metier.testing.models import ScriptedModel
from metier.types.errors import HostError
from metier.types.event import Used

SERVER = """
from mcp.server import MCPServer
server = MCPServer("numbers")

@server.tool()
def add(a: int, b: int) -> str:
    "Add two numbers."
    return str(a + b)

@server.tool()
def fail() -> str:
    "Go wrong."
    raise ValueError("on purpose")

server.run("stdio")
"""


def configured(world, command: str, *arguments: str) -> None:
    world.state.mkdir(parents=True, exist_ok=True)
    args = ", ".join(f'"{one}"' for one in arguments)
    (world.state / "config.toml").write_text(f'[mcp.numbers]\ncommand = "{command}"\nargs = [{args}]\n')


def test_the_tools_of_a_configured_server_are_called_once_somebody_allowed_it(world):
    (world.project / "server.py").write_text(SERVER)
    world.trust()
    configured(world, sys.executable, "server.py")
    model = ScriptedModel([call("mcp__numbers__add", a=2, b=3), call("mcp__numbers__fail"), "Five."])
    talk = agent_for(world.open(), model).start()  # type: ignore[arg-type]

    events = spoken(talk, "what is 2 + 3?", answer="once")
    used = [one for one in events if isinstance(one, Used)]

    assert used[0].text == "5"
    assert used[1].error
    assert [tool.name for tool in model.requests[0].tools][-2:] == ["mcp__numbers__add", "mcp__numbers__fail"]


def started(world) -> frozenset[str]:
    """The names of the tools of an agent that is started there."""
    return agent_for(world.open(), ScriptedModel(["x"])).start().tools().names  # type: ignore[arg-type]


def test_a_folder_that_is_not_trusted_puts_nothing_of_its_own_in_the_place_of_a_server(world, tmp_path):
    (world.home / "server.py").write_text(SERVER)
    for name in ("calendar.py", "runpy.py", "server.py"):
        (world.project / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    configured(world, sys.executable, "-m", "calendar")
    with pytest.raises(HostError):
        started(world)
    configured(world, sys.executable, str(world.home / "server.py"))
    assert "mcp__numbers__add" in started(world)
    world.trust()
    started(world)

    assert not (tmp_path / "ran").exists()


def test_a_server_that_can_not_be_started_is_named(world):
    configured(world, "/nonexistent/server")

    with pytest.raises(HostError, match="numbers"):
        agent_for(world.open(), ScriptedModel(["x"])).start().tools()  # type: ignore[arg-type]


def connections() -> set[int | None]:
    """The threads of connections; other tests leave some to the end of the process."""
    return {one.ident for one in enumerate_threads() if one.name.startswith("mcp ")}


def test_an_agent_that_is_closed_leaves_no_server_and_no_thread(world):
    (world.project / "server.py").write_text(SERVER)
    world.trust()
    configured(world, sys.executable, "server.py")
    others, files = connections(), len(os.listdir("/proc/self/fd"))
    for _ in range(2):  # and it can be used again
        with agent_for(world.open(), ScriptedModel(["x"])) as agent:  # type: ignore[arg-type]
            assert agent.start().tools().names >= {"mcp__numbers__add"}
            assert len(connections() - others) == 1
    assert not connections() - others
    assert len(os.listdir("/proc/self/fd")) <= files


def test_copies_of_an_agent_share_its_connections(world):
    (world.project / "server.py").write_text(SERVER)
    world.trust()
    configured(world, sys.executable, "server.py")
    others = connections()
    with agent_for(world.open(), ScriptedModel(["x"])) as agent:  # type: ignore[arg-type]
        agent.start().tools()
        replace(agent, keep=False).start().tools()
        assert len(connections() - others) == 1
    assert not connections() - others
