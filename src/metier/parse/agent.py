"""Agents as Markdown: frontmatter says what one may use, the body who it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ..types.agent import AgentFile, Bounds
from ..types.dialect import Authoring
from ..types.text import flat
from ..types.tools import allowed_tools
from ..types.tree import Tree
from . import head_of
from .text import Refusal


def agent_of(text: str, path: str) -> AgentFile | None:
    """The agent that a file describes; None where it has no frontmatter.  Its name is the file's unless it says."""
    try:
        head = head_of(text.replace("\r\n", "\n"), Authoring(fields=frozenset()), [])
    except Refusal:
        return None
    tree = Tree(head.tree)
    written = tree.get("tools", "")
    tools = allowed_tools(written if isinstance(written, str) else tree.words("tools"))
    model = tree.text("model").strip()
    return AgentFile(
        name=flat(tree.text("name")) or path.rpartition("/")[2].removesuffix(".md"),
        description=flat(tree.text("description")),
        skills=tree.words("skills") if "skills" in tree else None,
        model="" if model == "inherit" else model,
        tools=tools if "tools" in tree else None,
        bounds=_bounds(tree),
        instructions=head.body.strip(),
        path=path,
        faults=tuple(_faults(tree)),
    )


def _faults(tree: Tree) -> Iterator[str]:
    """Limits that limit nothing."""
    usual = {one.name for one in fields(Bounds)}
    said = tree.plain().get("limits")
    if said is not None and not isinstance(said, dict):
        yield f"`limits` is not a table of {', '.join(sorted(usual))}, and limits nothing"
        return
    for key, value in (said or {}).items():
        number = str(value).strip().replace(".", "", 1)
        if key not in usual:
            yield f"`limits` has no `{key}`: there are {', '.join(sorted(usual))}"
        elif not number.isdecimal():
            yield f"`limits.{key}` is not a number, and limits nothing"


def _bounds(tree: Tree) -> Bounds:
    def number(key: str, usual: float | None) -> float | None:
        try:
            found = float(tree.text("limits", key))
        except ValueError:
            return usual
        return found if found >= 0 else usual

    usual = Bounds()
    turns, tokens = number("turns", usual.turns), number("tokens", usual.tokens)
    return Bounds(
        None if turns is None else int(turns),
        None if tokens is None else int(tokens),
        number("seconds", usual.seconds),
        number("cost", usual.cost),
    )
