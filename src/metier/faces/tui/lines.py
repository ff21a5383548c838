"""Events as styled lines of text; plain functions without textual."""

from __future__ import annotations

import re
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ...library.watch import Change
from ...types.event import (
    Activated,
    Asked,
    Compacted,
    Ended,
    Event,
    Heard,
    Nested,
    Offered,
    Restored,
    Resumed,
    Retried,
    Started,
    Used,
)
from ...types.text import clean_line, escaped_lines, shorten_text, visible_text

LineStyle: TypeAlias = Literal["request", "skill", "tool", "failed", "quiet", "warning"]
# A preview to follow the turn by; the model gets the whole output.
_MOST_LINES = 8


class StyledLine(NamedTuple):
    style: LineStyle
    text: str


def lines_of(event: Event) -> list[StyledLine]:
    """The lines of an event; a reply itself is drawn as Markdown and has none here."""
    match event:
        case Started(model=model, skills=skills):
            return [
                StyledLine("quiet", f"{clean_line(model)} · {len(skills)} skills listed"),
                *small_model_warning(model),
            ]
        case Resumed(model=model):
            return small_model_warning(model)
        case Heard(text=text):
            return [StyledLine("request", visible_text(text))]
        case Activated(skill=skill, by=by, tokens=tokens):
            who = {"user": "you", "model": "the model", "schedule": "a schedule"}[by]
            return [StyledLine("skill", f"◆ {clean_line(skill)} · {who} · about {tokens:,} tokens")]
        case Used():
            return _tool_call_lines(event)
        case Offered(added=added, changed=changed, removed=removed):
            return [StyledLine("quiet", f"↻ skills: {change_summary(added, changed, removed)}")]
        case Restored(skills=skills) if skills:
            return [StyledLine("quiet", f"↻ still active: {', '.join(map(clean_line, skills))}")]
        case Retried(reason=reason, seconds=seconds):
            return [StyledLine("warning", f"… {clean_line(reason)}; retrying in {seconds:g} s")]
        case Compacted(before=before, after=after):
            return [StyledLine("quiet", f"↻ compacted: about {before:,} → {after:,} tokens")]
        case Nested(name=name, event=inner):
            inside = [line for line in lines_of(inner) if line.style != "request"]
            return [StyledLine(line.style, f"  {clean_line(name)} │ {line.text}") for line in inside]
        case Ended(outcome=outcome, text=text, hint=hint) if outcome != "finished":
            summary = f"■ {outcome}" + (f": {visible_text(text)}" if text else "")
            return [
                StyledLine("failed", summary),
                *([StyledLine("quiet", f"→ {translate_hint(visible_text(hint))}")] if hint else []),
            ]
    return []


def small_model_warning(model: str) -> list[StyledLine]:
    """A warning about a small local model, and how to switch."""
    if not model.startswith("local:"):
        return []
    warning = "This is a small local model: it can pick from lists, but its answers are unreliable."
    return [
        StyledLine("warning", warning),
        StyledLine("quiet", "→ for a better one, type /model anthropic:…, openai:…, google:… or ollama:…"),
    ]


def change_summary(added: tuple[str, ...], changed: tuple[str, ...], removed: tuple[str, ...]) -> str:
    signs = (("+", added), ("~", changed), ("-", removed))
    return ", ".join(f"{sign}{clean_line(name)}" for sign, names in signs for name in names) or "reloaded"


def broken_lines(change: Change) -> list[StyledLine]:
    """The skills that a change broke, why, and whether the last good version stays in use."""
    names = {*change.added, *change.changed}
    lines = []
    for broken in change.library.broken:
        if broken.id in names or broken.name in names:
            problem = broken.problems[-1]
            instead = "; still using the last good version" if broken.path in change.library.kept else ""
            lines.append(
                StyledLine(
                    "failed",
                    f"✗ {clean_line(broken.name or broken.id)} is broken: {clean_line(problem.message)}{instead}",
                )
            )
            lines += [StyledLine("quiet", f"→ {clean_line(problem.hint)}")] if problem.hint else []
    return lines


# Hints are written for the command line; a user of the app can't run it here.
_APP_COMMAND_NAMES = {"list": "skills", "runs": "resume", "why": "why", "commands": "help"}
_CLI_ADVICE = re.compile(rf"`metier ({'|'.join(_APP_COMMAND_NAMES)})( [^`]*)?`")


def translate_hint(hint: str) -> str:
    """A hint with commands of the command line replaced by those of the app."""
    return _CLI_ADVICE.sub(lambda match: f"`/{_APP_COMMAND_NAMES[match[1]]}{match[2] or ''}`", hint)


def _tool_call_lines(event: Used) -> list[StyledLine]:
    lines = [StyledLine("failed" if event.error else "tool", f"{'✗' if event.error else '▸'} {call_line(event)}")]
    text = visible_text(event.text).strip()
    # These return instructions and files, which would fill the screen.
    if event.error or event.call.name not in ("skill_use", "run_skill", "skill_read_file", "read"):
        output_lines = text.splitlines()
        lines += [StyledLine("quiet", f"  {shorten_text(line, 200)}") for line in output_lines[:_MOST_LINES]]
        if len(output_lines) > _MOST_LINES:
            lines.append(StyledLine("quiet", f"  … {len(output_lines) - _MOST_LINES} more lines"))
    if event.note:
        lines.append(StyledLine("warning", f"  {clean_line(event.note)}"))
    return lines


def question_lines(event: Asked) -> list[StyledLine]:
    """A question or an approval request."""
    if event.kind == "approval":
        why = [StyledLine("quiet", f"  {clean_line(event.why)}")] if event.why else []
        keys = StyledLine("quiet", "  press y: once · a: always · n: no")
        # Never cut: what is not shown would be allowed unseen.
        first, *other_lines = escaped_lines(event.text)
        change = [StyledLine("quiet", f"  {line}") for line in escaped_lines(event.change)] if event.change else []
        return [
            StyledLine("warning", f"? {first}"),
            *(StyledLine("warning", line) for line in other_lines),
            *change,
            *why,
            keys,
        ]
    offered = [StyledLine("quiet", f"  {place}. {clean_line(choice)}") for place, choice in enumerate(event.choices, 1)]
    return [StyledLine("warning", f"? {visible_text(event.text)}"), *offered]


def call_line(event: Used) -> str:
    """A call on one line."""
    arguments = " ".join(f"{key}={_value_text(value)}" for key, value in event.call.arguments.items())
    return shorten_text(clean_line(f"{event.call.name} {arguments}"), 300)


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
