"""Skills on a schedule: which folder a name means, and what fires it."""

from __future__ import annotations

from datetime import datetime

from ..schedule import skills
from ..types.errors import Refused, UnknownSkill
from ..types.place import Place
from ..types.schedule import Outcome, Run, Schedule
from .opening import Request, open_at


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
    """Run a scheduled skill.  Without an agent there is nothing to run it with, and the firing says so."""
    raise Refused("no model is configured", "an agent must be set up before scheduled skills can run")
