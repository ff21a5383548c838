"""Blame: which failures of a run are the fault of a skill.

A wrong blame costs more than a missed one: it rewrites instructions that were right.  So a skill is blamed only for
what its text says and the machine contradicts: it names a tool, file or placeholder that does not exist, gives a step
that fails, or gives steps in an order that fails.  If the text does not name what failed, the skill is blamed only when
it alone was active and the same call failed at least twice.

Everything is decided by structure: the reason and exit status of a call, the files of the skill, and what exists.  What
a tool answered is never read, since whoever writes that output could then decide which skill gets rewritten and why.
Not counted are failures of the machine, the network or a service, a missing key or program, a refusal by the user,
commands whose status is an answer (`grep`, test runners), and what failed once and succeeded when repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from json import dumps
from typing import NamedTuple

from ..agent.permissions import TOOL_ALIASES, call_subject
from ..record.trace import Trace
from ..types.agent import IMPROVER as IMPROVER
from ..types.event import Activated, Event, FailureReason, Used
from ..types.improvement import FaultKind, SkillFault
from .texts import misspelled_placeholders, names_path, names_tool

_EXTERNAL_REASONS = frozenset({"refused", "timeout", "machine", "unfinished", "failed"})
"""A refusal by the user, a failure of the machine or a service, another agent."""
_MACHINE_STATUSES = frozenset({69, 71, 74, 75, 77, 78, 124, 126, 127, 130, 137, 143})
"""From sysexits.h and shells: unavailable, not found, not permitted, try again, ended by a signal."""
_ANSWERING_PROGRAMS = frozenset(
    {
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "diff",
        "cmp",
        "test",
        "[",
        "pytest",
        "tox",
        "mypy",
        "ruff",
        "flake8",
        "pylint",
        "eslint",
        "tsc",
        "jest",
        "vitest",
        "npm",
        "yarn",
        "pnpm",
        "cargo",
        "go",
        "shellcheck",
    }
)
"""Programs whose status 1 is a result: no match, files differ, a check failed."""
_word = re.compile(r"[^\s'\"`;|&<>()=]+").findall
_MOST_TEXT = 2_000
"""Characters of a tool's answer that are kept as evidence."""


class ObservedSkill(NamedTuple):
    """A skill as far as blame needs it."""

    name: str
    folder: str
    texts: Mapping[str, str]
    """Its prose files, by path; of `SKILL.md` the body."""
    files: frozenset[str]
    """The paths of all its files."""
    placeholders: frozenset[str] = frozenset()
    """The names that are valid after a `$`."""
    lacking: bool = False
    """A program or key that it declares as required is missing."""

    def says(self, fits: Callable[[str], bool]) -> bool:
        return any(fits(text) for text in self.texts.values())

    @property
    def text(self) -> str:
        return "\n".join(self.texts.values())


class ToolEnvironment(NamedTuple):
    """What blame needs to know besides the skills."""

    tools: frozenset[str]
    """The names of the tools that exist."""
    goes_out: Callable[[str], bool] = lambda text: False
    """Whether a command or script uses the network, or a variable that is not set."""


class _ToolStep(NamedTuple):
    """A tool call, its position in the run, and the skills active then, the latest last."""

    used: Used
    at: int
    active: tuple[str, ...]


def find_faults(trace: Trace, skills: Mapping[str, ObservedSkill], around: ToolEnvironment) -> tuple[SkillFault, ...]:
    """The faults that a run shows, each once with how often it occurred."""
    # Its failures are its own: blaming them would set off another improvement.
    if trace.started.agent == IMPROVER:
        return ()
    steps = list(_tool_steps(trace.events))
    faults: dict[tuple[str, str, str], SkillFault] = {}
    for step in steps:
        fault = _fault_of_step(step, steps, skills, around)
        if fault is not None:
            fault = fault._replace(run=trace.run)
            before = faults.get(fault.key)
            faults[fault.key] = fault if before is None else before._replace(times=before.times + 1)
    return tuple(faults.values())


def may_show_fault(trace: Trace) -> bool:
    """Whether any step failed or used a foreign tool name: no other run has faults, whatever is in the skills."""
    steps = [event for event in trace.events if isinstance(event, Used)]
    return any(failure_reason(step) or step.call.name in TOOL_ALIASES for step in steps)


def _tool_steps(events: Iterable[Event]) -> Iterable[_ToolStep]:
    # A skill stays active to the end of the run: its instructions remain in the conversation.
    active: list[str] = []
    for at, event in enumerate(events):
        if isinstance(event, Activated):
            active = [*(name for name in active if name != event.skill), event.skill]
        elif isinstance(event, Used):
            yield _ToolStep(event, at, tuple(active))


def failure_reason(used: Used) -> FailureReason:
    return used.reason or ("exit-status" if used.status not in (None, 0) else "failed" if used.error else "")


def _fault_of_step(
    step: _ToolStep, steps: Sequence[_ToolStep], skills: Mapping[str, ObservedSkill], around: ToolEnvironment
) -> SkillFault | None:
    used, reason = step.used, failure_reason(step.used)
    name = used.call.name
    # A name that metier translated did not fail; it is noted because the real name is the safer one.
    if reason == "unknown-tool" or (name in TOOL_ALIASES and name not in around.tools):
        skill = _skill_that_says(step, skills, lambda text: names_tool(text, name))
        if skill is not None:
            return _make_fault("tool-name", skill, name, step, bridged=reason != "unknown-tool")
    if not reason or reason in _EXTERNAL_REASONS:
        return None
    if reason == "missing-file":
        return _missing_file_fault(step, skills)
    if reason == "exit-status":
        return _exit_status_fault(step, steps, skills, around)
    return _miscall_fault(step, steps, skills)


def _make_fault(
    kind: FaultKind, skill: ObservedSkill, about: str, step: _ToolStep, bridged: bool = False
) -> SkillFault:
    used = step.used
    return SkillFault(kind, skill.name, about, "", used.call.name, used.status, 1, used.text[:_MOST_TEXT], bridged)


def _skill_that_says(
    step: _ToolStep, skills: Mapping[str, ObservedSkill], fits: Callable[[str], bool]
) -> ObservedSkill | None:
    """The skill whose text contains it: the one the call names, or the most recently activated one."""
    named = step.used.skill or str(step.used.call.arguments.get("skill_name", ""))
    order = [named] if named in skills else [name for name in reversed(step.active) if name in skills]
    return next((skills[name] for name in order if skills[name].says(fits)), None)


def _only_skill(step: _ToolStep, skills: Mapping[str, ObservedSkill]) -> ObservedSkill | None:
    """The only skill that was active, or the one that the call names."""
    named = step.used.skill or str(step.used.call.arguments.get("skill_name", ""))
    if named in skills and named in step.active:
        return skills[named]
    return skills.get(step.active[0]) if len(step.active) == 1 else None


def _missing_file_fault(step: _ToolStep, skills: Mapping[str, ObservedSkill]) -> SkillFault | None:
    """A file that the skill's text names and that does not exist."""
    arguments = step.used.call.arguments
    if step.used.call.name == "skill_run_script":
        script = str(arguments.get("script_name", "")).removeprefix("scripts/")
        for path in (f"scripts/{script}", script):
            skill = _skill_that_says(step, skills, partial(names_path, path=path))
            if skill is not None and f"scripts/{script}" not in skill.files:
                return _make_fault("missing-script", skill, path, step)
        return None
    path = str(arguments.get("file_path", arguments.get("path", "")))
    active = [skills[name] for name in reversed(step.active) if name in skills]
    # A missing file of the user is no fault of the skill.
    if step.used.call.name not in ("skill_read_file", "read"):
        active = [skill for skill in active if path.startswith(f"{skill.folder}/") or _is_own_path(skill, path)]
    return next((fault for skill in active if (fault := _absent_file_fault(step, skill, path))), None)


def _is_own_path(skill: ObservedSkill, path: str) -> bool:
    """Whether a path leads into one of the skill's folders, or into `scripts`."""
    first, inside, _ = path.removeprefix("./").partition("/")
    return bool(inside) and first in {"scripts", *(file.partition("/")[0] for file in skill.files if "/" in file)}


def _absent_file_fault(step: _ToolStep, skill: ObservedSkill, path: str) -> SkillFault | None:
    inner = path.removeprefix(f"{skill.folder}/").removeprefix("./")
    if inner in skill.files or not skill.says(partial(names_path, path=inner)):
        return None
    return _make_fault("missing-script" if inner.startswith("scripts/") else "missing-file", skill, inner, step)


def _exit_status_fault(
    step: _ToolStep, steps: Sequence[_ToolStep], skills: Mapping[str, ObservedSkill], around: ToolEnvironment
) -> SkillFault | None:
    """A command or script that exited with a status other than 0."""
    command = call_subject(step.used.call)
    for name in reversed(step.active):
        skill = skills.get(name)
        if skill is not None and (fault := _misspelling_fault(step, skill, command)):
            return fault
    status = step.used.status
    if status is None or status < 0 or status in _MACHINE_STATUSES or around.goes_out(_executed_text(step, skills)):
        return None
    # The first three words: `npx eslint`, `python -m pytest`.
    if status == 1 and _ANSWERING_PROGRAMS & {word.rpartition("/")[2] for word in command.split()[:3]}:
        return None
    stating_skill = _skill_that_says(step, skills, lambda text: _says_step(text, step.used))
    if stating_skill is not None and stating_skill.lacking:
        return None
    again = _later_success(step, steps)
    # It failed and then succeeded: chance, unless a later step of the skill made it succeed.
    if again is not None:
        needed = stating_skill and _came_between(step, again, steps, stating_skill)
        return _make_fault("order", stating_skill, command, step) if stating_skill and needed else None
    if stating_skill is not None:
        return _make_fault("step", stating_skill, command, step)
    only_skill = _only_skill(step, skills)
    if only_skill is None or only_skill.lacking or _count_failures(step, steps) < 2:
        return None
    return _make_fault("repeated", only_skill, step.used.call.name, step)


def _misspelling_fault(step: _ToolStep, skill: ObservedSkill, command: str) -> SkillFault | None:
    """A path or placeholder in the command that the text contains and that does not exist."""
    for word in _word(command):
        inner = word.removeprefix(f"{skill.folder}/").removeprefix("./")
        if "." in inner and _is_own_path(skill, inner):
            fault = _absent_file_fault(step, skill, inner)
            if fault is not None:
                return fault
    wrong = misspelled_placeholders(skill.text, skill.placeholders)
    name = next(
        (placeholder for placeholder in misspelled_placeholders(command, skill.placeholders) if placeholder in wrong),
        "",
    )
    return _make_fault("placeholder", skill, name, step) if name else None


def _executed_text(step: _ToolStep, skills: Mapping[str, ObservedSkill]) -> str:
    """What the call ran: the command, or the path of the skill's script."""
    used = step.used
    if used.call.name == "skill_run_script":
        skill = skills.get(used.skill or str(used.call.arguments.get("skill_name", "")))
        script = str(used.call.arguments.get("script_name", "")).removeprefix("scripts/")
        return f"{skill.folder}/scripts/{script}" if skill else ""
    return call_subject(used.call)


def _says_step(text: str, used: Used) -> bool:
    """Whether a text contains this step: the script by name, or the first two words of the command."""
    if used.call.name == "skill_run_script":
        script = str(used.call.arguments.get("script_name", "")).removeprefix("scripts/")
        return bool(script) and script in text
    # Two words, such as `git push`: a model fills in the arguments, so they differ from the text.
    words = call_subject(used.call).split()
    return len(words) > 1 and " ".join(words[:2]) in " ".join(text.split())


def _later_success(step: _ToolStep, steps: Sequence[_ToolStep]) -> _ToolStep | None:
    """The same call, later, that succeeded."""
    same = _call_key(step)
    return next(
        (later for later in steps if later.at > step.at and _call_key(later) == same and not later.used.failed), None
    )


def _came_between(step: _ToolStep, again: _ToolStep, steps: Sequence[_ToolStep], skill: ObservedSkill) -> bool:
    """Whether a step that the skill puts after this one succeeded in between, so that it had to come first."""
    text = " ".join(skill.text.split())
    position = text.find(" ".join(call_subject(step.used.call).split()[:2]))
    for between in steps:
        if step.at < between.at < again.at and not between.used.failed:
            words = " ".join(call_subject(between.used.call).split()[:2])
            if words and text.find(words) > position >= 0:
                return True
    return False


def _miscall_fault(
    step: _ToolStep, steps: Sequence[_ToolStep], skills: Mapping[str, ObservedSkill]
) -> SkillFault | None:
    """A tool called with invalid arguments: the skill's fault if it names the tool, or if it happens repeatedly."""
    name = step.used.call.name
    # How to use these is for the agent's instructions, not a skill's.
    if name in ("ask_user", "delegate"):
        return None
    skill = _skill_that_says(step, skills, lambda text: names_tool(text, name))
    if skill is None and _count_failures(step, steps) >= 2:
        skill = _only_skill(step, skills)
    return _make_fault("miscall", skill, name, step) if skill is not None and not skill.lacking else None


def _count_failures(step: _ToolStep, steps: Sequence[_ToolStep]) -> int:
    """How often the same tool failed in the same way."""
    return sum(
        other.used.failed
        and other.used.call.name == step.used.call.name
        and failure_reason(other.used) == failure_reason(step.used)
        for other in steps
    )


def _call_key(step: _ToolStep) -> str:
    return dumps([step.used.call.name, dict(step.used.call.arguments)], sort_keys=True, default=str)
