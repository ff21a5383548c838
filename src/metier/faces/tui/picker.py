"""The choices of the picker and how they are ranked; plain functions without textual."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ...library.library import Library
from ...types.problem import Problem
from ...types.text import clean_line, shorten_text

ChoiceKind: TypeAlias = Literal["skill", "app", "broken", "scheduled", "argument", "answer", "file"]
_KIND_ORDER: dict[str, int] = {"skill": 0, "app": 1, "broken": 2, "scheduled": 3}


class PickerChoice(NamedTuple):
    """One line of the picker."""

    name: str
    """Without the slash."""
    description: str
    hint: str = ""
    kind: ChoiceKind = "skill"


def choices_of(library: Library, app_commands: Mapping[str, str]) -> list[PickerChoice]:
    """Everything that can be typed after a slash: skills by name, the app's own, broken skills, scheduled ones."""
    choices = [PickerChoice(name, text, kind="app") for name, text in app_commands.items()]
    fixes = {entry.path: _fix_text(entry.problems[-1]) for entry in library.broken}
    for command in library.commands(reserved=tuple(app_commands)):
        kind: ChoiceKind = "scheduled" if command.skill is None else "skill"
        description = command.description
        if command.skill is not None and command.skill.path in library.kept:
            description = f"broken, last good version in use: {fixes.get(command.skill.path, '')}"
        choices.append(
            PickerChoice(
                clean_line(command.name), shorten_text(clean_line(description), 200), clean_line(command.hint), kind
            )
        )
    for broken in library.broken:
        # A broken skill whose last good version is in use is a command, and is listed above.
        if broken.path not in library.kept:
            name, description = broken.name or broken.id, fixes[broken.path]
            choices.append(PickerChoice(clean_line(name), shorten_text(clean_line(description), 200), kind="broken"))
    return sorted(choices, key=lambda choice: (_KIND_ORDER[choice.kind], choice.name))


def _fix_text(problem: Problem) -> str:
    return f"{problem.message} → {problem.hint}" if problem.hint else problem.message


def filter_choices(
    choices: Sequence[PickerChoice],
    typed: str,
    score: Callable[[str], float],
    uses: Mapping[str, int],
    described: bool = False,
) -> list[PickerChoice]:
    """The choices that match the input, best first; equal ones by use, then by name.

    With `described` a choice is sought by its description too, and the order stays.
    """
    if described:
        words = typed.lower().split()
        found = [c for c in choices if all(word in f"{c.name} {c.description}".lower() for word in words)]
        # What is typed in full comes first, whatever else contains it.
        return sorted(found, key=lambda choice: choice.name != typed)
    if not typed:
        return list(choices)
    scored = []
    for choice in choices:
        points = score(choice.name)
        if points > 0:
            # Scheduled skills last; then what begins with the input before what merely contains its letters.
            last, begins = choice.kind == "scheduled", choice.name.startswith(typed)
            scored.append(((last, not begins, -points, -uses.get(choice.name, 0), choice.name), choice))
    return [choice for _, choice in sorted(scored, key=lambda pair: pair[0])]


def typed_command(line: str) -> str | None:
    """The command that is being typed; None once it is typed, or when the line is no command."""
    if not line.startswith("/") or any(character.isspace() for character in line):
        return None
    return line[1:]


def hint_for(line: str, choices: Sequence[PickerChoice]) -> str:
    """The argument hint of a command, as long as no argument is typed."""
    name = line[1:].rstrip()
    if not line.startswith("/") or " " in name or not name:
        return ""
    return next((choice.hint for choice in choices if choice.name == name and choice.kind != "broken"), "")


def command_argument(line: str, commands: Mapping[str, object]) -> tuple[str, str] | None:
    """A command whose arguments can be picked, and what is typed of them."""
    name, space, typed = line.partition(" ")
    if not space or "\n" in line or not name.startswith("/") or name[1:] not in commands:
        return None
    return name[1:], typed.strip()


def mentioned_file(before: str) -> str | None:
    """What is typed of a file behind `@`, up to the cursor; None where no file is being named."""
    start = before.rfind("@")
    if start < 0 or (start and not before[start - 1].isspace()) or any(map(str.isspace, before[start:])):
        return None
    return before[start + 1 :]


def filter_files(files: Sequence[str], typed: str) -> list[str]:
    """The files that match, best first: by name, then by path, then by letters in order."""
    typed, scored = typed.lower(), []
    for path in files:
        low = path.lower()
        name = low.rpartition("/")[2]
        if name.startswith(typed):
            rank = 0
        elif low.startswith(typed):
            rank = 1
        elif typed in low:
            rank = 2
        elif _letters_in_order(typed, low):
            rank = 3
        else:
            continue
        scored.append((rank, low.count("/"), len(path), path))
    return [entry[-1] for entry in sorted(scored)]


def _letters_in_order(typed: str, text: str) -> bool:
    at = -1
    return all((at := text.find(letter, at + 1)) >= 0 for letter in typed)
