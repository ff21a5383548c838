"""An editor of the protocol's own SDK with our agent, whose model says what it is told."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import acp
import pytest
from acp import RequestError, connect_to_agent, run_agent, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, EnvVariable, McpServerStdio, RequestPermissionResponse
from tests.home import SOURCE, write_skill
from tests.served.raw import METIER
from tests.served_files import Shop

from metier.agent.agent import Agent
from metier.agent.permissions import Permission, PermissionRule
from metier.faces.acp.agent import EditorAgent
from metier.testing.models import ScriptedModel, ScriptLine
from metier.types.activation import ToolCall

RUN = ToolCall("c1", "skill_run_script", {"skill_name": "greet", "script_name": "hello.sh", "script_args": "Ada"})


class Editor:
    """Keeps what it is shown, and answers what it is asked."""

    def __init__(self, answer: str | None = "once") -> None:
        self.answer = answer
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.on_ask: Callable[[], Awaitable[None]] | None = None

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        self.asked.append((tool_call, options))
        if self.on_ask is not None:
            await self.on_ask()
        if self.answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.answer))

    def on_connect(self, conn: Any) -> None:
        pass

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def text(self) -> str:
        chunks = [one for one in self.updates if one.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)

    def commands(self) -> list[str]:
        last = [one for one in self.updates if one.session_update == "available_commands_update"][-1]
        return [command.name for command in last.available_commands]


Act = Callable[[Any, str], Awaitable[Any]]


def talk(shop: Shop, editor: Editor, lines: list[ScriptLine], act: Act, servers: list[Any] | None = None) -> Any:
    """What an editor does with a session of an agent that has these lines."""

    def opened(cwd: str) -> Agent:
        return Agent(shop.open(), ScriptedModel(lines), rules=Permission(ask=(PermissionRule("skill_run_script"),)))

    async def main() -> Any:
        ours, theirs = socket.socketpair()
        here, there = await asyncio.open_connection(sock=ours), await asyncio.open_connection(sock=theirs)
        serving = asyncio.create_task(run_agent(EditorAgent(opened), there[1], there[0]))  # type: ignore[arg-type]
        client = connect_to_agent(editor, here[1], here[0])  # type: ignore[arg-type]
        try:
            await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
            session = await client.new_session(cwd=str(shop.world.project), mcp_servers=servers or [])
            return await act(client, session.session_id)
        finally:
            await client.close()
            serving.cancel()

    return asyncio.run(asyncio.wait_for(main(), 60))


async def settle() -> None:
    """Let all that has arrived be handled: turns of the loop count, which a busy machine does not skip."""
    for _ in range(20):
        await asyncio.sleep(0.01)


def saying(text: str) -> Act:
    async def act(client: Any, session: str) -> Any:
        answer = await client.prompt(session_id=session, prompt=[text_block(text)])
        await settle()
        return answer.stop_reason

    return act


def test_skills_are_the_editors_slash_commands(shop):
    write_skill(shop.skills / "deploy", "Deploys.", "Deploy $0.\n", "argument-hint: '[where]'\n")
    editor = Editor()
    assert talk(shop, editor, ["Hello."], saying("Hi.")) == "end_turn"

    assert editor.commands() == ["deploy", "greet", "launch"]
    assert editor.text() == "Hello."


def test_the_editors_own_servers_bring_their_tools(shop):
    command = ["-m", "metier", "--root", str(shop.skills), "mcp"]
    variables = [EnvVariable(name=name, value=value) for name, value in shop.world.variables.items()]
    server = McpServerStdio(name="shop", command=sys.executable, args=command, env=variables)
    model: list[ScriptLine] = [lambda request: " ".join(tool.name for tool in request.tools if "shop" in tool.name)]
    editor = Editor()
    talk(shop, editor, model, saying("Hi."), [server])

    tools = ("skill_use", "skill_read_file", "skill_run_script")
    assert editor.text() == " ".join(f"mcp__shop__{name}" for name in tools)


def test_a_question_that_wants_words_is_shown_and_answered_by_the_next_message(shop):
    editor = Editor()
    lines: list[ScriptLine] = [
        ToolCall("q", "ask_user", {"question": "Which town?"}),
        lambda request: str(request.messages),
    ]
    talk(shop, editor, lines, saying("The weather, please."))

    assert "Which town?" in editor.text()
    assert "will answer with their next message" in editor.text()
    assert not editor.asked


def test_a_slash_command_activates_its_skill(shop):
    model: list[ScriptLine] = [lambda request: "yes" if "Launch it." in str(request.messages) else "no"]
    editor = Editor()
    talk(shop, editor, model, saying("/launch"))

    assert editor.text() == "yes"


def test_what_needs_a_word_is_asked_for_and_runs_when_it_is_given(shop):
    editor = Editor("once")
    assert talk(shop, editor, [RUN, "Done."], saying("Greet Ada.")) == "end_turn"

    [(call, options)] = editor.asked
    assert (call.tool_call_id, [one.option_id for one in options]) == ("c1", ["once", "always", "no"])
    started = next(one for one in editor.updates if one.session_update == "tool_call")
    finished = next(one for one in editor.updates if one.session_update == "tool_call_update")
    assert (started.tool_call_id, started.kind) == ("c1", "execute")
    assert (finished.status, finished.content[0].content.text) == ("completed", "hello Ada")


@pytest.mark.parametrize(("answer", "reason"), [("no", "end_turn"), (None, "cancelled")])
def test_what_is_refused_does_not_run(shop, answer, reason):
    editor = Editor(answer)
    assert talk(shop, editor, [RUN, "Then not."], saying("Greet Ada.")) == reason

    assert "hello Ada" not in str(editor.updates)


def test_a_turn_can_be_cancelled(shop):
    editor = Editor("once")

    async def act(client: Any, session: str) -> Any:
        async def cancel() -> None:
            await client.cancel(session_id=session)
            await asyncio.sleep(0.2)

        editor.on_ask = cancel
        return (await client.prompt(session_id=session, prompt=[text_block("Go.")])).stop_reason

    assert talk(shop, editor, [RUN, "Never."], act) == "cancelled"


def test_commands_follow_the_disk(shop):
    editor = Editor()

    async def act(client: Any, session: str) -> None:
        await client.prompt(session_id=session, prompt=[text_block("One.")])
        shop.add("late")
        await client.prompt(session_id=session, prompt=[text_block("Two.")])
        await settle()

    talk(shop, editor, ["1", "2"], act)
    assert "late" in editor.commands()


def test_a_session_that_was_kept_is_shown_again(shop):
    kept = []

    async def first(client: Any, session: str) -> None:
        kept.append(session)
        await client.prompt(session_id=session, prompt=[text_block("Remember me.")])

    async def second(client: Any, session: str) -> None:
        await client.load_session(cwd=str(shop.world.project), session_id=kept[0], mcp_servers=[])
        await settle()

    talk(shop, Editor(), ["I will."], first)
    editor = Editor()
    talk(shop, editor, [], second)

    assert "user_message_chunk" in editor.kinds()
    assert editor.text() == "I will."


def test_a_failure_is_an_error_with_a_hint_and_the_agent_lives(shop):
    async def act(client: Any, session: str) -> list[Any]:
        found = []
        for number, text in ((session, "One."), ("nobody", "Two."), (session, "Three.")):
            try:
                await client.prompt(session_id=number, prompt=[text_block(text)])
            except RequestError as error:
                found.append(str(error))
        return found

    assert len(talk(shop, Editor(), [], act)) == 3


def test_the_command_speaks_nothing_but_protocol(shop):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    process = subprocess.Popen(
        [sys.executable, "-m", "metier", "--root", str(shop.skills), "acp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=shop.world.project,
        env={**shop.world.variables, "PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(f"not json\n{json.dumps(asked)}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        rest = process.stdout.read()

    assert answer["result"]["agentInfo"]["name"] == "metier"
    assert (rest, process.returncode) == ("", 0)


def test_without_an_editor_at_the_other_end_it_says_so(shop, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        said = subprocess.run(
            [*METIER, "acp"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=shop.world.project,
            env={**shop.world.variables, "PATH": os.environ["PATH"]},
            timeout=120,
        )

    assert said.returncode == 2
    assert b"not connected to an editor" in said.stderr
    assert b"Traceback" not in said.stderr
