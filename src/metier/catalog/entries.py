"""A skill as one entry of a listing."""

from __future__ import annotations

from collections.abc import Iterable

from ..types.catalog import Entry
from ..types.dialect import Listing
from ..types.skill import Skill
from ..types.text import flat, shortened

_TOOL = "🔧"
new = tuple.__new__


def entries_of(skills: Iterable[Skill], listing: Listing, home: str) -> list[Entry]:
    """Every skill as an entry; what depends on the root alone is worked out once for each."""
    found = []
    origin, by_folder, says_when = None, False, False
    cut, shorten = listing.description_cut, listing.paths == "home"
    for skill in skills:
        if skill.origin is not origin:
            origin = skill.origin
            by_folder = origin.dialect.serving.commands.form == "directory"
            says_when = "when_to_use" in origin.dialect.authoring.fields
        name = skill.id if by_folder else skill.name
        description, location = skill.description, skill.path
        if not skill.tidy:
            name, description = flat(name), flat(description)
        if says_when and skill.rest:
            description = f"{description} {flat(skill.extra.text('when_to_use'))}".strip()
        if cut is not None and len(description) > cut:
            description = shortened(description, cut)
        if shorten:
            location = compact_path(location, home)
        if origin.namespace:
            name = f"{origin.namespace}:{name}"
        hint = flat(skill.argument_hint) if skill.argument_hint else ""
        found.append(
            new(Entry, (name, description, location if location.isprintable() else flat(location), hint, skill))
        )
    return found


def emoji_of(skill: Skill) -> str:
    """The picture its author chose, or a spanner."""
    metadata = skill.extra.branch("metadata")
    chosen = metadata.text("emoji")
    for key in skill.origin.dialect.authoring.requires_at:
        chosen = chosen or (metadata.text(key, "emoji") if key else "")
    return flat(chosen)[:16] or _TOOL


def compact_path(path: str, home: str) -> str:
    """`~` for the home folder, on a folder's boundary only."""
    home = home.rstrip("/")
    return "~" + path[len(home) :] if home and path.startswith(home + "/") else path
