"""The app's own commands, as functions that return the text they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

from ...agent.agent_files import agent_files
from ...agent.conversation import tokens_in
from ...agent.permissions import HARMLESS_TOOLS
from ...agent.session import Session, start_event
from ...host.facts import format_local_time
from ...library.library import Library
from ...record.journal import find_journal, run_ids
from ...record.sessions import SessionSummary, list_sessions
from ...types.activation import Message
from ...types.catalog import Catalog
from ...types.errors import MetierError
from ...types.event import Activated, Usage
from ...types.skill import Skill
from ...types.text import clean_line, estimate_tokens, shorten_text
from .lines import translate_hint
from .picker import PickerChoice

APP_COMMANDS = {
    "help": "show commands, skills and keys",
    "skills": "list skills, or set what the model sees: /skills NAME on, name-only, user-only or off",
    "why": "explain why a skill is or is not usable: /why NAME",
    "trust": "review and trust the skills of this project",
    "tools": "list the tools that the model has",
    "context": "show what fills the model's context window, by skill",
    "compact": "replace old messages by a summary, to make room",
    "cost": "show what this conversation has used",
    "agents": "list agents",
    "model": "show the model; /model NAME switches",
    "theme": "choose colours: /theme dark, light or another",
    "copy": "copy the last answer",
    "clear": "start a new conversation",
    "resume": "continue another conversation: pick one, or /resume ID",
    "quit": "quit; the conversation is kept",
}
HELP_INTRO = """\
Type a request, / for skills and commands, or @ for a file: the list narrows as you type, Tab completes, Enter runs.
Enter sends; Shift+Enter, Ctrl+J or a \\ before Enter breaks the line. Ctrl+G opens your editor.
A long paste is shown as [pasted … lines] and sent whole. Up and Down bring back what you typed before.
Esc stops the turn and keeps the conversation. Requests that you enter during a turn are queued.
To an approval request, press one of the keys it names, or choose with Up and Down and press Enter.
PageUp and PageDown scroll, Ctrl+Home and Ctrl+End go to the beginning and the end.
Alt+Left and Alt+Right move wide code and tables. Ctrl+O folds and unfolds long output. Ctrl+F finds.
Ctrl+C copies what is selected; else it stops the turn; without one it quits, like /quit.

"""
_HELP_SKILLS = 40
"""Skills that `/help` names."""
Standing: TypeAlias = Literal["on", "name-only", "user-only", "off"]


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
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def answer_command(name: str, arguments: str, view: ChatCommandContext) -> str:
    """The text that one of the app's own commands shows."""
    library, plain, session, standings = view
    match name:
        case "skills":
            return skills_text(library, standings)
        case "why":
            return why_text(plain, arguments, standings)
        case "context":
            return context_text(session, library) if session else "The conversation is empty."
        case "cost":
            return cost_text(session.conversation.usage) if session else "Nothing was sent yet."
        case "tools":
            return tools_text(session) if session else "no model; set one with /model NAME"
        case "agents":
            return agents_text(library)
        case "model":
            return session.model.name if session else "no model; set one with /model NAME"
    return help_text(library)


def help_text(library: Library) -> str:
    """Keys, commands, and the skills that can be called."""
    lines = [HELP_INTRO + "\n".join(f"/{name:<9} {text}" for name, text in APP_COMMANDS.items())]
    skills = [command for command in library.commands(reserved=tuple(APP_COMMANDS)) if command.skill is not None]
    if skills:
        lines += ["", "Skills:"]
    for command in skills[:_HELP_SKILLS]:
        hint = f" {clean_line(command.hint)}" if command.hint else ""
        lines.append(f"/{clean_line(command.name)}{hint}  {shorten_text(clean_line(command.description), 100)}")
    if len(skills) > _HELP_SKILLS:
        lines.append(f"and {len(skills) - _HELP_SKILLS:,} more: type / and part of a name")
    return "\n".join(lines)


def cost_text(usage: Usage) -> str:
    """What a conversation has used so far."""
    if not usage.requests and not usage.tokens:
        return "Nothing was sent yet."
    price = f"about ${usage.cost:.4f}" if usage.cost is not None else "price unknown for this model"
    return (
        f"{count_noun(usage.requests, 'request')}: {usage.input:,} tokens sent ({usage.cached:,} from the cache), "
        f"{usage.output:,} received; {price}"
    )


def tools_text(session: Session) -> str:
    """The tools that the model has, and those that ask first."""
    lines = []
    for tool in session.tools().shown:
        asks = "" if tool.name in HARMLESS_TOOLS else " (asks first, unless a rule allows it)"
        sentence = clean_line(tool.description).partition(". ")[0].rstrip(".")
        lines.append(f"{clean_line(tool.name):<18} {shorten_text(sentence, 120)}{asks}")
    return "\n".join(lines) or "This agent has no tools."


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
    return f"{notice}\n→ type /trust to see what they run and to trust them"


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


def context_text(session: Session, library: Library) -> str:
    """What fills the context window: the system prompt, the catalog, each skill, and the messages."""
    catalog, window, conversation = library.catalog(), session.model.window, session.conversation
    if not conversation.run:
        # Nothing was sent yet: what the first request will begin with.
        conversation = conversation.after(start_event(session))
    rows = [
        ("tools", session.tools().cost),
        ("system prompt", estimate_tokens(conversation.system)),
        ("  including the catalog", catalog.tokens),
    ]
    parts: Counter[str] = Counter()
    for message in conversation.messages:
        parts[_part_label(message)] += tokens_in((message,))
    # Skills first: what they cost is the question.
    rows += sorted(parts.items(), key=lambda part: (not part[0].startswith("skill "), part[0]))
    total = conversation.tokens + session.tools().cost
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


def session_choices(state: str, folder: str, current: Session | None) -> list[PickerChoice]:
    """The conversations to continue, the last used first: those of this folder, then the others."""
    here = list(list_sessions(state, folder, _MOST_SESSIONS))
    runs = {summary.run for summary in here} | ({current.run} if current else set())
    elsewhere = [summary for summary in list_sessions(state, "", _MOST_SESSIONS) if summary.run not in runs]
    return [
        *(_session_choice(summary, "") for summary in here if current is None or summary.run != current.run),
        *(_session_choice(summary, summary.cwd) for summary in elsewhere),
    ]


def _session_choice(summary: SessionSummary, cwd: str) -> PickerChoice:
    when, turns = format_local_time(summary.used), count_noun(summary.turns, "turn")
    where = f" · {clean_line(cwd)}" if cwd else ""
    text = f"{shorten_text(clean_line(summary.task), 60)} · {when} · {summary.outcome}, {turns}{where}"
    return PickerChoice(summary.run, text, kind="argument")


_MOST_SESSIONS = 50


def recent_uses(state: str, most: int = 50) -> Iterator[str]:
    """The skills that were used lately, once for each time."""
    for run in run_ids(state)[-most:]:
        for record in find_journal(state, run).read():
            if isinstance(record.event, Activated):
                yield record.event.skill
