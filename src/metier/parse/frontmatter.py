"""The YAML reader: frontmatter as a tree of text, built from YAML events, never from YAML objects.

Scalars keep the text an author wrote (`version: 1.10` stays `1.10`), and nothing is constructed, so a file can neither
run code nor expand.  Tags, anchors, aliases and merge keys are refused: no skill needs them, products differ in what
they mean, and aliases are how a small file becomes a huge one.
"""

from __future__ import annotations

import math
import re

from ..light_typing import Any, NamedTuple
from ..types.tree import RawValue
from .document import split_frontmatter

DEEPEST = 64
LONGEST_BLOCK = 65_536
"""Characters of frontmatter; far more than any real skill has."""
_OTHER_ENDS = "\x85\u2028\u2029"
_MOST_TWICE, _MOST_LINES = 20, 200
"""Duplicate keys that are reported, and keys whose lines are computed."""
_CURE = "put the value in quotes, and indent with spaces"


class BadYaml(Exception):
    def __init__(self, reason: str, line: int, forbidden: bool = False, cure: str = _CURE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.forbidden = forbidden
        """Well-formed YAML that metier refuses."""
        self.cure = cure


class FrontmatterReading(NamedTuple):
    """What a block holds; the root is a mapping unless `kind` says otherwise."""

    tree: dict[str, RawValue]
    kind: str = ""
    twice: tuple[tuple[str, int], ...] = ()
    lines: dict[str, int] = {}  # noqa: RUF012
    """The line of each top-level key, counted from 0 within the block."""
    sources: dict[str, str] = {}  # noqa: RUF012
    """The source text of top-level values that are lists or maps."""
    flow: int | None = None
    """The line of the first list or map in brackets, counted likewise."""


def read_yaml(block: str) -> FrontmatterReading:
    if len(block) > LONGEST_BLOCK:
        raise BadYaml(f"it is longer than {LONGEST_BLOCK} characters", 0, True, "move long texts to the body")
    builder = _TreeBuilder(block)
    for event in _yaml_events(block):
        builder.take(event)
    return builder.reading()


def _yaml_events(block: str) -> Any:
    import yaml  # most skills never need it, and it takes longer to import than they take to list

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        yield from yaml.parse(block, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = (
            min(_line_of_mark(block, mark), block.count("\n")) if mark else 0
        )  # what is missing at the end is on its line
        raise BadYaml(error.problem or "it does not parse", line) from error
    except yaml.reader.ReaderError as error:
        raise _bad_character(block, error) from error
    except yaml.YAMLError as error:
        raise BadYaml(str(error).split("\n")[0], 0) from error


def _line_of_mark(block: str, mark: Any) -> int:
    """The line of a mark, counted as files count: YAML ends lines at some other characters too."""
    line: int = mark.line
    if not line or not any(end in block for end in _OTHER_ENDS):
        return line
    return block.count("\n", 0, mark.index)


def _bad_character(block: str, error: Any) -> BadYaml:
    """A character YAML does not allow; the C reader counts bytes, the other one characters."""
    character = error.character
    if isinstance(character, str):
        number, line = ord(character[:1] or "\0"), block.count("\n", 0, error.position)
    else:
        number, line = character, block.encode().count(b"\n", 0, error.position)
    return BadYaml(f"the character U+{number:04X} is not allowed", line, cure="remove it, or run `metier lint --fix`")


def _too_deep(line: int) -> BadYaml:
    return BadYaml(f"it is nested more than {DEEPEST} deep", line, True, "write it with fewer levels")


class _TreeBuilder:
    """Builds a tree of text from events, without recursion.

    Events come one by one, so what is refused is refused before the rest is read: depth bounds time too.
    """

    def __init__(self, block: str) -> None:
        self.block = block
        self.stack: list[Any] = []
        self.keys: list[str | None] = []
        self.root: Any = None
        self.documents = 0
        self.twice: list[tuple[str, int]] = []
        self.lines: dict[str, int] = {}
        self.sources: dict[str, str] = {}
        self.started = 0
        self.flow: int | None = None

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                cure = "remove the line that begins with `---` or `...`"
                raise BadYaml("it holds a second document", self._line(event), True, cure)
        elif name == "AliasEvent":
            raise BadYaml("aliases (`*name`) are refused", self._line(event), forbidden=True)
        elif name == "ScalarEvent":
            self._guard(event)
            # The line feed at the end of a block scalar comes from its notation, not from what the author means.
            text = event.value
            self._put(text.rstrip("\n") if event.style in ("|", ">") else text, event)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self._guard(event)
            self._open({} if name == "MappingStartEvent" else [], event)
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            self._close(event)

    def _line(self, event: Any) -> int:
        return _line_of_mark(self.block, event.start_mark)

    def _guard(self, event: Any) -> None:
        if event.anchor is not None:
            raise BadYaml("anchors (`&name`) are refused", self._line(event), forbidden=True)
        if event.tag is not None:
            raise BadYaml(f"tags (`{event.tag[:40]}`) are refused", self._line(event), forbidden=True)

    def _open(self, container: Any, event: Any) -> None:
        if self._waiting_for_key():
            raise BadYaml("a key must be text", self._line(event))
        # The source of a top-level value is kept: `argument-hint: [file]` is a text that looks like a list.
        if len(self.stack) == 1 and isinstance(self.stack[0], dict):
            self.started = event.start_mark.index
        if self.flow is None and event.flow_style:
            self.flow = self._line(event)
        if len(self.stack) >= DEEPEST:
            raise _too_deep(self._line(event))
        self.stack.append(container)
        self.keys.append(None)

    def _close(self, event: Any) -> None:
        container = self.stack.pop()
        self.keys.pop()
        if len(self.stack) == 1 and isinstance(self.stack[0], dict):
            key = self.keys[0]
            if key is not None:
                self.sources[key] = self.block[self.started : event.end_mark.index].strip()
        if self.stack:
            self._attach(container)
        else:
            self.root = container

    def _put(self, text: str, event: Any) -> None:
        if not self.stack:
            self.root = text
            return
        if self._waiting_for_key():
            self._key(text, event)
            return
        self._attach(text)

    def _key(self, text: str, event: Any) -> None:
        if text == "<<" and not event.style:
            raise BadYaml("merge keys (`<<`) are refused", self._line(event), True, "write the keys out")
        if text in self.stack[-1] and len(self.twice) < _MOST_TWICE:
            self.twice.append((text, self._line(event)))
        if len(self.stack) == 1 and len(self.lines) < _MOST_LINES:
            self.lines[text] = self._line(event)
        self.keys[-1] = text

    def _attach(self, value: Any) -> None:
        holder = self.stack[-1]
        if isinstance(holder, list):
            holder.append(value)
            return
        key = self.keys[-1]
        holder[key] = value
        self.keys[-1] = None

    def _waiting_for_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1], dict) and self.keys[-1] is None

    def reading(self) -> FrontmatterReading:
        if isinstance(self.root, dict):
            return FrontmatterReading(self.root, "", tuple(self.twice), self.lines, self.sources, self.flow)
        kind = "empty" if self.root is None or self.root == "" else "a list" if isinstance(self.root, list) else "text"
        return FrontmatterReading({}, kind)


def has_c_reader() -> bool:
    import yaml

    return hasattr(yaml, "CBaseLoader")


# --- Frontmatter with types, for skills that are exported as JSON ---

# The core schema of YAML 1.2.  Numbers are bounded: Python refuses to convert longer ones.
_CORE: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"(?:null|Null|NULL|~|)"), lambda text: None),
    (re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,4000}"), int),
    (re.compile(r"0o[0-7]{1,4000}"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]{1,4000}"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
)


def read_typed_frontmatter(text: str) -> dict[str, Any] | None:
    """The frontmatter with JSON types; None where there is none, or where YAML and JSON would differ."""
    block = split_frontmatter(text).block
    if block is None:
        return None
    try:
        reading = read_yaml(block)  # no anchors, no tags, bounded in depth and length
    except BadYaml:
        return None
    if reading.kind or reading.twice:
        return None
    import yaml

    read: dict[str, Any] = _typed_value(yaml.compose(block, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    return read


def _typed_value(node: Any) -> Any:
    if isinstance(node.value, str):
        return node.value if node.style else _typed_scalar(node.value)
    if node.id == "sequence":
        return [_typed_value(item) for item in node.value]
    return {key.value: _typed_value(item) for key, item in node.value}


def _typed_scalar(text: str) -> Any:
    for pattern, typed in _CORE:
        if pattern.fullmatch(text):
            value = typed(text)
            return text if isinstance(value, float) and not math.isfinite(value) else value
    return text
