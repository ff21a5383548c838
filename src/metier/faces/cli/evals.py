"""metier eval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ...types.errors import BadRequest, ModelError
from . import options
from .options import CliContext, skill_names
from .output import paint, printable, say, say_json

if TYPE_CHECKING:
    from ...improve.evals import TriggerReport
    from ...improve.report import Benchmark
    from ...types.improvement import EvalArm, EvalSample

_ARM_LABELS = {"with_skill": "with the skill", "without_skill": "without it", "old_skill": "as it was"}
_MAX_SHOWN = 10
"""Failed checks, or wrong prompts, that are listed."""


@click.command("eval")
@click.argument("name", shell_complete=skill_names)
@click.option("--with-without", is_flag=True, help="Compare with runs without the skill")
@click.option("--compare", metavar="REV", default="", help="Compare with an earlier version of the skill")
@click.option("--triggers", is_flag=True, help="Test the trigger prompts, with the local ranker or with --model")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs per case")
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Maximum number of runs at a time"
)
@options.model_option("Model to run the cases with")
@click.option("--grader", default="", metavar="NAME", help="Model to grade with [default: the same]")
@click.option("--out", metavar="DIR", default="", help="Folder for the results [default: in ~/.metier]")
@click.option("--fail-under", type=click.FloatRange(0, 1), help="Exit with 1 if the pass rate (0 to 1) is lower")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def evaluate(context: CliContext, /, name: str, as_json: bool, **options: Any) -> int:
    """Evaluate a skill: run each case of evals/evals.json in a clean context and grade the result.

    Checks are graded in code where possible and by a model otherwise. A new folder gets the results and a report.
    Exits with 1 if the skill does worse than what it is compared with.
    """
    if options["with_without"] and options["compare"]:
        raise BadRequest("--with-without and --compare are mutually exclusive", "run one comparison at a time")
    if options["triggers"]:
        for option in ("with_without", "compare"):
            if options[option]:
                raise BadRequest(f"--{option.replace('_', '-')} can't be used with --triggers", "remove it")
        return _run_triggers(context, name, as_json, options)
    return _show_report(_run_evals(context, name, options), as_json, options)


def _show_report(report: Benchmark, as_json: bool, options: dict[str, Any]) -> int:
    if as_json:
        from ...improve.report import benchmark_document

        say_json({**benchmark_document(report), "folder": report.folder})
    else:
        for line in _report_lines(report):
            say(line)
    comparison, minimum = report.comparison, options["fail_under"]
    under = minimum is not None and report.rate("with_skill").mean < minimum
    return 1 if under or (comparison is not None and comparison.verdict == "worse") else 0


def _run_evals(context: CliContext, name: str, options: dict[str, Any]) -> Benchmark:
    from ...host import paths
    from ...improve.eval_runner import EvalPlan
    from ...improve.evaluate import run_evals, skill_files_at, skill_to_try
    from ...improve.trials import SharedQueue, ThreadQueue, can_share
    from .output import ProgressBar

    library = context.library()
    skill = skill_to_try(library, name)
    arms: tuple[EvalArm, ...] = ("with_skill",)
    old = None
    if options["compare"]:
        arms, old = ("with_skill", "old_skill"), skill_files_at(library, skill, options["compare"])
    elif options["with_without"]:
        arms = ("with_skill", "without_skill")
    out = paths.absolute_path(options["out"], paths.working_folder(), paths.home_folder()) if options["out"] else ""
    # On the schedule queue a daemon can take part, but its packages are an extra; threads always work.
    queue = SharedQueue(library.place, options["jobs"]) if can_share() else ThreadQueue(options["jobs"])
    plan = EvalPlan(arms, options["runs"], options["model"], options["grader"], out, old=old, stop=queue.stop)
    with ProgressBar(skill.name) as bar:
        # Drawn now, as the first run may take minutes.
        bar("runs", 0, 1)
        report = run_evals(library, skill, plan, queue, bar)
    # Void runs are not counted: with nothing but these, the service is down and there is no result.
    if all(sample.made.void for sample in report.samples):
        raise ModelError(f"no run finished: {report.samples[0].made.note}", f"see {report.folder}")
    return report


def _report_lines(report: Benchmark) -> Iterator[str]:
    from ...improve.report import format_percent, format_points, summary_sentence
    from .output import count_of

    cases, runs = count_of(len(report.suite.cases), "case"), count_of(report.runs, "run")
    yield f"{paint(printable(report.suite.skill), 'bold')}: {cases}, {runs} of each"
    for arm in report.arms:
        rate = report.rate(arm)
        yield (
            f"  {_ARM_LABELS[arm]:15} {format_percent(rate.mean):>6}  "
            f"between {format_percent(rate.low)} and {format_percent(rate.high)}"
        )
    comparison = report.comparison
    if comparison is not None:
        yield (
            f"  {'difference':15} {format_points(comparison.delta):>6}  between "
            f"{format_points(comparison.low)} and {format_points(comparison.high)} points"
        )
    tone = {"better": "green", "worse": "red", "underpowered": "yellow"}.get(
        comparison.verdict if comparison else "", "bold"
    )
    yield paint(summary_sentence(report), tone)
    yield from _check_lines(report.of("with_skill"), False, "failed")
    if report.undecided:
        yield paint(f"{count_of(report.undecided, 'check')} could not be graded and are not counted:", "yellow")
        yield from _check_lines(report.samples, None, "undecided")
    unused = sum(not sample.made.activated for sample in report.of("with_skill"))
    if unused:
        yield paint(f"{count_of(unused, 'run')} with the skill did not use it.", "yellow")
    yield f"Report: {printable(report.folder)}/report.html"


def _check_lines(samples: Iterable[EvalSample], passed: bool | None, label: str) -> Iterator[str]:
    """The checks with this result, each once, with how often it came and the first evidence."""
    evidence_by_check: dict[tuple[str, str], list[str]] = {}
    for sample in samples:
        for check in sample.graded:
            if check.passed is passed:
                evidence_by_check.setdefault((sample.case, check.text), []).append(check.evidence)
    for (case, text), evidence in list(evidence_by_check.items())[:_MAX_SHOWN]:
        yield f"  {paint(label, 'red')} {len(evidence)}x  {printable(case)}: {printable(text)}"
        yield paint(f"         {printable(evidence[0])}", "dim")
    if len(evidence_by_check) > _MAX_SHOWN:
        yield f"  and {len(evidence_by_check) - _MAX_SHOWN} more"


def _run_triggers(context: CliContext, name: str, as_json: bool, options: dict[str, Any]) -> int:
    from ...improve.evals import triggers_document
    from ...improve.evaluate import run_trigger_prompts, skill_to_try
    from ...improve.trials import ThreadQueue

    library = context.library()
    skill = skill_to_try(library, name)
    report = run_trigger_prompts(
        library, skill, ThreadQueue(options["jobs"]), options["model"] or None, options["runs"]
    )
    if as_json:
        say_json(triggers_document(report))
    else:
        for line in _trigger_lines(report):
            say(line)
    minimum = options["fail_under"]
    passed = sum(trial.passed for trial in report.tried) / len(report.tried)
    return 1 if report.verdict == "poor" or (minimum is not None and passed < minimum) else 0


def _trigger_lines(report: TriggerReport) -> Iterator[str]:
    from ...improve.report import format_percent
    from .output import count_of

    chooser = "the local ranker" if report.tier == "ranker" else report.tier
    prompts = count_of(len(report.tried), "prompt")
    yield f"{paint(printable(report.skill), 'bold')}: {prompts}, chosen by {printable(chooser)}"
    for should, label in ((True, "triggered when it should"), (False, "not triggered otherwise")):
        share = report.share(should)
        if share.cases:
            between = f"between {format_percent(share.low)} and {format_percent(share.high)}"
            yield f"  {label:26} {format_percent(share.mean):>6} of {share.cases}  {between}"
    wrong = [trial for trial in report.tried if not trial.passed]
    for trial in wrong[:_MAX_SHOWN]:
        instead = f" ({', '.join(map(printable, trial.instead))} instead)" if trial.instead else ""
        fault = "missed" if trial.should else "wrongly chosen"
        yield f"  {paint(fault, 'red')}: {printable(trial.query)}{instead}"
    if len(wrong) > _MAX_SHOWN:
        yield f"  and {len(wrong) - _MAX_SHOWN} more"
    if report.underpowered:
        yield paint(f"No verdict: {report.underpowered}.", "yellow")
    else:
        yield paint(f"The description is {report.verdict}.", "green" if report.verdict == "good" else "yellow")
