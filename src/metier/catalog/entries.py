"""A skill as one entry of a listing."""

from __future__ import annotations

from ..types.catalog import Entry
from ..types.dialect import Listing
from ..types.skill import Skill
from ..types.text import flat, one_line, shortened
from ..types.tree import EMPTY

_TOOL = "🔧"
new = tuple.__new__


def entry_of(skill: Skill, listing: Listing, home: str) -> Entry:
    description = flat(skill.description)
    extra = skill.extra
    if extra is not EMPTY and "when_to_use" in extra:
        description = f"{description} {flat(extra.text('when_to_use'))}".strip()
    cut = listing.description_cut
    if cut is not None and len(description) > cut:
        description = shortened(description, cut)
    origin = skill.origin
    location = compact_path(skill.path, home) if listing.paths == "home" else skill.path
    name = skill.id if origin.dialect.serving.commands.form == "directory" else skill.name
    if origin.namespace:
        name = f"{origin.namespace}:{name}"
    hint = flat(skill.argument_hint) if skill.argument_hint else ""
    return new(Entry, (flat(name) or flat(skill.id), description, one_line(location), hint, skill))


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
