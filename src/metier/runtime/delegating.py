"""Subagents: a run of its own for a skill or an agent, with the same skills and nothing of the history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..record.journal import Journal, folder_of, new_id
from ..types.activation import By, Call, Message, ToolCall
from ..types.event import Ended, Heard, Nested, Steps
from ..types.skill import Skill
from ..types.tool import Answer, Parameter, Tool
from .models import is_known, open_model

if TYPE_CHECKING:
    from .session import Session

_SUMMARY = 8_000
"""Characters of a delegated run's answer that come back."""


def fork(session: Session, skill: Skill, arguments: str, by: By = "user") -> Steps[Ended]:
    """Run a skill in a subagent.  What it activates and reads stays there."""
    if f"/{skill.name}" in session.chain or session.depth >= session.agent.deepest:
        return Ended("refused", f"'{skill.name}' is running already: it can't call itself", "recursion", code=4)
    child, begin = forked(session, skill, arguments, by)
    return (yield from _nested(session, child, skill.name, begin))


def forked(session: Session, skill: Skill, arguments: str, by: By) -> tuple[Session, Steps[bool]]:
    """The subagent of a skill, and how its run begins; nothing is done yet."""
    from .entering import activated

    child = _child(session, f"/{skill.name}")
    typed = f"/{skill.name} {arguments}".strip()

    def begin() -> Steps[bool]:
        yield Heard(typed, by, (Message("user", typed),))
        yield activated(child, skill, Call(skill.name, arguments, by, child.agent.cwd), typed)
        return True

    return child, begin()


def fork_answer(session: Session, skill: Skill, wanted: ToolCall) -> Steps[Answer]:
    given = wanted.arguments.get("arguments", "")
    typed = " ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
    ended = yield from fork(session, skill, typed, "model")
    return _answer(ended, skill.name)


def _answer(ended: Ended, name: str) -> Answer:
    text = ended.text[:_SUMMARY] or "[no answer]"
    if ended.outcome != "finished":
        return Answer(f"{name} did not finish ({ended.outcome}): {text}", error=True, skill=name, reason="unfinished")
    return Answer(text, skill=name)


def delegate(session: Session) -> Tool:
    """The tool that hands a task to another agent."""
    others = session.agent.others

    def steps(call: ToolCall) -> Steps[Answer]:
        name, task = str(call.arguments.get("agent", "")).strip(), str(call.arguments.get("task", "")).strip()
        if name not in others:
            return Answer(f"There is no agent called '{name}'. There are: {', '.join(others)}", error=True)
        if not task:
            return Answer("task is required", error=True)
        if name in session.chain or name == session.agent.name:
            return Answer(f"'{name}' is at work already: it can't be handed its own task", error=True)
        child = _child(session, name)
        return _answer((yield from _nested(session, child, name, None, task)), name)

    listed = "; ".join(f"{name}: {one.description or 'no description'}" for name, one in others.items())
    return Tool(
        "delegate",
        f"Hand a task to another agent, which works on it alone and reports back. Agents: {listed}",
        (
            Parameter("agent", "Name of the agent."),
            Parameter("task", "All that it has to know: it sees nothing of this conversation."),
        ),
        lambda arguments: Answer("An agent can't be reached this way.", error=True),
        steps,
    )


def _child(session: Session, name: str) -> Session:
    from .session import Session

    agent = session.agent.other(name) if not name.startswith("/") else session.agent
    run = new_id()
    journal = session.journal and Journal(f"{folder_of(session.library.place.state)}/{run}.jsonl", session.journal.hide)
    library = session.library if agent is session.agent else agent.library_for(session.library)
    own = agent.file.model if agent is not session.agent and is_known(agent.file.model, library) else ""
    model = open_model(own, library) if own else session.model
    left = session.budget.left() if session.budget is not None else None
    return Session(
        agent, model, library, run, journal, session.run, session.depth + 1, (*session.chain, name),
        mailbox=session.mailbox, stopping=session.stopping, left=left,
    )  # fmt: skip


def _nested(session: Session, child: Session, name: str, begin: Steps[bool] | None, task: str = "") -> Steps[Ended]:
    """The events of a child, each with its name around it; its ending is what comes back."""
    ended = Ended("interrupted", code=130)
    for event in child.within(begin, task):
        yield Nested(child.run, name, event)
        if isinstance(event, Ended):
            ended = event
    session.stale = session.stale or child.stale
    if session.budget is not None and child.budget is not None:  # what is delegated is paid for here
        session.budget.spent += child.budget.spent
    return replace(ended, messages=())
