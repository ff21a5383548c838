"""metier eval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ...types.errors import BadRequest, ModelError
from . import naming
from .app import Context, skill_names
from .printing import clean, paint, say, say_json

_NAMES = {"with_skill": "with the skill", "without_skill": "without it", "old_skill": "as it was"}
_SHOWN = 10
"""Checks that failed, or prompts that went wrong, which are named."""


@click.command("eval")
@click.argument("name", shell_complete=skill_names)
@click.option("--with-without", is_flag=True, help="Compare with runs that have no access to the skill at all.")
@click.option("--compare", metavar="REV", default="", help="Compare with the skill as it was at a version.")
@click.option("--triggers", is_flag=True, help="Try its trigger prompts: by the local ranker, or by --model.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of every case.")
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Runs at a time.")
@naming.model_option("The model that works.")
@click.option("--grader", default="", metavar="NAME", help="The model that judges; otherwise the same.")
@click.option("--out", metavar="DIR", default="", help="Where results go; otherwise metier's own folder.")
@click.option("--fail-under", type=click.FloatRange(0, 1), help="Exit code 1 if a smaller share passes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def evaluate(context: Context, /, name: str, as_json: bool, **given: Any) -> int:
    """Try a skill with its evals: evals/evals.json, each case in a clean context, judged and counted.

    What can be decided without a model is; a model judges the rest.  Results go to a new folder with a report.
    Exit code 1 if the skill does worse than what it is compared with.
    """
    if given["with_without"] and given["compare"]:
        raise BadRequest("--with-without and --compare are two comparisons", "make one after the other")
    if given["triggers"]:
        for option in ("with_without", "compare"):
            if given[option]:
                raise BadRequest(f"--{option.replace('_', '-')} is not for trigger prompts", "leave it out")
        return _triggers(context, name, as_json, given)
    return _shown(_tried(context, name, given), as_json, given)


def _shown(found: Any, as_json: bool, given: dict[str, Any]) -> int:
    if as_json:
        from ...improve.results import document

        say_json({**document(found), "folder": found.folder})
    else:
        for line in _lines(found):
            say(line)
    one, least = found.comparison, given["fail_under"]
    under = least is not None and found.rate("with_skill").mean < least
    return 1 if under or (one is not None and one.verdict == "worse") else 0


def _tried(context: Context, name: str, given: dict[str, Any]) -> Any:
    from ...host import paths
    from ...runtime.bench import Plan
    from ...runtime.evaluating import as_it_was, evaluated, skill_to_try
    from ...runtime.queueing import Pool
    from ...runtime.trials import Shared, can_share
    from .progress import Bar

    library = context.library()
    skill = skill_to_try(library, name)
    arms: tuple[Any, ...] = ("with_skill",)
    old = None
    if given["compare"]:
        arms, old = ("with_skill", "old_skill"), as_it_was(library, skill, given["compare"])
    elif given["with_without"]:
        arms = ("with_skill", "without_skill")
    out = paths.absolute(given["out"], paths.cwd(), paths.home()) if given["out"] else ""
    queue = Shared(library.place, given["jobs"]) if can_share() else Pool(given["jobs"])
    plan = Plan(arms, given["runs"], given["model"], given["grader"], out, old=old, stop=queue.stop)
    with Bar(skill.name) as bar:
        bar("runs", 0, 1)
        found = evaluated(library, skill, plan, queue, bar)
    if all(one.made.void for one in found.samples):
        raise ModelError(f"no run came to an end: {found.samples[0].made.note}", f"see {found.folder}")
    return found


def _lines(found: Any) -> Iterator[str]:
    from ...improve.results import percent, points, said
    from .printing import counted

    cases, runs = counted(len(found.suite.cases), "case"), counted(found.runs, "run")
    yield f"{paint(clean(found.suite.skill), 'bold')}: {cases}, {runs} of each"
    for arm in found.arms:
        rate = found.rate(arm)
        yield f"  {_NAMES[arm]:15} {percent(rate.mean):>6}  between {percent(rate.low)} and {percent(rate.high)}"
    one = found.comparison
    if one is not None:
        yield f"  {'difference':15} {points(one.delta):>6}  between {points(one.low)} and {points(one.high)} points"
    tone = {"better": "green", "worse": "red", "underpowered": "yellow"}.get(one.verdict if one else "", "bold")
    yield paint(said(found), tone)
    yield from _checks(found.of("with_skill"), False, "failed")
    if found.undecided:
        yield paint(f"{counted(found.undecided, 'check')} could not be decided, and counted for nothing:", "yellow")
        yield from _checks(found.samples, None, "undecided")
    unused = sum(not one.made.activated for one in found.of("with_skill"))
    if unused:
        yield paint(f"{counted(unused, 'run')} with the skill did not use it.", "yellow")
    yield f"Report: {clean(found.folder)}/report.html"


def _checks(samples: Any, passed: bool | None, word: str) -> Iterator[str]:
    """The checks that came out so, each once, with how often and why."""
    kind: dict[tuple[str, str], list[str]] = {}
    for sample in samples:
        for one in sample.graded:
            if one.passed is passed:
                kind.setdefault((sample.case, one.text), []).append(one.evidence)
    for (case, text), evidence in list(kind.items())[:_SHOWN]:
        yield f"  {paint(word, 'red')} {len(evidence)}x  {clean(case)}: {clean(text)}"
        yield paint(f"         {clean(evidence[0])}", "dim")
    if len(kind) > _SHOWN:
        yield f"  and {len(kind) - _SHOWN} more"


def _triggers(context: Context, name: str, as_json: bool, given: dict[str, Any]) -> int:
    from ...improve.triggers import document
    from ...runtime.evaluating import skill_to_try, triggered
    from ...runtime.queueing import Pool

    library = context.library()
    skill = skill_to_try(library, name)
    found = triggered(library, skill, Pool(given["jobs"]), given["model"] or None, given["runs"])
    if as_json:
        say_json(document(found))
    else:
        for line in _trigger_lines(found):
            say(line)
    least = given["fail_under"]
    passed = sum(one.passed for one in found.tried) / len(found.tried)
    return 1 if found.verdict == "poor" or (least is not None and passed < least) else 0


def _trigger_lines(found: Any) -> Iterator[str]:
    from ...improve.results import percent
    from .printing import counted

    who = "the local ranker" if found.tier == "ranker" else found.tier
    yield f"{paint(clean(found.skill), 'bold')}: {counted(len(found.tried), 'prompt')}, chosen by {clean(who)}"
    for should, label in ((True, "chosen when it should be"), (False, "left alone otherwise")):
        share = found.share(should)
        if share.cases:
            between = f"between {percent(share.low)} and {percent(share.high)}"
            yield f"  {label:26} {percent(share.mean):>6} of {share.cases}  {between}"
    wrong = [one for one in found.tried if not one.passed]
    for one in wrong[:_SHOWN]:
        instead = f" ({', '.join(map(clean, one.instead))} instead)" if one.instead else ""
        what = "missed" if one.should else "wrongly chosen"
        yield f"  {paint(what, 'red')}: {clean(one.query)}{instead}"
    if len(wrong) > _SHOWN:
        yield f"  and {len(wrong) - _SHOWN} more"
    if found.underpowered:
        yield paint(f"No verdict: {found.underpowered}.", "yellow")
    else:
        yield paint(f"The description is {found.verdict}.", "green" if found.verdict == "good" else "yellow")
