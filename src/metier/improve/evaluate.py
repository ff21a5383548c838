"""Evaluate: run a skill's evals and trigger prompts, and judge a change of the skill by its evals.

A change is compared with the skill as it was, on the same cases.  Evidence is asymmetric: a few cases can show that a
change breaks something, which refuses it; to show a gain takes `ENOUGH_CASES`, and the gain has to appear a second
time, because among many changes some gain by chance.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..host import fs, paths, trees
from ..host.facts import utc_timestamp
from ..sources.skill_files import SkillFiles
from ..types.dialect import ImprovementMode
from ..types.errors import BadRequest, MetierError, ModelError, Refused
from ..types.event import Activated, Ended
from ..types.improvement import EvalQueue, GateResult
from ..types.skill import Skill
from . import evals, report, trials
from .budget import why_no_requests
from .eval_runner import ARMS_FOLDER, EvalPlan, EvalRunner, read_case_inputs, read_skill_files
from .evals import TriggerReport, read_suite, read_triggers
from .gates import SkillDraft
from .report import Benchmark, render_page
from .score import ArmComparison, compare_arms, scores_by_case
from .tasks import ProgressCallback, inner_event, plan_tasks, run_trial
from .trials import SerialQueue, ThreadQueue

if TYPE_CHECKING:
    from ..library.library import Library
    from ..types.model import Model


ENOUGH_CASES = 20
"""With fewer cases, a gain can't be told from chance."""


def evals_gate(
    comparison: ArmComparison | None, cases: int, mode: ImprovementMode, must_gain: bool = True
) -> GateResult:
    """Refuse a change that is worse, or one that enough cases show no gain for; with few cases a person decides."""
    if comparison is None:
        return _unproven_gate("it has no evals", mode)
    summary = f"{comparison.delta:+.0%} over {comparison.cases} evals ({comparison.low:+.0%} to {comparison.high:+.0%})"
    if comparison.verdict == "worse" or comparison.lost:
        lost = f"; lost: {', '.join(comparison.lost[:3])}" if comparison.lost else ""
        return GateResult("evals", "no", f"worse: {summary}{lost}")
    if not comparison.cases:
        return _unproven_gate("none of its evals could be graded", mode)
    if cases < ENOUGH_CASES:
        return _unproven_gate(f"{summary}; telling a gain from chance takes {ENOUGH_CASES} evals", mode)
    return (
        GateResult("evals", "yes", summary)
        if comparison.delta > 0 or not must_gain
        else GateResult("evals", "no", f"no gain: {summary}")
    )


def _unproven_gate(words: str, mode: ImprovementMode) -> GateResult:
    return GateResult("evals", "yes" if mode == "auto" else "person", words)


def confirm_gate(first: GateResult, again: ArmComparison) -> GateResult:
    """A gain that does not appear again was chance."""
    if again.delta < 0 or again.lost or again.verdict == "worse":
        return GateResult("evals", "no", f"{first.words}, and {again.delta:+.0%} on a second run")
    return GateResult("evals", "yes", f"{first.words}, and {again.delta:+.0%} on a second run")


def skill_to_try(library: Library, name: str) -> Skill:
    """The skill of a name, if it may run here."""
    verdict = library.find(name)
    skill = verdict.skill
    if not verdict.usable or not skill.origin.trusted:
        problems = [problem for problem in verdict.problems if problem.severity == "error"] or list(verdict.problems)
        why = problems[0].message if problems else "it is not trusted"
        hint = (problems[0].hint if problems else "") or f"run `metier why {name}` for details"
        raise Refused(f"`{name}` may not run here, so it can't be tried: {why}", hint, skill.path)
    # Raises if an installed skill is not what was approved.
    library.read(skill)
    return skill


def run_evals(
    library: Library, skill: Skill, plan: EvalPlan, queue: EvalQueue, progress: ProgressCallback
) -> Benchmark:
    """Run a skill's evals in every arm of the plan, and store the results in a new folder.

    The same trial continues if it was interrupted.
    """
    suite = read_suite(skill.directory, skill.name)
    if not suite.cases:
        raise BadRequest(f"`{skill.name}` has no evals", "write some in evals/evals.json", f"{skill.directory}/evals")
    inputs = read_case_inputs(skill, suite)
    # Fails without a model, before anything is written.
    name = plan.model_name(library)
    place = library.place
    above = paths.absolute_path(plan.out or f"{place.state}/evals/{skill.name}", place.cwd, place.home)
    with trials.claim_trial_folder(above, library, skill, plan) as out:
        runner = EvalRunner(library, skill, plan, out, suite, inputs)
        try:
            notes = runner.open()
        except MetierError:
            trees.remove_tree(out)
            raise
        samples = run_trial(plan_tasks(suite.cases, plan.arms, plan.runs, out), queue, runner.sample, progress)
        benchmark = Benchmark(suite, samples, plan.arms, plan.runs, name, utc_timestamp(), notes, out)
        report.write_benchmark(benchmark)
        fs.write_text(f"{out}/report.html", render_page(benchmark), sync=False)
        trees.remove_tree(f"{out}/{ARMS_FOLDER}")
    return benchmark


def skill_files_at(library: Library, skill: Skill, rev: str) -> SkillFiles:
    """A skill's files at a version of its history."""
    from ..install.managed import managed_skill
    from ..record import history

    target = managed_skill(library, skill)
    files = history.read_files(target.repository, target.key, rev)
    if not files:
        raise BadRequest(f"`{skill.name}` did not exist at {rev}", f"run `metier history {skill.name}`", skill.path)
    return SkillFiles.from_pairs(files)


# --- Trigger prompts ---


def run_trigger_prompts(
    library: Library, skill: Skill, queue: EvalQueue, model: Model | str | None, runs: int
) -> TriggerReport:
    """Run a skill's trigger prompts: with the local ranker, or with a model that has all skills."""
    prompts = read_triggers(skill.directory)
    if not prompts:
        hint = 'write some in evals/triggers.json: [{"query": "…", "should_trigger": true}]'
        raise BadRequest(f"`{skill.name}` has no trigger prompts", hint, f"{skill.directory}/evals")
    if model is None:
        results = evals.run_triggers(
            prompts, skill.name, lambda query: skill_ranked_first(library, query), SerialQueue()
        )
        return TriggerReport(skill.name, skill.description, "ranker", results)
    results = evals.run_triggers(prompts, skill.name, lambda query: skill_chosen_by(library, query, model), queue, runs)
    return TriggerReport(skill.name, skill.description, _name_of_model(model, library), results)


def _name_of_model(model: Model | str, library: Library) -> str:
    from ..agent.models import resolve_model_name

    return resolve_model_name(model, library) if isinstance(model, str) else model.name


def skill_ranked_first(library: Library, query: str) -> str:
    """The skill that the local ranker clearly prefers; empty if there is none."""
    hits = library.search(query, limit=1)
    return hits[0].skill.name if hits and hits[0].clear else ""


def skill_chosen_by(library: Library, query: str, model: Model | str) -> str:
    """The first skill that a model activates; the run ends there."""
    from ..agent.agent import Agent
    from ..agent.permissions import Permission
    from ..types.agent import TurnBounds

    with trees.temporary_folder() as work:
        place = library.place._replace(cwd=work, project=work)
        # SQLite connections belong to a thread.
        isolated = library.replace(place=place, database=None)
        agent = Agent(
            isolated, model, rules=Permission(otherwise="deny"), limits=TurnBounds(turns=3, seconds=120), keep=False
        )
        with agent.start() as session, closing(session.within(None, query)) as events:
            for event in events:
                inner = inner_event(event)
                if isinstance(inner, Activated):
                    return inner.skill
                if isinstance(inner, Ended) and inner.outcome == "failed":
                    raise ModelError(inner.text, inner.hint, inner.reason)
    return ""


# --- Proof of a change ---

RUNS = 3
"""Runs of each case in each arm."""


def prove_by_evals(
    library: Library, skill: Skill, draft: SkillDraft, model: Model | None, mode: ImprovementMode
) -> GateResult | None:
    """Compare a changed skill with the old one on its evals; with enough of them, a model's gain must appear twice.

    A rule's change has to be no worse; without evals it has nothing to show, and there is no gate.
    """
    try:
        cases = len(read_suite(skill.directory, skill.name).cases)
        if not cases:
            return evals_gate(None, 0, mode) if draft.modelled and model is not None else None
        # Each run takes a request at the least, and a grader may take one more.
        requests = cases * 2 * RUNS
        if model is None or (why := why_no_requests(model, requests)):
            why = "there is no model" if model is None else why
            return GateResult(
                "evals", "person", f"its {cases} evals were not run, which takes {requests} requests: {why}"
            )
        files = read_skill_files(skill.directory)
        old, new = files.with_texts(draft.before), files.with_texts(draft.after)
        plan = EvalPlan(("old_skill", "with_skill"), RUNS, model, model, new=new, old=old)
        first = evals_gate(_compare_arms(library, skill, plan), cases, mode, must_gain=draft.modelled)
        if first.says != "yes" or cases < ENOUGH_CASES or not draft.modelled:
            return first
        return confirm_gate(first, _compare_arms(library, skill, plan))
    except MetierError as error:
        return GateResult("evals", "person", f"its evals could not be run: {error.message}")


def _compare_arms(library: Library, skill: Skill, plan: EvalPlan) -> ArmComparison:
    samples = run_evals(library, skill, plan, ThreadQueue(), lambda what, done, total: None).samples
    return compare_arms(scores_by_case(samples, "old_skill"), scores_by_case(samples, "with_skill"))
