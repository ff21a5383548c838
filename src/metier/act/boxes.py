"""Policies, each a wrapper: around a set of tools, or around a model.  The loop knows none of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from json import dumps
from typing import NamedTuple, cast

from ..types.activation import ToolCall
from ..types.agent import Bounds
from ..types.errors import ModelError
from ..types.event import Answered, Asked, Decision, Event, Steps, T
from ..types.model import Model, Reply, Request, Stop
from ..types.tool import Answer
from ..types.usage import NOTHING_USED, Usage
from .permission import KNOWN, Permission, Rule, Spot, aim_of, allowing, narrowest, spot_of, subject, written
from .rules import ALIASES, PARAMETERS
from .showing import shown
from .toolset import Ending, Toolset

_RAISE = "raise --max-{0}, or `{0}` under [agent] or in the agent's own `limits`"


@dataclass
class Mailbox:
    """Where a person's answers are put while a turn waits for them."""

    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, asked: Asked) -> Steps[str | None]:
        """Say that there is a question; what `answer` was told before it goes on again is the answer."""
        self.answers.pop(asked.id, None)
        yield asked
        answer = self.answers.pop(asked.id, None)
        yield Answered(asked.id, answer or "", "person" if answer is not None else "nobody")
        return answer


def mapped(inner: Toolset) -> Toolset:
    """Calls by the names that other agents have for a tool and its parameters reach it all the same."""
    names = {tool.name: frozenset(one.name for one in tool.parameters) for tool in inner.tools}

    def call(wanted: ToolCall) -> Steps[Answer]:
        name = wanted.name
        if name not in names:
            name = ALIASES.get(name, name)
            if name == "skill_use" and name not in names:
                name = "run_skill"
        arguments = _renamed(wanted.arguments, PARAMETERS.get(name, {}), names.get(name, frozenset()))
        return (yield from inner.call(replace(wanted, name=name, arguments=arguments)))

    return Toolset(inner.tools, call)


def _renamed(given: Mapping[str, object], others: Mapping[str, str], known: frozenset[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in given.items():
        name = others.get(key, key) if key not in known else key
        if name not in given or name == key:
            found.setdefault(name, value)
    return found


def limited(inner: Toolset, rules: Sequence[Rule], spot: Callable[[ToolCall], Spot] = spot_of) -> Toolset:
    """An agent calls nothing that its own list of tools does not cover, whatever others allow."""
    names = frozenset(tool.name for tool in inner.tools)

    def call(wanted: ToolCall) -> Steps[Answer]:
        if wanted.name not in names and wanted.name in KNOWN:
            told = f"Not allowed: {wanted.name} is not among the `tools` of this agent."
            return Answer(told, error=True, reason="refused")
        if wanted.name in names and allowing(rules, aim_of(wanted, spot(wanted))) is None:
            only = ", ".join(written(rule) for rule in rules if fnmatchcase(wanted.name, rule.tool))
            return Answer(f"Not allowed: this agent may call {only} and nothing else of {wanted.name}.", True)
        return (yield from inner.call(wanted))

    return Toolset(inner.tools, call)


@dataclass(frozen=True)
class Approval:
    """What decides about a call: the user's rules, what was decided before, and whom to ask."""

    permission: Permission
    mailbox: Mailbox
    granted: Callable[[], Sequence[str]] = tuple
    """The tools that active skills were granted."""
    key: Callable[[ToolCall], str] = lambda call: f"{call.name} {subject(call)}"
    """What a decision is remembered by: for a skill's program, the digest of the skill."""
    spot: Callable[[ToolCall], Spot] = spot_of
    """Where a call leads."""
    change: Callable[[ToolCall], str] = lambda call: ""
    """What a call would make of a file, for a person to read."""
    remembered: Callable[[str], bool] = lambda key: False
    remember: Callable[[str], None] = lambda key: None


def approved(inner: Toolset, approval: Approval) -> Toolset:
    """Nothing is called that a rule forbids, or that nobody allowed."""
    names = {tool.name: frozenset(one.name for one in tool.parameters) for tool in inner.tools}

    def call(wanted: ToolCall) -> Steps[Answer]:
        if wanted.name not in names:
            return (yield from inner.call(wanted))  # which says so
        say, why = approval.permission.says(wanted, approval.granted(), approval.spot(wanted))
        if say == "deny":
            told = f"Not allowed: {wanted.name} is forbidden by {why}. Find another way, or say what you need."
            return Answer(told, error=True, reason="refused")
        if say == "ask":
            key = approval.key(wanted)
            if not approval.remembered(key):
                decision = yield from _decision(approval, wanted, why, shown(wanted, names[wanted.name]))
                if decision == "no":
                    told = f"The user did not allow this call of {wanted.name}. Do not try it again."
                    return Answer(told, error=True, reason="refused")
                if decision == "always":
                    approval.remember(key)
        return (yield from inner.call(wanted))

    return Toolset(inner.tools, call)


def _decision(approval: Approval, wanted: ToolCall, why: str, text: str) -> Steps[Decision]:
    skill = str(wanted.arguments.get("skill_name", "")) if wanted.name == "skill_run_script" else ""
    asked = Asked(
        wanted.id, "approval", wanted.name, text, wanted.arguments, ("once", "always", "no"), skill, why,
        approval.change(wanted),
    )  # fmt: skip
    answer = yield from approval.mailbox.ask(asked)
    if answer is None:
        rule = shlex.quote(_rule_for(approval, wanted))
        hint = f"allow it with --allow {rule}, or under [agent] in the configuration"
        about = f"{wanted.name}: {subject(wanted)}"
        raise Ending("refused", f"{about} needs a yes, and nobody is there to give it", "refused-approval", hint)
    return "once" if answer == "once" else "always" if answer == "always" else "no"


def _rule_for(approval: Approval, wanted: ToolCall) -> str:
    """The rule that would have allowed a call: a file that others take orders from must be named in it."""
    spot = approval.spot(wanted)
    if not spot.orders:
        return narrowest(wanted)
    before, _, after = spot.real[-1].partition(f"/{spot.orders}")
    return f"{wanted.name}({before}/{spot.orders}{'/*' if after else ''})"


def redacted(inner: Toolset, hide: Callable[[str], str]) -> Toolset:
    """No secret reaches the model, the journal or the screen by way of a tool."""

    def call(wanted: ToolCall) -> Steps[Answer]:
        answer = yield from inner.call(wanted)
        messages = tuple(replace(one, text=hide(one.text)) for one in answer.messages)
        made = answer.activated and replace(answer.activated, text=hide(answer.activated.text))
        return replace(answer, text=hide(answer.text), note=hide(answer.note), messages=messages, activated=made)

    return Toolset(inner.tools, call)


def unrepeated(inner: Toolset, warn: int = 3, most: int = 6) -> Toolset:
    """The same call with the same answer, again and again, is told to stop, and then ends the turn."""
    last: list[str] = []

    def call(wanted: ToolCall) -> Steps[Answer]:
        answer = yield from inner.call(wanted)
        seen = dumps([wanted.name, dict(wanted.arguments), answer.text], sort_keys=True, default=str)
        last[:] = [*last, seen] if not last or last[-1] == seen else [seen]
        if len(last) >= most:
            text = f"{wanted.name} was called {most} times in a row with the same words and the same answer"
            raise Ending("repeating", text, hint="say what you want in other words, or use a larger model")
        if len(last) >= warn:
            told = f"[The same call and the same answer, {len(last)} times now. Do something else, or answer.]"
            return replace(answer, text=f"{answer.text}\n{told}")
        return answer

    return Toolset(inner.tools, call)


class Budgeted:
    """A model that is asked no more once what may be spent is spent."""

    def __init__(self, inner: Model, bounds: Bounds, clock: Callable[[], float], spent: Usage = NOTHING_USED) -> None:
        self.inner, self.bounds, self.clock = inner, bounds, clock
        self.spent, self.began = spent, clock()
        self.name, self.window = inner.name, inner.window

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        self._check()
        left = self.bounds.seconds - (self.clock() - self.began) if self.bounds.seconds else None
        waiting = stop if left is None else _Deadline(stop, self.clock, self.clock() + left)
        try:
            reply = yield from self.inner.reply(request, waiting)
        except Ending as ending:
            if ending.outcome == "interrupted" and not stop.is_set():
                self._check()
            raise
        self.spent += reply.usage
        return reply

    def left(self) -> Bounds:
        """What somebody else may spend of it: one request is kept back, to say what came of that."""
        bounds, spent = self.bounds, self.spent
        return Bounds(
            None if bounds.turns is None else max(0, bounds.turns - spent.requests - 1),
            None if bounds.tokens is None else max(0, bounds.tokens - spent.tokens),
            None if bounds.seconds is None else max(0.0, bounds.seconds - (self.clock() - self.began)),
            None if bounds.cost is None else max(0.0, bounds.cost - (spent.cost or 0.0)),
        )

    def _check(self) -> None:
        bounds, spent = self.bounds, self.spent
        if bounds.turns is not None and spent.requests >= bounds.turns:
            raise Ending(
                "out-of-turns",
                f"the model was asked {spent.requests} times, and may be no more",
                hint=_RAISE.format("turns"),
            )
        if bounds.tokens is not None and spent.tokens >= bounds.tokens:
            raise Ending(
                "out-of-tokens",
                f"{spent.tokens} tokens are used, of {bounds.tokens}",
                hint=_RAISE.format("tokens"),
            )
        if bounds.cost is not None and (spent.cost or 0.0) >= bounds.cost:
            raise Ending(
                "over-cost",
                f"${spent.cost or 0.0:.4f} is spent, of ${bounds.cost:g}",
                hint=_RAISE.format("cost"),
            )
        if bounds.seconds is not None and self.clock() - self.began >= bounds.seconds:
            raise Ending("out-of-time", f"{bounds.seconds:g} seconds are over", hint="raise --seconds")

    def wire(self, request: Request) -> str:
        return self.inner.wire(request)


@dataclass(frozen=True)
class _Deadline:
    stop: Stop
    clock: Callable[[], float]
    until: float

    def is_set(self) -> bool:
        return self.stop.is_set() or self.clock() >= self.until


class Done(NamedTuple):
    """What came of a step."""

    events: tuple[Event, ...] = ()
    value: Reply | Answer | None = None
    fault: Ending | ModelError | None = None


Step = Callable[[str, Callable[[], Done]], Done]
"""Does a piece of work once: where it was done before a crash, what came of it is given and it is not done again."""


class Stepped:
    """A model whose every reply is one step of something durable; what happens on the way is told at its end."""

    def __init__(self, inner: Model, step: Step) -> None:
        self.inner, self.step = inner, step
        self.name, self.window = inner.name, inner.window

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        return (yield from _once(self.step, "ask", lambda: self.inner.reply(request, stop)))

    def wire(self, request: Request) -> str:
        return self.inner.wire(request)


def stepped(inner: Toolset, step: Step) -> Toolset:
    """Every call of a tool is one step of something durable: a crash repeats at most the one in flight."""

    def call(wanted: ToolCall) -> Steps[Answer]:
        return (yield from _once(step, f"call {wanted.name}", lambda: inner.call(wanted)))

    return Toolset(inner.tools, call)


def _once(step: Step, name: str, work: Callable[[], Steps[T]]) -> Steps[T]:
    """What a piece of work told, and what it gave.  An ending or a failing service is a result too."""

    def done() -> Done:
        events: list[Event] = []
        steps = work()
        try:
            while True:
                events.append(next(steps))
        except StopIteration as end:
            return Done(tuple(events), end.value)
        except (Ending, ModelError) as fault:
            return Done(tuple(events), fault=fault)

    found = step(name, done)
    yield from found.events
    if found.fault is not None:
        raise found.fault
    return cast("T", found.value)
