"""The agent side of the Agent Client Protocol: sessions, prompts, approvals and cancellation.

Turns of metier block, so each runs on a thread; updates and permission requests are sent from there through the event
loop, and the thread waits for each, so that an editor sees events in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from acp import PROTOCOL_VERSION, Client, RequestError
from acp.helpers import ContentBlock
from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    AllowedOutcome,
    EmbeddedResourceContentBlock,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    SseMcpServer,
    TextContentBlock,
    TextResourceContents,
)

from ... import __version__
from ...agent.agent import Agent, with_servers
from ...agent.session import Session
from ...types.errors import MetierError
from ...types.event import Asked, Ended
from ...types.text import bounded_field, neutralize_frames
from .updates import UpdateRenderer, commands_update, permission_request, question_in, replay_messages, stop_reason_of

ANSWER_LATER = "The user sees your question and will answer with their next message: end your turn now."
"""The answer to an open question: the protocol's permission requests have only buttons."""
OpenAgent = Callable[[str], Agent]
"""Opens the agent for a working folder."""
EditorServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
T = TypeVar("T")


@dataclass
class OpenSession:
    """A session, and the slash commands that were announced to the editor."""

    session: Session
    announced: list[tuple[str, str, str]] = field(default_factory=list)
    busy: bool = False

    def close(self) -> None:
        """Stop its turn, close its model, and disconnect from its servers: each session has an agent of its own."""
        self.session.stop()
        with self.session.agent:
            self.session.close()


class EditorAgent:
    """One connection to an editor.  Constructing it has no effect.

    The keyword arguments of its methods are the protocol's extension fields, which are ignored here.
    """

    def __init__(self, open_agent: OpenAgent) -> None:
        self.open_agent = open_agent
        self.sessions: dict[str, OpenSession] = {}
        self.editor: Client
        self.tasks: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self.editor = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
            ),
            agent_info=Implementation(name="metier", title="metier", version=__version__),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[EditorServer] = (), **kwargs: Any
    ) -> NewSessionResponse:
        session = await self._in_thread(lambda: self._agent(cwd, mcp_servers).start())
        self._add_session(session)
        return NewSessionResponse(session_id=session.run)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[EditorServer] = (), **kwargs: Any
    ) -> LoadSessionResponse:
        session = await self._in_thread(lambda: self._agent(cwd, mcp_servers).resume(session_id))
        for update in replay_messages(session.conversation.messages):
            await self.editor.session_update(session_id=session.run, update=update)
        self._add_session(session)
        return LoadSessionResponse()

    def _agent(self, cwd: str, servers: Sequence[EditorServer]) -> Agent:
        return with_servers(self.open_agent(cwd), {server.name: _server_config(server) for server in servers})

    def _add_session(self, session: Session) -> None:
        self.sessions[session.run] = OpenSession(session)
        # A task, so that it is sent after the response that tells the editor of the session. The set keeps it alive:
        # the loop has only weak references.
        task = asyncio.get_running_loop().create_task(self._announce_commands(session.run))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _announce_commands(self, session_id: str) -> None:
        """Send the slash commands if they changed since they were last announced."""
        open_session = self.sessions[session_id]
        table = [command for command in open_session.session.library.commands() if command.skill is not None]
        now = [(command.name, command.description, command.hint) for command in table]
        if now != open_session.announced:
            open_session.announced = now
            await self.editor.session_update(session_id=session_id, update=commands_update(table))

    async def prompt(self, prompt: Sequence[ContentBlock], session_id: str, **kwargs: Any) -> PromptResponse:
        open_session = self.sessions.get(session_id)
        if open_session is None:
            raise RequestError.invalid_params({"message": f"unknown session: {session_id}"})
        if open_session.busy:
            raise RequestError.invalid_request({"message": "this session is busy; cancel the turn, or wait"})
        open_session.busy = True
        try:
            # Skills may have changed since the last turn.
            open_session.session.update(await self._in_thread(open_session.session.library.reload))
            ended = await asyncio.to_thread(
                self._turn, open_session.session, _prompt_text(prompt), asyncio.get_running_loop()
            )
            await self._announce_commands(session_id)
        finally:
            open_session.busy = False
        if ended.outcome == "failed":
            # -32000 is the first code that JSON-RPC leaves to servers.
            raise RequestError(-32000, ended.text, {"reason": ended.reason, "hint": ended.hint})
        return PromptResponse(stop_reason=stop_reason_of(ended.outcome))

    def _turn(self, session: Session, text: str, loop: asyncio.AbstractEventLoop) -> Ended:
        """Run one turn, on a thread of its own: send its events, and fetch answers to its questions."""
        renderer = UpdateRenderer()
        ended = Ended("interrupted")
        for event in session.say(text):
            for update in renderer.updates(event):
                sent = self.editor.session_update(session_id=session.run, update=update)
                asyncio.run_coroutine_threadsafe(sent, loop).result()
            question = question_in(event)
            if question is not None:
                answer = self._answer(session.run, question, loop) if question.choices else ANSWER_LATER
                if answer is not None:
                    session.answer(question.id, answer)
            if isinstance(event, Ended):
                ended = event
        return ended

    def _answer(self, session_id: str, question: Asked, loop: asyncio.AbstractEventLoop) -> str | None:
        return asyncio.run_coroutine_threadsafe(self._ask(session_id, question), loop).result()

    async def _ask(self, session_id: str, question: Asked) -> str | None:
        call, options = permission_request(question)
        answer = await self.editor.request_permission(session_id=session_id, tool_call=call, options=options)
        if isinstance(answer.outcome, AllowedOutcome):
            return answer.outcome.option_id
        # The turn was cancelled while the question was open.
        self.sessions[session_id].session.stop()
        return "no" if question.kind == "approval" else None

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        if session_id in self.sessions:
            self.sessions[session_id].session.stop()

    async def close_session(self, session_id: str, **kwargs: Any) -> None:
        open_session = self.sessions.pop(session_id, None)
        if open_session is not None:
            await asyncio.to_thread(open_session.close)

    async def close(self) -> None:
        """Close every session, once the editor has disconnected."""
        for session_id in list(self.sessions):
            await self.close_session(session_id)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(function)
        except MetierError as error:
            raise RequestError(-32000, error.message, {"hint": error.hint}) from error


def _server_config(server: EditorServer) -> dict[str, object]:
    """An editor's MCP server as the configuration would describe it."""
    if isinstance(server, McpServerStdio):
        env = {variable.name: variable.value for variable in server.env or ()}
        return {"command": server.command, "args": list(server.args or ()), "env": env}
    if isinstance(server, AcpMcpServer):
        # A server inside the editor itself can't be reached: rejected, like any without a command or a URL.
        return {}
    return {"url": server.url, "headers": {header.name: header.value for header in server.headers or ()}}


def _prompt_text(blocks: Sequence[ContentBlock]) -> str:
    """The user's text, links as their URIs, and behind it the text of attached files."""
    texts, files = [], []
    for block in blocks:
        if isinstance(block, TextContentBlock):
            texts.append(block.text)
        elif isinstance(block, ResourceContentBlock):
            texts.append(block.uri)
        elif isinstance(block, EmbeddedResourceContentBlock) and isinstance(block.resource, TextResourceContents):
            uri = neutralize_frames(bounded_field(block.resource.uri), "file")
            files.append(f"<file uri={uri!r}>\n{neutralize_frames(block.resource.text, 'file')}\n</file>")
    return "\n\n".join(["".join(texts), *files])
