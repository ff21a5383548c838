"""What a line of input sets going: something said, skills called, a tool called straight away."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..act.conversation import numbered
from ..act.loop import reason_of
from ..act.toolset import Ending
from ..activate import deliver, dispatch
from ..schedule import skills
from ..types.activation import Activation, By, Call, Message
from ..types.catalog import Command
from ..types.errors import Changed, MetierError, Refused, UnknownSkill
from ..types.event import EXIT_CODES, Activated, Ended, Heard, Replied, Steps, Suggested, Used
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library
    from .session import Session

_command = re.compile(r"\s*/([A-Za-z0-9][\w.:@-]*)(?=\s|$)").match


def enter(session: Session, text: str, by: By) -> Steps[bool]:
    """Begin a turn.  False where nothing is left to ask the model."""
    found = session.library.match(text)
    if found.at is None:
        slip = slip_of(session.library, text)
        if slip is not None:
            yield Heard(text, by)
            raise slip
        yield Heard(text, by, (Message("user", text),))
        yield from _suggested(session, text)
        return True
    table = session.library.commands()
    command = table[found.at]
    if command.skill is None:
        rules = session.library.dialect.serving.commands
        message = skills.manual(session.library.place, command.name, found.arguments, rules)
        session.by_hand = True
        yield Heard(text, by, (Message("user", message),))
        return True
    called, arguments = _stacked(session, command, found.arguments, table)
    return (yield from _call(session, called, arguments, (text, found.user_message, by)))


def aside(session: Session, text: str) -> tuple[Skill, str, bool] | None:
    """The skill that a text calls, its words, and whether it goes straight to a tool; None where neither that
    nor a subagent comes between what was said and the model of this conversation."""
    table = session.library.commands()
    found = session.library.match(text)
    command = table[found.at] if found.at is not None else None
    if command is None or command.skill is None:
        return None
    called, arguments = _stacked(session, command, found.arguments, table)
    straight = dispatch(command.skill, Call(command.name, arguments, "user", session.agent.cwd)) is not None
    alone = len(called) == 1 and forks(command.skill)
    return (command.skill, arguments, straight) if straight or alone else None


def _suggested(session: Session, text: str) -> Steps[None]:
    """The skills that answer this best, where the catalog could not list them all."""
    if "skill_search" not in session.tools().names:
        return
    found = session.library.catalog(request=text)
    if found.ranked:
        shown = tuple(entry.skill.path for entry in found.suggested if entry.skill is not None)
        would = session.library.finder.shadow(text)
        yield Suggested(shown, would, (Message("user", found.ranked, tag="suggested"),))


def slip_of(library: Library, text: str) -> MetierError | None:
    """`/word` that is no command is a slip, or a skill that may not be called."""
    found = _command(text)
    if found is None or library.match(text).at is not None:
        return None
    name = found[1]
    try:
        library.desk(by="user").skill(library.find(name).skill.name)  # says why not
    except UnknownSkill as error:
        names = [one.name for one in library.commands()]
        near = [one for one in names if one.startswith(f"{name}-")][:3]  # a scheduler skill without its hash
        near = near or [one for one in error.nearest if one in names]
        return UnknownSkill(name, tuple(near) or error.nearest)
    except MetierError as error:
        return error
    return Refused(f"Skill '{name}' can't be called as /{name}", "run `metier commands` to see what can be")


def _stacked(
    session: Session, command: Command, arguments: str, table: tuple[Command, ...]
) -> tuple[list[Command], str]:
    """`/a /b words` calls both with the same words, where the dialect has that."""
    called = [command]
    if session.library.dialect.serving.commands.stacks:
        names = {one.name: one for one in table if one.skill is not None}
        while (found := _command(arguments)) and found[1] in names and names[found[1]] not in called:
            called.append(names[found[1]])
            arguments = arguments[found.end() :].lstrip()
    return called, arguments


def _call(session: Session, called: list[Command], arguments: str, said: tuple[str, str, By]) -> Steps[bool]:
    text, message, by = said
    first = called[0].skill
    assert first is not None
    straight = dispatch(first, Call(called[0].name, arguments, by, session.agent.cwd))
    if straight is not None:
        yield Heard(text, by, (Message("user", text), Message("assistant", call=straight)))
        answer = yield from session.tools().toolset.call(straight)
        told = Message("tool", answer.text, answers=straight.id, failed=answer.error)
        yield Used(
            straight, answer.text, answer.error, answer.status, answer.note, 0.0, first.name, (told,), reason_of(answer)
        )
        failed = Ending("failed", answer.text, "tool-failed").event(session.conversation.usage, 0.0)
        yield failed if answer.error else Ended("finished", answer.text)
        return False
    if len(called) == 1 and forks(first):
        return (yield from _fork(session, first, arguments, text, by))
    yield Heard(text, by, beside(session, message))
    for one in called:
        assert one.skill is not None
        yield activated(session, one.skill, Call(one.name, arguments, by, session.agent.cwd), message)
    return True


def forks(skill: Skill) -> bool:
    return skill.extra.text("context").strip() == "fork"


def beside(session: Session, message: str) -> tuple[Message, ...]:
    """What stands beside the instructions as the user's own words, where the delivery does not hold them."""
    if session.library.dialect.serving.delivery in ("skill-context", "tool-call"):
        return (Message("user", message),)
    return ()


def activated(session: Session, skill: Skill, call: Call, message: str) -> Activated:
    """A skill that a person called, delivered as the dialect does it."""
    activation = rendered(session, skill, call)
    desk = session.desk(call.by)
    serving = session.library.dialect.serving
    messages = deliver(activation, serving, desk.resources(skill), "")
    if serving.delivery == "model-reads":
        activation = replace(activation, text="")  # the model reads it itself
    return Activated(
        skill.name, skill.path, call.by, call.typed, activation.digest, activation.text, activation.tokens,
        skill.allowed_tools, skill.directory, numbered(messages, session.conversation.messages),
    )  # fmt: skip


def rendered(session: Session, skill: Skill, call: Call) -> Activation:
    """The instructions; a file that changed under us is looked at again, once."""

    def render(skill: Skill) -> Activation:
        desk = session.desk(call.by)
        activation = desk.render(desk.skill(skill.name), call)
        return replace(activation, text=session.agent.hide(activation.text))

    try:
        return render(skill)
    except Changed:
        session.library = session.library.reload()
        return render(session.library.find(skill.name).skill)


def _fork(session: Session, skill: Skill, arguments: str, text: str, by: By) -> Steps[bool]:
    from .delegating import fork

    yield Heard(text, by, (Message("user", text),))
    ended = yield from fork(session, skill, arguments, by)
    reply: tuple[Message, ...] = (Message("assistant", ended.text or f"[{skill.name} ended: {ended.outcome}]"),)
    if ended.outcome == "finished":  # its answer is the reply of this run too, and is shown, kept and paid for here
        yield Replied(ended.text, usage=ended.usage, messages=reply)
        reply = ()
    yield replace(ended, code=ended.code or EXIT_CODES[ended.outcome], messages=reply)
    return False
