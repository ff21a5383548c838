"""Slash commands: one name for each skill a person may call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..types.catalog import Command
from ..types.dialect import CommandForm, Commands
from ..types.text import flat, shortened
from ..types.verdict import Verdict

LONGEST = 32
_LONGEST_DESCRIPTION = 100
_outside = {"underscore": re.compile(r"[^a-z0-9_]+"), "hyphen": re.compile(r"[^a-z0-9_-]+")}
_runs = re.compile(r"_+")


def command_names(pairs: Sequence[tuple[str, str]], form: CommandForm, reserved: Iterable[str]) -> list[str]:
    """The command of each (name, directory), in the order given; none is used twice where names are normalised."""
    if form == "name":
        return [name for name, _ in pairs]
    if form == "directory":
        return [directory for _, directory in pairs]
    used = {name.lower() for name in reserved}
    return [_unused(normalised(name, form), used) for name, _ in pairs]


def normalised(name: str, form: CommandForm) -> str:
    """Lower case, nothing but letters, digits and `_`, at most 32 characters."""
    plain = _outside["hyphen" if form == "hyphen" else "underscore"].sub("_", name.lower())
    return _runs.sub("_", plain).strip("_")[:LONGEST] or "skill"


def _unused(base: str, used: set[str]) -> str:
    name, number = base, 2
    while name in used:
        suffix = f"_{number}"
        name = base[: LONGEST - len(suffix)] + suffix
        number += 1
    used.add(name)
    return name


def _apart(name: str, taken: set[str]) -> str:
    """Two skills of one root may have one name and two folders: no command stands for both."""
    number, own = 2, name
    while own in taken:
        own, number = f"{name}-{number}", number + 1
    return own


def command_table(
    verdicts: Iterable[Verdict],
    rules: Commands,
    reserved: Iterable[str] = (),
    scheduled: Sequence[Command] = (),
) -> tuple[Command, ...]:
    """What a person may type, with what each command is for; scheduler skills stand at the end."""
    skills = [verdict.skill for verdict in verdicts if verdict.usable and verdict.skill.user_may_invoke]
    names = command_names([(skill.name, skill.id) for skill in skills], rules.form, reserved)
    table = []
    taken: set[str] = set()
    for skill, name in zip(skills, names, strict=True):
        own = flat(name).replace(" ", "-") or skill.id
        if skill.origin.namespace:
            own = f"{skill.origin.namespace}:{own}"
        if own in taken:
            own = _apart(f"{own}@{skill.origin.root}", taken)
        taken.add(own)
        spellings = (skill.name, skill.id) if rules.matching == "loose" else ()
        aliases = tuple(alias for alias in dict.fromkeys(map(flat, spellings)) if alias and alias != own)
        description = shortened(flat(skill.description) or flat(skill.name), _LONGEST_DESCRIPTION)
        table.append(Command(own, skill, description, flat(skill.argument_hint), aliases))
    if rules.alphabetical:
        table.sort(key=lambda command: command.name)
    return (*table, *(scheduled if rules.scheduled else ()))
