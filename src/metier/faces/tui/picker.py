"""What the picker offers: commands of skills and of the app, broken skills with their fix, scheduled ones last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ...runtime.library import Library
from ...types.problem import Problem
from ...types.text import flat, shortened

Kind: TypeAlias = Literal["skill", "app", "broken", "scheduled"]
_ORDER: dict[Kind, int] = {"skill": 0, "app": 1, "broken": 2, "scheduled": 3}


class Choice(NamedTuple):
    """One line of the picker."""

    name: str
    """Without the slash."""
    description: str
    hint: str = ""
    kind: Kind = "skill"


def choices_of(library: Library, own: Mapping[str, str]) -> list[Choice]:
    """Everything that can be typed after a slash: skills by name, the app's own, broken skills, scheduled ones."""
    found = [Choice(name, text, kind="app") for name, text in own.items()]
    fixes = {one.path: _fix(one.problems[-1]) for one in library.broken}
    for command in library.commands(reserved=tuple(own)):
        kind: Kind = "scheduled" if command.skill is None else "skill"
        told = command.description
        if command.skill is not None and command.skill.path in library.kept:
            told = f"broken, the old one runs: {fixes.get(command.skill.path, '')}"
        found.append(Choice(flat(command.name), shortened(flat(told), 200), flat(command.hint), kind))
    for broken in library.broken:
        if broken.path not in library.kept:
            name, told = broken.name or broken.id, fixes[broken.path]
            found.append(Choice(flat(name), shortened(flat(told), 200), kind="broken"))
    return sorted(found, key=lambda one: (_ORDER[one.kind], one.name))


def _fix(problem: Problem) -> str:
    return f"{problem.message} → {problem.hint}" if problem.hint else problem.message


def filtered(
    choices: Sequence[Choice], typed: str, score: Callable[[str, str], float], uses: Mapping[str, int]
) -> list[Choice]:
    """The choices that what was typed may mean: the best first, among equals the most used, then by name."""
    if not typed:
        return list(choices)
    scored = []
    for choice in choices:
        points = score(typed, choice.name)
        if points > 0:
            last, begins = choice.kind == "scheduled", choice.name.startswith(typed)
            scored.append(((last, not begins, -points, -uses.get(choice.name, 0), choice.name), choice))
    return [choice for _, choice in sorted(scored, key=lambda one: one[0])]


def typed_command(line: str) -> str | None:
    """The command that is being typed; None once it is typed, or when the line is no command."""
    if not line.startswith("/") or any(character.isspace() for character in line):
        return None
    return line[1:]


def hint_for(line: str, choices: Sequence[Choice]) -> str:
    """What a command wants next: shown behind the line while nothing of it is typed."""
    name = line[1:].rstrip()
    if not line.startswith("/") or " " in name or not name:
        return ""
    return next((one.hint for one in choices if one.name == name and one.kind != "broken"), "")
