"""The short way for the many plain skills: from the head's bytes to a Skill, with nothing in between.

Most published skills open with `name` and a plain `description`, and the lines below repeat from skill to skill
(`license: MIT`).  So the first two are cut out of the bytes directly, and what the rest means is remembered by its
text.  Whatever is not certain gives None, and the long way (`reader.parse_any`) reads it: this path may be slow to say
yes, never wrong.  A property test holds the two together.
"""

from __future__ import annotations

import re

from ..light_typing import TypeAlias
from ..types.dialect import Dialect
from ..types.problem import Finding
from ..types.skill import NO_STAT_KEY, NOTHING_REQUIRED, Found, Origin, Requirements, Skill, StatKey
from ..types.text import clean_line
from ..types.tree import EMPTY_TREE, RawValue, TextTree
from . import plain_yaml
from .fields import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    SPELLINGS,
    ParsedHead,
    complete_skill,
    flat_brackets,
    line_of_key,
    may_require,
    normalize_keys,
    parse_requirements,
)
from .frontmatter import LONGEST_BLOCK

_DECIDING = frozenset(
    {"user-invocable", "disable-model-invocation", "argument-hint", "compatibility", "config", "arguments", *SPELLINGS}
)
"""Fields that decide something, whatever they hold."""
_BY_FOLDER = frozenset({"free", "standard"})
"""Rules that a name of at most 64 characters meets by being its folder's name."""

_ORDINARY = bytes(set(range(32, 127)) - set(b":#"))
"""What may stand anywhere in plain text but at its ends."""
_FIRST = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
"""What plain text may begin with."""
_BLANK = 32
_double = rb"[ !#-\[\]-~]*(?:\\\"[ !#-\[\]-~]*)*"
_single = rb"[ -&(-~]*(?:''[ -&(-~]*)*"
_description_text = re.compile(
    rb"\"(" + _double + rb"(?:\n  [!#-\[\]-~]" + _double + rb")*)\"\n"
    rb"|'(" + _single + rb"(?:\n  [!-&(-~]" + _single + rb")*)'\n"
    rb"|([|>])-?\n((?:  [!-~](?:[ -~]*[!-~])?\n)+)"
    rb"|([A-Za-z0-9](?:[ -~]*[!-~])?\n(?:  [A-Za-z0-9(](?:[ -~]*[!-~])?\n)*)"
).match
"""Text in quotes, in a block of evenly indented lines, or plain and perhaps going on in such lines."""
_MOST_KNOWN = 4_096
"""Texts remembered before all are forgotten: a root of distinct skills must not fill the memory."""
new_tuple = tuple.__new__

RemainingFields: TypeAlias = tuple[str, bool, bool, bool, Requirements, TextTree, tuple[Finding, ...]]
"""The fields of a Skill from its hint to its marks: all that comes of what follows the description."""
FieldReading: TypeAlias = tuple[str, RawValue, bool, bool, Requirements]
"""A key, its value, whether that decides anything, whether the dialect knows the key, and what it asks for."""
_NO_FIELD: FieldReading = ("", "", True, True, NOTHING_REQUIRED)
"""What the plain reader is not sure of by itself, or what is not one field."""
_REPAIRED = (Finding("yaml-repaired", 3, ("`description`, taken as plain text",)),)
_NO_REMAINING: RemainingFields = ("", True, True, True, NOTHING_REQUIRED, EMPTY_TREE, ())


def parse_simple(candidate: Found) -> Skill | None:
    """A skill whose name is its folder's and whose frontmatter the plain reader knows."""
    return None if candidate.findings else SimpleSkillReader().read(*candidate[:5])


class SimpleSkillReader:
    """`parse_simple` for many skills.  Those of one root often have the same lines, and these are read once."""

    __slots__ = ("_by_folder", "_dialect", "_fields", "_rests")

    def __init__(self) -> None:
        self._dialect: Dialect | None = None
        self._by_folder = False
        self._rests: dict[bytes, RemainingFields] = {}
        """What comes of all that stands below a description, in the current dialect."""
        self._fields: dict[str, FieldReading] = {}
        """What comes of a line there and those indented below it."""

    def read(self, origin: Origin, id: str, path: str, key: StatKey, head: bytes) -> Skill | None:
        """The fields of a Found come one by one: that saves making it."""
        if origin.dialect is not self._dialect:
            self._turn_to(origin.dialect)
        repaired: tuple[Finding, ...] = ()
        # `find`, because `in` on bytes first tries its left side as a number and makes an error of that.
        if head.find(b"\0") >= 0 or not self._by_folder or not (head.isascii() or _is_text(head)):
            return None
        if not id.isascii() or " " in id or len(id) > LONGEST_NAME:
            return _parse_by_lines(Found(origin, id, path, key, head, False))
        # The folder's name is known before the file is read, so the first lines are compared, not parsed.
        opening = f"---\nname: {id}\ndescription: ".encode()
        at = len(opening)
        first = stop = head.find(b"\n", at)
        end = head.find(b"\n---\n", stop)
        if end < 0 or not head.startswith(opening) or head[10] not in _FIRST:
            return _parse_by_lines(Found(origin, id, path, key, head, False))
        # The plainest of all: one line of ordinary characters, in which the only colon is that of `description:`.
        if (
            head[at] in _FIRST
            and head[stop - 1] != _BLANK
            and head[stop + 1] != _BLANK
            and head[10:stop].translate(None, _ORDINARY) == b"\n:"
        ):
            description = head[at:stop].decode()
            tidy = "  " not in description
        else:
            parsed = _read_description(head, at, stop)
            if parsed is None:
                return _parse_by_lines(Found(origin, id, path, key, head, False))
            description, stop, repaired = parsed
            tidy = description.isascii() and "\n" not in description and "  " not in description
        # The long way reports what is too long; `end` rules that out for most without counting characters.
        if end > LONGEST_DESCRIPTION and (len(description) > LONGEST_DESCRIPTION or end > LONGEST_BLOCK):
            return None
        remaining = _NO_REMAINING
        if stop < end:
            below = head[stop : end + 1]
            learnt = self._rests.get(below) or self._learn(origin, below)
            if learnt is None:
                return None
            remaining = learnt
        hint, user, model, enabled, requires, extra, findings = remaining
        if stop > first and findings:  # they were learned below a description of one line; this one has more
            further = head.count(b"\n", first, stop)
            findings = tuple([finding._replace(line=finding.line + further) for finding in findings])
        if repaired:
            findings = (*repaired, *findings)
        return new_tuple(
            Skill, (id, id, description, path, key, origin, hint, user, model, enabled, requires, extra, findings, tidy)
        )

    def _turn_to(self, dialect: Dialect) -> None:
        """Forget what lines meant: another dialect reads the same text otherwise."""
        self._dialect = dialect
        self._by_folder = dialect.authoring.name_rule in _BY_FOLDER
        self._rests, self._fields = {}, {}

    def _learn(self, origin: Origin, below: bytes) -> RemainingFields | None:
        """What follows a description of one line; it begins and ends with a line feed."""
        text = below.decode()
        rows = text[1:-1].split("\n")
        if "\n " in text:
            rows = _with_indented(rows)
        tree: dict[str, RawValue] = {}
        unknown: list[str] = []
        decides, requires = False, NOTHING_REQUIRED
        for row in rows:
            key, value, telling, is_known, asks = self._fields.get(row) or self._learn_field(origin, row)
            tree[key] = value
            if asks is not NOTHING_REQUIRED:
                requires = asks
            if telling:
                decides = True
            elif not is_known:
                unknown.append(key)
        # A field that decides something, or a key twice: then the fields are read together, by the common rules.
        if decides or len(tree) < len(rows):
            if "" in tree or len(tree) < len(rows):
                tree = plain_yaml.read_plain(text[1:-1]) or {}
            remaining = _remaining_fields(origin, tree, "\n" + text)
        else:
            remaining = (
                "",
                True,
                True,
                True,
                requires,
                TextTree(tree),
                _note_unknown_fields(unknown, "\n" + text) if unknown else (),
            )
        if remaining is not None:
            if len(self._rests) >= _MOST_KNOWN:
                self._rests.clear()
            self._rests[below] = remaining
        return remaining

    def _learn_field(self, origin: Origin, row: str) -> FieldReading:
        tree = plain_yaml.read_plain(row)
        field: FieldReading = _NO_FIELD
        if tree and len(tree) == 1:
            authoring = origin.dialect.authoring
            requires = parse_requirements(tree, authoring) if may_require(tree) else NOTHING_REQUIRED
            key, value = tree.popitem()
            telling = _is_deciding(key, value) or any(key == field.name for field in authoring.unsupported)
            field = (key, value, telling, key in authoring.fields, requires)
        if len(self._fields) >= _MOST_KNOWN:
            self._fields.clear()
        self._fields[row] = field
        return field


def _read_description(head: bytes, at: int, stop: int) -> tuple[str, int, tuple[Finding, ...]] | None:
    """A description that is not the plainest, where its last line ends, and what was mended in it."""
    matched = _description_text(head, at)
    if matched is None:
        text = head[at:stop].decode()
        if not text or text[0] in plain_yaml.SPECIAL_CHARACTERS or not text.isprintable() or head[stop + 1] == _BLANK:
            return None
        return (text, stop, ()) if _stays_plain(text) else None
    stop = matched.end() - 1
    double, single, style, block, plain = matched.groups()
    if head[stop + 1] == _BLANK:
        return None
    if block is not None:
        return block[2:-1].decode().replace("\n  ", " " if style == b">" else "\n"), stop, ()
    if plain is not None:
        text = plain[:-1].decode()
        if "\n" in text:
            text = text.replace("\n  ", " ")
        elif ": " in text and " #" not in text:
            return text, stop, _REPAIRED
        return (text, stop, ()) if _stays_plain(text) else None
    text = (single if double is None else double).decode()
    if "\n" in text:
        if " \n" in text:
            return None
        text = text.replace("\n  ", " ")
    text = text.replace("''", "'") if double is None else text.replace('\\"', '"')
    return None if not text or text[0] == " " or text[-1] == " " else (text, stop, ())


def _stays_plain(text: str) -> bool:
    """Whether nothing in a text begins a map or a comment."""
    return ": " not in text and " #" not in text and text[-1] not in " :"


def _with_indented(rows: list[str]) -> list[str]:
    """Each field with the lines that are indented below it."""
    fields: list[str] = []
    for row in rows:
        if row[:1] == " " and fields:
            fields[-1] += "\n" + row
        else:
            fields.append(row)
    return fields


def _is_deciding(key: str, value: RawValue) -> bool:
    """Whether a field holds something to look at; most do not."""
    if key == "metadata":
        return not isinstance(value, dict) or "dialect" in value
    if key == "allowed-tools":
        return not isinstance(value, str) or flat_brackets(value) is None
    return key in _DECIDING or key in ("name", "description")


def _note_unknown_fields(unknown: list[str], block: str) -> tuple[Finding, ...]:
    """All that may be said of fields that decide nothing is that the dialect does not know them."""
    return (new_tuple(Finding, ("unknown-field", line_of_key(unknown[0], block), (", ".join(unknown),), False)),)


def _parse_by_lines(candidate: Found) -> Skill | None:
    """The same where name and description do not stand first, or hold more than ASCII."""
    head, id = candidate.head, candidate.id
    end = head.find(b"\n---\n", 3)
    if not head.startswith(b"---\n") or end < 4:
        return None
    block = head[4:end].decode()
    tree = plain_yaml.read_plain(block)
    if not tree:
        return None
    name, description = tree.pop("name", ""), tree.pop("description", "")
    if name != id or len(id) > LONGEST_NAME or not description or not isinstance(description, str):
        return None
    if len(description) > LONGEST_DESCRIPTION or description[0].isspace() or description[-1].isspace():
        return None
    remaining = _remaining_fields(candidate.origin, tree, block) if tree else _NO_REMAINING
    if remaining is None:
        return None
    tidy = clean_line(id) == id and clean_line(description) == description
    return new_tuple(Skill, (id, id, description, candidate.path, candidate.key, candidate.origin, *remaining, tidy))


def _remaining_fields(origin: Origin, tree: dict[str, RawValue] | None, block: str) -> RemainingFields | None:
    """What a tree means beside a name and a description; `block` has its keys at their lines."""
    if not tree or "name" in tree or "description" in tree or _names_dialect(tree):
        return None
    findings: list[Finding] = []
    head = ParsedHead(tree, {}, "", block)
    authoring = origin.dialect.authoring
    if not tree.keys() <= authoring.fields:
        normalize_keys(head, authoring, findings)
    return complete_skill(Found(origin, "", "", NO_STAT_KEY, b"", False), origin, head, findings, "", "")[6:13]


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError:
        return False
    return True


def _names_dialect(tree: dict[str, RawValue]) -> bool:
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and "dialect" in metadata
