"""How a turn begins: what a line of input calls, the skills it activates, and the subagents it starts.

`begin_turn` decides between four ways: a plain request goes to the model as it is; a scheduler skill run by hand
becomes a message; a skill with a dispatch tool calls that tool and never asks the model; any other skill is activated
here, or in a subagent where it has `context: fork`.  A subagent is a session of its own with the same skills, none of
the history, and no more budget than its parent has left.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..activate.deliver import deliver, dispatch_call
from ..library import scheduled
from ..library.skill_tools import activated_event
from ..types.activation import Activation, Call, InvokedBy, Message, ToolCall
from ..types.catalog import SlashCommand
from ..types.errors import Changed, MetierError, Refused, UnknownSkill
from ..types.event import EXIT_CODES, Activated, Ended, EventSteps, Heard, Nested, Replied, Suggested, Used
from ..types.model import Answer, Tool, ToolParameter
from ..types.skill import Skill
from .conversation import renumber_calls
from .loop import TurnEnding, answer_reason
from .models.registry import is_known_model, open_model

if TYPE_CHECKING:
    from ..library.library import Library
    from .session import Session

_match_command = re.compile(r"\s*/([A-Za-z0-9][\w.:@-]*)(?=\s|$)").match


# --- What a line of input calls ---


def begin_turn(session: Session, text: str, by: InvokedBy) -> EventSteps[bool]:
    """The events that begin a turn.  False where the turn is over and the model is not asked."""
    matched = session.library.match(text)
    if matched.at is None:
        error = unknown_command_error(session.library, text)
        if error is not None:
            yield Heard(text, by)
            raise error
        yield Heard(text, by, (Message("user", text),))
        yield from _suggest_skills(session, text)
        return True
    table = session.library.commands()
    command = table[matched.at]
    if command.skill is None:
        rules = session.library.dialect.serving.commands
        message = scheduled.manual_message(session.library.place, command.name, matched.arguments, rules)
        session.by_hand = True
        yield Heard(text, by, (Message("user", message),))
        return True
    called, arguments = _split_stacked_commands(session, command, matched.arguments, table)
    return (yield from _call_skills(session, called, arguments, (text, matched.user_message, by)))


def find_delegated_call(session: Session, text: str) -> tuple[Skill, str, bool] | None:
    """The skill, its arguments, and whether it calls a tool directly; None where this session's model is asked."""
    table = session.library.commands()
    matched = session.library.match(text)
    command = table[matched.at] if matched.at is not None else None
    if command is None or command.skill is None:
        return None
    called, arguments = _split_stacked_commands(session, command, matched.arguments, table)
    straight = dispatch_call(command.skill, Call(command.name, arguments, "user", session.agent.cwd)) is not None
    alone = len(called) == 1 and is_forked_skill(command.skill)
    return (command.skill, arguments, straight) if straight or alone else None


def _suggest_skills(session: Session, text: str) -> EventSteps[None]:
    """Suggest the skills that match a request best, where the catalog could not list them all."""
    if "skill_search" not in session.tools().names:
        return
    catalog = session.library.catalog(request=text)
    if catalog.ranked:
        paths = tuple(entry.skill.path for entry in catalog.suggested if entry.skill is not None)
        would = session.library.finder.shadow(text)
        yield Suggested(paths, would, (Message("user", catalog.ranked, tag="suggested"),))


def unknown_command_error(library: Library, text: str) -> MetierError | None:
    """The error for `/word` where no command has that name, or the skill may not be called; None for other text."""
    matched = _match_command(text)
    if matched is None or library.match(text).at is not None:
        return None
    name = matched[1]
    try:
        library.skill_access(by="user").skill(library.find(name).skill.name)  # says why not
    except UnknownSkill as error:
        names = [command.name for command in library.commands()]
        near = [candidate for candidate in names if candidate.startswith(f"{name}-")][:3]  # a hash may follow the name
        near = near or [candidate for candidate in error.nearest if candidate in names]
        return UnknownSkill(name, tuple(near) or error.nearest)
    except MetierError as error:
        return error
    return Refused(f"Skill '{name}' can't be called as /{name}", "run `metier commands` to list the commands")


def _split_stacked_commands(
    session: Session, command: SlashCommand, arguments: str, table: tuple[SlashCommand, ...]
) -> tuple[list[SlashCommand], str]:
    """`/a /b arguments` calls both skills with the same arguments, where the dialect supports it."""
    called = [command]
    if session.library.dialect.serving.commands.stacks:
        names = {candidate.name: candidate for candidate in table if candidate.skill is not None}
        while (matched := _match_command(arguments)) and matched[1] in names and names[matched[1]] not in called:
            called.append(names[matched[1]])
            arguments = arguments[matched.end() :].lstrip()
    return called, arguments


def _call_skills(
    session: Session, called: list[SlashCommand], arguments: str, utterance: tuple[str, str, InvokedBy]
) -> EventSteps[bool]:
    text, message, by = utterance
    first = called[0].skill
    assert first is not None
    straight = dispatch_call(first, Call(called[0].name, arguments, by, session.agent.cwd))
    if straight is not None:
        yield Heard(text, by, (Message("user", text), Message("assistant", call=straight)))
        answer = yield from session.tools().toolset.call(straight)
        tool_message = Message("tool", answer.text, answers=straight.id, failed=answer.error)
        yield Used(
            straight,
            answer.text,
            answer.error,
            answer.status,
            answer.note,
            0.0,
            first.name,
            (tool_message,),
            answer_reason(answer),
        )
        failed = TurnEnding("failed", answer.text, "tool-failed").event(session.conversation.usage, 0.0)
        yield failed if answer.error else Ended("finished", answer.text)
        return False
    if len(called) == 1 and is_forked_skill(first):
        return (yield from _fork_skill(session, first, arguments, text, by))
    yield Heard(text, by, user_messages(session, message))
    for command in called:
        assert command.skill is not None
        yield activate_skill(session, command.skill, Call(command.name, arguments, by, session.agent.cwd), message)
    return True


# --- Activating a skill ---


def is_forked_skill(skill: Skill) -> bool:
    return skill.extra.text("context").strip() == "fork"


def user_messages(session: Session, message: str) -> tuple[Message, ...]:
    """The user's own words as a message, where the instructions are delivered without them."""
    if session.library.dialect.serving.delivery in ("skill-context", "tool-call"):
        return (Message("user", message),)
    return ()


def activate_skill(session: Session, skill: Skill, call: Call, message: str) -> Activated:
    """Render a skill that was called and deliver it as the dialect prescribes."""
    activation = render_skill(session, skill, call)
    access = session.skill_access(call.by)
    serving = session.library.dialect.serving
    messages = deliver(activation, serving, access.resources(skill), "")
    if serving.delivery == "model-reads":
        activation = replace(activation, text="")  # the model reads it itself
    return replace(activated_event(activation), messages=renumber_calls(messages, session.known().call_ids))


def render_skill(session: Session, skill: Skill, call: Call) -> Activation:
    """The instructions with secrets hidden; where the file changed meanwhile, the library is reloaded once."""

    def render(skill: Skill) -> Activation:
        access = session.skill_access(call.by)
        activation = access.render(access.skill(skill.name), call)
        return replace(activation, text=session.agent.hide(activation.text))

    try:
        return render(skill)
    except Changed:
        session.update(session.library.reload())
        return render(session.library.find(skill.name).skill)


# --- Delegating to a subagent ---

_MOST_ANSWER_CHARS = 8_000
"""Characters of a subagent's answer that its parent sees: the point of a subagent is a short context."""


def run_forked_skill(session: Session, skill: Skill, arguments: str, by: InvokedBy = "user") -> EventSteps[Ended]:
    """Run a skill in a subagent; what it activates and reads stays out of this conversation."""
    if f"/{skill.name}" in session.chain or session.depth >= session.agent.deepest:
        return Ended("refused", f"'{skill.name}' is already running and can't call itself", "recursion", code=4)
    child, begin = fork_session(session, skill, arguments, by)
    return (yield from _nested_events(session, child, skill.name, begin))


def fork_session(session: Session, skill: Skill, arguments: str, by: InvokedBy) -> tuple[Session, EventSteps[bool]]:
    """The subagent of a skill, and the steps that begin its run; nothing runs before they are iterated."""
    child = _child_session(session, f"/{skill.name}")
    typed = f"/{skill.name} {arguments}".strip()

    def begin() -> EventSteps[bool]:
        yield Heard(typed, by, (Message("user", typed),))
        yield activate_skill(child, skill, Call(skill.name, arguments, by, child.agent.cwd), typed)
        return True

    return child, begin()


def answer_forked_call(session: Session, skill: Skill, call: ToolCall) -> EventSteps[Answer]:
    arguments = call.arguments.get("arguments", "")
    typed = " ".join(map(str, arguments)) if isinstance(arguments, list | tuple) else str(arguments)
    ended = yield from run_forked_skill(session, skill, typed, "model")
    return _answer_of_run(ended, skill.name)


def _answer_of_run(ended: Ended, name: str) -> Answer:
    text = ended.text[:_MOST_ANSWER_CHARS] or "[no answer]"
    if ended.outcome != "finished":
        return Answer(f"{name} did not finish ({ended.outcome}): {text}", error=True, skill=name, reason="unfinished")
    return Answer(text, skill=name)


def delegate_tool(session: Session) -> Tool:
    """The tool that delegates a task to another agent."""
    others = session.agent.others

    def steps(call: ToolCall) -> EventSteps[Answer]:
        name, task = str(call.arguments.get("agent", "")).strip(), str(call.arguments.get("task", "")).strip()
        if name not in others:
            return Answer(f"There is no agent called '{name}'. There are: {', '.join(others)}", error=True)
        if not task:
            return Answer("task is required", error=True)
        if name in session.chain or name == session.agent.name:
            return Answer(f"'{name}' is already running and can't delegate to itself", error=True)
        child = _child_session(session, name)
        return _answer_of_run((yield from _nested_events(session, child, name, None, task)), name)

    listed = "; ".join(f"{name}: {agent.description or 'no description'}" for name, agent in others.items())
    return Tool(
        "delegate",
        f"Hand a task to another agent, which works on it alone and reports back. Agents: {listed}",
        (
            ToolParameter("agent", "Name of the agent."),
            ToolParameter("task", "All that it has to know: it sees nothing of this conversation."),
        ),
        lambda arguments: Answer("delegate needs a session.", error=True),
        steps,
    )


def _child_session(session: Session, name: str) -> Session:
    agent = session.agent.other(name) if not name.startswith("/") else session.agent
    library = session.library if agent is session.agent else agent.library_for(session.library)
    file_model = agent.file.model if agent is not session.agent and is_known_model(agent.file.model, library) else ""
    opened = open_model(file_model, library) if file_model else None
    child = session.child(name, agent, opened or session.model, library)
    child.opened = opened
    return child


def _nested_events(
    session: Session, child: Session, name: str, begin: EventSteps[bool] | None, task: str = ""
) -> EventSteps[Ended]:
    """Pass on the events of a subagent, each wrapped with its name, and return how it ended."""
    ended = Ended("interrupted", code=130)
    with child:
        for event in child.within(begin, task):
            yield Nested(child.run, name, event)
            if isinstance(event, Ended):
                ended = event
    session.stale = session.stale or child.stale
    if session.budget is not None and child.budget is not None:  # a subagent spends its parent's budget
        session.budget.spent += child.budget.spent
    return replace(ended, messages=())


def _fork_skill(session: Session, skill: Skill, arguments: str, text: str, by: InvokedBy) -> EventSteps[bool]:
    yield Heard(text, by, (Message("user", text),))
    ended = yield from run_forked_skill(session, skill, arguments, by)
    reply: tuple[Message, ...] = (Message("assistant", ended.text or f"[{skill.name} ended: {ended.outcome}]"),)
    if ended.outcome == "finished":  # the subagent's answer is this turn's reply: shown, kept and counted here
        yield Replied(ended.text, usage=ended.usage, messages=reply)
        reply = ()
    yield replace(ended, code=ended.code or EXIT_CODES[ended.outcome], messages=reply)
    return False
