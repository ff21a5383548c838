"""Skills and roots made of words, for tests that need no disk."""

from typing import Any

from metier.dialects import DIALECTS
from metier.parse.reader import parse
from metier.types.skill import Found, Origin, Skill
from metier.types.tree import TextTree

KEY = (1, 0, 0, 0)


def origin(dialect: str = "standard", root: str = "root", rank: int = 1, path: str = "/skills", **more: Any) -> Origin:
    return Origin(more.pop("source", "user"), rank, root, path, DIALECTS[dialect], **more)


def skill(name: str, description: str = "", at: Origin | None = None, **more: Any) -> Skill:
    """A skill in the folder of its own name, unless another `id` or `path` is given."""
    place = at or origin()
    id = more.pop("id", name)
    path = more.pop("path", f"{place.path}/{id}/SKILL.md")
    extra = more.pop("extra", None)
    if extra is not None:
        more["extra"] = TextTree(extra)
    return Skill(id, name, description, path, KEY, place, **more)


def read(frontmatter: str, dialect: str = "multica", id: str = "test") -> Skill:
    """A skill as its file's head is read."""
    place = origin(dialect)
    head = f"---\n{frontmatter.strip()}\n---\nBody.\n".encode()
    found = parse(Found(place, id, f"{place.path}/{id}/SKILL.md", KEY, head, True), DIALECTS)
    assert isinstance(found, Skill), found
    return found
