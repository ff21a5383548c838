"""metier ci: the checks of a repository of skills, in one command with one exit code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import click

from ...host import fs, paths
from ...host.facts import find_place
from ...library.library import Library
from ...parse.problem_formats import github_lines
from ...types.errors import BadRequest, MetierError
from ...types.problem import Problem
from ...types.skill import Skill
from ..cli.lint import folders_of, lint_folder
from ..cli.options import CliContext, model_option
from ..cli.output import count_of, paint, printable, problem_dict, problem_lines, say, say_json

CheckOutcome = Literal["passed", "failed", "skipped"]
_STYLES = {"passed": "green", "failed": "red", "skipped": "dim"}
_MARKS = {"passed": "✅", "failed": "❌", "skipped": "➖"}


class CiOptions(NamedTuple):
    """What the command line chose."""

    where: tuple[str, ...]
    strict: bool
    model: str
    runs: int
    fail_under: float


class CheckResult(NamedTuple):
    """How one of the checks ended."""

    name: str
    outcome: CheckOutcome
    note: str
    problems: tuple[Problem, ...] = ()
    details: tuple[str, ...] = ()
    """Lines for a person, of checks whose results are no findings in a file."""


@click.command("ci")
@click.argument("where", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--strict", is_flag=True, help="Also require the agentskills.io specification, as `metier validate` does")
@model_option("Model to run evals with; without one, only trigger prompts are tested")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs per eval case")
@click.option(
    "--fail-under", type=click.FloatRange(0, 1), default=0.8, show_default=True, help="Lowest pass rate of evals"
)
@click.option("--summary", metavar="FILE", default="", help="Also append a Markdown summary to FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="Print for a person, a program or a GitHub workflow",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def ci(context: click.Context, /, summary: str, form: str, as_json: bool, **chosen: Any) -> None:
    """Check a repository of skills: verify the lock, lint, audit, and run evals. Exits with 1 if a check fails.

    PATH is a skill's folder or a folder of skills, and its skills are trusted [default: the skills of this project].
    Trigger prompts are tested with the local ranker; evals need a model. What there is nothing to check for is skipped.
    """
    options = CiOptions(**chosen)
    results = [*run_checks(context.obj, options)]
    failed = any(result.outcome == "failed" for result in results)
    if summary:
        file = paths.absolute_path(summary, paths.working_folder(), paths.home_folder())
        fs.append_line(file, "\n".join(summary_lines(results)))
    if as_json or form == "json":
        say_json({"ok": not failed, "checks": [_result_dict(result) for result in results]})
    else:
        for line in _result_lines(results, form):
            say(line)
    context.exit(1 if failed else 0)


def run_checks(context: CliContext, options: CiOptions) -> Iterator[CheckResult]:
    """Run every check. One that can't be run has failed, and does not stop the others."""
    folders = _chosen_folders(context, options)
    checks: list[tuple[str, Callable[[], CheckResult]]] = [
        ("verify", lambda: _verify_lock(context)),
        ("lint", lambda: _lint_folders(context, folders)),
    ]
    if options.strict:
        checks.append(("validate", lambda: _validate_folders(folders)))
    checks.append(("audit", lambda: _audit_lock(context)))
    checks.append(("evals", lambda: _run_evals(context, options)))
    for name, check in checks:
        try:
            yield check()
        except MetierError as error:
            yield CheckResult(name, "failed", error.message, (), (error.hint,) if error.hint else ())


def _chosen_folders(context: CliContext, options: CiOptions) -> list[str]:
    where = options.where or ((context.root,) if context.root else ())
    if where:
        return [folder for path in where for folder in folders_of(path)]
    library = context.library()
    folders = [skill.directory for skill in library.skills if skill.origin.source == "project"]
    folders += [item.path.rpartition("/")[0] for item in library.broken if item.origin.source == "project"]
    if not folders:
        raise BadRequest("this project has no skills", "pass the folder they are in: metier ci skills")
    return sorted(set(folders))


# --- The checks ---


def _verify_lock(context: CliContext) -> CheckResult:
    from ...install.verify import verify_lock
    from ...library.lockfile import read_lock
    from ..cli.scopes import install_scope

    install_root = install_scope(context, False, context.root is None, "").install_root
    if not paths.exists(install_root.lock):
        return CheckResult("verify", "skipped", "no lock file")
    lock = read_lock(install_root)
    differences = [
        f"{install_root.root}/{difference.skill}/{difference.path}: {difference.how}"
        for difference in verify_lock(install_root, lock)
    ]
    note = f"{count_of(len(lock.skills), 'skill')} locked, {count_of(len(differences), 'file')} changed"
    return CheckResult("verify", "failed" if differences else "passed", note, (), tuple(differences))


def _lint_folders(context: CliContext, folders: list[str]) -> CheckResult:
    library = context.library()
    known = {skill.directory: skill.origin.dialect for skill in library.skills}
    reports = [lint_folder(folder, library, known.get(folder), fix=False) for folder in folders]
    clean = sum(report.clean for report in reports)
    problems = tuple(problem for report in reports for problem in report.problems)
    outcome: CheckOutcome = "passed" if clean == len(reports) else "failed"
    return CheckResult("lint", outcome, f"{count_of(len(reports), 'skill')} checked, {clean} clean", problems)


def _validate_folders(folders: list[str]) -> CheckResult:
    from ...sources.strict import strict_report

    reports = [strict_report(folder) for folder in folders]
    problems = tuple(problem for report in reports for problem in report.problems)
    wrong = sum(bool(report.problems) for report in reports)
    note = f"{len(reports) - wrong} valid, {wrong} invalid"
    return CheckResult("validate", "failed" if wrong else "passed", note, problems)


def _audit_lock(context: CliContext) -> CheckResult:
    """What the registries say of the skills that the lock holds, and whether their sources are allowed."""
    from ...install.audit_lock import BAD_STATES, audit_root
    from ..cli.scopes import fetch_options, install_scope

    scope = install_scope(context, False, context.root is None, "")
    if not paths.exists(scope.install_root.lock):
        return CheckResult("audit", "skipped", "no lock file")
    results = list(audit_root(scope.install_root, fetch_options(scope.place)))
    told = [result for result in results if result.state in (*BAD_STATES, "unchecked")]
    details = tuple(f"{result.folder}: {result.state}: {'; '.join(result.reasons)}" for result in told)
    bad = sum(result.state in BAD_STATES for result in results)
    # A registry that can't be reached says nothing against a skill, and a check that was not made is no pass.
    outcome: CheckOutcome = "failed" if bad else "skipped" if told else "passed"
    note = f"{bad} of {len(results)} should not be used" if bad or not told else f"{len(told)} could not be checked"
    return CheckResult("audit", outcome, note, (), details)


def _run_evals(context: CliContext, options: CiOptions) -> CheckResult:
    rates: list[tuple[str, float]] = []
    skipped: list[str] = []
    for library, skills in _eval_libraries(context, options):
        for skill in skills:
            rates += _skill_rates(library, skill, options, skipped)
    details = [f"{what}: {rate:.0%}" for what, rate in rates if rate < options.fail_under] + skipped
    if not rates:
        return CheckResult("evals", "skipped", "no trigger prompts or evals to run", (), tuple(details))
    low = sum(rate < options.fail_under for _, rate in rates)
    note = f"{len(rates) - low} of {len(rates)} at or above {options.fail_under:.0%}"
    return CheckResult("evals", "failed" if low else "passed", note, (), tuple(details))


def _eval_libraries(context: CliContext, options: CiOptions) -> Iterator[tuple[Library, list[Skill]]]:
    """The libraries of the paths, and the skills in each that are to be tried."""
    for path in options.where or (context.root,):
        if path is None:
            library = context.library()
            yield library, [skill for skill in library.skills if skill.origin.source == "project"]
            continue
        root = paths.absolute_path(path, find_place(context.directory).cwd, paths.home_folder())
        # The folder of one skill is no root. Its parent is: the skill must be told from those beside it.
        single = paths.exists(f"{root}/SKILL.md")
        library = context._replace(root=root.rpartition("/")[0] if single else root).library()
        yield library, [skill for skill in library.skills if not single or skill.directory == root]


def _skill_rates(library: Library, skill: Skill, options: CiOptions, skipped: list[str]) -> Iterator[tuple[str, float]]:
    """The pass rates of a skill's trigger prompts and evals."""
    from ...improve.eval_runner import EvalPlan
    from ...improve.evals import read_suite, read_triggers
    from ...improve.evaluate import run_evals, run_trigger_prompts, skill_to_try
    from ...improve.trials import ThreadQueue

    name, folder = skill.name, skill.directory
    triggers, cases = read_triggers(folder), read_suite(folder, name).cases
    if not triggers and not cases:
        return
    skill = skill_to_try(library, name)  # refuses one that may not run here
    if triggers:
        tried = run_trigger_prompts(library, skill, ThreadQueue(1), None, 1).tried
        yield f"{name}: trigger prompts", sum(trial.passed for trial in tried) / len(tried)
    if cases and not options.model:
        skipped.append(f"{name}: {count_of(len(cases), 'eval')} not run: no --model")
    elif cases:
        queue = ThreadQueue(4)
        plan = EvalPlan(("with_skill",), options.runs, options.model, "", "", stop=queue.stop)
        report = run_evals(library, skill, plan, queue, lambda activity, done, total: None)
        yield f"{name}: evals", report.rate("with_skill").mean


# --- What is printed ---


def _result_lines(results: Sequence[CheckResult], form: str) -> Iterator[str]:
    for result in results:
        if form == "github":
            yield from github_lines(result.problems, paths.working_folder())
        else:
            for problem in result.problems:
                yield from problem_lines(problem)
        for line in result.details:
            yield f"{result.name}: {printable(line)}"
    for result in results:
        yield f"{paint(f'{result.outcome:7}', _STYLES[result.outcome])}  {result.name:9} {printable(result.note)}"


def summary_lines(results: Sequence[CheckResult]) -> Iterator[str]:
    """A table in Markdown, for a job's summary and for a comment."""
    yield "### metier ci"
    yield ""
    yield "| check | result |"
    yield "|---|---|"
    for result in results:
        yield f"| {_MARKS[result.outcome]} {result.name} | {_as_markdown(result.note)} |"
    yield ""
    base = paths.working_folder()
    for result in results:
        for problem in result.problems:
            place = problem.place.removeprefix(base.rstrip("/") + "/")
            yield f"- {problem.severity}: {_as_markdown(place)}: {_as_markdown(problem.message)} ({problem.code})"
        for line in result.details:
            yield f"- {result.name}: {_as_markdown(line)}"


def _as_markdown(text: str) -> str:
    """A text of a skill's that must not become a link, a picture or a mention in somebody's pull request."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    inner = printable(text).replace("|", "\\|")
    return f"{fence} {inner} {fence}" if "`" in inner else f"`{inner}`" if inner else ""


def _result_dict(result: CheckResult) -> dict[str, object]:
    return {
        "check": result.name,
        "outcome": result.outcome,
        "note": result.note,
        "problems": [problem_dict(problem) for problem in result.problems],
        "details": list(result.details),
    }
