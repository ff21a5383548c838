"""The app's own commands, as functions that return the text they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

from ...agent.agent_files import agent_files
from ...agent.conversation import Conversation, tokens_in
from ...agent.session import Session
from ...host.facts import format_local_time
from ...library.library import Library
from ...record.journal import find_journal, run_ids
from ...record.trace import read_trace
from ...types.activation import Message
from ...types.catalog import Catalog
from ...types.errors import MetierError
from ...types.event import Activated
from ...types.skill import Skill
from ...types.text import clean_line, estimate_tokens, shorten_text
from .lines import translate_hint

APP_COMMANDS = {
    "help": "show commands and keys",
    "skills": "list skills, or set what the model sees: /skills NAME on, name-only, user-only or off",
    "why": "explain why a skill is or is not usable: /why NAME",
    "context": "show what fills the model's context window, by skill",
    "agents": "list agents",
    "model": "show the model; /model NAME switches",
    "clear": "start a new conversation",
    "resume": "list conversations; /resume ID continues one",
    "quit": "quit; the conversation is kept",
}
HELP_INTRO = """\
Type a request, or / for skills and commands: the list narrows as you type, Tab completes, Enter runs.
Esc stops the turn and keeps the conversation. Up and Down move in the list, or through what you typed before.
To an approval request, press y, a or n. Requests that you enter during a turn are queued.
Ctrl+L scrolls to the end. Ctrl+C stops the turn; without one it quits, like /quit.

"""
Standing: TypeAlias = Literal["on", "name-only", "user-only", "off"]


DECISIONS = {"y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no"}
"""What may be typed to answer an approval request."""


class ChatCommandContext(NamedTuple):
    """What the app's own commands need."""

    library: Library
    """The skills with the standings of this conversation."""
    plain: Library
    """The skills without them."""
    session: Session | None
    standings: dict[str, Standing]


def count_noun(number: int, noun: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def answer_command(name: str, arguments: str, view: ChatCommandContext) -> str:
    """The text that one of the app's own commands shows."""
    library, plain, session, standings = view
    match name:
        case "skills":
            return skills_text(library, standings)
        case "why":
            return why_text(plain, arguments, standings)
        case "context":
            return (
                context_text(session.conversation, library, session.model.window)
                if session
                else "The conversation is empty."
            )
        case "agents":
            return agents_text(library)
        case "model":
            return session.model.name if session else "no model; set one with /model NAME"
        case "resume":
            return runs_text(library.place.state)
    return help_text()


def help_text() -> str:
    return HELP_INTRO + "\n".join(f"/{name:<9} {text}" for name, text in APP_COMMANDS.items())


def standing_of(skill: Skill, chosen: dict[str, Standing]) -> Standing:
    return chosen.get(skill.path, "on")


def with_standings(library: Library, chosen: dict[str, Standing]) -> Library:
    """The library with the standings of this conversation: skills by name only, for the user only, or off."""
    # The same object: nothing has to be resolved again.
    if not chosen:
        return library
    return library.replace(
        skills=tuple(_with_standing(skill, chosen.get(skill.path, "on")) for skill in library.skills)
    )


def _with_standing(skill: Skill, standing: Standing) -> Skill:
    match standing:
        case "on":
            return skill
        case "name-only":
            return skill._replace(description="")
        case "user-only":
            return skill._replace(model_may_invoke=False)
        case "off":
            return skill._replace(enabled=False)


def skills_text(library: Library, chosen: dict[str, Standing]) -> str:
    rows = []
    for verdict in library.verdicts:
        state = standing_of(verdict.skill, chosen) if verdict.usable or verdict.skill.path in chosen else "not usable"
        rows.append(
            f"{state:<10} {clean_line(verdict.skill.name)}: {shorten_text(clean_line(verdict.skill.description), 100)}"
        )
    rows += [
        f"{'broken':<10} {clean_line(broken.name or broken.id)}: {clean_line(broken.problems[-1].message)}"
        for broken in library.broken
    ]
    return "\n".join(rows) or "No skills."


def standing_named(text: str) -> tuple[str, Standing] | None:
    """`NAME user-only` as its two halves."""
    name, _, standing = text.strip().rpartition(" ")
    return (name.strip(), standing) if name and standing in get_args(Standing) else None  # type: ignore[return-value]


def untrusted_text(library: Library) -> str:
    """A notice about skills that are not trusted yet; empty where there are none."""
    waiting = sum(any(finding.code == "untrusted" for finding in verdict.findings) for verdict in library.verdicts)
    if not waiting:
        return ""
    notice = f"{count_noun(waiting, 'skill')} of this project {'is' if waiting == 1 else 'are'} not trusted yet"
    return f"{notice}\n→ review them with /skills, then quit and run `metier trust`"


def why_text(library: Library, name: str, chosen: dict[str, Standing]) -> str:
    if not name:
        return "usage: /why NAME"
    try:
        verdict = library.find(name)
    except MetierError as error:
        return f"{error.message}\n→ {translate_hint(error.hint)}" if error.hint else error.message
    skill = verdict.skill
    standing = standing_of(skill, chosen)
    lines = [f"{clean_line(skill.name)} from {skill.path}"]
    lines += [
        f"{problem.severity}: {problem.message}" + (f"\n  → {problem.hint}" if problem.hint else "")
        for problem in verdict.problems
    ]
    if standing != "on":
        lines.append(f"set to {standing} in this conversation\n  → to undo, type /skills {clean_line(skill.name)} on")
    elif verdict.usable:
        reasons = {entry.name: entry.reason for entry in library.catalog().left_out}
        lines.append(f"usable; not listed: {reasons[skill.name]}" if skill.name in reasons else "usable and listed")
    return "\n".join(lines)


def context_text(conversation: Conversation, library: Library, window: int) -> str:
    """What fills the context window: the system prompt, the catalog, each skill, and the messages."""
    catalog = library.catalog()
    rows = [("system prompt", estimate_tokens(conversation.system)), ("  including the catalog", catalog.tokens)]
    parts: Counter[str] = Counter()
    for message in conversation.messages:
        parts[_part_label(message)] += tokens_in((message,))
    # Skills first: what they cost is the question.
    rows += sorted(parts.items(), key=lambda part: (not part[0].startswith("skill "), part[0]))
    total = conversation.tokens
    share = f"{100 * total / window:.1f} % of {window:,}" if window else "context window unknown"
    lines = [f"{label:<28} about {count:>8,} tokens" for label, count in rows]
    lines += [f"{'total':<28} about {total:>8,} tokens, {share}"]
    return "\n".join([*lines, *_left_out_lines(catalog)])


def _part_label(message: Message) -> str:
    if message.skill:
        return f"skill {clean_line(message.skill)}"
    return "suggested skills" if message.tag == "suggested" else "messages"


def _left_out_lines(catalog: Catalog) -> Iterator[str]:
    """What the catalog does not list, and why."""
    reasons = {"limit-listed": "too many", "limit-characters": "no room", "merged": "duplicate"}
    for reason, explanation in reasons.items():
        names = [clean_line(entry.name) for entry in catalog.left_out if entry.reason == reason]
        if names:
            suffix = f" and {len(names) - 10} more" if len(names) > 10 else ""
            yield f"not listed, {explanation}: {len(names)} ({', '.join(names[:10])}{suffix})"
    if any(entry.reason.startswith("limit") for entry in catalog.left_out):
        yield "the best matches are suggested with each request; the model can search for the others"


def agents_text(library: Library) -> str:
    agents = agent_files(library)
    return "\n".join(
        f"{clean_line(name)}: {clean_line(agent.description)}" for name, agent in sorted(agents.items())
    ) or ("No agents. To add one, create a Markdown file with a name and a description in .metier/agents.")


def runs_text(state: str, most: int = 20) -> str:
    """The last conversations, the newest at the bottom, next to the prompt."""
    lines = []
    for run in run_ids(state)[-most:]:
        trace = read_trace(find_journal(state, run))
        # A delegated run is part of its parent.
        if trace.task and not trace.started.parent:
            when, turns = format_local_time(trace.at), count_noun(trace.turns, "turn")
            lines.append(f"{run}  {when}  {trace.outcome}, {turns}  {shorten_text(clean_line(trace.task), 60)}")
    return "\n".join([*lines, "→ /resume ID continues one"]) if lines else "No conversations yet."


def recent_uses(state: str, most: int = 50) -> Iterator[str]:
    """The skills that were used lately, once for each time."""
    for run in run_ids(state)[-most:]:
        for record in find_journal(state, run).read():
            if isinstance(record.event, Activated):
                yield record.event.skill
