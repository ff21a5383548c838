"""Agents as Markdown: frontmatter says what one may use, the body who it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ..types.agent import AgentFile, TurnBounds
from ..types.dialect import AuthoringRules
from ..types.skill import allowed_tools
from ..types.text import clean_line
from ..types.tree import TextTree
from .document import ParseRefusal
from .reader import parse_head


def parse_agent_file(text: str, path: str) -> AgentFile | None:
    """The agent that a file describes; None where it has no frontmatter.  Its name is the file's unless it says."""
    try:
        head = parse_head(text.replace("\r\n", "\n"), AuthoringRules(fields=frozenset()), [])
    except ParseRefusal:
        return None
    tree = TextTree(head.tree)
    written = tree.get("tools", "")
    tools = allowed_tools(written if isinstance(written, str) else tree.words("tools"))
    # Claude Code writes `model: inherit` for what is the default here.
    model = tree.text("model").strip()
    return AgentFile(
        name=clean_line(tree.text("name")) or path.rpartition("/")[2].removesuffix(".md"),
        description=clean_line(tree.text("description")),
        skills=tree.words("skills") if "skills" in tree else None,
        model="" if model == "inherit" else model,
        tools=tools if "tools" in tree else None,
        bounds=_turn_bounds(tree),
        instructions=head.body.strip(),
        path=path,
        faults=tuple(_limit_faults(tree)),
    )


def _limit_faults(tree: TextTree) -> Iterator[str]:
    """Limits that have no effect, one sentence each."""
    usual = {bound.name for bound in fields(TurnBounds)}
    limits = tree.plain().get("limits")
    if limits is not None and not isinstance(limits, dict):
        yield f"`limits` must be a table of {', '.join(sorted(usual))}; it is ignored"
        return
    for key, value in (limits or {}).items():
        number = str(value).strip().replace(".", "", 1)
        if key not in usual:
            yield f"`limits.{key}` is not a limit; use one of {', '.join(sorted(usual))}"
        elif not number.isdecimal():
            yield f"`limits.{key}` must be a number; it is ignored"


def _turn_bounds(tree: TextTree) -> TurnBounds:
    def number(key: str, usual: float | None) -> float | None:
        try:
            value = float(tree.text("limits", key))
        except ValueError:
            return usual
        return value if value >= 0 else usual

    usual = TurnBounds()
    turns, tokens = number("turns", usual.turns), number("tokens", usual.tokens)
    return TurnBounds(
        None if turns is None else int(turns),
        None if tokens is None else int(tokens),
        number("seconds", usual.seconds),
        number("cost", usual.cost),
    )
