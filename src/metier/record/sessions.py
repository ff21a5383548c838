"""The conversations that are kept, by when they were last used and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..host import paths
from ..types.agent import IMPROVER
from ..types.errors import BadRequest
from ..types.event import Ended, Event, Heard, Resumed, Started
from .journal import Journal, journals_by_use


class SessionSummary(NamedTuple):
    """A conversation, in a line."""

    run: str
    used: float
    """When its last event happened, in seconds since 1970."""
    cwd: str
    """Where it worked last."""
    task: str
    """The first request."""
    turns: int
    outcome: str
    model: str = ""


def list_sessions(state: str, folder: str = "", most: int = 50) -> Iterator[SessionSummary]:
    """Conversations of people, the last used first; with `folder` only those that worked in it."""
    number = 0
    for path in journals_by_use(state):
        summary = _summarise(path)
        if summary is None or not _worked_in(summary.cwd, folder):
            continue
        yield summary
        number += 1
        if number >= most:
            return


def last_session(state: str, folder: str) -> str:
    """The id of the conversation that was last used in a folder."""
    last = next(list_sessions(state, folder, 1), None)
    if last is None:
        raise BadRequest(
            "no conversation in this folder yet", "run `metier runs` to list those of other folders", folder
        )
    return last.run


def _worked_in(cwd: str, folder: str) -> bool:
    return not folder or paths.is_inside(paths.real_path(cwd), paths.real_path(folder))


def _summarise(path: str) -> SessionSummary | None:
    """What a journal holds; None for a delegated run, and one of a schedule or the improver."""
    started: Started | None = None
    task, turns, cwd, model, used = "", 0, "", "", 0.0
    last: Event | None = None
    for record in Journal(path).read():
        event, used = record.event, record.at or used
        match event:
            case Started():
                started, cwd, model = event, event.cwd, event.model
                if event.parent or event.agent == IMPROVER or event.schedule:
                    return None
            case Resumed():
                cwd, model = event.cwd or cwd, event.model or model
            case Heard(text=text):
                task, turns, last = task or text, turns + 1, event
            case Ended():
                last = event
    if started is None:
        return None
    run = path.rpartition("/")[2].removesuffix(".jsonl")
    return SessionSummary(run, used, cwd, task, turns, last.outcome if isinstance(last, Ended) else "cut off", model)
