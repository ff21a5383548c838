"""Orders of a person: put a skill of a library on a schedule, and take up one that was paused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..host import facts, paths
from ..types.place import Place
from ..types.schedule import RunTerms, Schedule, ScheduleRules
from . import pins, store
from .requests import ScheduleRequest, create_schedule
from .runner import check_run_terms, pinned_model, resolve_scheduled_folder
from .worker import home_id

if TYPE_CHECKING:
    from ..library.library import Library
    from .database import Engine


@dataclass(frozen=True)
class ScheduleOrder:
    """What a person asks for; an empty zone is the system's."""

    skill: str
    time: str
    zone: str = ""
    id: str | None = None
    arguments: str = ""
    session: str = ""
    rules: ScheduleRules = field(default_factory=ScheduleRules)
    terms: RunTerms = field(default_factory=RunTerms)


def place_order(library: Library, engine: Engine, order: ScheduleOrder, now: datetime) -> Schedule:
    """Schedule a skill of a library as it is now."""
    skill_name, folder, is_own = resolve_scheduled_folder(library, order.skill)
    check_run_terms(library, order.terms)
    # The model is pinned with the skill: a new default must not change what runs unattended.
    request = ScheduleRequest(
        skill_name,
        folder,
        order.time,
        order.zone or facts.zone_name(),
        is_own,
        order.id or "",
        order.arguments,
        order.session,
        order.rules,
        replace(order.terms, model=pinned_model(library, order.terms.model)),
    )
    return create_schedule(library.place, engine, request, now)


def resume_order(place: Place, engine: Engine, entry: Schedule, now: datetime) -> tuple[Schedule, bool]:
    """Resume a schedule from now on with its skill as it is; and whether that had changed."""
    # Only the home that has the folder can tell whether the skill has changed.
    pin = pins.pin_folder(entry.source) if entry.home == home_id(place) else None
    changed = pin is not None and pin.digest != entry.digest
    if pin is not None and changed:
        entry = store.repin_schedule(engine, entry, pin)
    return store.resume_schedule(engine, entry, now), changed


def remove_order(place: Place, engine: Engine, entry: Schedule, now: datetime, keep_skill: bool = False) -> str:
    """Remove a schedule; where its scheduler skill went, if no other schedule uses it and it is not to be kept."""
    store.remove_schedule(engine, entry.id, now)
    # Only a skill that exists for its schedule, in this home; one from a root is the user's or a project's.
    deletable = entry.own and entry.home == home_id(place) and paths.exists(entry.source)
    if deletable and not keep_skill and not store.is_used(engine, entry.skill):
        return pins.trash_skill(place, entry.source)
    return ""
