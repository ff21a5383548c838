"""The short way for the many plain skills: from the head's bytes to a Skill, with nothing in between.

It gives what the long way gives, or None; a property test holds the two together.
"""

from __future__ import annotations

from ..types.problem import Mark
from ..types.skill import Found, Skill
from ..types.tree import Raw
from . import lines
from .fields import LONGEST_DESCRIPTION, LONGEST_NAME, Head, complete, spell

_BY_FOLDER = frozenset({"free", "standard"})
"""Rules that a name of at most 64 characters meets by being its folder's name."""


def simple(found: Found) -> Skill | None:
    """A skill in plain ASCII whose name is its folder's and whose frontmatter the plain reader knows."""
    head, id, origin = found.head, found.id, found.origin
    if not head.startswith(b"---\n") or not head.isascii() or b"\r" in head or b"\0" in head:
        return None
    end = head.find(b"\n---", 3)
    if end < 4 or head[end + 4 : end + 5] != b"\n" or found.marks:
        return None
    block = head[4:end].decode("ascii")
    tree = lines.read(block)
    authoring = origin.dialect.authoring
    if not tree or authoring.name_rule not in _BY_FOLDER or _names_dialect(tree):
        return None
    name, description = tree.pop("name", ""), tree.pop("description", "")
    if name != id or len(id) > LONGEST_NAME or not description or not isinstance(description, str):
        return None
    if len(description) > LONGEST_DESCRIPTION or description[0] <= " " or description[-1] <= " ":
        return None
    if not tree:
        return Skill(id, id, description, found.path, found.key, origin)
    marks: list[Mark] = []
    whole = Head(tree, {}, "", block)
    if not tree.keys() <= authoring.fields:
        spell(whole, authoring, marks)
    return complete(found, origin, whole, marks, id, description)


def _names_dialect(tree: dict[str, Raw]) -> bool:
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and "dialect" in metadata
