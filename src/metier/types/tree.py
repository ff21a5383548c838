"""A frozen tree of text: what frontmatter and settings hold once they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, Union

Value: TypeAlias = Union[str, tuple["Value", ...], "Tree"]
"""A scalar keeps its source text; a list is a tuple; a mapping is a Tree."""

Raw: TypeAlias = Union[str, "list[Raw]", "dict[str, Raw]"]
"""The same, as a parser builds it."""


class Tree(Mapping[str, Value]):
    """A mapping that cannot be changed.  Branches are wrapped when they are reached, so making one is free."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[str, Raw] | str = "") -> None:
        self._raw = raw

    @property
    def raw(self) -> Mapping[str, Raw]:
        """The branches as they were given; JSON text is read when it is first asked for."""
        if isinstance(self._raw, str):
            if not self._raw:
                return {}
            from json import loads  # most trees are never opened

            try:
                read: dict[str, Raw] = loads(self._raw)
            except ValueError:  # a damaged index: what it kept is not to be had
                read = {}
            self._raw = read
            return read
        return self._raw

    def __getitem__(self, key: str) -> Value:
        return freeze(self.raw[key])

    def __contains__(self, key: object) -> bool:
        return key in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __hash__(self) -> int:
        return hash(tuple(sorted((key, hash(self[key])) for key in self)))

    def __repr__(self) -> str:
        return f"Tree({dict(self.raw)!r})"

    def at(self, *keys: str) -> Value | None:
        """The value at a path of keys, or None where a step is missing."""
        here: Raw | Mapping[str, Raw] = self.raw
        for key in keys:
            if not isinstance(here, dict) or key not in here:
                return None
            here = here[key]
        return freeze(here)

    def branch(self, *keys: str) -> Tree:
        """The mapping at a path of keys, or an empty one."""
        found = self.at(*keys)
        return found if isinstance(found, Tree) else EMPTY

    def text(self, *keys: str) -> str:
        """The scalar at a path of keys, or an empty string."""
        found = self.at(*keys)
        return found if isinstance(found, str) else ""

    def words(self, *keys: str) -> tuple[str, ...]:
        """The list of texts at a path of keys; a lone text is a list of one."""
        found = self.at(*keys)
        if isinstance(found, str):
            return (found,) if found.strip() else ()
        if isinstance(found, tuple):
            return tuple(item for item in found if isinstance(item, str) and item.strip())
        return ()

    def json(self) -> str:
        """The tree as JSON text."""
        from json import dumps

        return self._raw if isinstance(self._raw, str) else dumps(self.plain(), ensure_ascii=False)

    def plain(self) -> dict[str, Raw]:
        """An ordinary dictionary with the same content, for writing out."""
        return {key: thaw(value) for key, value in self.items()}


def freeze(raw: Raw | Mapping[str, Raw]) -> Value:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, Mapping):
        return Tree(raw)
    return tuple(freeze(item) for item in raw)


def thaw(value: Value) -> Raw:
    if isinstance(value, str):
        return value
    if isinstance(value, Tree):
        return value.plain()
    return [thaw(item) for item in value]


EMPTY = Tree()
