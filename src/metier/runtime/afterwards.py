"""What follows a run: skills that failed in it are improved by a process of its own, when the answer has been given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..record.journal import Journal, folder_of
from ..record.trace import Trace, trace_of
from ..types.errors import MetierError
from ..types.event import Nested, Used

if TYPE_CHECKING:
    from .library import Library


def afterwards(library: Library, model: str = "") -> Callable[[str], None]:
    """To be called with the name of a run that ended; it returns at once."""

    def ended(run: str) -> None:
        try:
            wanted = needs_looking(library, trace_of(Journal(f"{folder_of(library.place.state)}/{run}.jsonl")))
        except (MetierError, OSError):
            return  # the run is over and was answered: nothing that follows may spoil it
        if wanted:
            from ..host.apart import start_metier

            place = library.place
            words = ["--project", place.cwd, *(("--profile", place.profile) if place.profile else ())]
            words += ["--dialect", library.dialect.name, "improve", "--after", run]
            start_metier([*words, *(("--model", model) if model else ())], place.cwd, place.env)

    return ended


def needs_looking(library: Library, trace: Trace) -> bool:
    """Whether a run says anything about its skills: something failed that is theirs, or a change is being watched."""
    inner = [one.event for one in trace.events if isinstance(one, Nested)]
    delegated = any(isinstance(one, Used) and one.failed for one in inner)
    names = trace.skills
    if not names and not delegated:
        return False
    from ..improve import store  # most runs end before this
    from ..improve.notice import notice
    from .examining import around, contents, known_of, mode_of

    if any(one.watched is not None and one.skill in names for one in store.proposals(library.place.state)):
        return True
    beside = around(library, (trace,))
    for name in names:
        try:
            skill = library.find(name).skill
        except MetierError:
            continue
        mode = mode_of(library, skill)
        if mode != "off":
            known = known_of(library, skill, contents(skill.directory).texts)
            if any(mode == "auto" or not fault.bridged for fault in notice(trace, {skill.name: known}, beside)):
                return True
    return delegated
