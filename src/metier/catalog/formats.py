"""The listing formats of the dialects, and the entries they are made of.

A format is data: a head, a writer of entries, a tail.  A text is their concatenation, so lengths add up and `fit` can
find the place to cut without writing anything.  Listings of thousands of skills are written on every start; that is why
fields are taken column by column, and escaped in chunks, instead of skill by skill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import itemgetter

from ..light_typing import NamedTuple
from ..types.catalog import CatalogEntry
from ..types.dialect import ListingFormat, ListingRules
from ..types.skill import Origin, Skill, field_getter
from ..types.text import TAG_OPENERS, bounded_field, clean_line, neutralize_tags, one_line_each, shorten_text


class ListingLayout(NamedTuple):
    """A text is the head, the entries one after the other, then the tail."""

    head: str
    pieces: Callable[[Sequence[CatalogEntry]], Iterable[tuple[str, ...]]]
    """Each entry in pieces, which are joined once for the whole listing."""
    tail: str

    def entry(self, entry: CatalogEntry) -> str:
        return "".join(chain.from_iterable(self.pieces((entry,))))


_ENTITIES = (
    ("&", "&amp;"),
    *((opener, "&lt;") for opener in TAG_OPENERS),
    (">", "&gt;"),
    ('"', "&quot;"),
    ("'", "&apos;"),
)
_CHUNK_SIZE = 100


def escape_xml(texts: Sequence[str]) -> list[str]:
    """Escape XML's five special characters, and what looks like one; each is looked for in many texts at once."""
    escaped: list[str] = []
    for start in range(0, len(texts), _CHUNK_SIZE):
        chunk = texts[start : start + _CHUNK_SIZE]
        together = "".join(chunk)
        for character, entity in _ENTITIES:
            if character in together:
                chunk = [text.replace(character, entity) for text in chunk]
        escaped += chunk
    return escaped


def _xml_entries(entries: Sequence[CatalogEntry]) -> Iterable[tuple[str, ...]]:
    names, descriptions, locations = (escape_xml(list(map(itemgetter(at), entries))) for at in range(3))
    return zip(
        repeat("  <skill>\n    <name>"),
        names,
        repeat("</name>\n    <description>"),
        descriptions,
        repeat("</description>\n    <location>"),
        locations,
        repeat("</location>\n  </skill>\n"),
    )


def _per_entry(write: Callable[[CatalogEntry], str]) -> Callable[[Sequence[CatalogEntry]], Iterable[tuple[str, ...]]]:
    return lambda entries: [(write(entry),) for entry in entries]


@_per_entry
def _bold_entry(entry: CatalogEntry) -> str:
    hint = entry.hint if not entry.hint or entry.hint.startswith("[") else f"[{entry.hint}]"
    first = f"- **{neutralize_tags(entry.name)}**" + (f" {neutralize_tags(hint)}" if hint else "")
    return f"{first}: {neutralize_tags(entry.description)}\n" if entry.description else f"{first}\n"


@_per_entry
def _bare_entry(entry: CatalogEntry) -> str:
    name = neutralize_tags(entry.name)
    return f"- {name}: {neutralize_tags(entry.description)}\n" if entry.description else f"- {name}\n"


@_per_entry
def _emoji_entry(entry: CatalogEntry) -> str:
    emoji, id = (emoji_of(entry.skill), bounded_field(entry.skill.id)) if entry.skill else ("🔧", entry.name)
    first = f"- {neutralize_tags(emoji)} **{neutralize_tags(entry.name)}** (`{neutralize_tags(id)}`)"
    return f"{first}: {neutralize_tags(entry.description)}\n" if entry.description else f"{first}\n"


# --- The formats ---

_OPEN, _CLOSE = "<available_skills>\n", "</available_skills>"

_LAYOUTS: dict[ListingFormat, ListingLayout] = {
    "xml": ListingLayout(_OPEN, _xml_entries, _CLOSE),
    "mandatory": ListingLayout(
        "## Skills (mandatory)\n"
        "Before replying: scan <available_skills> <description> entries.\n"
        "- If exactly one skill clearly applies: read its SKILL.md at <location> with `read`, then follow it.\n"
        "- If multiple could apply: choose the most specific one, then read/follow it.\n"
        "- If none clearly apply: do not read any SKILL.md.\n"
        "Constraints: never read more than one skill up front; only read after selecting.\n"
        "\n" + _OPEN,
        _xml_entries,
        _CLOSE,
    ),
    "available": ListingLayout(
        "## Available Skills\n\n",
        _bold_entry,
        "\nUse the `skill_use` tool to load a skill's full instructions when needed.",
    ),
    "policy": ListingLayout(
        "## Skills\n\n"
        "A message that starts with `/name` has already activated that skill: carry it out as it is written.\n"
        "Otherwise, when a task matches one of these, call `run_skill` with its name before you begin.\n\n",
        _bare_entry,
        "",
    ),
    "emoji": ListingLayout("# Available Skills\n\n", _emoji_entry, ""),
    "plain": ListingLayout("Skills you can use; load one before you do what it is for:\n\n", _bare_entry, ""),
    "guided": ListingLayout(
        "These skills hold instructions for particular kinds of work.\n"
        "When a task matches a description, load that skill before you begin, and follow it.\n"
        "Paths in a skill are relative to the folder of its SKILL.md; use absolute paths in tool calls.\n"
        "\n" + _OPEN,
        _xml_entries,
        _CLOSE,
    ),
}


def get_layout(format: ListingFormat) -> ListingLayout:
    return _LAYOUTS[format]


# --- Entries ---

_TOOL = "🔧"
_MAX_NAME = 200
"""Characters of a name in a listing: the standard has 64, and a name of a page would push every other skill out."""
_new_entry = tuple.__new__
"""Makes a named tuple without its constructor, which would take most of the time here."""
_LISTED = (field_getter("name"), field_getter("description"), field_getter("path"), field_getter("argument_hint"))
_origin, _tidy = field_getter("origin"), field_getter("tidy")


def make_entries(skills: Sequence[Skill], listing: ListingRules, home: str) -> list[CatalogEntry]:
    """Every skill as an entry.  Most fields are listed unchanged, so each is taken from all skills at once."""
    names, descriptions, locations, hints = (list(map(field, skills)) for field in _LISTED)
    for at in _rewritten_places(skills):
        names[at], descriptions[at] = _flat_fields(skills[at])
    cut = listing.description_cut
    if cut is not None and max(map(len, descriptions), default=0) > cut:
        descriptions = [shorten_text(description, cut) for description in descriptions]
    if any(hints):
        hints = [bounded_field(hint) for hint in hints]
    # Nearly always all are short: asking that first keeps large listings fast.
    if max(map(len, names), default=0) > _MAX_NAME:
        names = [shorten_text(name, _MAX_NAME) for name in names]
    if listing.paths == "home":
        locations = [compact_path(path, home) for path in locations]
    columns = zip(names, descriptions, one_line_each(locations), hints, skills, strict=True)
    return list(map(_new_entry, repeat(CatalogEntry), columns))


def _rewritten_places(skills: Sequence[Skill]) -> Iterable[int]:
    """The places of skills whose name or description is rewritten for the listing."""
    # Skills share few origins: the question is asked once for each, by identity.
    origins = list(map(_origin, skills))
    special = {
        number for number, origin in dict(zip(map(id, origins), origins, strict=True)).items() if _is_special(origin)
    }
    if special:
        return [at for at, skill in enumerate(skills) if not skill.tidy or id(skill.origin) in special]
    return [at for at, tidy in enumerate(map(_tidy, skills)) if not tidy]


def _is_special(origin: Origin) -> bool:
    return bool(_by_folder(origin) or _says_when(origin) or origin.namespace)


def _by_folder(origin: Origin) -> bool:
    return origin.dialect.serving.commands.form == "directory"


def _says_when(origin: Origin) -> bool:
    return "when_to_use" in origin.dialect.authoring.fields


def _flat_fields(skill: Skill) -> tuple[str, str]:
    name = clean_line(skill.id if _by_folder(skill.origin) else skill.name) or clean_line(skill.id)
    description = clean_line(skill.description)
    if skill.extra and _says_when(skill.origin):
        description = f"{description} {clean_line(skill.extra.text('when_to_use'))}".strip()
    namespace = skill.origin.namespace
    return f"{namespace}:{name}" if namespace else name, description


def emoji_of(skill: Skill) -> str:
    """The emoji its author chose, or a wrench."""
    metadata = skill.extra.branch("metadata")
    chosen = metadata.text("emoji")
    for key in skill.origin.dialect.authoring.requires_at:
        chosen = chosen or (metadata.text(key, "emoji") if key else "")
    return clean_line(chosen)[:16] or _TOOL


def compact_path(path: str, home: str) -> str:
    """`~` for the home folder, at a folder's boundary only."""
    start = home.rstrip("/") + "/"
    return "~/" + path[len(start) :] if home and path.startswith(start) else path
