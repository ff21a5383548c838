"""Fixes by rule: replace a name that does not exist with the only one that can be meant.

A tool, path or placeholder is renamed if exactly one existing name is close to it.  If two are, nothing is changed and
a model gets the fault: a wrong fix by rule would be accepted with less scrutiny than one of a model.
"""

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
    """The fixed files, a description of each fix, and the faults fixed and left."""

    files: Mapping[str, str]
    what: tuple[str, ...]
    cured: tuple[SkillFault, ...]
    left: tuple[SkillFault, ...]


def apply_fixes(
    files: Mapping[str, str], skill: ObservedSkill, faults: Sequence[SkillFault], around: ToolEnvironment
) -> FixResult:
    """Fix the faults that have one clear fix.  Only prose changes, and never the frontmatter of `SKILL.md`."""
    now, descriptions, fixed, left = dict(files), [], [], []
    for fault in faults:
        fix = _find_fix(fault, skill, around)
        changed = _change_prose(now, fix[1]) if fix else now
        if fix is None or changed == now:
            left.append(fault)
            continue
        now = changed
        descriptions.append(fix[0])
        fixed.append(fault)
    return FixResult(now, tuple(descriptions), tuple(fixed), tuple(left))


def _change_prose(files: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    changed = dict(files)
    for path, text in files.items():
        if path.lower().endswith(PROSE_SUFFIXES):
            head, body = split_frontmatter(text) if path == SKILL_FILE else ("", text)
            changed[path] = head + change(body)
    return changed


def _find_fix(
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
            # The text has the bare name: keep that form.
            if "/" not in about and path.startswith("scripts/"):
                path = path.removeprefix("scripts/")
            description = f"the file is `{path}`, not `{about}`"
            return (description, lambda text: texts.rename_path(text, about, path)) if path else None
        case "placeholder":
            name = texts.misspelled_placeholders(f"${about}", skill.placeholders).get(about, "")
            description = f"the placeholder is `${name}`, not `${about}`"
            return (description, lambda text: texts.rename_placeholder(text, about, name)) if name else None
    return None


def guess_tool(name: str, tools: frozenset[str]) -> str:
    """The tool meant by another product's name or by a misspelled one; empty if there is no single one."""
    tool = TOOL_ALIASES.get(name, "")
    # The same tool, as some dialects call it.
    if tool == "skill_use" and tool not in tools:
        tool = "run_skill"
    if tool in tools:
        return tool
    near = get_close_matches(name.lower(), sorted(tools), 2, 0.8)
    return near[0] if len(near) == 1 else ""
