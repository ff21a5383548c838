"""A frozen tree of text: what frontmatter holds once it is read.

Scalars keep the text an author wrote; what it means is for the one who asks (`1.10` is a version, not a number).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..light_typing import TypeAlias

TreeValue: TypeAlias = "str | tuple[TreeValue, ...] | TextTree"
"""A scalar keeps its source text; a list is a tuple; a mapping is a Tree."""

RawValue: TypeAlias = "str | list[RawValue] | dict[str, RawValue]"
"""The same, as a parser builds it."""


class TextTree(Mapping[str, TreeValue]):
    """A mapping that cannot be changed.  Branches are wrapped when they are reached, so making one is free."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[str, RawValue]) -> None:
        self._raw = raw

    @property
    def raw(self) -> Mapping[str, RawValue]:
        """The branches as they were given."""
        return self._raw

    def __getitem__(self, key: str) -> TreeValue:
        return freeze_value(self.raw[key])

    def __contains__(self, key: object) -> bool:
        return key in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __hash__(self) -> int:
        # Mappings are equal in any order, so the order must not matter here either.
        return hash(tuple(sorted((key, hash(self[key])) for key in self)))

    def __repr__(self) -> str:
        return f"Tree({dict(self.raw)!r})"

    def at(self, *keys: str) -> TreeValue | None:
        """The value at a path of keys, or None where a step is missing."""
        # Walks the raw values: wrapping each branch on the way would make a tree for every step.
        node: RawValue | Mapping[str, RawValue] = self.raw
        for key in keys:
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        return freeze_value(node)

    def branch(self, *keys: str) -> TextTree:
        """The mapping at a path of keys, or an empty one."""
        value = self.at(*keys)
        return value if isinstance(value, TextTree) else EMPTY_TREE

    def text(self, *keys: str) -> str:
        """The scalar at a path of keys, or an empty string."""
        value = self.at(*keys)
        return value if isinstance(value, str) else ""

    def words(self, *keys: str) -> tuple[str, ...]:
        """The list of texts at a path of keys; a lone text is a list of one."""
        value = self.at(*keys)
        if isinstance(value, str):
            return (value,) if value.strip() else ()
        if isinstance(value, tuple):
            return tuple(item for item in value if isinstance(item, str) and item.strip())
        return ()

    def plain(self) -> dict[str, RawValue]:
        """An ordinary dictionary with the same content, for writing out."""
        return {key: thaw_value(value) for key, value in self.items()}


def freeze_value(raw: RawValue | Mapping[str, RawValue]) -> TreeValue:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, Mapping):
        return TextTree(raw)
    return tuple(freeze_value(item) for item in raw)


def thaw_value(value: TreeValue) -> RawValue:
    if isinstance(value, str):
        return value
    if isinstance(value, TextTree):
        return value.plain()
    return [thaw_value(item) for item in value]


EMPTY_TREE = TextTree({})
