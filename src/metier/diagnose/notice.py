"""Blame: whose fault a failure of a run is, by evidence.

A wrong blame costs more than a missed one: it rewrites instructions that were right.  That a program exited with
another status than 0 is no evidence.  The skill is blamed for what its text or its own files contradict: a tool, file
or placeholder that does not exist, an option that its own script does not have, a script that can't be started as it
says, a call that failed and worked once it was corrected, steps in an order that fails.

The environment is blamed for what the process layer recorded (`Used.cause`): a full disk, no network, a missing
program, an expired login.  What a tool printed can only clear the skill, never accuse it, since whoever writes that
output could then decide which skill gets rewritten and why.  What is left is unknown, and counts only as a cluster:
the same step with different inputs on different days, and no success in between (`clusters.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from json import dumps
from shlex import join
from typing import NamedTuple

from ..agent.permissions import TOOL_ALIASES, call_subject
from ..host.failure import cause_of_output
from ..record.trace import Trace
from ..types.agent import IMPROVER as IMPROVER
from ..types.event import Activated, Event, FailureReason, Used
from ..types.improvement import BlamedParty, FaultKind, SkillFault
from .demonstration import ScriptWords, demonstrated_changes
from .scripts import OwnScript, find_own_script, interpreter_of, is_broken, rejected_options, values_of
from .steps import INTERPRETERS, call_words, inner_path, match_step
from .texts import misspelled_placeholders, names_path, names_tool
from .typos import only_reading

_EXTERNAL_REASONS = frozenset({"refused", "timeout", "machine", "unfinished", "failed"})
"""A refusal by the user, a failure of the machine or a service, another agent."""
_MACHINE_STATUSES = frozenset({69, 71, 74, 75, 77, 78, 124, 126, 127, 130, 137, 143})
"""From sysexits.h and shells: unavailable, not found, not permitted, try again, ended by a signal."""
_NOT_STARTED = frozenset({126, 127})
"""From shells: it may not be executed, or it or its interpreter does not exist."""
_USAGE_STATUS = 2
"""What argparse, getopts and most programs exit with if they are called wrongly."""
_users_words = re.compile(
    r"\b(?:projects?|repo(?:sitory)?|workspace|working (?:folder|directory)|checkout|codebase|users?|your)\b"
    r"|專案|项目|仓库|使用者",
    re.IGNORECASE,
)
"""Words by which a line says that a path is not the skill's own."""
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
    sources: Mapping[str, str] = {}
    """Its other text files, by path: scripts and data."""

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
    is_folder: Callable[[str], bool] = lambda path: False
    has_program: Callable[[str], bool] = lambda name: True


class _ToolStep(NamedTuple):
    """A tool call, its position in the run, and the skills active then, the latest last."""

    used: Used
    at: int
    active: tuple[str, ...]
    cwd: str = ""


def find_faults(trace: Trace, skills: Mapping[str, ObservedSkill], around: ToolEnvironment) -> tuple[SkillFault, ...]:
    """The faults that a run shows, each once with how often it occurred."""
    # Its failures are its own: blaming them would set off another improvement.
    if trace.started.agent == IMPROVER:
        return ()
    steps = [step._replace(cwd=trace.started.cwd) for step in _tool_steps(trace.events)]
    faults: dict[tuple[str, str, str], SkillFault] = {}
    for step in steps:
        fault = _fault_of_step(step, steps, skills, around)
        if fault is not None:
            fault = fault._replace(run=trace.run, inputs=trace.task, at=trace.at)
            before = faults.get(fault.key)
            faults[fault.key] = fault if before is None else before._replace(times=before.times + 1)
    return tuple(faults.values())


def blamed_party(used: Used) -> BlamedParty:
    """Whose fault a failure is, as far as the call alone tells; most often that is unknown."""
    reason = failure_reason(used)
    if reason == "refused":
        return "user"
    if reason in _EXTERNAL_REASONS or failure_cause(used):
        return "environment"
    return "model" if reason in ("bad-arguments", "bad-request") else "unknown"


def failure_cause(used: Used) -> str:
    """What of the machine made a call fail: as it was recorded, or by its status and output in an older journal."""
    if not used.failed:
        return ""
    return used.cause or cause_of_output(used.text, used.status)


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
            return _make_fault("tool-name", skill, name, step)._replace(bridged=reason != "unknown-tool")
    if not reason or reason in _EXTERNAL_REASONS:
        return None
    if reason == "missing-file":
        return _missing_file_fault(step, skills, around)
    if reason == "exit-status":
        return _exit_status_fault(step, steps, skills, around)
    return _miscall_fault(step, steps, skills)


def _make_fault(
    kind: FaultKind, skill: ObservedSkill, about: str, step: _ToolStep, party: BlamedParty = "skill"
) -> SkillFault:
    used = step.used
    text = used.text[:_MOST_TEXT]
    call = join(call_words(used.call)) if used.call.name == "skill_run_script" else call_subject(used.call)
    return SkillFault(kind, skill.name, about, "", used.call.name, used.status, 1, text, party=party, call=call)


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


def _missing_file_fault(
    step: _ToolStep, skills: Mapping[str, ObservedSkill], around: ToolEnvironment
) -> SkillFault | None:
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
        active = [skill for skill in active if _is_own_path(skill, path, step, around)]
    return next((fault for skill in active if (fault := _absent_file_fault(step, skill, path))), None)


def _is_own_path(skill: ObservedSkill, path: str, step: _ToolStep, around: ToolEnvironment) -> bool:
    """Whether a path can only be one of the skill's: it is in its folder, or in one that only the skill has."""
    if path.startswith(f"{skill.folder}/"):
        return True
    inner = inner_path(path, skill.folder)
    first, inside, _ = inner.partition("/")
    if (
        inner.startswith("/")
        or not inside
        or first not in {file.partition("/")[0] for file in skill.files if "/" in file}
    ):
        return False
    if step.used.call.name == "skill_run_script":
        return True  # these run in the skill's folder
    # In a project that has such a folder too, or in a line about the project, it is the project's.
    lines = [line for text in skill.texts.values() for line in text.splitlines() if names_path(line, inner)]
    return not around.is_folder(f"{step.cwd}/{first}") and not any(map(_users_words.search, lines))


def _absent_file_fault(step: _ToolStep, skill: ObservedSkill, path: str) -> SkillFault | None:
    inner = inner_path(path, skill.folder)
    if inner in skill.files or not skill.says(partial(names_path, path=inner)):
        return None
    return _make_fault("missing-script" if inner.startswith("scripts/") else "missing-file", skill, inner, step)


def _exit_status_fault(
    step: _ToolStep, steps: Sequence[_ToolStep], skills: Mapping[str, ObservedSkill], around: ToolEnvironment
) -> SkillFault | None:
    """A command or script that exited with a status other than 0."""
    # First what the skill's own text and files prove, whatever the machine did besides.
    for name in reversed(step.active):
        skill = skills.get(name)
        if skill is not None and (fault := _proven_fault(step, steps, skill, around)):
            return fault
    status, command = step.used.status, call_subject(step.used.call)
    if status is None or status < 0 or status in _MACHINE_STATUSES or failure_cause(step.used):
        return None
    if around.goes_out(_executed_text(step, skills)):
        return None
    # The first three words: `npx eslint`, `python -m pytest`.
    if status == 1 and _ANSWERING_PROGRAMS & {word.rpartition("/")[2] for word in command.split()[:3]}:
        return None
    stating_skill = _stating_skill(step, skills)
    if stating_skill is not None and stating_skill.lacking:
        return None
    again = _later_success(step, steps)
    # It failed and then succeeded: chance, unless a later step of the skill made it succeed.
    if again is not None:
        needed = stating_skill and _came_between(step, again, steps, stating_skill)
        return _make_fault("order", stating_skill, command, step) if stating_skill and needed else None
    if stating_skill is not None:
        return _make_fault("step", stating_skill, _step_text(step, stating_skill), step, "unknown")
    only_skill = _only_skill(step, skills)
    if only_skill is None or only_skill.lacking or _count_failures(step, steps) < 2:
        return None
    return _make_fault("repeated", only_skill, step.used.call.name, step, "unknown")


def _proven_fault(
    step: _ToolStep, steps: Sequence[_ToolStep], skill: ObservedSkill, around: ToolEnvironment
) -> SkillFault | None:
    """A fault that the text of the skill shows together with its own files, or with a call that then worked."""
    if fault := _misspelling_fault(step, skill, around):
        return fault
    words = call_words(step.used.call)
    script = find_own_script(words, skill.folder, skill.sources)
    if script is not None and step.used.call.name == "run_command" and not words[script.at].startswith("/"):
        # A relative path is the project's first, if the project has such a folder.
        script = script if _is_own_path(skill, words[script.at], step, around) else None
    match = next((found for text in skill.texts.values() if (found := match_step(text, words, skill.folder))), None)
    if match is None:
        return None
    about = " ".join(match.piece.source.split())
    known = ScriptWords.of(skill.sources[script.path] if script else None, skill.files)
    # A machine that failed once and then worked shows nothing about the text.
    if failure_cause(step.used) in ("", "no-program", "denied"):
        for later in steps:
            worked = call_words(later.used.call)
            again = later.at > step.at and not later.used.failed and later.used.call.name == step.used.call.name
            if again and _same_program(words, worked) and demonstrated_changes(words, worked, known, skill.folder):
                return _make_fault("corrected", skill, about, step)._replace(worked=" ".join(worked))
    return _own_script_fault(step, skill, script, around) if script is not None else None


def _same_program(first: Sequence[str], second: Sequence[str]) -> bool:
    if not first or not second:
        return False
    heads = tuple(words[0].rpartition("/")[2] for words in (first, second))
    return heads[0] == heads[1] or set(heads) <= {"python", "python3"}


def _own_script_fault(
    step: _ToolStep, skill: ObservedSkill, script: OwnScript, around: ToolEnvironment
) -> SkillFault | None:
    """What the source of the skill's own script shows about a call of it."""
    words, status, source = call_words(step.used.call), step.used.status, skill.sources[script.path]
    # A shell's statuses for what can't be executed are about the script itself only if the call is nothing but that.
    if status in _NOT_STARTED and not {"&&", "||", "|", ";"} & set(words):
        program = interpreter_of(script.path, source)
        starts = script.at == 0 or (words[0] in INTERPRETERS and not around.has_program(words[0]))
        if starts and program and around.has_program(program):
            return _make_fault("start", skill, script.path, step)
    if broken := is_broken(script.path, source):
        return _make_fault("script", skill, f"{script.path}: {broken}", step)
    wrong = [option for option in rejected_options(words[script.at + 1 :], source) if skill.says(_says_option(option))]
    if not wrong and status == _USAGE_STATUS:
        # A word that its source does not have, where it has exactly one that it can be.
        given, known = words[script.at + 1 :], values_of(source)
        wrong = [
            word for word in given if word not in known and only_reading(word, known) and skill.says(_says_option(word))
        ]
    return _make_fault("usage", skill, f"{script.path} {wrong[0]}", step) if wrong else None


def _says_option(option: str) -> Callable[[str], bool]:
    pattern = re.compile(rf"(?<![\w-]){re.escape(option)}(?![\w-])")
    return lambda text: pattern.search(text) is not None


def _misspelling_fault(step: _ToolStep, skill: ObservedSkill, around: ToolEnvironment) -> SkillFault | None:
    """A path or placeholder in the command that the text contains and that does not exist."""
    command = " ".join(call_words(step.used.call)) or call_subject(step.used.call)
    for word in _word(command):
        inner = inner_path(word, skill.folder)
        if "." in inner and _is_own_path(skill, word, step, around):
            fault = _absent_file_fault(step, skill, inner)
            if fault is not None:
                return fault
    wrong = misspelled_placeholders(skill.text, skill.placeholders)
    name = next(
        (placeholder for placeholder in misspelled_placeholders(command, skill.placeholders) if placeholder in wrong),
        "",
    )
    return _make_fault("placeholder", skill, name, step) if name else None


def _stating_skill(step: _ToolStep, skills: Mapping[str, ObservedSkill]) -> ObservedSkill | None:
    """The skill whose text gives this step, as it stands or with something filled in."""
    words = call_words(step.used.call)

    def fits(skill: ObservedSkill) -> bool:
        return skill.says(lambda text: match_step(text, words, skill.folder) is not None or _says_step(text, step.used))

    named = step.used.skill or str(step.used.call.arguments.get("skill_name", ""))
    order = [named] if named in skills else [name for name in reversed(step.active) if name in skills]
    return next((skills[name] for name in order if fits(skills[name])), None)


def _step_text(step: _ToolStep, skill: ObservedSkill) -> str:
    """A step as the text gives it: the same for every input."""
    words = call_words(step.used.call)
    match = next((found for text in skill.texts.values() if (found := match_step(text, words, skill.folder))), None)
    return " ".join(match.piece.source.split()) if match else " ".join(words[:2]) or call_subject(step.used.call)


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
    # Whether the text or the model was unclear about the arguments, one run can't tell.
    return _make_fault("miscall", skill, name, step, "unknown") if skill is not None and not skill.lacking else None


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
