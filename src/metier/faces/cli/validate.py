"""metier validate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from ...host import files, paths
from ...parse.check import check
from ...types.errors import BadRequest, OutsideSkill
from ...types.problem import Mark, Problem, problem
from .app import Context
from .printing import clean, paint, problem_dict, problem_lines, say, say_json

LIMIT = 256_000


class Report(NamedTuple):
    path: str
    problems: tuple[Problem, ...]


@click.command("validate")
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def validate(context: click.Context, paths: tuple[str, ...], as_json: bool) -> None:
    """Check skill folders strictly: only what agentskills.io specifies, nothing repaired.

    PATH is a skill's folder, its SKILL.md, or a folder of skills.  Exit code 1 if anything is wrong.
    """
    settings: Context = context.obj
    if not paths and settings.root is None:
        raise BadRequest("there is nothing to check", "give a skill's folder: metier validate PATH")
    paths = paths or (str(settings.root),)
    reports = [report for path in paths for report in reports_of(path)]
    bad = sum(bool(report.problems) for report in reports)
    if as_json:
        say_json(
            [
                {
                    "path": one.path,
                    "valid": not one.problems,
                    "problems": [problem_dict(p) for p in one.problems],
                }
                for one in reports
            ]
        )
    else:
        for report in reports:
            if not report.problems:
                say(f"{paint('ok', 'green')}  {clean(report.path)}")
            for one in report.problems:
                for line in problem_lines(one):
                    say(line)
        say(f"{len(reports) - bad} valid, {bad} not")
    context.exit(1 if bad else 0)


def reports_of(path: str) -> Iterator[Report]:
    """One report for a skill, or one for each skill in a folder of skills."""
    target = paths.absolute(path, paths.cwd(), paths.home())
    if paths.exists(target) and not paths.is_folder(target) and target.rpartition("/")[2].lower() == "skill.md":
        target = target.rpartition("/")[0]
    if not paths.exists(target):
        yield Report(path, (problem(Mark("not-found", fatal=True), path),))
    elif not paths.is_folder(target):
        yield Report(path, (problem(Mark("not-a-directory", fatal=True), path),))
    elif skill_file(target) is None and (inner := paths.folders_with_skill(target)):
        for name in inner:
            yield strict_report(f"{target}/{name}")
    else:
        yield strict_report(target)


def skill_file(folder: str) -> str | None:
    """SKILL.md, or a file of that name in other letters when it is absent."""
    try:
        listed = paths.list_names(folder)
    except OSError:
        return None
    names = [*listed.files, *listed.links, *listed.folders]
    return "SKILL.md" if "SKILL.md" in names else next((name for name in names if name == "skill.md"), None)


def strict_report(folder: str) -> Report:
    name = skill_file(folder)
    if name is None:
        return Report(folder, (problem(Mark("missing-skill-md", fatal=True), folder),))
    path = f"{folder}/{name}"
    try:
        _, data = files.read_skill_file(folder, name, LIMIT)
    except (OSError, OutsideSkill) as error:
        return Report(folder, (problem(file_fault(error, name), path),))
    return Report(folder, tuple(problem(mark, path) for mark in check(data, paths.real_name(folder))))


def file_fault(error: OSError | OutsideSkill, name: str) -> Mark:
    """Why a skill's file can't be read."""
    if isinstance(error, files.TooLarge):
        return Mark("too-large", 0, (str(error.key[3]), str(LIMIT)), fatal=True)
    if isinstance(error, files.NotRegular):
        return Mark("not-a-file", 0, (name, str(error)), fatal=True)
    if isinstance(error, OutsideSkill):
        return Mark("link-outside", 0, (name, "its folder"), fatal=True)
    if isinstance(error, FileNotFoundError):
        return Mark("link-broken", 0, (name,), fatal=True)
    return Mark("unreadable", 0, (name, error.strerror or "no reason given"), fatal=True)
