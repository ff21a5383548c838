"""Notice: which failures of a run are a skill's own fault.

Everything is judged by structure: the reason of a call, its status, what the skill's files say and what is there.
What a tool answered is never read.  Failures of the machine, the network, a service, a key that is not set, the user's
own no, and what happened once and went well the second time are nobody's fault here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from json import dumps
from typing import NamedTuple

from ..act.permission import subject
from ..act.rules import ALIASES
from ..record.trace import Trace
from ..types.agent import IMPROVER as IMPROVER
from ..types.event import Activated, Event, Reason, Used
from ..types.proposal import Fault, FaultKind
from .mentions import names_path, names_tool, slips

_ELSEWHERE = frozenset({"refused", "timeout", "machine", "unfinished", "failed"})
"""The user's no, a machine or a service that failed, another agent."""
_MACHINE = frozenset({69, 71, 74, 75, 77, 78, 124, 126, 127, 130, 137, 143})
"""Exit statuses by which programs and shells say: not found, not allowed, try again, ended by somebody."""
_ANSWERS = frozenset(
    {
        "grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "pytest", "tox", "mypy", "ruff", "flake8", "pylint",
        "eslint", "tsc", "jest", "vitest", "npm", "yarn", "pnpm", "cargo", "go", "shellcheck",
    }
)  # fmt: skip
"""Programs whose status 1 is an answer: nothing found, something differs, what was checked is wrong."""
_word = re.compile(r"[^\s'\"`;|&<>()=]+").findall
_TEXT = 2_000


class Known(NamedTuple):
    """What is true of a skill whose runs are looked at."""

    name: str
    folder: str
    texts: Mapping[str, str]
    """Its files that are prose, by path; of `SKILL.md` the body."""
    files: frozenset[str]
    """Every file that it has."""
    placeholders: frozenset[str] = frozenset()
    """What may stand behind a `$` in it."""
    lacking: bool = False
    """Something that it says it needs is not here: a program, a key."""

    def says(self, fits: Callable[[str], bool]) -> bool:
        return any(fits(text) for text in self.texts.values())

    @property
    def text(self) -> str:
        return "\n".join(self.texts.values())


class Around(NamedTuple):
    """What is true beside the skills."""

    tools: frozenset[str]
    """The names that tools have here."""
    goes_out: Callable[[str], bool] = lambda text: False
    """Whether a command or the text of a script reaches the network, or asks for a key that is not set."""


class _Step(NamedTuple):
    used: Used
    at: int
    active: tuple[str, ...]


def notice(trace: Trace, known: Mapping[str, Known], around: Around) -> tuple[Fault, ...]:
    """The faults that a run shows, each once with how often it happened."""
    if trace.started.agent == IMPROVER:
        return ()
    steps = list(_steps(trace.events))
    found: dict[tuple[str, str, str], Fault] = {}
    for step in steps:
        fault = _fault(step, steps, known, around)
        if fault is not None:
            fault = fault._replace(run=trace.run)
            before = found.get(fault.key)
            found[fault.key] = fault if before is None else before._replace(times=before.times + 1)
    return tuple(found.values())


def _steps(events: Iterable[Event]) -> Iterable[_Step]:
    active: list[str] = []
    for at, event in enumerate(events):
        if isinstance(event, Activated):
            active = [*(one for one in active if one != event.skill), event.skill]
        elif isinstance(event, Used):
            yield _Step(event, at, tuple(active))


def reason_of(used: Used) -> Reason:
    return used.reason or ("exit-status" if used.status not in (None, 0) else "failed" if used.error else "")


def _fault(step: _Step, steps: Sequence[_Step], known: Mapping[str, Known], around: Around) -> Fault | None:
    used, reason = step.used, reason_of(step.used)
    name = used.call.name
    if reason == "unknown-tool" or (name in ALIASES and name not in around.tools):
        skill = _whose(step, known, lambda text: names_tool(text, name))
        if skill is not None:
            return _made("tool-name", skill, name, step, bridged=reason != "unknown-tool")
    if not reason or reason in _ELSEWHERE:
        return None
    if reason == "missing-file":
        return _missing(step, known)
    if reason == "exit-status":
        return _ran_badly(step, steps, known, around)
    return _miscall(step, steps, known)


def _made(kind: FaultKind, skill: Known, about: str, step: _Step, bridged: bool = False) -> Fault:
    used = step.used
    return Fault(kind, skill.name, about, "", used.call.name, used.status, 1, used.text[:_TEXT], bridged)


def _whose(step: _Step, known: Mapping[str, Known], fits: Callable[[str], bool]) -> Known | None:
    """The skill whose text it is: the one that the call names, or the latest of the active ones that says it."""
    named = step.used.skill or str(step.used.call.arguments.get("skill_name", ""))
    order = [named] if named in known else [name for name in reversed(step.active) if name in known]
    return next((known[name] for name in order if known[name].says(fits)), None)


def _alone(step: _Step, known: Mapping[str, Known]) -> Known | None:
    """The one skill that was followed."""
    named = step.used.skill or str(step.used.call.arguments.get("skill_name", ""))
    if named in known and named in step.active:
        return known[named]
    return known.get(step.active[0]) if len(step.active) == 1 else None


def _missing(step: _Step, known: Mapping[str, Known]) -> Fault | None:
    """A file of the skill that its text names and that is not there."""
    given = step.used.call.arguments
    if step.used.call.name == "skill_run_script":
        script = str(given.get("script_name", "")).removeprefix("scripts/")
        for path in (f"scripts/{script}", script):
            skill = _whose(step, known, partial(names_path, path=path))
            if skill is not None and f"scripts/{script}" not in skill.files:
                return _made("missing-script", skill, path, step)
        return None
    path = str(given.get("file_path", given.get("path", "")))
    active = [known[name] for name in reversed(step.active) if name in known]
    if step.used.call.name not in ("skill_read_file", "read"):  # of the user's own files none has to be there
        active = [skill for skill in active if path.startswith(f"{skill.folder}/") or _own(skill, path)]
    return next((fault for skill in active if (fault := _not_there(step, skill, path))), None)


def _own(skill: Known, path: str) -> bool:
    """Whether a path leads into a folder that the skill has, or would have its scripts in."""
    first, inside, _ = path.removeprefix("./").partition("/")
    return bool(inside) and first in {"scripts", *(one.partition("/")[0] for one in skill.files if "/" in one)}


def _not_there(step: _Step, skill: Known, path: str) -> Fault | None:
    inner = path.removeprefix(f"{skill.folder}/").removeprefix("./")
    if inner in skill.files or not skill.says(partial(names_path, path=inner)):
        return None
    return _made("missing-script" if inner.startswith("scripts/") else "missing-file", skill, inner, step)


def _ran_badly(step: _Step, steps: Sequence[_Step], known: Mapping[str, Known], around: Around) -> Fault | None:
    """A command or a script that gave another status than 0."""
    command = subject(step.used.call)
    for name in reversed(step.active):
        skill = known.get(name)
        if skill is not None and (fault := _slip(step, skill, command)):
            return fault
    status = step.used.status
    if status is None or status < 0 or status in _MACHINE or around.goes_out(_runs(step, known)):
        return None
    if status == 1 and _ANSWERS & {word.rpartition("/")[2] for word in command.split()[:3]}:
        return None
    said = _whose(step, known, lambda text: _says_step(text, step.used))
    if said is not None and said.lacking:
        return None
    again = _went_well_later(step, steps)
    if again is not None:
        needed = said and _came_between(step, again, steps, said)
        return _made("order", said, command, step) if said and needed else None
    if said is not None:
        return _made("step", said, command, step)
    alone = _alone(step, known)
    if alone is None or alone.lacking or _times(step, steps) < 2:
        return None
    return _made("repeated", alone, step.used.call.name, step)


def _slip(step: _Step, skill: Known, command: str) -> Fault | None:
    """A path or a placeholder in the command that the text has and that nothing answers to."""
    for word in _word(command):
        inner = word.removeprefix(f"{skill.folder}/").removeprefix("./")
        if "." in inner and _own(skill, inner):
            fault = _not_there(step, skill, inner)
            if fault is not None:
                return fault
    wrong = slips(skill.text, skill.placeholders)
    name = next((one for one in slips(command, skill.placeholders) if one in wrong), "")
    return _made("placeholder", skill, name, step) if name else None


def _runs(step: _Step, known: Mapping[str, Known]) -> str:
    """What the call ran: the command, or the path of the skill's script, which is looked into."""
    used = step.used
    if used.call.name == "skill_run_script":
        skill = known.get(used.skill or str(used.call.arguments.get("skill_name", "")))
        script = str(used.call.arguments.get("script_name", "")).removeprefix("scripts/")
        return f"{skill.folder}/scripts/{script}" if skill else ""
    return subject(used.call)


def _says_step(text: str, used: Used) -> bool:
    """Whether a text gives this step: the script by name, or the command up to its arguments."""
    if used.call.name == "skill_run_script":
        script = str(used.call.arguments.get("script_name", "")).removeprefix("scripts/")
        return bool(script) and script in text
    words = subject(used.call).split()
    return len(words) > 1 and " ".join(words[:2]) in " ".join(text.split())


def _went_well_later(step: _Step, steps: Sequence[_Step]) -> _Step | None:
    """The same call, later, with a good end."""
    same = _call(step)
    return next((one for one in steps if one.at > step.at and _call(one) == same and not one.used.failed), None)


def _came_between(step: _Step, again: _Step, steps: Sequence[_Step], skill: Known) -> bool:
    """Whether something that the skill puts after this step went well in between: then that had to come first."""
    text = " ".join(skill.text.split())
    here = text.find(" ".join(subject(step.used.call).split()[:2]))
    for one in steps:
        if step.at < one.at < again.at and not one.used.failed:
            words = " ".join(subject(one.used.call).split()[:2])
            if words and text.find(words) > here >= 0:
                return True
    return False


def _miscall(step: _Step, steps: Sequence[_Step], known: Mapping[str, Known]) -> Fault | None:
    """A tool called with what it can't take: the skill's fault if it names the tool, or if it happens again."""
    name = step.used.call.name
    if name in ("ask_user", "delegate"):
        return None
    skill = _whose(step, known, lambda text: names_tool(text, name))
    if skill is None and _times(step, steps) >= 2:
        skill = _alone(step, known)
    return _made("miscall", skill, name, step) if skill is not None and not skill.lacking else None


def _times(step: _Step, steps: Sequence[_Step]) -> int:
    """How often the same tool failed in the same way."""
    return sum(
        one.used.failed and one.used.call.name == step.used.call.name and reason_of(one.used) == reason_of(step.used)
        for one in steps
    )


def _call(step: _Step) -> str:
    return dumps([step.used.call.name, dict(step.used.call.arguments)], sort_keys=True, default=str)
