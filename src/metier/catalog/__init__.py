"""4. catalog: Verdicts -> Catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..types.catalog import Catalog, LeftOut
from ..types.dialect import Format, Listing
from ..types.skill import Skill, reading
from ..types.verdict import Verdict
from .commands import command_names, command_table
from .entries import compact_path, entries_of
from .fit import Budget, fit
from .match import Named, match, named
from .write import layout

if TYPE_CHECKING:
    from .fold import Wish

__all__ = [
    "Budget",
    "Named",
    "Style",
    "catalogue",
    "command_names",
    "command_table",
    "compact_path",
    "fit",
    "layout",
    "match",
    "named",
]


@dataclass(frozen=True)
class Style:
    """How a listing is written, and for whose home its paths are shortened."""

    listing: Listing
    home: str = ""
    format: Format | None = None


_user_may, _model_may = reading("user_may_invoke"), reading("model_may_invoke")


def _may_see(skill: Skill) -> bool:
    """Whether the model may see a skill that has no command."""
    return not skill.origin.dialect.authoring.user_invocable_hides


def catalogue(verdicts: Iterable[Verdict], style: Style, budget: Budget, wish: Wish | None = None) -> Catalog:
    """The listing of every skill the model may use; what is not in it is left out with a reason.

    What does not fit is folded as wished; without a wish, the longest run from the front is kept.
    """
    listing = style.listing
    usable = [skill for skill, marks, _ in verdicts if not marks]
    shown = usable
    if not all(map(_user_may, usable)) or not all(map(_model_may, usable)):
        shown = [skill for skill in usable if skill.model_may_invoke and (skill.user_may_invoke or _may_see(skill))]
    hidden: list[LeftOut] = []
    if len(shown) < len(usable):
        kept = set(map(id, shown))
        hidden = [LeftOut(skill.name, "hidden-from-model", skill.path) for skill in usable if id(skill) not in kept]
    entries = entries_of(shown, listing, style.home)
    if listing.alphabetical:
        entries.sort(key=lambda entry: entry.name)
    written = layout(style.format or listing.format)
    found = fit(entries, written, budget)
    if wish is None or len(found.entries) == len(entries):
        return Catalog(found.entries, (*found.left_out, *hidden), found.text)
    from .fold import fold  # most catalogs fit

    folded = fold(entries, written, budget, wish)
    return replace(folded, left_out=(*folded.left_out, *hidden))
