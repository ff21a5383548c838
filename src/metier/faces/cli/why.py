"""metier why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from ...catalog import compact_path
from ...runtime import Library
from ...types.errors import UnknownSkill, Unloadable
from ...types.problem import Problem
from ...types.skill import Broken
from ...types.text import one_line
from ...types.verdict import Verdict
from .app import Context, skill_names
from .printing import WITHHELD, arrow, clean, clean_path, paint, say, say_json


class Step(NamedTuple):
    question: str
    answer: str
    """`yes`, `no` or `-`."""
    because: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@click.command("why")
@click.argument("name", shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def why(context: Context, name: str, as_json: bool) -> None:
    """Follow one skill from disk to catalog: found, parsed, trusted, allowed, eligible, shadowed, listed."""
    library = context.library()
    broken = [item for item in library.broken if name in (item.id, item.name)]
    try:
        verdict = library.find(name)
    except Unloadable:
        steps = _broken_steps(broken[0])
    except UnknownSkill:
        steps = _twin_steps(library, name)
        if not steps:
            raise
    else:
        steps = _steps(library, verdict)
    if as_json:
        say_json([step._asdict() for step in steps])
        return
    say(paint(clean(name), "bold"))
    for step in steps:
        good = (step.answer == "yes") != (step.question == "shadowed")
        answer = paint(step.answer, "green" if good else "red") + " " * (3 - len(step.answer))
        lines = [f"  {step.question:<9} {answer}  {clean_path(step.because[0])}".rstrip()] if step.because else []
        lines += [f"  {'':<14} {clean_path(more)}" for more in step.because[1:]]
        for line in lines or [f"  {step.question:<9} {answer}".rstrip()]:
            say(line)
        for hint in step.hints:
            say(f"  {'':<14} {arrow(clean(hint))}")


def _broken_steps(item: Broken) -> list[Step]:
    last = item.problems[-1]
    return [
        _step("found", True, f"{item.path} ({item.origin.root})"),
        _step("parsed", False, f"line {last.line}: {last.message}" if last.line else last.message, last.hint),
    ]


def _twin_steps(library: Library, folder: str) -> list[Step]:
    """A folder whose skill is the same as another's, byte for byte: only that other is in the library."""
    skill = next((one for one in library.skills if one.id == folder), None)
    if skill is None:
        return []
    other = library.find(skill.name).skill
    return [
        _step("found", True, f"{skill.path} ({skill.origin.root})"),
        _step("parsed", True, f"its name is `{skill.name}`"),
        _step("shadowed", True, f"it is the same as {other.path}", "change its `name`, or remove one of the two"),
    ]


def _step(question: str, answer: bool, because: str = "", hint: str = "") -> Step:
    return Step(question, "yes" if answer else "no", (because,) if because else (), (hint,) if hint else ())


def _steps(library: Library, verdict: Verdict) -> list[Step]:
    skill = verdict.skill
    marks: dict[str, Problem] = {one.code: one for one in verdict.problems}
    missing = [one for one in verdict.problems if one.code in verdict.diagnostics]
    shadow = marks.get("shadowed")
    command = next((one.name for one in library.commands() if one.skill is skill), None)
    return [
        _step("found", True, f"{skill.path} ({skill.origin.root}, rank {skill.origin.rank})"),
        _parsed(verdict),
        _gate("trusted", marks, WITHHELD),
        _gate("allowed", marks, ("not-allowed",)),
        Step("eligible", "no" if missing else "yes", _messages(missing), _hints(missing)),
        _step("shadowed", True, shadow.message, shadow.hint) if shadow else _step("shadowed", False),
        _listed(library, verdict),
        _step("command", bool(command), f"/{command}" if command else _no_command(verdict)),
    ]


def _messages(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(f"line {one.line}: {one.message}" if one.line else one.message for one in problems)


def _hints(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.hint for one in problems if one.severity != "info" and one.hint))


def _parsed(verdict: Verdict) -> Step:
    found = verdict.skill.problems
    return Step("parsed", "yes", _messages(found), _hints(found))


def _gate(question: str, marks: dict[str, Problem], codes: tuple[str, ...]) -> Step:
    for code in codes:
        if code in marks:
            return _step(question, False, marks[code].message, marks[code].hint)
    return _step(question, True)


def _listed(library: Library, verdict: Verdict) -> Step:
    if not verdict.usable:
        return _step("listed", False, "for the reasons above")
    catalog = library.catalog()
    for number, entry in enumerate(catalog.entries, 1):
        if entry.skill is verdict.skill:
            place = f"entry {number} of {len(catalog.entries)} in the {library.dialect.name} catalog"
            return _step("listed", True, place)
    path = verdict.skill.path
    for one in catalog.left_out:
        if one.location in (path, one_line(path), one_line(compact_path(path, library.place.home))):
            return _step("listed", False, _cut(one.reason, library), _raise(one.reason))
    return _step("listed", False, "it is hidden from the model")


def _cut(reason: str, library: Library) -> str:
    limits = library.limits
    return {
        "hidden-from-model": "`disable-model-invocation` or `user-invocable` hides it from the model",
        "limit-listed": f"cut by the limit of {limits.listed} skills in the catalog",
        "limit-characters": f"cut by the limit of {limits.characters} characters for the catalog",
        "merged": "it stands in the line of another of the same name and description",
    }[reason]


def _raise(reason: str) -> str:
    limit = {"limit-listed": "limits.listed", "limit-characters": "limits.characters"}.get(reason)
    if not limit:
        return ""
    return f"raise `{limit}` in the configuration, pin it with `catalog.pinned`, or remove skills you do not use"


def _no_command(verdict: Verdict) -> str:
    return "`user-invocable: false`" if verdict.usable else "for the reasons above"
