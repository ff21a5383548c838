"""Fixes by rule: put right what has exactly one reading.

A name is replaced if it can only be another one misspelled (`diagnose/typos.py`), an option if the skill's own script
has only one that it can be, a command if the run itself showed the corrected one.  If there are two readings, nothing
is changed: a wrong fix by rule would be accepted with less scrutiny than one of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..agent.permissions import TOOL_ALIASES
from ..diagnose import texts
from ..diagnose.demonstration import BOLD_WORDS, ScriptWords, WordChange, apply_changes, demonstrated_changes
from ..diagnose.notice import ObservedSkill, ToolEnvironment
from ..diagnose.scripts import find_own_script, interpreter_of, options_of, values_of
from ..diagnose.steps import INTERPRETERS
from ..diagnose.texts import PROSE_SUFFIXES, SKILL_FILE, split_frontmatter
from ..diagnose.typos import is_typo, name_words, only_reading, path_reading
from ..types.improvement import SkillFault


class FixResult(NamedTuple):
    """The fixed files, a description of each fix, and the faults fixed and left."""

    files: Mapping[str, str]
    what: tuple[str, ...]
    cured: tuple[SkillFault, ...]
    left: tuple[SkillFault, ...]
    calls: Mapping[tuple[str, str, str], str] = {}
    """What the fix makes of the call that failed, by the key of the fault; missing where it makes none of it."""


def apply_fixes(
    files: Mapping[str, str], skill: ObservedSkill, faults: Sequence[SkillFault], around: ToolEnvironment
) -> FixResult:
    """Fix the faults that have one clear fix.  Only prose changes, and never the frontmatter of `SKILL.md`."""
    now, descriptions, fixed, left = dict(files), [], [], []
    calls: dict[tuple[str, str, str], str] = {}
    for fault in faults:
        fix = _find_fix(fault, skill, around)
        changed = _change_prose(now, fix.change) if fix else now
        if fix is None or changed == now:
            left.append(fault)
            continue
        now = changed
        descriptions.append(fix.words)
        fixed.append(fault)
        calls |= {fault.key: fix.call} if fix.call else {}
    return FixResult(now, tuple(descriptions), tuple(fixed), tuple(left), calls)


def _change_prose(files: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    changed = dict(files)
    for path, text in files.items():
        if path.lower().endswith(PROSE_SUFFIXES):
            head, body = split_frontmatter(text) if path == SKILL_FILE else ("", text)
            changed[path] = head + change(body)
    return changed


class TextFix(NamedTuple):
    """A fix in words, what it makes of a text, and what it makes of the call that failed."""

    words: str
    change: Callable[[str], str]
    call: str = ""


def _find_fix(fault: SkillFault, skill: ObservedSkill, around: ToolEnvironment) -> TextFix | None:
    about = fault.about
    match fault.kind:
        case "tool-name":
            tool = guess_tool(about, around.tools)
            words = f"the tool is called `{tool}`, not `{about}`"
            return TextFix(words, lambda text: texts.rename_tool(text, about, tool)) if tool else None
        case "missing-script" | "missing-file":
            return _path_fix(fault, skill)
        case "placeholder":
            name = texts.misspelled_placeholders(f"${about}", skill.placeholders).get(about, "")
            words = f"the placeholder is `${name}`, not `${about}`"
            return TextFix(words, lambda text: texts.rename_placeholder(text, about, name)) if name else None
        case "usage":
            return _usage_fix(fault, skill)
        case "start":
            return _start_fix(fault, skill)
        case "corrected":
            return _demonstrated_fix(fault, skill)
    return None


def _path_fix(fault: SkillFault, skill: ObservedSkill) -> TextFix | None:
    about = fault.about
    # A script without its folder is one in `scripts`, which is where the tool for scripts looks.
    bare = "/" not in about and fault.kind == "missing-script"
    path = path_reading(f"scripts/{about}" if bare else about, skill.files)
    if not path or _is_another_word(about, path, skill):
        return None
    new = path.removeprefix("scripts/") if bare else path
    call = fault.call.replace(about, new)
    return TextFix(f"the file is `{new}`, not `{about}`", lambda text: texts.rename_path(text, about, new), call)


def _is_another_word(wrong: str, right: str, skill: ObservedSkill) -> bool:
    """Whether the text uses the differing word elsewhere too: then it is meant, and the file is missing."""
    words = [name_words(path.rpartition("/")[2].partition(".")[0]) for path in (wrong, right)]
    different = set(words[0]) - set(words[1])
    plain = texts.rename_path(skill.text, wrong, " ")
    used = {word for part in plain.split() for word in name_words(part)}
    # With or without an `s` it is the same word.
    return any(word in used and word.rstrip("s") not in {other.rstrip("s") for other in words[1]} for word in different)


def _usage_fix(fault: SkillFault, skill: ObservedSkill) -> TextFix | None:
    path, _, wrong = fault.about.partition(" ")
    source = skill.sources.get(path, "")
    right = (
        option_reading(wrong, options_of(source)) if wrong.startswith("-") else only_reading(wrong, values_of(source))
    )
    words = fault.call.split()
    changes = [
        WordChange(at, word, right + word[len(wrong) :])
        for at, word in enumerate(words)
        if word == wrong or word.startswith(f"{wrong}=")
    ]
    if not right or not changes:
        return None
    return _word_fix(f"`{path}` has `{right}`, not `{wrong}`", words, changes, skill)


def option_reading(wrong: str, options: frozenset[str]) -> str:
    """The one option that a wrong one can mean: misspelled, shortened, or the long form of a letter."""
    safe = [option for option in options if not set(name_words(option)) & BOLD_WORDS and option.startswith("--")]
    bare = wrong.lstrip("-")
    typos = [option for option in safe if is_typo(bare, option.lstrip("-"))]
    shortened = [option for option in safe if _is_shortened(bare, option.lstrip("-"))]
    for fitting in (typos, shortened):
        if fitting:
            return fitting[0] if len(fitting) == 1 else ""
    return ""


def _is_shortened(short: str, long: str) -> bool:
    """Whether a name has letters of another in their order, with its first one: `fmt`, `format`."""
    letters = iter(long)
    return short[:1] == long[:1] and len(short) < len(long) and all(letter in letters for letter in short)


def _start_fix(fault: SkillFault, skill: ObservedSkill) -> TextFix | None:
    words = fault.call.split()
    program = interpreter_of(fault.about, skill.sources.get(fault.about, ""))
    named = words[0] if words and words[0] in INTERPRETERS else ""
    if not program or named == program:
        return None
    description = f"`{fault.about}` is started with `{program}`" + (f", not `{named}`" if named else "")
    return _word_fix(description, words, [WordChange(0, named, program)], skill)


def _demonstrated_fix(fault: SkillFault, skill: ObservedSkill) -> TextFix | None:
    failed, worked = fault.call.split(), fault.worked.split()
    script = find_own_script(failed, skill.folder, skill.sources)
    known = ScriptWords.of(skill.sources[script.path] if script else None, skill.files)
    changes = demonstrated_changes(failed, worked, known, skill.folder)
    if not changes:
        return None
    return _word_fix(f"`{fault.call}` failed and `{fault.worked}` worked", failed, changes, skill, fault.worked)


def _word_fix(
    description: str, words: Sequence[str], changes: Sequence[WordChange], skill: ObservedSkill, call: str = ""
) -> TextFix:
    """A fix of single words of a step; every place that gives the same step is changed."""
    return TextFix(
        description,
        lambda text: apply_changes(text, words, changes, skill.folder),
        call or " ".join(_changed_words(words, changes)),
    )


def _changed_words(words: Sequence[str], changes: Sequence[WordChange]) -> list[str]:
    changed = {change.at: change.new for change in changes if change.old}
    result = [changed.get(at, word) for at, word in enumerate(words)]
    return [*(change.new for change in changes if not change.old and not change.at), *filter(None, result)]


def guess_tool(name: str, tools: frozenset[str]) -> str:
    """The tool meant by another product's name or by a misspelled one; empty if there is no single one."""
    tool = TOOL_ALIASES.get(name, "")
    # The same tool, as some dialects call it.
    if tool == "skill_use" and tool not in tools:
        tool = "run_skill"
    if tool in tools:
        return tool
    return only_reading(name, sorted(tools))
