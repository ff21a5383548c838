"""4. catalog: Verdicts -> Catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..types.catalog import Catalog, LeftOut
from ..types.dialect import Format, Listing
from ..types.verdict import Verdict
from .commands import command_names, command_table
from .entries import compact_path, entries_of
from .fit import Budget, fit
from .match import Named, match, named
from .write import layout

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


def catalogue(verdicts: Iterable[Verdict], style: Style, budget: Budget) -> Catalog:
    """The listing of every skill the model may use; what is not in it is left out with a reason."""
    listing = style.listing
    shown, hidden = [], []
    for verdict in verdicts:
        if verdict[1]:
            continue
        skill = verdict[0]
        if skill.model_may_invoke and (
            skill.user_may_invoke or not skill.origin.dialect.authoring.user_invocable_hides
        ):
            shown.append(skill)
        else:
            hidden.append(LeftOut(skill.name, "hidden-from-model", skill.path))
    entries = entries_of(shown, listing, style.home)
    if listing.alphabetical:
        entries.sort(key=lambda entry: entry.name)
    found = fit(entries, layout(style.format or listing.format), budget)
    return Catalog(found.entries, (*found.left_out, *hidden), found.text)
