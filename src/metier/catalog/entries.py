"""A skill as one entry of a listing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from ..types.catalog import Entry
from ..types.dialect import Listing
from ..types.skill import Origin, Skill, reading
from ..types.text import flat, one_line_each, shortened

_TOOL = "🔧"
new = tuple.__new__
_LISTED = (reading("name"), reading("description"), reading("path"), reading("argument_hint"))
_origin, _tidy = reading("origin"), reading("tidy")


def entries_of(skills: Sequence[Skill], listing: Listing, home: str) -> list[Entry]:
    """Every skill as an entry.  Most fields are listed as they are, so each is taken from all skills at once."""
    names, descriptions, locations, hints = (list(map(field, skills)) for field in _LISTED)
    for at in _not_as_they_are(skills):
        names[at], descriptions[at] = _flat(skills[at])
    cut = listing.description_cut
    if cut is not None and max(map(len, descriptions), default=0) > cut:
        descriptions = [shortened(description, cut) for description in descriptions]
    if any(hints):
        hints = list(map(flat, hints))
    if listing.paths == "home":
        locations = [compact_path(path, home) for path in locations]
    columns = zip(names, descriptions, one_line_each(locations), hints, skills, strict=True)
    return list(map(new, repeat(Entry), columns))


def _not_as_they_are(skills: Sequence[Skill]) -> Iterable[int]:
    """The places of skills whose name or description is listed in another form than it has."""
    origins = list(map(_origin, skills))
    odd = {number for number, origin in dict(zip(map(id, origins), origins, strict=True)).items() if _is_odd(origin)}
    if odd:
        return [at for at, skill in enumerate(skills) if not skill.tidy or id(skill.origin) in odd]
    return [at for at, tidy in enumerate(map(_tidy, skills)) if not tidy]


def _is_odd(origin: Origin) -> bool:
    return bool(_by_folder(origin) or _says_when(origin) or origin.namespace)


def _by_folder(origin: Origin) -> bool:
    return origin.dialect.serving.commands.form == "directory"


def _says_when(origin: Origin) -> bool:
    return "when_to_use" in origin.dialect.authoring.fields


def _flat(skill: Skill) -> tuple[str, str]:
    name = flat(skill.id if _by_folder(skill.origin) else skill.name) or flat(skill.id)
    description = flat(skill.description)
    if skill.rest and _says_when(skill.origin):
        description = f"{description} {flat(skill.extra.text('when_to_use'))}".strip()
    namespace = skill.origin.namespace
    return f"{namespace}:{name}" if namespace else name, description


def emoji_of(skill: Skill) -> str:
    """The picture its author chose, or a spanner."""
    metadata = skill.extra.branch("metadata")
    chosen = metadata.text("emoji")
    for key in skill.origin.dialect.authoring.requires_at:
        chosen = chosen or (metadata.text(key, "emoji") if key else "")
    return flat(chosen)[:16] or _TOOL


def compact_path(path: str, home: str) -> str:
    """`~` for the home folder, on a folder's boundary only."""
    start = home.rstrip("/") + "/"
    return "~/" + path[len(start) :] if home and path.startswith(start) else path
