"""The catalog of a library: the limits that hold, and what is asked of the ranker when they are too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, get_args

from ..catalog import Budget, Style, catalogue
from ..host.memory import making_many
from ..types.catalog import Catalog, Habits
from ..types.dialect import Format, Policy
from ..types.errors import BadRequest
from ..types.problem import Problem

if TYPE_CHECKING:
    from ..types.search import Hit
    from .library import Library


class Asked(NamedTuple):
    """What a caller of `catalog()` asked for."""

    format: Format | None = None
    max_skills: int | None = None
    max_chars: int | None = None
    policy: Policy | None = None
    request: str = ""
    habits: Habits | None = None


def catalog_of(library: Library, asked: Asked) -> Catalog:
    """The listing, whole if it fits."""
    _check(asked)
    listing = library.dialect.serving.listing
    budget = Budget(
        library.limits.listed if asked.max_skills is None else asked.max_skills,
        library.limits.characters if asked.max_chars is None else asked.max_chars,
    )
    style = Style(listing, library.place.home, asked.format)
    policy = asked.policy or library.settings.policy or listing.policy
    if policy == "prefix" or (budget.skills is None and budget.characters is None):
        with making_many():
            return catalogue(library.in_order(), style, budget)
    from ..catalog.fold import Wish

    problems: list[Problem] = []

    def rank(most: int) -> Sequence[Hit]:
        finder = library.finder
        if finder.fault is None:
            return finder.search(asked.request, most, "model")
        if finder.fault.code not in {one.code for one in library.problems}:
            problems.append(finder.fault)
        return ()

    habits = asked.habits or library.request.habits
    wish = Wish(
        asked.request,
        replace(habits, pinned=habits.pinned or library.settings.pinned),
        rank,
        library.dialect.serving.delivery == "model-reads",
    )
    found = catalogue(library.in_order(), style, budget, wish)
    return replace(found, problems=tuple(problems)) if problems else found


def _check(asked: Asked) -> None:
    if asked.format is not None and asked.format not in get_args(Format):
        raise BadRequest(f"`{asked.format}` is not a format", "one of: " + ", ".join(get_args(Format)))
    if asked.policy is not None and asked.policy not in get_args(Policy):
        raise BadRequest(f"`{asked.policy}` is not a policy", "one of: " + ", ".join(get_args(Policy)))
    if min(asked.max_skills or 0, asked.max_chars or 0) < 0:
        raise BadRequest("a limit can't be less than nothing", "give a number from 0 up, or None for no limit")
