"""Builds the catalog that a model is shown, and the note on what changed in it.

Only usable skills that the model may invoke are listed; everything else is in `left_out` with its reason, so that
`metier status` can tell a person why a skill is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..light_typing import TYPE_CHECKING, NamedTuple
from ..types.catalog import Catalog, CatalogEntry, LeftOut
from ..types.dialect import ListingFormat, ListingRules
from ..types.skill import Skill, field_getter
from ..types.text import TAG_OPENERS
from ..types.verdict import Verdict
from .fit import CatalogBudget, RankingHints, fit_entries
from .formats import get_layout, make_entries

if TYPE_CHECKING:
    from .fit import PreparedFold


class ListingStyle(NamedTuple):
    """How a listing is written, and the home folder by which its paths are shortened."""

    listing: ListingRules
    home: str = ""
    format: ListingFormat | None = None


_user_may, _model_may = field_getter("user_may_invoke"), field_getter("model_may_invoke")


def _model_may_see(skill: Skill) -> bool:
    """Whether the model may see a skill that has no command."""
    return not skill.origin.dialect.authoring.user_invocable_hides


class PreparedCatalog(NamedTuple):
    """A catalog that must be folded, up to the request."""

    fold: PreparedFold
    hidden: tuple[LeftOut, ...]


def build_catalog(
    verdicts: Iterable[Verdict], style: ListingStyle, budget: CatalogBudget, hints: RankingHints | None = None
) -> Catalog:
    """The listing of every skill the model may use; anything else is left out with a reason.

    If it does not fit, it is folded by the hints; without hints, it is cut at the end.
    """
    prepared = prepare_catalog(verdicts, style, budget, hints)
    return prepared if isinstance(prepared, Catalog) else finish_catalog(prepared, hints or RankingHints())


def prepare_catalog(
    verdicts: Iterable[Verdict], style: ListingStyle, budget: CatalogBudget, hints: RankingHints | None = None
) -> Catalog | PreparedCatalog:
    """The whole catalog, or what of it can be made before the request is known."""
    listing = style.listing
    usable = [skill for skill, reasons, _ in verdicts if not reasons]
    visible = usable
    # Nearly always all are visible: asking that first keeps large listings fast.
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
    from .fit import prepare_fold  # imported late: most catalogs fit

    return PreparedCatalog(prepare_fold(entries, listing_layout, budget, hints), tuple(hidden))


def finish_catalog(prepared: PreparedCatalog, hints: RankingHints) -> Catalog:
    """The folded catalog for the request that the hints name."""
    from .fit import fold_catalog

    folded = fold_catalog(prepared.fold, hints)
    return folded._replace(left_out=(*folded.left_out, *prepared.hidden)) if prepared.hidden else folded


def describe_changes(before: Sequence[CatalogEntry], after: Sequence[CatalogEntry]) -> str:
    """A short note on added, changed and removed skills; empty if there are none."""
    old = {entry.name: entry for entry in before}
    new = {entry.name: entry for entry in after}
    added = [entry for name, entry in new.items() if name not in old]
    changed = [entry for name, entry in new.items() if name in old and _listed_text(entry) != _listed_text(old[name])]
    removed = [name for name in old if name not in new]
    lines = [*_change_lines("New", added), *_change_lines("Description changed", changed)]
    if removed:
        lines.append(_escape_line(f"No longer available: {', '.join(removed)}"))
    return "\n".join(["<skills-changed>", *lines, "</skills-changed>"]) if lines else ""


def _listed_text(entry: CatalogEntry) -> tuple[str, str]:
    return entry.description, entry.location


def _change_lines(title: str, entries: Sequence[CatalogEntry]) -> list[str]:
    listed = [f"- {entry.name}: {entry.description}" if entry.description else f"- {entry.name}" for entry in entries]
    return [f"{title}:", *map(_escape_line, listed)] if listed else []


def _escape_line(line: str) -> str:
    """Escaped, so that a description can't end the note."""
    line = line.replace("&", "&amp;")
    for opener in TAG_OPENERS:
        line = line.replace(opener, "&lt;")
    return line
