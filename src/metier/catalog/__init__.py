"""4. catalog: Verdicts -> Catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..types.catalog import Catalog, LeftOut
from ..types.dialect import Format, Listing
from ..types.verdict import Verdict
from .commands import command_names, command_table
from .entries import compact_path, entry_of
from .fit import Budget, fit
from .match import match
from .write import layout

__all__ = [
    "Budget",
    "Style",
    "catalogue",
    "command_names",
    "command_table",
    "compact_path",
    "fit",
    "layout",
    "match",
]


@dataclass(frozen=True)
class Style:
    """How a listing is written, and for whose home its paths are shortened."""

    listing: Listing
    home: str = ""
    format: Format | None = None


def catalogue(verdicts: Iterable[Verdict], style: Style, budget: Budget) -> Catalog:
    """The listing of every skill the model may use; what is not in it is left out with a reason."""
    listing = style.listing
    entries, hidden = [], []
    for verdict in verdicts:
        if verdict.marks:
            continue
        skill = verdict.skill
        if not skill.model_may_invoke or (
            not skill.user_may_invoke and skill.origin.dialect.authoring.user_invocable_hides
        ):
            hidden.append(LeftOut(skill.name, "hidden-from-model", skill.path))
            continue
        entries.append(entry_of(skill, listing, style.home))
    if listing.alphabetical:
        entries.sort(key=lambda entry: entry.name)
    found = fit(entries, layout(style.format or listing.format), budget)
    return Catalog(found.entries, (*found.left_out, *hidden), found.text)
