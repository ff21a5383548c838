"""Skills on a schedule: which folder a name means, and what fires it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..host.place import here
from ..schedule import skills
from ..types.agent import Bounds
from ..types.errors import Refused, UnknownSkill
from ..types.event import Ended
from ..types.place import Place
from ..types.schedule import Outcome, Run, Schedule
from .opening import Request, open_at

if TYPE_CHECKING:
    from ..types.model import Model


def folder_of(place: Place, name: str) -> tuple[str, str, bool]:
    """Name and folder of what is to be scheduled, and whether it is a scheduler skill of the user's own."""
    try:
        folder = skills.find(place, name)
        return folder.rpartition("/")[2], folder, True
    except UnknownSkill as error:
        near = error.nearest
    library = open_at(place, Request())
    try:
        verdict = library.find(name)
    except UnknownSkill as error:
        raise UnknownSkill(name, (*near, *error.nearest)[:3]) from None
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here", f"`metier why {name}` says why")
    return verdict.skill.name, verdict.skill.directory, False


def fire(schedule: Schedule, at: datetime, run: Run) -> Outcome:
    """Run a scheduled skill with the agent, as it was agreed to, with nobody to ask."""
    return fire_with(schedule.terms.model, schedule, run)


def fire_with(model: Model | str, schedule: Schedule, run: Run) -> Outcome:
    """The same, with a model that is at hand.  Each reply and each call of a tool is a step, done once."""
    from ..act.permission import Permission
    from .afterwards import afterwards
    from .agent import Agent
    from .agents import bounds_of, rules_of

    library = open_at(here(run.session), Request())
    bounds = bounds_of(library.settings, Bounds())
    if schedule.terms.budget:
        bounds = replace(bounds, cost=schedule.terms.budget)
    after = afterwards(library, model if isinstance(model, str) else "")
    rules = Permission(allow=rules_of(schedule.terms.permissions))
    session = Agent(library, model, rules=rules, limits=bounds, after=after, step=run.step).start()
    asked = f"{run.body}\n\nArguments: {schedule.arguments}" if schedule.arguments else run.body
    ended = None
    for event in session.say(asked, "schedule"):
        if run.stopped():
            session.stop()
        ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return Outcome(False, "the run ended before it began")
    return Outcome(ended.outcome == "finished", ended.text or ended.outcome)
