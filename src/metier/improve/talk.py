"""A short conversation with nobody behind it: a system prompt, a task, tools, and bounds."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Flag
from typing import NamedTuple

from ..act.boxes import Budgeted
from ..act.conversation import Conversation
from ..act.loop import Ports, turn
from ..act.toolset import Toolset
from ..host.clock import monotonic
from ..types.activation import Message
from ..types.agent import Bounds
from ..types.event import Ended, Event, Heard, Started, Steps
from ..types.model import Model


class Opening(NamedTuple):
    """How it begins."""

    started: Started
    heard: Heard


def opening(run: str, system: str, task: str, model: Model, agent: str = "", cwd: str = "") -> Opening:
    return Opening(
        Started(run, system, model.name, agent=agent, cwd=cwd), Heard(task, "model", (Message("user", task),))
    )


def talk(
    model: Model, begin: Opening, toolset: Toolset, bounds: Bounds, keep: Callable[[Event], None] = lambda event: None
) -> Ended:
    """Carry it through; every event is kept as it happens."""
    now = [Conversation()]
    ended = Ended("interrupted", code=130)

    def happened(event: Event) -> None:
        keep(event)
        now[0] = now[0].after(event)

    happened(begin.started)
    happened(begin.heard)
    ports = Ports(Budgeted(model, bounds, monotonic), toolset, Flag(), lambda: now[0], _as_it_is, monotonic)
    for event in turn(ports):
        happened(event)
        ended = event if isinstance(event, Ended) else ended
    return ended


def _as_it_is(conversation: Conversation) -> Steps[None]:
    yield from ()
