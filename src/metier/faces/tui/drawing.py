"""What each event looks like: a line or two of text, each with its style.  Nothing in it can draw by itself."""

from __future__ import annotations

import re
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ...runtime.watching import Change
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
from ...types.text import exact_lines, flat, seen, shortened

Style: TypeAlias = Literal["said", "skill", "tool", "failed", "quiet", "warning"]
_MOST_LINES = 8


class Line(NamedTuple):
    style: Style
    text: str


def lines_of(event: Event) -> list[Line]:
    """The lines of an event; a reply itself is drawn as Markdown and has none here."""
    match event:
        case Started(model=model, skills=skills):
            return [Line("quiet", f"{flat(model)} · {len(skills)} skills listed"), *small(model)]
        case Resumed(model=model):
            return small(model)
        case Heard(text=text):
            return [Line("said", seen(text))]
        case Activated(skill=skill, by=by, tokens=tokens):
            who = {"user": "you", "model": "the model", "schedule": "a schedule"}[by]
            return [Line("skill", f"◆ {flat(skill)} · {who} · about {tokens:,} tokens")]
        case Used():
            return _used(event)
        case Offered(added=added, changed=changed, removed=removed):
            return [Line("quiet", f"↻ skills: {changes(added, changed, removed)}")]
        case Restored(skills=skills) if skills:
            return [Line("quiet", f"↻ still in force: {', '.join(map(flat, skills))}")]
        case Retried(reason=reason, seconds=seconds):
            return [Line("warning", f"… {flat(reason)}; again in {seconds:g} s")]
        case Compacted(before=before, after=after):
            return [Line("quiet", f"↻ shortened: about {before:,} → {after:,} tokens")]
        case Nested(name=name, event=inner):
            inside = [line for line in lines_of(inner) if line.style != "said"]
            return [Line(line.style, f"  {flat(name)} │ {line.text}") for line in inside]
        case Ended(outcome=outcome, text=text, hint=hint) if outcome != "finished":
            told = f"■ {outcome}" + (f": {seen(text)}" if text else "")
            return [Line("failed", told), *([Line("quiet", f"→ {within(seen(hint))}")] if hint else [])]
    return []


def small(model: str) -> list[Line]:
    """A word about a model that is worth little, and how to get another."""
    if not model.startswith("local:"):
        return []
    told = "a small model that runs here: it chooses from lists, and its words are worth little"
    return [
        Line("warning", told),
        Line("quiet", "→ /model anthropic:…, openai:…, google:… or ollama:… takes a better one"),
    ]


def changes(added: tuple[str, ...], changed: tuple[str, ...], removed: tuple[str, ...]) -> str:
    signs = (("+", added), ("~", changed), ("-", removed))
    return ", ".join(f"{sign}{flat(name)}" for sign, names in signs for name in names) or "looked at again"


def broken_lines(change: Change) -> list[Line]:
    """What does not load any more since a change, why, and that the last good one is used meanwhile."""
    names = {*change.added, *change.changed}
    lines = []
    for one in change.library.broken:
        if one.id in names or one.name in names:
            problem = one.problems[-1]
            instead = "; the old one is used" if one.path in change.library.kept else ""
            lines.append(Line("failed", f"✗ {flat(one.name or one.id)} is broken: {flat(problem.message)}{instead}"))
            lines += [Line("quiet", f"→ {flat(problem.hint)}")] if problem.hint else []
    return lines


_COMMANDS = {"list": "skills", "runs": "resume", "why": "why", "commands": "help"}
_advice = re.compile(rf"`metier ({'|'.join(_COMMANDS)})( [^`]*)?`")


def within(hint: str) -> str:
    """Advice for the command line as it is followed in the app."""
    return _advice.sub(lambda found: f"`/{_COMMANDS[found[1]]}{found[2] or ''}`", hint)


def _used(event: Used) -> list[Line]:
    found = [Line("failed" if event.error else "tool", f"{'✗' if event.error else '▸'} {call_of(event)}")]
    text = seen(event.text).strip()
    if event.error or event.call.name not in ("skill_use", "run_skill", "skill_read_file", "read"):
        shown = text.splitlines()
        found += [Line("quiet", f"  {shortened(line, 200)}") for line in shown[:_MOST_LINES]]
        if len(shown) > _MOST_LINES:
            found.append(Line("quiet", f"  … {len(shown) - _MOST_LINES} more lines"))
    if event.note:
        found.append(Line("warning", f"  {flat(event.note)}"))
    return found


def question(asked: Asked) -> list[Line]:
    """What somebody has to say something to."""
    if asked.kind == "approval":
        why = [Line("quiet", f"  {flat(asked.why)}")] if asked.why else []
        keys = Line("quiet", "  press y: this once · a: whenever it is the same · n: no")
        first, *more = exact_lines(asked.text)  # never cut: what is not shown would be allowed unseen
        change = [Line("quiet", f"  {line}") for line in exact_lines(asked.change)] if asked.change else []
        return [Line("warning", f"? {first}"), *(Line("warning", line) for line in more), *change, *why, keys]
    offered = [Line("quiet", f"  {place}. {flat(one)}") for place, one in enumerate(asked.choices, 1)]
    return [Line("warning", f"? {seen(asked.text)}"), *offered]


def call_of(event: Used) -> str:
    """A call on one line."""
    said = " ".join(f"{key}={_value(value)}" for key, value in event.call.arguments.items())
    return shortened(flat(f"{event.call.name} {said}"), 300)


def _value(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
