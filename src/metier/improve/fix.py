"""Fixes that need no model: what stands in the text is not there, and one thing that is there must be meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from ..agent.permissions import TOOL_ALIASES
from ..types.improvement import SkillFault
from . import texts
from .notice import ObservedSkill, ToolEnvironment
from .texts import PROSE_SUFFIXES, SKILL_FILE, split_frontmatter


class FixResult(NamedTuple):
    """The files as they should be, what was done, and what was left for somebody else."""

    files: Mapping[str, str]
    what: tuple[str, ...]
    cured: tuple[SkillFault, ...]
    left: tuple[SkillFault, ...]


def apply_fixes(
    files: Mapping[str, str], skill: ObservedSkill, faults: Sequence[SkillFault], around: ToolEnvironment
) -> FixResult:
    """Cure what has one clear cure.  Only prose is changed, and of `SKILL.md` never the frontmatter."""
    now, descriptions, cured, uncured = dict(files), [], [], []
    for fault in faults:
        cure = _find_cure(fault, skill, around)
        changed = _change_prose(now, cure[1]) if cure else now
        if cure is None or changed == now:
            uncured.append(fault)
            continue
        now = changed
        descriptions.append(cure[0])
        cured.append(fault)
    return FixResult(now, tuple(descriptions), tuple(cured), tuple(uncured))


def _change_prose(files: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    changed = dict(files)
    for path, text in files.items():
        if path.lower().endswith(PROSE_SUFFIXES):
            head, body = split_frontmatter(text) if path == SKILL_FILE else ("", text)
            changed[path] = head + change(body)
    return changed


def _find_cure(
    fault: SkillFault, skill: ObservedSkill, around: ToolEnvironment
) -> tuple[str, Callable[[str], str]] | None:
    about = fault.about
    match fault.kind:
        case "tool-name":
            tool = guess_tool(about, around.tools)
            description = f"the tool is called `{tool}`, not `{about}`"
            return (description, lambda text: texts.rename_tool(text, about, tool)) if tool else None
        case "missing-script" | "missing-file":
            path = texts.guess_path(about, skill.files)
            if "/" not in about and path.startswith("scripts/"):  # a script is also called by its name alone
                path = path.removeprefix("scripts/")
            description = f"the file is `{path}`, not `{about}`"
            return (description, lambda text: texts.rename_path(text, about, path)) if path else None
        case "placeholder":
            name = texts.misspelled_placeholders(f"${about}", skill.placeholders).get(about, "")
            description = f"the placeholder is `${name}`, not `${about}`"
            return (description, lambda text: texts.rename_placeholder(text, about, name)) if name else None
    return None


def guess_tool(name: str, tools: frozenset[str]) -> str:
    """The tool that is meant by a name from elsewhere, or by one that is spelled a little otherwise."""
    tool = TOOL_ALIASES.get(name, "")
    if tool == "skill_use" and tool not in tools:
        tool = "run_skill"
    if tool in tools:
        return tool
    near = get_close_matches(name.lower(), sorted(tools), 2, 0.8)
    return near[0] if len(near) == 1 else ""
