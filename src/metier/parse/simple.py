"""The short way for the many plain skills: from the head's bytes to a Skill, with nothing in between.

It gives what the long way gives, or None; a property test holds the two together.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..types.dialect import Authoring
from ..types.problem import Mark
from ..types.skill import NOTHING_REQUIRED, Found, Skill
from ..types.tree import EMPTY, Raw, Tree, Unread
from . import events, lines
from .events import LONGEST
from .fields import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    SPELLINGS,
    Head,
    complete,
    flat_brackets,
    line_of,
    spell,
)
from .needs import TELLING, may_require

_TELLING = frozenset(
    {"user-invocable", "disable-model-invocation", "argument-hint", "compatibility", "config", "arguments"}
)
"""Fields that decide something, whatever they hold."""
_DECIDING = frozenset({*_TELLING, *SPELLINGS, "name", "description"})
_SPELLED = frozenset(SPELLINGS)
_BY_FOLDER = frozenset({"free", "standard"})
"""Rules that a name of at most 64 characters meets by being its folder's name."""

_start = re.compile(
    rb"---\nname: ([A-Za-z0-9][A-Za-z0-9-]*)\ndescription: "
    rb"(?:([A-Za-z0-9][ -~]*)\n|\"([ !#-\[\]-~]*)\"\n|'([ -&(-~]*)'\n"
    rb"|([|>])-?\n((?:  [!-~](?:[ -~]*[!-~])?\n)+))"
).match
"""A name, then a description that is plain, quoted or a block of evenly indented lines, all in ASCII."""
_KEY = rb"[A-Za-z_][A-Za-z0-9_-]{0,63}:"
_WORDS = rb"[A-Za-z0-9][A-Za-z0-9 ,./()@_*+-]*"
_VALUE = rb"(?:" + _WORDS + rb"(?::[A-Za-z0-9/*][A-Za-z0-9 ,./()@_*+-]*)*|\"[A-Za-z0-9 ,./()@_*+:-]*\")"
_more = re.compile(
    rb"(?:" + _KEY + rb"(?: (?:" + _VALUE + rb"|\[[A-Za-z0-9][A-Za-z0-9_-]*(?:, ?[A-Za-z0-9][A-Za-z0-9_-]*)*\])\n"
    rb"|\n(?:(?:  - " + _WORDS + rb"\n)+|(?:  " + _KEY + rb" " + _VALUE + rb"\n)+)))+---\n"
).match
"""Further frontmatter that can wait: texts, lists and maps of texts that the plain reader is sure of."""
_keys = re.compile(rb"(" + _KEY + rb")[^\n]*\n(?: [^\n]*\n)*").findall
_inner_keys = re.compile(rb"\n  (" + _KEY + rb")").findall
_even_tools = re.compile(rb"\nallowed-tools: [^()\n]*(?:\([^()\n]*\)[^()\n]*)*\n").search
new = tuple.__new__


def simple(found: Found) -> Skill | None:
    """A skill whose name is its folder's and whose frontmatter the plain reader knows."""
    origin, id, path, key, head, _, marks, _ = found
    # `find`, because `in` on bytes first tries its left side as a number and makes an error of that.
    if head.find(b"\0") >= 0 or marks or not (head.isascii() or _is_text(head)):
        return None
    begun = _start(head)
    if begun is None:
        return _by_lines(found)
    authoring = origin.dialect.authoring
    description = _description(begun)
    at = begun.end()
    if description is None or head[at : at + 1] == b" ":
        return _by_lines(found)
    if begun[1].decode("ascii") != id or len(description) > LONGEST_DESCRIPTION:
        return None
    if len(id) > LONGEST_NAME or authoring.name_rule not in _BY_FOLDER:
        return None
    rest: Unread | Tree = EMPTY
    noted: tuple[Mark, ...] = ()
    if not head.startswith(b"---\n", at):
        more = _more(head, at)
        if more is None or more.end() > LONGEST:
            return _beyond(found, description, at)
        lightly = _lightly(head, more.span(), authoring)
        if lightly is None:
            return _at_once(found, description, head[at : more.end() - 5].decode("ascii"), at)
        rest, noted = lightly
    tidy = "  " not in description and "\n" not in description  # and the name is plain ASCII, or we were not here
    return new(
        Skill, (id, id, description, path, key, origin, "", True, True, True, NOTHING_REQUIRED, rest, noted, tidy)
    )


def _beyond(found: Found, description: str, at: int) -> Skill | None:
    """The same where what follows the description is not of the simplest kind."""
    head = found.head
    end = head.find(b"\n---", at - 1)
    if end < at or end > LONGEST or head[end + 4 : end + 5] != b"\n":
        return None
    return _at_once(found, description, head[at:end].decode(), at)


def _surely(source: str) -> dict[str, Raw]:
    """What waited, read at last: by the plain reader, or by YAML should that one not be sure after all."""
    tree = lines.read(source)
    return tree if tree is not None else events.read(source).tree


def _made(found: Found, description: str, rest: object, noted: tuple[Mark, ...]) -> Skill:
    id = found[1]
    tidy = (
        "  " not in description
        and "\n" not in description
        and description.isascii()
        and id.isascii()
        and "  " not in id
    )
    return new(
        Skill,
        (
            id, id, description, found[2], found[3], found[0], "", True, True, True, NOTHING_REQUIRED, rest, noted,
            tidy,
        ),
    )  # fmt: skip


def _description(begun: re.Match[bytes]) -> str | None:
    """The description, unless YAML might read it otherwise."""
    _, plain, double, single, style, block = begun.groups()
    if plain is not None:
        text = plain.decode("ascii")
        if ":" in text and (": " in text or text[-1] == ":"):
            return None
        return None if text[-1] == " " or ("#" in text and " #" in text) else text
    if block is None:
        text = (double if single is None else single).decode("ascii")
        return text if text and text[0] != " " and text[-1] != " " else None
    text = block[2:-1].decode("ascii")
    return text.replace("\n  ", " " if style == b">" else "\n")


def _lightly(head: bytes, span: tuple[int, int], authoring: Authoring) -> tuple[Unread, tuple[Mark, ...]] | None:
    """Further frontmatter that decides nothing: kept as it is written, and read when asked for."""
    start, end = span
    keys = tuple(_keys(head, start, end - 4))
    shape = (keys, authoring.fields)
    known = _shapes.get(shape)
    if known is None:
        known = _shape(keys, authoring)
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        _shapes[shape] = known
    waits, unknown, first, tools = known
    if not waits or (tools and not _even_tools(head, start - 1, end)):
        return None
    source = head[start : end - 5].decode("ascii")
    lines_each = source.count("\n") + 1 == len(keys)
    if not lines_each and not _inner_wait(_inner_keys(head, start, end)):
        return None
    if not unknown:
        return new(Unread, (source, _surely)), ()
    at = start - 1 if lines_each else head.index(b"\n" + keys[first], start - 1)
    line = head.count(b"\n", 0, at) + 2 + (first if lines_each else 0)
    return new(Unread, (source, _surely)), (new(Mark, ("unknown-field", line, unknown, False)),)


class _Shape(NamedTuple):
    """What a set of keys means to a dialect; few sets occur, and those often."""

    waits: bool
    unknown: tuple[str, ...]
    first: int
    tools: bool


_shapes: dict[tuple[tuple[bytes, ...], frozenset[str]], _Shape] = {}
_MOST_SHAPES = 4_096


def _shape(keys: tuple[bytes, ...], authoring: Authoring) -> _Shape:
    names = [key[:-1].decode("ascii") for key in keys]
    unknown = [name for name in names if name not in authoring.fields]
    waits = _DECIDING.isdisjoint(names) and len(set(names)) == len(names)
    first = names.index(unknown[0]) if unknown else 0
    return _Shape(waits, (", ".join(unknown),) if unknown else (), first, "allowed-tools" in names)


def _inner_wait(keys: list[bytes]) -> bool:
    """Whether maps inside hold no key twice and nothing that decides."""
    return len(set(keys)) == len(keys) and _TELLING_INSIDE.isdisjoint(keys)


_TELLING_INSIDE = frozenset(key.encode() + b":" for key in (*TELLING, "dialect"))


def _at_once(found: Found, description: str, source: str, start: int) -> Skill | None:
    """The same, read now because it decides something."""
    tree = lines.read(source)
    if not tree or "name" in tree or "description" in tree:
        return None
    return _with_more(found, tree, description, "\n" * found.head.count(b"\n", 4, start) + source)


def _by_lines(found: Found) -> Skill | None:
    """The same where name and description do not stand first, or hold more than ASCII."""
    head, id = found.head, found.id
    end = head.find(b"\n---", 3)
    if not head.startswith(b"---\n") or end < 4 or head[end + 4 : end + 5] != b"\n":
        return None
    block = head[4:end].decode()
    tree = lines.read(block)
    if not tree or found.origin.dialect.authoring.name_rule not in _BY_FOLDER:
        return None
    name, description = tree.pop("name", ""), tree.pop("description", "")
    if name != id or len(id) > LONGEST_NAME or not description or not isinstance(description, str):
        return None
    if len(description) > LONGEST_DESCRIPTION or description[0].isspace() or description[-1].isspace():
        return None
    return _with_more(found, tree, description, block)


def _with_more(found: Found, tree: dict[str, Raw], description: str, block: str) -> Skill | None:
    """A skill that has frontmatter beside its name and description; `block` has it at the same lines."""
    authoring = found.origin.dialect.authoring
    if "metadata" in tree and _names_dialect(tree):
        return None
    fields = authoring.fields
    unknown = [name for name in tree if name not in fields]
    if not _TELLING.isdisjoint(tree) or not _SPELLED.isdisjoint(unknown) or _decides(tree):
        marks: list[Mark] = []
        whole = Head(tree, {}, "", block)
        if unknown:
            spell(whole, authoring, marks)
        return complete(found, found.origin, whole, marks, found.id, description)
    noted = (new(Mark, ("unknown-field", line_of(unknown[0], block), (", ".join(unknown),), False)),) if unknown else ()
    return _made(found, description, tree or EMPTY, noted)


def _decides(tree: dict[str, Raw]) -> bool:
    """Whether tools or metadata hold something to look at; most do not."""
    tools = tree.get("allowed-tools")
    if tools is not None and not (isinstance(tools, str) and ("(" not in tools or flat_brackets(tools))):
        return True
    return "metadata" in tree and (not isinstance(tree["metadata"], dict) or may_require(tree))


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError:
        return False
    return True


def _names_dialect(tree: dict[str, Raw]) -> bool:
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and "dialect" in metadata
