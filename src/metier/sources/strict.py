"""Strict validation of skill folders: one report each, with every finding of the agentskills.io profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..host import files, paths
from ..parse.check import check_skill_file
from ..types.errors import OutsideSkill
from ..types.problem import Finding, Problem, problem_from

MAX_FILE_BYTES = 256_000


class ValidationReport(NamedTuple):
    path: str
    problems: tuple[Problem, ...]


def reports_of(path: str) -> Iterator[ValidationReport]:
    """One report for a skill, or one for each skill in a folder of skills."""
    target = paths.absolute_path(path, paths.working_folder(), paths.home_folder())
    if paths.exists(target) and not paths.is_folder(target) and target.rpartition("/")[2].lower() == "skill.md":
        target = target.rpartition("/")[0]
    if not paths.exists(target):
        yield ValidationReport(path, (problem_from(Finding("not-found", fatal=True), path),))
    elif not paths.is_folder(target):
        yield ValidationReport(path, (problem_from(Finding("not-a-directory", fatal=True), path),))
    elif skill_file(target) is None and (inner := paths.folders_with_skill(target)):
        for name in inner:
            yield strict_report(f"{target}/{name}")
    else:
        yield strict_report(target)


def skill_file(folder: str) -> str | None:
    """SKILL.md, or `skill.md` where only that is there."""
    try:
        listed = paths.list_names(folder)
    except OSError:
        return None
    names = [*listed.files, *listed.links, *listed.folders]
    return "SKILL.md" if "SKILL.md" in names else next((name for name in names if name == "skill.md"), None)


def strict_report(folder: str) -> ValidationReport:
    name = skill_file(folder)
    if name is None:
        return ValidationReport(folder, (problem_from(Finding("missing-skill-md", fatal=True), folder),))
    path = f"{folder}/{name}"
    try:
        _, data = files.read_skill_file(folder, name, MAX_FILE_BYTES)
    except (OSError, OutsideSkill) as error:
        return ValidationReport(folder, (problem_from(file_fault(error, name), path),))
    return ValidationReport(
        folder, tuple(problem_from(finding, path) for finding in check_skill_file(data, paths.real_name(folder)))
    )


def file_fault(error: OSError | OutsideSkill, name: str) -> Finding:
    """Why a skill's file can't be read."""
    if isinstance(error, files.TooLarge):
        return Finding("too-large", 0, (str(error.key[3]), str(MAX_FILE_BYTES)), fatal=True)
    if isinstance(error, files.NotRegular):
        return Finding("not-a-file", 0, (name, str(error)), fatal=True)
    if isinstance(error, OutsideSkill):
        return Finding("link-outside", 0, (name, "its folder"), fatal=True)
    if isinstance(error, FileNotFoundError):
        return Finding("link-broken", 0, (name,), fatal=True)
    return Finding("unreadable", 0, (name, error.strerror or "no reason given"), fatal=True)
