"""metier lint and metier validate."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple

import click

from ...host import files, fs, paths
from ...library.library import Library
from ...library.overlap import selection_findings
from ...parse.document import ParseRefusal, decode_text
from ...parse.fix import fix_text
from ...parse.lint import lint as lint_text
from ...parse.lint import named_files
from ...parse.reader import parse
from ...sources.companion_files import companion_findings
from ...sources.roots import RootOptions, guess_dialect
from ...sources.strict import MAX_FILE_BYTES, file_fault, reports_of, skill_file
from ...types.dialect import Dialect
from ...types.errors import BadRequest, OutsideSkill
from ...types.problem import Finding, Problem, problem_from
from ...types.skill import Found, Origin, Skill
from .options import CliContext
from .output import paint, printable, problem_dict, problem_lines, say, say_json


@click.command("validate")
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def validate(context: click.Context, paths: tuple[str, ...], as_json: bool) -> None:
    """Check skills against the agentskills.io specification, without repairing anything.

    PATH is a skill's folder, its SKILL.md, or a folder of skills. Exits with 1 if a skill is invalid.
    """
    settings: CliContext = context.obj
    if not paths and settings.root is None:
        raise BadRequest("missing PATH", "pass a skill's folder: metier validate PATH")
    paths = paths or (str(settings.root),)
    reports = [report for path in paths for report in reports_of(path)]
    bad = sum(bool(report.problems) for report in reports)
    if as_json:
        say_json(
            [
                {
                    "path": item.path,
                    "valid": not item.problems,
                    "problems": [problem_dict(p) for p in item.problems],
                }
                for item in reports
            ]
        )
    else:
        for report in reports:
            if not report.problems:
                say(f"{paint('ok', 'green')}  {printable(report.path)}")
            for issue in report.problems:
                for line in problem_lines(issue):
                    say(line)
        say(f"{len(reports) - bad} valid, {bad} invalid")
    context.exit(1 if bad else 0)


class LintReport(NamedTuple):
    """The findings on one skill."""

    path: str
    problems: tuple[Problem, ...]
    fixes: tuple[str, ...] = ()
    not_fixed: str = ""
    """Why it was not fixed although `--fix` was given."""

    @property
    def clean(self) -> bool:
        return all(issue.severity == "info" for issue in self.problems)


@click.command("lint")
@click.argument("where", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--fix", is_flag=True, help="Fix what has an unambiguous fix; leave the rest of each file unchanged")
@click.option("--dialect", metavar="NAME", help="Read as this dialect [default: by location]")
@click.option("--overlap", is_flag=True, help="Check every skill for overlap with the others, however many there are")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="Print for a person, a program, code scanning or a GitHub workflow",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def lint(
    context: click.Context,
    where: tuple[str, ...],
    fix: bool,
    dialect: str | None,
    overlap: bool,
    form: str,
    as_json: bool,
) -> None:
    """Find mistakes in skills: repaired YAML, misspelled fields, hidden text, missing files, keyword stuffing.

    PATH is a skill's folder, its SKILL.md, or a folder of skills [default: every skill that `metier list` shows].
    Up to 20 skills are also checked for overlap with the others: whose trigger prompts would they take?
    What a skill would run is judged by `metier add --dry-run`, which installs nothing. Exits with 1 if errors or
    warnings remain.
    """
    settings: CliContext = context.obj
    # --dialect of this command says how files are read, not which product's skills are searched.
    library = settings.library() if dialect is None else settings._replace(dialect=None).library()
    name = dialect or settings.dialect
    if name is not None and name not in library.dialects:
        raise BadRequest(f"unknown dialect `{name}`", "choose one of: " + ", ".join(library.dialects))
    if where or settings.root is not None:
        folders = [folder for path in where or (settings.root or ".",) for folder in folders_of(path)]
    else:
        folders = sorted(skill_folders(library))
    folder_dialects = skill_folders(library)
    chosen = library.dialects[name] if name else None
    check_overlap = overlap or len(folders) <= _OVERLAP_LIMIT
    reports = [
        lint_folder(folder, library, chosen or folder_dialects.get(folder), fix, check_overlap) for folder in folders
    ]
    _say_reports(reports, "json" if as_json else form, fix)
    context.exit(0 if all(report.clean for report in reports) else 1)


def _say_reports(reports: list[LintReport], form: str, fix: bool) -> None:
    if form == "json":
        say_json([report_dict(report) for report in reports])
        return
    if form != "text":
        from ... import __version__
        from ...parse.problem_formats import github_lines, sarif_document

        problems = [problem for report in reports for problem in report.problems]
        if form == "sarif":
            say_json(sarif_document(problems, paths.working_folder(), __version__))
            return
        for line in github_lines(problems, paths.working_folder()):
            say(line)
    for report in reports if form == "text" else ():
        for line in _report_lines(report):
            say(line)
    say(
        f"{len(reports)} checked, {sum(report.clean for report in reports)} clean"
        + (f", {sum(bool(report.fixes) for report in reports)} fixed" if fix else "")
    )


def report_dict(report: LintReport) -> dict[str, object]:
    document: dict[str, object] = {
        "path": report.path,
        "problems": [problem_dict(problem) for problem in report.problems],
        "fixed": list(report.fixes),
    }
    return document | ({"left": report.not_fixed} if report.not_fixed else {})


def _report_lines(report: LintReport) -> Iterator[str]:
    for change in report.fixes:
        yield f"{printable(report.path)}: {paint('fixed', 'green')}: {printable(change)}"
    if report.not_fixed:
        yield f"{printable(report.path)}: {paint('not fixed', 'yellow')}: {report.not_fixed}"
    for problem in report.problems:
        yield from problem_lines(problem)


def folders_of(path: str) -> list[str]:
    target = paths.absolute_path(path, paths.working_folder(), paths.home_folder())
    if paths.exists(target) and not paths.is_folder(target):
        target = target.rpartition("/")[0]
    if find_skill_file(target) is not None:
        return [target]
    inner = paths.folders_with_skill(target)
    return [f"{target}/{name}" for name in inner] or [target]


def find_skill_file(folder: str) -> str | None:
    file_name = skill_file(folder)
    if file_name is not None or not paths.is_folder(folder):
        return file_name
    # A file of another case, such as `skill.md`: it is reported, and --fix renames it.
    listed = paths.list_names(folder)
    return next((name for name in (*listed.files, *listed.links) if name.lower() == "skill.md"), None)


def skill_folders(library: Library) -> dict[str, Dialect]:
    """The folder of every skill a library has seen, loaded or not, and how each is read."""
    folders = {skill.directory: skill.origin.dialect for skill in library.skills}
    return folders | {item.path.rpartition("/")[0]: item.origin.dialect for item in library.broken}


def dialect_of(folder: str, library: Library) -> Dialect:
    """The dialect of a folder: that of the root it is in, or else a guess from its path."""
    for root in library.roots:
        if paths.is_inside(folder, root.origin.path):
            return root.origin.dialect
    root_options = RootOptions(library.dialect, library.dialects, library.settings)
    return library.dialects[guess_dialect(folder.rpartition("/")[0], root_options)]


_OVERLAP_LIMIT = 20
"""Up to this many skills are checked for overlap without --overlap; each takes a moment."""


def lint_folder(
    folder: str, library: Library, dialect: Dialect | None, fix: bool, check_overlap: bool = False
) -> LintReport:
    if not paths.is_folder(folder):
        code = Finding("not-found" if not paths.exists(folder) else "not-a-directory", fatal=True)
        return LintReport(folder, (problem_from(code, folder),))
    name = find_skill_file(folder)
    if name is None:
        return LintReport(folder, (problem_from(Finding("missing-skill-md", fatal=True), folder),))
    chosen = dialect or dialect_of(folder, library)
    fixes: list[str] = []
    reason = ""
    if fix:
        name, reason = _fix_file(folder, name, library, fixes)
    problems = [*_find_problems(folder, name, chosen, library, check_overlap)]
    return LintReport(f"{folder}/{name}", tuple(problems), tuple(fixes), reason)


def _find_problems(
    folder: str, name: str, dialect: Dialect, library: Library, check_overlap: bool
) -> Iterator[Problem]:
    path = f"{folder}/{name}"
    try:
        key, data = files.read_skill_file(folder, name, MAX_FILE_BYTES)
    except (OSError, OutsideSkill) as error:
        yield problem_from(file_fault(error, name), path)
        return
    origin = Origin("path", 1, "root", folder.rpartition("/")[0], dialect)
    findings = () if name == "SKILL.md" else (Finding("file-case", 0, (name,)),)
    parsed = parse(Found(origin, paths.real_name(folder), path, key, data, True, findings), library.dialects)
    yield from parsed.problems
    shared = [root.origin.path for root in library.roots if root.companions]
    counts = any(paths.is_inside(folder, path) for path in shared) or "/.agents/skills/" in f"{folder}/"
    yield from (problem_from(finding, path) for finding in companion_findings(folder, counts))
    if isinstance(parsed, Skill):
        yield from (
            problem_from(finding, path) for finding in selection_findings(parsed, library if check_overlap else None)
        )
    try:
        text = decode_text(data, True, [])
    except ParseRefusal:
        return
    # The parser reports some of what the linter finds: each is shown once.
    reported = {(issue.code, issue.line) for issue in parsed.problems}
    for finding in lint_text(text, dialect):
        if (finding.code, finding.line) not in reported:
            yield problem_from(finding, path)
    yield from (problem_from(finding, path) for finding in _missing_files(folder, text, dialect))


def _missing_files(folder: str, text: str, dialect: Dialect) -> Iterator[Finding]:
    """Files that the instructions name and that are not there, each once."""
    told: set[str] = set()
    for line, name, its_own in named_files(text, dialect):
        # Without such a folder of the skill's, a bare path is more likely one of the project's.
        known = its_own or paths.is_folder(f"{folder}/{name.partition('/')[0]}")
        if known and name not in told and not paths.exists(f"{folder}/{name}"):
            told.add(name)
            yield Finding("missing-file", line, (name,))


def _fix_file(folder: str, name: str, library: Library, fixes: list[str]) -> tuple[str, str]:
    """Fix a file in place; returns its name afterwards, and why it was left alone, if so.

    Permissions stay, a reader never sees half a file, and no link is written through: the folder is opened once, and
    read and written by its descriptor.
    """
    roots = [root.origin.path for root in library.roots]
    # Opened from the nearest root, whose path is the user's choice: links up to there are theirs, links beneath it may
    # come with a repository.
    outer = [root for root in roots if root != folder and paths.is_inside(folder, root)]
    base = max(outer, key=len, default=folder.rpartition("/")[0]) or "/"
    try:
        with fs.folder_beneath(base, folder[len(base.rstrip("/")) + 1 :]) as opened:
            return _fix_opened(opened, paths.real_name(folder), name, fixes), ""
    except OSError as error:
        linked = error.errno in (errno.ELOOP, errno.ENOTDIR)
        return name, "its folder is reached through a link; pass the real folder" if linked else ""


def _fix_opened(folder: int, directory: str, name: str, fixes: list[str]) -> str:
    try:
        _, data = files.read_whole(folder, name, MAX_FILE_BYTES, links=True)
        text = data.decode()
    except (OSError, UnicodeDecodeError):
        return name
    # Reported by the checks; no fix is unambiguous.
    if "\0" in text:
        return name
    fixed, changes = fix_text(text, directory)
    # None for anything but a regular file: a link is not written through.
    mode = fs.regular_file_mode(folder, name)
    if changes and mode is not None:
        fs.replace_file_in(folder, name, fixed, mode)
        fixes.extend(changes)
    if name != "SKILL.md" and fs.rename_file_in(folder, name, "SKILL.md"):
        fixes.append(f"renamed `{name}` to `SKILL.md`")
        return "SKILL.md"
    return name
