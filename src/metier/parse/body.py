"""The body of a SKILL.md: everything after the closing fence, without surrounding white space."""

from __future__ import annotations

from ..types.dialect import Authoring, Dialect
from ..types.problem import Mark
from ..types.tree import Tree
from . import head_of
from .text import Refusal, text_of


def body_of(data: bytes, dialect: Dialect) -> tuple[str, tuple[Mark, ...]]:
    """The instructions in a whole file.  Bytes that are no text, or no skill, give marks, the last one fatal."""
    marks: list[Mark] = []
    try:
        text = text_of(data, True, marks)
        head = head_of(text, dialect.authoring, marks)
    except Refusal as refusal:
        return "", tuple(refusal.marks)
    return head.body.strip(), tuple(marks)


def agent_skills(text: str) -> tuple[bool, tuple[str, ...] | None]:
    """Whether an agent's file has frontmatter, and the skills it lists there: None is no list."""
    try:
        tree = Tree(head_of(text.replace("\r\n", "\n"), Authoring(fields=frozenset()), []).tree)
    except Refusal:
        return False, None
    return True, tree.words("skills") if "skills" in tree else None
