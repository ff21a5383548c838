"""Slash commands: their names, the command a typed line means, and completion by letters.

Each dialect has its own rules for names (`CommandForm`) and for matching (`CommandMatching`); both come from its data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..light_typing import NamedTuple
from ..types.catalog import CommandMatch, SlashCommand
from ..types.dialect import CommandForm, CommandMatching, CommandRules
from ..types.text import clean_line, shorten_text
from ..types.verdict import Verdict

# --- Names ---

MAX_COMMAND_LENGTH = 32
_MAX_DESCRIPTION_LENGTH = 100
_outside = {"underscore": re.compile(r"[^a-z0-9_]+"), "hyphen": re.compile(r"[^a-z0-9_-]+")}
_runs = re.compile(r"_+")


def command_names(pairs: Sequence[tuple[str, str]], form: CommandForm, reserved: Iterable[str]) -> list[str]:
    """The command of each (name, directory), in the given order; normalised names are made unique."""
    if form == "name":
        return [name for name, _ in pairs]
    if form == "directory":
        return [directory for _, directory in pairs]
    used = {name.lower() for name in reserved}
    return [_unused_name(normalize_command(name, form), used) for name, _ in pairs]


def normalize_command(name: str, form: CommandForm) -> str:
    """Lower case, only letters, digits and `_`, at most 32 characters."""
    plain = _outside["hyphen" if form == "hyphen" else "underscore"].sub("_", name.lower())
    return _runs.sub("_", plain).strip("_")[:MAX_COMMAND_LENGTH] or "skill"


def _unused_name(base: str, used: set[str]) -> str:
    name, number = base, 2
    while name in used:
        suffix = f"_{number}"
        name = base[: MAX_COMMAND_LENGTH - len(suffix)] + suffix
        number += 1
    used.add(name)
    return name


def _distinct_name(name: str, used: set[str]) -> str:
    """A name that is not used yet: two skills of one root may share a name, but never a command."""
    number, candidate = 2, name
    while candidate in used:
        candidate, number = f"{name}-{number}", number + 1
    return candidate


def command_table(
    verdicts: Iterable[Verdict],
    rules: CommandRules,
    reserved: Iterable[str] = (),
    scheduled: Sequence[SlashCommand] = (),
) -> tuple[SlashCommand, ...]:
    """The commands a person may type, with their descriptions; scheduled skills come last."""
    skills = [verdict.skill for verdict in verdicts if verdict.usable and verdict.skill.user_may_invoke]
    names = command_names([(skill.name, skill.id) for skill in skills], rules.form, reserved)
    table = []
    used: set[str] = set()
    for skill, name in zip(skills, names, strict=True):
        command_name = clean_line(name).replace(" ", "-") or skill.id
        if skill.origin.namespace:
            command_name = f"{skill.origin.namespace}:{command_name}"
        if command_name in used:
            command_name = _distinct_name(f"{command_name}@{skill.origin.root}", used)
        used.add(command_name)
        spellings = (skill.name, skill.id) if rules.matching == "loose" else ()
        aliases = tuple(alias for alias in dict.fromkeys(map(clean_line, spellings)) if alias and alias != command_name)
        description = shorten_text(clean_line(skill.description) or clean_line(skill.name), _MAX_DESCRIPTION_LENGTH)
        table.append(SlashCommand(command_name, skill, description, clean_line(skill.argument_hint), aliases))
    if rules.alphabetical:
        table.sort(key=lambda command: command.name)
    return (*table, *(scheduled if rules.scheduled else ()))


# --- Matching a typed line ---

_match_slash = re.compile(r"/([^\s/]\S*)(?:\s+(.*))?", re.DOTALL).fullmatch
_BLANK = " \t\r\n"
_separators = re.compile(r"[\s_-]+")


class NamedCommand(NamedTuple):
    """A command and the skill behind it."""

    command: str
    name: str
    directory: str


def name_commands(pairs: Sequence[tuple[str, str]], form: CommandForm) -> list[NamedCommand]:
    """The commands of (name, directory) pairs that form a table of their own."""
    return [NamedCommand(command, *pair) for command, pair in zip(command_names(pairs, form, ()), pairs, strict=True)]


def match_command(line: str, commands: Sequence[NamedCommand], matching: CommandMatching) -> CommandMatch:
    """Find the command that a line calls.  `at` is its place among the commands; the name is the skill's."""
    if matching == "tail":
        return _match_tail(line, commands)
    text = line.strip() if matching == "loose" else line.lstrip()
    slash = _match_slash(text)
    if slash is None:
        return CommandMatch(None, "", line)
    word, arguments = slash[1], slash[2] or ""
    if matching == "exact":
        at = next((number for number, command in enumerate(commands) if command.command == word), None)
        return _match_at(commands, at, arguments, line)
    # `/skill name …` is another way to call `/name …`.
    if word.lower() == "skill" and arguments:
        called = arguments.split(None, 1)[0]
        at = _find_loosely(called, commands)
        if at is not None:
            return _match_at(commands, at, arguments[len(called) :].strip(), line)
    return _match_at(commands, _find_loosely(word, commands), arguments.strip(), line)


def _match_at(commands: Sequence[NamedCommand], at: int | None, arguments: str, line: str) -> CommandMatch:
    return CommandMatch(None, "", line) if at is None else CommandMatch(commands[at].name, arguments, line, at)


def _find_loosely(word: str, commands: Sequence[NamedCommand]) -> int | None:
    """By the command, then by the name, then with blanks, `_` and `-` as equal; case does not matter."""
    low = word.lower()
    for number, command in enumerate(commands):
        if command.command == low:
            return number
    for number, command in enumerate(commands):
        if low in (command.name.lower(), command.directory.lower()):
            return number
    folded = _fold_spelling(low)
    for number, command in enumerate(commands):
        if folded in (
            _fold_spelling(command.name.lower()),
            _fold_spelling(command.directory.lower()),
            _fold_spelling(command.command),
        ):
            return number
    return None


def _fold_spelling(text: str) -> str:
    return _separators.sub("-", text)


def _match_tail(line: str, commands: Sequence[NamedCommand]) -> CommandMatch:
    """For agents that take the rest of the line as the user's message; without a rest, the command is the message."""
    text = line.lstrip(_BLANK)
    if not text.startswith("/"):
        return CommandMatch(None, "", line)
    end = next((at for at, character in enumerate(text) if character in _BLANK), len(text))
    word, rest = text[1:end], text[end:].lstrip(_BLANK)
    at = next((number for number, command in enumerate(commands) if command.command == word), None)
    if at is None:
        return CommandMatch(None, "", line)
    return CommandMatch(commands[at].name, rest, rest or text, at)


# --- Completion ---

_WORD_BREAKS = "-_:. /"
_FIRST, _AT_A_WORD, _IN_A_ROW, _SKIPPED = 12, 8, 5, -1
"""Points of a letter: first of the name, first of a word, right after the last one, and per skipped letter."""


def fuzzy_score(typed: str, name: str) -> int | None:
    """How well letters match a name in order, or None: `cdrev` matches `code-review`, at the starts of its words.

    All places of each letter are tried (by dynamic programming over the last place), since the first match of a letter
    is often not the best.
    """
    letters, low = typed.lower(), name.lower()
    best: dict[int, int] = {-1: 0}
    for letter in letters:
        following: dict[int, int] = {}
        for before, score in best.items():
            at = low.find(letter, before + 1)
            while at >= 0:
                worth = score + _letter_score(low, before, at)
                if worth > following.get(at, -1_000_000):
                    following[at] = worth
                at = low.find(letter, at + 1)
        best = following
    # Of two equal matches, the shorter name is meant more often.
    return max(best.values()) - len(low) // 8 if best else None


def _letter_score(name: str, before: int, at: int) -> int:
    if at == 0:
        return _FIRST
    if at == before + 1:
        return _IN_A_ROW
    return (_AT_A_WORD if name[at - 1] in _WORD_BREAKS else 0) + max(_SKIPPED * (at - before - 1), -6)


def pick_commands(table: Sequence[SlashCommand], typed: str, about: Sequence[str] = ()) -> tuple[SlashCommand, ...]:
    """Commands whose names match the letters, best first; then those of the skills in `about`, by their paths."""
    letters = typed.strip()[:64]
    if not letters:
        return tuple(table)
    scored = [(score, command) for command in table if (score := _best_score(letters, command)) is not None]
    scored.sort(key=lambda pair: (-pair[0], len(pair[1].name), pair[1].name))
    by_path = {command.skill.path: command for command in table if command.skill is not None}
    others = [by_path[path] for path in about if path in by_path]
    return tuple(dict.fromkeys([*(command for _, command in scored), *others]))


def _best_score(letters: str, command: SlashCommand) -> int | None:
    fits = [fuzzy_score(letters, name[:64]) for name in (command.name, *command.aliases)]
    return max((score for score in fits if score is not None), default=None)
