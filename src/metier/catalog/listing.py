"""A skill as one entry of a listing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..types.catalog import Catalog, CatalogEntry, LeftOut
from ..types.dialect import ListingFormat, ListingRules
from ..types.skill import Skill, field_getter
from ..types.verdict import Verdict
from .fit import CatalogBudget, fit_entries
from .formats import get_layout, make_entries

if TYPE_CHECKING:
    from .fit import RankingHints


class ListingStyle(NamedTuple):
    """How a listing is written, and for whose home its paths are shortened."""

    listing: ListingRules
    home: str = ""
    format: ListingFormat | None = None


_user_may, _model_may = field_getter("user_may_invoke"), field_getter("model_may_invoke")


def _model_may_see(skill: Skill) -> bool:
    """Whether the model may see a skill that has no command."""
    return not skill.origin.dialect.authoring.user_invocable_hides


def build_catalog(
    verdicts: Iterable[Verdict], style: ListingStyle, budget: CatalogBudget, hints: RankingHints | None = None
) -> Catalog:
    """The listing of every skill the model may use; what is not in it is left out with a reason.

    What does not fit is folded as wished; without a wish, the longest run from the front is kept.
    """
    listing = style.listing
    usable = [skill for skill, marks, _ in verdicts if not marks]
    visible = usable
    if not all(map(_user_may, usable)) or not all(map(_model_may, usable)):
        visible = [
            skill for skill in usable if skill.model_may_invoke and (skill.user_may_invoke or _model_may_see(skill))
        ]
    hidden: list[LeftOut] = []
    if len(visible) < len(usable):
        visible_ids = set(map(id, visible))
        hidden = [
            LeftOut(skill.name, "hidden-from-model", skill.path) for skill in usable if id(skill) not in visible_ids
        ]
    entries = make_entries(visible, listing, style.home)
    if listing.alphabetical:
        entries.sort(key=lambda entry: entry.name)
    listing_layout = get_layout(style.format or listing.format)
    fitted = fit_entries(entries, listing_layout, budget)
    if hints is None or len(fitted.entries) == len(entries):
        return Catalog(fitted.entries, (*fitted.left_out, *hidden), fitted.text)
    from .fit import fold_catalog  # most catalogs fit

    folded = fold_catalog(entries, listing_layout, budget, hints)
    return folded._replace(left_out=(*folded.left_out, *hidden))


def describe_changes(before: Sequence[CatalogEntry], after: Sequence[CatalogEntry]) -> str:
    """A short note on what came, went and is described otherwise; empty where nothing did."""
    old = {entry.name: entry for entry in before}
    new = {entry.name: entry for entry in after}
    added = [entry for name, entry in new.items() if name not in old]
    changed = [entry for name, entry in new.items() if name in old and _listed_text(entry) != _listed_text(old[name])]
    removed = [name for name in old if name not in new]
    lines = [*_change_lines("New", added), *_change_lines("Described anew", changed)]
    if removed:
        lines.append(f"No longer available: {', '.join(removed)}")
    return "\n".join(["<skills-changed>", *lines, "</skills-changed>"]) if lines else ""


def _listed_text(entry: CatalogEntry) -> tuple[str, str]:
    return entry.description, entry.location


def _change_lines(title: str, entries: Sequence[CatalogEntry]) -> list[str]:
    listed = [f"- {entry.name}: {entry.description}" if entry.description else f"- {entry.name}" for entry in entries]
    return [f"{title}:", *map(_escape_line, listed)] if listed else []


def _escape_line(line: str) -> str:
    """A description can't end the note it stands in."""
    return line.replace("&", "&amp;").replace("<", "&lt;")
