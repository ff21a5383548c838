"""Trying a skill with its evals, and its description with prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..host import paths, scratch, state, swap
from ..host.clock import today
from ..improve import results, triggers
from ..improve.evals import suite_of, triggers_of
from ..improve.report import page
from ..improve.results import Benchmark
from ..improve.trial import Progress, inner_event, tasks, tried
from ..improve.triggers import Triggering
from ..types.errors import BadRequest, MetierError, ModelError, Refused
from ..types.evals import Queue
from ..types.event import Activated, Ended
from ..types.skill import Skill
from . import trials
from .bench import ARMS, Bench, Contents, Plan, inputs_of
from .queueing import InTurn

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library


def skill_to_try(library: Library, name: str) -> Skill:
    """The skill of that name, if it may be used here at all."""
    verdict = library.find(name)
    skill = verdict.skill
    if not verdict.usable or not skill.origin.trusted:
        found = [one for one in verdict.problems if one.severity == "error"] or list(verdict.problems)
        why = found[0].message if found else "it is not trusted"
        hint = (found[0].hint if found else "") or f"`metier why {name}` says more"
        raise Refused(f"`{name}` may not run here, so it can't be tried: {why}", hint, skill.path)
    library.read(skill)  # what was installed must still be what was approved
    return skill


def evaluated(library: Library, skill: Skill, plan: Plan, queue: Queue, progress: Progress) -> Benchmark:
    """Run a skill's evals in every arm of the plan, and keep what came of it in a new folder.

    A trial of the same that was cut off goes on where it was.
    """
    suite = suite_of(skill.directory, skill.name)
    if not suite.cases:
        raise BadRequest(f"`{skill.name}` has no evals", "write some in evals/evals.json", f"{skill.directory}/evals")
    inputs = inputs_of(skill, suite)
    name = plan.model_name(library)  # where there is no model, nothing is begun
    place = library.place
    above = paths.absolute(plan.out or f"{place.state}/evals/{skill.name}", place.cwd, place.home)
    with trials.claimed(above, library, skill, plan) as out:
        bench = Bench(library, skill, plan, out, suite, inputs)
        try:
            notes = bench.open()
        except MetierError:
            swap.remove_tree(out)
            raise
        samples = tried(tasks(suite.cases, plan.arms, plan.runs, out), queue, bench.sample, progress)
        found = Benchmark(suite, samples, plan.arms, plan.runs, name, today(), notes, out)
        results.keep(found)
        state.write_text(f"{out}/report.html", page(found), sync=False)
        swap.remove_tree(f"{out}/{ARMS}")
    return found


def as_it_was(library: Library, skill: Skill, rev: str) -> Contents:
    """A skill's files at a version of its history."""
    from ..record import history
    from .changing import managed

    one = managed(library, skill)
    found = history.files(one.repository, one.key, rev)
    if not found:
        raise BadRequest(f"`{skill.name}` was not there at {rev}", f"run `metier history {skill.name}`", skill.path)
    return found


# --- Prompts ---


def triggered(library: Library, skill: Skill, queue: Queue, model: Model | str | None, runs: int) -> Triggering:
    """Which of a skill's trigger prompts it is chosen for: by the local ranker, or by a model that has all skills."""
    found = triggers_of(skill.directory)
    if not found:
        how = 'write some in evals/triggers.json: [{"query": "…", "should_trigger": true}]'
        raise BadRequest(f"`{skill.name}` has no trigger prompts", how, f"{skill.directory}/evals")
    if model is None:
        tried_all = triggers.tried(found, skill.name, lambda query: ranked_first(library, query), InTurn())
        return Triggering(skill.name, skill.description, "ranker", tried_all)
    tried_all = triggers.tried(found, skill.name, lambda query: chosen_by(library, query, model), queue, runs)
    return Triggering(skill.name, skill.description, _name(model, library), tried_all)


def _name(model: Model | str, library: Library) -> str:
    from .models import model_name

    return model_name(model, library) if isinstance(model, str) else model.name


def ranked_first(library: Library, query: str) -> str:
    """The skill that clearly answers a request best, by the local ranker; empty where none does."""
    hits = library.search(query, limit=1)
    return hits[0].skill.name if hits and hits[0].clear else ""


def chosen_by(library: Library, query: str, model: Model | str) -> str:
    """The first skill that a model calls for; the run ends there, and nothing else is done."""
    from ..act.permission import Permission
    from ..types.agent import Bounds
    from .agent import Agent

    with scratch.folder() as work:
        place = replace(library.place, cwd=work, project=work)
        here = replace(library, place=place, database=None)  # an open index stays in its thread
        agent = Agent(here, model, rules=Permission(otherwise="deny"), limits=Bounds(turns=3, seconds=120), keep=False)
        for event in agent.start().within(None, query):
            inner = inner_event(event)
            if isinstance(inner, Activated):
                return inner.skill
            if isinstance(inner, Ended) and inner.outcome == "failed":
                raise ModelError(inner.text, inner.hint, inner.reason)
    return ""
