"""Events as styled lines of text; plain functions without textual."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ...library.watch import Change
from ...types.event import (
    APPROVAL_CHOICES,
    Activated,
    ApprovalChoice,
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
_LONGEST_LINE = 2_000


class StyledLine(NamedTuple):
    style: LineStyle
    text: str
    more: tuple[str, ...] = ()
    """The lines that it stands for while they are folded."""
    fold_text: str = ""
    """The line below them once they are open."""


def fold_lines(style: LineStyle, lines: Sequence[str], most: int = _MOST_LINES) -> list[StyledLine]:
    """The first lines, and one that stands for the others."""
    # One line more is shown rather than a sign that hides it.
    if len(lines) <= most + 1:
        return [StyledLine(style, line) for line in lines]
    rest = tuple(lines[most:])
    sign = StyledLine(style, f"  … {len(rest):,} more lines (Ctrl+O)", rest, "  ▴ fold (Ctrl+O)")
    return [*(StyledLine(style, line) for line in lines[:most]), sign]


def lines_of(event: Event) -> list[StyledLine]:
    """The lines of an event; a reply itself is drawn as Markdown and has none here."""
    match event:
        case Started(model=model, skills=skills, instructions=instructions):
            read = f" · follows {', '.join(map(clean_line, instructions))}" if instructions else ""
            return [
                StyledLine("quiet", f"{clean_line(model)} · {len(skills):,} skills listed{read}"),
                *small_model_warning(model),
            ]
        case Resumed(model=model):
            return small_model_warning(model)
        case Heard(text=text):
            return request_lines(text)
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
        case Compacted(dropped=0):
            return [StyledLine("quiet", "↻ not compacted: a summary would be longer than the conversation")]
        case Compacted(before=before, after=after):
            return [StyledLine("quiet", f"↻ compacted: about {before:,} → {after:,} tokens")]
        case Nested(name=name, event=inner):
            inside = [line for line in lines_of(inner) if line.style != "request"]
            lead = f"  {clean_line(name)} │ "
            return [
                StyledLine(line.style, lead + line.text, tuple(lead + part for part in line.more), line.fold_text)
                for line in inside
            ]
        case Ended(outcome=outcome, text=text, hint=hint) if outcome != "finished":
            summary = f"■ {outcome}" + (f": {visible_text(text)}" if text else "")
            return [
                StyledLine("failed", summary),
                *([StyledLine("quiet", f"→ {translate_hint(visible_text(hint))}")] if hint else []),
            ]
    return []


def request_lines(text: str) -> list[StyledLine]:
    """What was asked; a long paste is folded, and the model has it whole."""
    lines = visible_text(text).rstrip("\n").split("\n")
    if len(lines) <= _MOST_LINES + 1:
        return [StyledLine("request", "\n".join(lines))]
    first, *_, last = fold_lines("quiet", lines)
    return [first._replace(style="request", text="\n".join(lines[:_MOST_LINES])), last]


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


def change_lines(change: Change) -> list[StyledLine]:
    """What changed in the skills, which of them can't be used until they are trusted, and which broke."""
    summary = change_summary(change.added, change.changed, change.removed)
    names = {*change.added, *change.changed}
    untrusted = [
        clean_line(verdict.skill.name)
        for verdict in change.library.verdicts
        if {verdict.skill.name, verdict.skill.id} & names
        and any(finding.code == "untrusted" for finding in verdict.findings)
    ]
    hint = f"not trusted yet: {', '.join(untrusted)}\n→ type /trust to see what they run and to trust them"
    return [
        StyledLine("quiet", f"↻ skills: {summary}"),
        *([StyledLine("warning", hint)] if untrusted else []),
        *broken_lines(change),
    ]


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
_APP_COMMAND_NAMES = {"list": "skills", "runs": "resume", "why": "why", "commands": "help", "trust": "trust"}
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
        lines += fold_lines("quiet", [f"  {line[:_LONGEST_LINE]}" for line in output_lines])
    if event.note:
        lines.append(StyledLine("warning", f"  {clean_line(event.note)}"))
    return lines


class AnswerChoice(NamedTuple):
    """An answer that one key gives."""

    key: str
    answer: str
    label: str


def answer_choices(event: Asked) -> list[AnswerChoice]:
    """The answers that a question offers, each with its key: approvals by letter, others by number."""
    if event.kind != "approval":
        return [AnswerChoice(str(at), text, clean_line(text)) for at, text in enumerate(event.choices[:9], 1)]
    answers: list[AnswerChoice] = []
    taken = {choice.key for choice in APPROVAL_CHOICES.values()}
    for answer in event.choices or ("once", "always", "no"):
        known = APPROVAL_CHOICES.get(answer)
        if known is None:
            letters = (letter for letter in answer.lower() if letter.isalpha() and letter not in taken)
            known = ApprovalChoice(next(letters, str(len(answers) + 1)), clean_line(answer))
            taken.add(known.key)
        answers.append(AnswerChoice(known.key, answer, known.label))
    return answers


def keys_text(answers: Sequence[AnswerChoice]) -> str:
    """`y, a or n`."""
    *first, last = [answer.key for answer in answers]
    return f"{', '.join(first)} or {last}" if first else last


def question_lines(event: Asked) -> list[StyledLine]:
    """A question or an approval request."""
    if event.kind == "approval":
        why = [StyledLine("quiet", f"  {clean_line(event.why)}")] if event.why else []
        offered_keys = " · ".join(f"{answer.key}: {answer.label}" for answer in answer_choices(event))
        keys = StyledLine("quiet", f"  press {offered_keys}")
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
