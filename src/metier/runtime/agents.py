"""Agents as their files and the configuration describe them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..act.permission import KNOWN, Permission, Rule, rule_of
from ..act.rules import ALIASES
from ..types.agent import AgentFile, Bounds
from ..types.settings import Settings

if TYPE_CHECKING:
    from .library import Library


def faults_of(library: Library, file: AgentFile) -> tuple[str, ...]:
    """What an agent's file says that means nothing here: limits, tools and skills that there are not."""
    found = list(file.faults)
    for rule in rules_of(file.tools or ()):
        found += [f"`tools` names `{rule.tool}`: {no_tool(rule.tool)}"] if no_tool(rule.tool) else []
    there = {name for skill in library.skills for name in (skill.name, skill.id)}
    for name in file.skills or ():
        if name not in there:
            near = get_close_matches(name, there, 1)
            offer = f"; did you mean `{near[0]}`?" if near else ""
            found.append(f"`skills` names `{name}`, which is not here{offer}")
    return tuple(f"{file.path}: {one}" for one in found)


def no_tool(name: str, more: Iterable[str] = ()) -> str:
    """What to say of a rule's tool that there is not; nothing where there is one, or where a server may bring it."""
    known = {*KNOWN, *more}
    if name in known or "mcp" in name or any(fnmatchcase(one, name) for one in known):
        return ""
    near = get_close_matches(name, [*known, *ALIASES], 1)
    return f"there is no such tool; did you mean `{near[0]}`?" if near else "there is no such tool"


def permission_of(settings: Settings) -> Permission:
    """What the user's configuration says of tools."""

    def rules(key: str) -> tuple[Rule, ...]:
        said = settings.at(f"agent.{key}")
        return rules_of(tuple(map(str, said)) if isinstance(said, list) else ())

    return Permission(rules("allow"), rules("ask"), rules("deny"))


def rules_of(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for text in texts if (rule := rule_of(text)) is not None)


def bounds_of(settings: Settings, own: Bounds) -> Bounds:
    """How far a turn may go: as its file says, else as the configuration does."""

    def number(key: str, mine: float | None, usual: float | None) -> float | None:
        said = settings.at(f"agent.{key}")
        plain = said if isinstance(said, int | float) and not isinstance(said, bool) else usual
        return mine if mine != usual else plain

    usual = Bounds()
    turns, tokens = number("turns", own.turns, usual.turns), number("tokens", own.tokens, usual.tokens)
    return Bounds(
        None if turns is None else int(turns),
        None if tokens is None else int(tokens),
        number("seconds", own.seconds, usual.seconds),
        number("cost", own.cost, usual.cost),
    )
