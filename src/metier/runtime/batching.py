"""Calls of a batch: each is a run of the agent with nobody there, in steps that are done once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..host.place import here
from ..types.agent import Alone
from ..types.batch import Step, Task
from ..types.event import Ended
from ..types.schedule import Outcome
from .opening import Request, open_at


def do(task: Task, step: Step, stopped: Callable[[], bool]) -> Outcome:
    """Do one call: what a person would be asked is refused, unless it was allowed from the start."""
    if task.trial:
        from .trials import do_run

        return do_run(task)
    from .acting import agent_for
    from .agents import rules_of
    from .durable import durable

    library = open_at(here(task.cwd), Request(task.dialect or None, agent=task.agent or None))
    agent = agent_for(library, task.model, task.agent or None)
    rules = replace(agent.permission, allow=(*agent.permission.allow, *rules_of(task.allow)))
    agent = replace(agent, rules=rules, step=durable(step, agent.hide), alone=Alone(network=agent.network))
    session = agent.start()
    ended = None
    for event in session.say(task.text):
        ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return Outcome(False, "it ended before it began")
    return Outcome(ended.outcome == "finished", ended.text or ended.outcome)
