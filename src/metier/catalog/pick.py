"""A picker's order: the letters that were typed, wherever they stand in a name, and what skills are for."""

from __future__ import annotations

from collections.abc import Sequence

from ..types.catalog import Command

_APART = "-_:. /"
_FIRST, _AT_A_WORD, _IN_A_ROW, _SKIPPED = 12, 8, 5, -1


def fuzzy(typed: str, name: str) -> int | None:
    """How well the letters fit a name in their order, or None: `cdrev` fits `code-review`, at the words' beginnings."""
    letters, low = typed.lower(), name.lower()
    best: dict[int, int] = {-1: 0}
    for letter in letters:
        following: dict[int, int] = {}
        for before, score in best.items():
            at = low.find(letter, before + 1)
            while at >= 0:
                worth = score + _worth(low, before, at)
                if worth > following.get(at, -1_000_000):
                    following[at] = worth
                at = low.find(letter, at + 1)
        best = following
    return max(best.values()) - len(low) // 8 if best else None


def _worth(name: str, before: int, at: int) -> int:
    if at == 0:
        return _FIRST
    if at == before + 1:
        return _IN_A_ROW
    return (_AT_A_WORD if name[at - 1] in _APART else 0) + max(_SKIPPED * (at - before - 1), -6)


def picked(table: Sequence[Command], typed: str, about: Sequence[str] = ()) -> tuple[Command, ...]:
    """Commands whose names have the letters, best first; then those of the skills in `about`, by their paths."""
    letters = typed.strip()[:64]
    if not letters:
        return tuple(table)
    scored = [(score, one) for one in table if (score := _best(letters, one)) is not None]
    scored.sort(key=lambda pair: (-pair[0], len(pair[1].name), pair[1].name))
    by_path = {one.skill.path: one for one in table if one.skill is not None}
    others = [by_path[path] for path in about if path in by_path]
    return tuple(dict.fromkeys([*(one for _, one in scored), *others]))


def _best(letters: str, command: Command) -> int | None:
    fits = [fuzzy(letters, name[:64]) for name in (command.name, *command.aliases)]
    return max((one for one in fits if one is not None), default=None)
