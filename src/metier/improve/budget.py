"""The budget of improvement: how many requests, tokens and dollars a day it may spend without anybody asking.

Nobody sees what runs after a run, so it must not be able to cost much: a failing skill with twenty evals would
otherwise send hundreds of requests.  What a person asks for by name is counted and not limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from json import dumps, loads
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ..host import fs, paths
from ..host.facts import utc_timestamp
from ..types.errors import HostError, ModelError
from ..types.event import NOTHING_USED, EventSteps, Usage
from ..types.model import Model, Reply, ReplyRequest, StopFlag
from . import proposal_store

if TYPE_CHECKING:
    from ..library.library import Library

REQUESTS, TOKENS = 60, 500_000
"""A day's budget if none is set: a fix or two with their replays, and no large trial."""
_FEWEST = 5
"""Requests without which no fix can be made."""
_HINT = "it is there again tomorrow; raise it with `improve.budget`, or run `metier improve NAME`"


class DailyBudget(NamedTuple):
    """What improvement may spend in a day; None is no limit."""

    requests: int | None = REQUESTS
    tokens: int | None = TOKENS
    cost: float | None = None

    def why_not(self, spent: Usage, requests: int = 1) -> str:
        """Why so many more requests may not be made today; empty if they may."""
        if self.requests is not None and spent.requests + requests > self.requests:
            return f"{spent.requests} of {self.requests} requests a day are used"
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"{spent.tokens:,} of {self.tokens:,} tokens a day are used"
        if self.cost is not None and (spent.cost or 0.0) >= self.cost:
            return f"${spent.cost or 0.0:.2f} of ${self.cost:g} a day are spent"
        return ""


def daily_budget(library: Library) -> DailyBudget:
    """The user's `improve.budget`, or the default."""
    table = library.settings.own("improve.budget")
    if not isinstance(table, Mapping):
        return DailyBudget()
    values = {key: table[key] for key in DailyBudget._fields if isinstance(table.get(key), int | float)}
    return DailyBudget(**values)


def spent_today(state: str) -> Usage:
    """What improvement has spent today."""
    try:
        document = loads(paths.read_text_file(_ledger(state)) or "{}")
        same_day = document.get("day") == utc_timestamp()[:10]
        return Usage(**document["usage"]) if same_day else NOTHING_USED
    except (HostError, ValueError, TypeError, KeyError, AttributeError):
        return NOTHING_USED


def _ledger(state: str) -> str:
    return f"{proposal_store.proposals_folder(state)}/.spent.json"


def budget_line(library: Library) -> str:
    """What was spent today, and of how much, for a person to read."""
    spent, budget = spent_today(library.place.state), daily_budget(library)
    most = f" of {budget.requests}" if budget.requests is not None else ""
    cost = f", ${spent.cost:.2f}" if spent.cost else ""
    return f"improvement used {spent.requests}{most} requests and {spent.tokens:,} tokens today{cost}"


class MeteredModel:
    """A model whose requests are counted; beyond the budget it answers with an error.  Safe to use from threads."""

    def __init__(self, inner: Model, library: Library, limited: bool) -> None:
        self.inner, self.state = inner, library.place.state
        self.budget = daily_budget(library) if limited else DailyBudget(None, None, None)
        self.name, self.window = inner.name, inner.window
        self._lock = Lock()

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        if why := self.why_not():
            raise ModelError(f"the budget for improvement is used up: {why}", _HINT, "over-budget")
        # Counted before it is sent: a request that fails has been paid for too.
        self._count(Usage(requests=1))
        reply = yield from self.inner.reply(request, stop)
        self._count(Usage(0, reply.usage.input, reply.usage.output, reply.usage.cached, reply.usage.cost))
        return reply

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)

    def why_not(self, requests: int = 1) -> str:
        """Why so many more requests may not be made today; empty if they may."""
        return self.budget.why_not(spent_today(self.state), requests)

    def _count(self, usage: Usage) -> None:
        with self._lock:
            document = {"day": utc_timestamp()[:10], "usage": asdict(spent_today(self.state) + usage)}
            fs.make_folder(proposal_store.proposals_folder(self.state))
            fs.write_text(_ledger(self.state), dumps(document) + "\n", sync=False)


def why_no_requests(model: Model | None, requests: int = _FEWEST) -> str:
    """Why a model may not be asked so often now; empty if it may."""
    if not isinstance(model, MeteredModel) or not (why := model.why_not(requests)):
        return ""
    return f"the budget for improvement does not allow it: {why}"
