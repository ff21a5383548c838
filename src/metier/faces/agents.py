"""The agent that every face opens, and the work that a worker does.

The packages below know nothing of each other's extras: an agent has no schedules, a schedule no improver.  Here, above
all of them, they are put together once, so that a chat, an editor, a batch and the daemon run the same agent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..agent.agent import Agent, agent_for
from ..improve.improver import after_run_hook
from ..schedule.runner import scheduling_tools
from ..types.errors import MetierError

if TYPE_CHECKING:
    from ..library.library import Library
    from ..types.place import Place
    from ..types.schedule import BatchTask, DurableStep, FiringContext, RunOutcome, Schedule


def open_agent(library: Library, model: str = "", name: str | None = None) -> Agent:
    """An agent by its name or file, or the default one, with schedule tools and improvement after each run."""
    agent = agent_for(library, model, name)
    return replace(agent, extensions=(scheduling_tools,), after=after_run_hook(library, model))


def fire(schedule: Schedule, at: datetime, run: FiringContext) -> RunOutcome:
    """Run a scheduled skill; skills that fail in it are improved afterwards."""
    from ..schedule.runner import fire_schedule

    return fire_schedule(schedule, at, run, after_run_hook)


def load_models(place: Place, names: frozenset[str]) -> None:
    """Load the modules of some models by building a request for each; nothing is sent.

    That takes a second for the first one, which otherwise all firings of the first minute would wait for.
    """
    from ..agent.models.registry import open_model
    from ..library.open import OpenRequest, open_at
    from ..types.activation import Message
    from ..types.model import ReplyRequest

    request = ReplyRequest("", (), (Message("user", "x"),), "")
    with suppress(MetierError), closing(open_at(place, OpenRequest(use_index=False))) as library:
        for name in sorted(names):
            # What is wrong with a model is said when it is used.
            with suppress(MetierError), closing(open_model(name, library)) as model:
                model.wire(request)


def run_task(task: BatchTask, step: DurableStep, stopped: Callable[[], bool]) -> RunOutcome:
    """Do one call of a batch, or one run of an eval that was put on the same queue."""
    if task.trial:
        from ..improve.trials import run_trial_task

        return run_trial_task(task)
    from ..schedule.batch import run_batch_task

    return run_batch_task(task, step, stopped, after_run_hook)
