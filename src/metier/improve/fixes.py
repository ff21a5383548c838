"""Fixes that need no model: what stands in the text is not there, and one thing that is there must be meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from ..act.rules import ALIASES
from ..types.proposal import Fault
from . import mentions
from .notice import Around, Known
from .texts import PROSE, SKILL, parted


class Fixed(NamedTuple):
    """The files as they should be, what was done, and what was left for somebody else."""

    files: Mapping[str, str]
    what: tuple[str, ...]
    cured: tuple[Fault, ...]
    left: tuple[Fault, ...]


def fix(files: Mapping[str, str], skill: Known, faults: Sequence[Fault], around: Around) -> Fixed:
    """Cure what has one clear cure.  Only prose is changed, and of `SKILL.md` never the frontmatter."""
    now, what, cured, left = dict(files), [], [], []
    for fault in faults:
        cure = _cure(fault, skill, around)
        changed = _each(now, cure[1]) if cure else now
        if cure is None or changed == now:
            left.append(fault)
            continue
        now = changed
        what.append(cure[0])
        cured.append(fault)
    return Fixed(now, tuple(what), tuple(cured), tuple(left))


def _each(files: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    changed = dict(files)
    for path, text in files.items():
        if path.lower().endswith(PROSE):
            head, body = parted(text) if path == SKILL else ("", text)
            changed[path] = head + change(body)
    return changed


def _cure(fault: Fault, skill: Known, around: Around) -> tuple[str, Callable[[str], str]] | None:
    about = fault.about
    match fault.kind:
        case "tool-name":
            tool = meant_tool(about, around.tools)
            words = f"the tool is called `{tool}`, not `{about}`"
            return (words, lambda text: mentions.renamed_tool(text, about, tool)) if tool else None
        case "missing-script" | "missing-file":
            path = mentions.meant_path(about, skill.files)
            if "/" not in about and path.startswith("scripts/"):  # a script is also called by its name alone
                path = path.removeprefix("scripts/")
            words = f"the file is `{path}`, not `{about}`"
            return (words, lambda text: mentions.renamed_path(text, about, path)) if path else None
        case "placeholder":
            name = mentions.slips(f"${about}", skill.placeholders).get(about, "")
            words = f"the placeholder is `${name}`, not `${about}`"
            return (words, lambda text: mentions.renamed_placeholder(text, about, name)) if name else None
    return None


def meant_tool(name: str, tools: frozenset[str]) -> str:
    """The tool that is meant by a name from elsewhere, or by one that is spelled a little otherwise."""
    known = ALIASES.get(name, "")
    if known == "skill_use" and known not in tools:
        known = "run_skill"
    if known in tools:
        return known
    near = get_close_matches(name.lower(), sorted(tools), 2, 0.8)
    return near[0] if len(near) == 1 else ""
