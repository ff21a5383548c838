"""Trying a skill with its evals, and its description with prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..host import files, scratch, state
from ..host.clock import today
from ..improve import results, triggers
from ..improve.evals import suite_of
from ..improve.grade import Judge
from ..improve.report import page
from ..improve.results import Benchmark
from ..improve.trial import Progress, inner_event, tasks, tried
from ..improve.triggers import Triggering
from ..types.errors import BadRequest, MetierError, ModelError, Refused
from ..types.evals import Case, Queue
from ..types.event import Activated, Ended
from ..types.skill import Skill
from .bench import Bench, Contents, Plan
from .queueing import InTurn

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library

_INPUT = 50 << 20
"""Bytes of a file that a case needs."""


def skill_to_try(library: Library, name: str) -> Skill:
    """The skill of that name, if it may be used here at all."""
    verdict = library.find(name)
    skill = verdict.skill
    if not verdict.usable or not skill.origin.trusted:
        raise Refused(f"`{name}` may not run here, so it can't be tried", f"`metier why {name}` says why", skill.path)
    library.read(skill)  # what was installed must still be what was approved
    return skill


def evaluated(library: Library, skill: Skill, plan: Plan, queue: Queue, progress: Progress) -> Benchmark:
    """Run a skill's evals in every arm of the plan, and keep what came of it in a new folder."""
    suite = suite_of(skill.directory, skill.name)
    if not suite.cases:
        raise BadRequest(f"`{skill.name}` has no evals", "write some in evals/evals.json", f"{skill.directory}/evals")
    inputs = {case.id: dict(_inputs(skill, case)) for case in suite.cases}
    with scratch.folder() as folder:
        bench = Bench(library, skill, plan, folder, inputs)
        notes = bench.open()
        out = state.next_folder(plan.out or f"{library.place.state}/evals/{skill.name}", "iteration")
        bench = replace(bench, out=out)
        judge = Judge(bench.command, None if plan.grader is None else bench.ask)
        wanted = tasks(suite.cases, plan.arms, plan.runs)
        samples = tried(
            wanted, queue, bench.run, judge, progress,
            lambda task, sample: results.keep_run(bench.kept(task), sample, suite.spelling),
        )  # fmt: skip
        found = Benchmark(suite, samples, plan.arms, plan.runs, bench.model_name, today(), notes, out)
    results.keep(found)
    state.write_text(f"{out}/report.html", page(found), sync=False)
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


def _inputs(skill: Skill, case: Case) -> Mapping[str, bytes]:
    """The files that a case needs, by the paths that they get in the working folder."""
    found: dict[str, bytes] = {}
    for path in case.files:
        try:
            found[_placed(path)] = files.read_skill_file(skill.directory, path, _INPUT)[1]
        except (OSError, MetierError) as error:
            raise BadRequest(
                f"the case `{case.id}` needs the file `{path}`, which can't be read", "put it there, or mend the path",
                f"{skill.directory}/{path}",
            ) from error  # fmt: skip
    return found


def _placed(path: str) -> str:
    for above in ("evals/files/", "evals/", "files/"):
        if path.startswith(above):
            return path.removeprefix(above)
    return path


# --- Prompts ---


def triggered(library: Library, skill: Skill, queue: Queue, model: Model | str | None, runs: int) -> Triggering:
    """Which of a skill's trigger prompts it is chosen for: by the local ranker, or by a model that has all skills."""
    found = suite_of(skill.directory, skill.name).triggers
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
