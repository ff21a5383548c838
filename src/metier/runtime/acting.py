"""Putting an agent together: its library, its file, its tools and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..act.restore import repairs
from ..host import paths
from ..types.agent import AgentFile
from ..types.errors import BadRequest
from ..types.model import Request
from .afterwards import afterwards
from .agent import Agent
from .described import agent_files
from .offering import offer_of
from .servers import server_tools

if TYPE_CHECKING:
    from .library import Library


def agent_for(library: Library, model: str = "", name: str | None = None) -> Agent:
    """An agent by its name or its file, or the plain one; the library is already the one that it may use."""
    return Agent(
        library, model, _file(library, name), tools_beside=lambda: server_tools(library),
        after=afterwards(library, model),
    )  # fmt: skip


def _file(library: Library, name: str | None) -> AgentFile:
    if not name:
        return AgentFile("")
    if "/" in name or name.endswith(".md"):
        from ..parse.agent import agent_of

        path = paths.absolute(name, library.place.cwd, library.place.home)
        found = agent_of(paths.read_text_file(path) or "", path)
        if found is None:
            raise BadRequest(f"{path} has no frontmatter", "begin it with `---`, a name and `skills:`", path)
        return found
    return agent_files(library).get(name, AgentFile(name))


def request_of(agent: Agent, text: str) -> str:
    """The exact request that a task would begin with.  Nothing is sent; commands in a skill's body do run."""
    from dataclasses import replace

    from .delegating import forked
    from .entering import aside, enter
    from .offering import started

    session = replace(agent, keep=False).start()
    begin = enter(session, text, "user")
    if (found := aside(session, text)) is not None:
        skill, arguments, straight = found
        if straight:
            raise BadRequest("nothing would be sent: this goes straight to a tool", "run it without --dry-run")
        session, begin = forked(session, skill, arguments, "user")
    session.conversation = session.conversation.after(started(session))
    for event in begin:
        session.conversation = session.conversation.after(event)
    for event in repairs(session.conversation, offer_of(session.library)):
        session.conversation = session.conversation.after(event)
    talk = session.conversation
    return session.model.wire(Request(talk.system, session.tools().shown, talk.messages, talk.run))
