"""Policies around tools and models, each a wrapper with the same interface as what it wraps.

`with_…` functions take a `Toolset` and return one; `…Model` classes wrap a model.  `session_tools` and `session` decide
which of them apply and in which order.  A policy that wants to end the turn raises `TurnEnding`; one that only refuses
a call answers with an error, so that the model can try another way.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import count
from json import dumps, loads
from typing import Any, NamedTuple, cast

from ..host.failure import is_machine_trouble
from ..record.journal import decode_dataclass, decode_event, encode_dataclass, encode_event
from ..record.redaction import hide_strings
from ..types.activation import ToolCall
from ..types.agent import TurnBounds
from ..types.errors import ModelError
from ..types.event import NOTHING_USED, Answered, ApprovalDecision, Asked, Event, EventSteps, T, Usage, Waited, Wrote
from ..types.model import Answer, Model, Reply, ReplyRequest, StopFlag
from ..types.text import escaped_lines, estimate_tokens
from .conversation import tokens_in, tool_tokens
from .loop import Toolset, TurnEnding
from .permissions import (
    KNOWN_TOOLS,
    PARAMETER_ALIASES,
    TOOL_ALIASES,
    PathTarget,
    Permission,
    PermissionRule,
    call_subject,
    checked_call,
    find_allowing_rule,
    find_denying_rule,
    format_rule,
    narrowest_rule,
    path_target_of,
)

# --- How a call is shown to the person who approves it ---

_SUBJECT_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "run_command": ("command",),
    "skill_run_script": ("skill_name", "script_name"),
    "skill_use": ("skill_name",),
    "run_skill": ("skill",),
    "delegate": ("agent",),
    "read": ("path",),
    "read_file": ("path",),
    "write_file": ("path", "content"),  # the change is shown as a diff of its own
    "edit_file": ("path", "old", "new"),
    "list_files": ("path",),
    "find_files": ("path",),
    "search_files": ("path", "glob"),
}
"""The arguments that a call's subject already shows; the subject of any other tool shows all of them."""


def render_call(call: ToolCall, parameters: frozenset[str]) -> str:
    """The subject first, then the other arguments, nothing shortened and every character visible.

    What is not shown would be approved unseen.  An argument that the tool does not know has no effect and is left out:
    a model could use it to push the part that matters off the screen.
    """
    lines = [f"{call.name}: {_render_value(call_subject(call))}"]
    subject_arguments = _SUBJECT_ARGUMENTS.get(call.name)
    if subject_arguments is not None:
        lines += [
            f"  {key}: {_render_value(value)}"
            for key, value in call.arguments.items()
            if key in parameters - {*subject_arguments}
        ]
    return "\n".join(escaped_lines("\n".join(lines)))


def _render_value(value: object) -> str:
    # Lines after the first are marked, so that no argument can imitate a line of metier's own.
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    return text.replace("\n", "\n  \u2502 ")


# --- Asking the user, and approval ---

_RAISE_HINT = "raise --max-{0}, or `{0}` under [agent] or in the agent's own `limits`"


@dataclass
class AnswerMailbox:
    """Where the answers of a user are put while a turn waits for them."""

    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, question: Asked) -> EventSteps[str | None]:
        """Yield a question; the answer is what was put here before the generator continues, None for none."""
        self.answers.pop(question.id, None)
        yield question
        answer = self.answers.pop(question.id, None)
        yield Answered(question.id, answer or "", "person" if answer is not None else "nobody")
        return answer


def with_aliases(inner: Toolset) -> Toolset:
    """Translate the tool and parameter names of other agents, which skills are written for, into the ones here."""
    names = {tool.name: frozenset(parameter.name for parameter in tool.parameters) for tool in inner.tools}

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        name = tool_call.name
        if name not in names:
            name = TOOL_ALIASES.get(name, name)
            if name == "skill_use" and name not in names:
                name = "run_skill"
        arguments = _rename_arguments(
            tool_call.arguments, PARAMETER_ALIASES.get(name, {}), names.get(name, frozenset())
        )
        return (yield from inner.call(replace(tool_call, name=name, arguments=arguments)))

    return Toolset(inner.tools, call)


def _rename_arguments(
    arguments: Mapping[str, object], aliases: Mapping[str, str], parameters: frozenset[str]
) -> dict[str, object]:
    renamed: dict[str, object] = {}
    for key, value in arguments.items():
        name = aliases.get(key, key) if key not in parameters else key
        if name not in arguments or name == key:
            renamed.setdefault(name, value)
    return renamed


def with_tool_rules(
    inner: Toolset, rules: Sequence[PermissionRule], target_of: Callable[[ToolCall], PathTarget] = path_target_of
) -> Toolset:
    """Refuse calls that the agent's own list of tools does not cover, whatever the user's rules allow."""
    names = frozenset(tool.name for tool in inner.tools)

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        if tool_call.name not in names and tool_call.name in KNOWN_TOOLS:
            text = f"Not allowed: {tool_call.name} is not among the `tools` of this agent."
            return Answer(text, error=True, reason="refused")
        if tool_call.name in names and find_allowing_rule(rules, checked_call(tool_call, target_of(tool_call))) is None:
            only = ", ".join(format_rule(rule) for rule in rules if fnmatchcase(tool_call.name, rule.tool))
            return Answer(f"Not allowed: this agent may call {only} and nothing else of {tool_call.name}.", True)
        return (yield from inner.call(tool_call))

    return Toolset(inner.tools, call)


def with_denied_tools(
    inner: Toolset, denied: Callable[[], Sequence[str]], target_of: Callable[[ToolCall], PathTarget] = path_target_of
) -> Toolset:
    """Refuse calls that an active skill's `disallowed-tools` covers, whatever anybody else allows."""

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        texts = denied()
        rule = find_denying_rule(texts, checked_call(tool_call, target_of(tool_call))) if texts else None
        if rule is not None:
            text = f"Not allowed: an active skill disallows {format_rule(rule)}. Do it another way."
            return Answer(text, error=True, reason="refused")
        return (yield from inner.call(tool_call))

    return Toolset(inner.tools, call)


@dataclass(frozen=True)
class ApprovalPolicy:
    """What decides about a call: the user's rules, earlier decisions, and the mailbox to ask through."""

    permission: Permission
    mailbox: AnswerMailbox
    granted: Callable[[], Sequence[str]] = tuple
    """The tools that active skills are granted."""
    key: Callable[[ToolCall], str] = lambda call: f"{call.name} {call_subject(call)}"
    """What an "always" is stored under: for a skill's script, the digest of the skill's folder."""
    spot: Callable[[ToolCall], PathTarget] = path_target_of
    """The path that a call is about."""
    change: Callable[[ToolCall], str] = lambda call: ""
    """The change that a call would make to a file, as a diff."""
    remembered: Callable[[str], bool] = lambda key: False
    remember: Callable[[str], None] = lambda key: None
    choices: Callable[[ToolCall], tuple[str, ...]] = lambda call: ("once", "always", "no")
    """The decisions that are offered."""
    gives: Callable[[ToolCall], Sequence[str]] = lambda call: ()
    """What the call gets besides, in lines that the person sees before deciding."""
    widen: Callable[[frozenset[str]], None] = lambda terms: None
    """Takes what the person allowed this one call besides running."""


def with_approval(inner: Toolset, approval: ApprovalPolicy) -> Toolset:
    """Refuse calls that a rule denies, and ask about calls that no rule allows."""
    names = {tool.name: frozenset(parameter.name for parameter in tool.parameters) for tool in inner.tools}

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        if tool_call.name not in names:
            return (yield from inner.call(tool_call))  # which reports the unknown tool
        say, why = approval.permission.says(tool_call, approval.granted(), approval.spot(tool_call))
        if say == "deny":
            text = f"Not allowed: {tool_call.name} is forbidden by {why}. Find another way, or say what you need."
            return Answer(text, error=True, reason="refused")
        if say == "ask":
            key = approval.key(tool_call)
            if not approval.remembered(key):
                decision = yield from _ask_decision(
                    approval, tool_call, why, render_call(tool_call, names[tool_call.name])
                )
                if decision == "no":
                    text = f"The user did not allow this call of {tool_call.name}. Do not try it again."
                    return Answer(text, error=True, reason="refused")
                if decision == "always":
                    approval.remember(key)
                elif decision != "once":
                    return (yield from call_widened(tool_call, frozenset(decision.split("+"))))
        return (yield from inner.call(tool_call))

    def call_widened(tool_call: ToolCall, terms: frozenset[str]) -> EventSteps[Answer]:
        approval.widen(terms)
        try:
            return (yield from inner.call(tool_call))
        finally:
            approval.widen(frozenset())  # for this one call, however it ends

    return Toolset(inner.tools, call)


def _ask_decision(approval: ApprovalPolicy, tool_call: ToolCall, why: str, text: str) -> EventSteps[ApprovalDecision]:
    skill = str(tool_call.arguments.get("skill_name", "")) if tool_call.name == "skill_run_script" else ""
    question = Asked(
        tool_call.id,
        "approval",
        tool_call.name,
        "\n".join((text, *(line for given in approval.gives(tool_call) for line in escaped_lines(given)))),
        tool_call.arguments,
        approval.choices(tool_call),
        skill,
        why,
        approval.change(tool_call),
    )
    answer = yield from approval.mailbox.ask(question)
    if answer is None:
        rule = shlex.quote(_rule_to_allow(approval, tool_call))
        hint = f"allow it with --allow {rule}, or under [agent] in the configuration"
        about = f"{tool_call.name}: {call_subject(tool_call)}"
        raise TurnEnding(
            "refused", f"{about} needs approval, but this session is not interactive", "refused-approval", hint
        )
    # An answer that was not offered opens nothing.
    return cast("ApprovalDecision", answer) if answer in question.choices else "no"


def _rule_to_allow(approval: ApprovalPolicy, tool_call: ToolCall) -> str:
    """The rule that would allow a call; a file that other programs execute or obey must be named in it."""
    target = approval.spot(tool_call)
    if not target.orders:
        return narrowest_rule(tool_call)
    before, _, after = target.real[-1].partition(f"/{target.orders}")
    return f"{tool_call.name}({before}/{target.orders}{'/*' if after else ''})"


# --- Secrets, loops and budgets ---


def with_redaction(inner: Toolset, hide: Callable[[str], str]) -> Toolset:
    """Hide secrets in answers, so that none reaches the model, the journal or the screen."""

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        return hide_strings((yield from inner.call(tool_call)), hide)

    return Toolset(inner.tools, call)


def with_repeat_guard(inner: Toolset, warn: int = 3, most: int = 6) -> Toolset:
    """Warn about the same call with the same answer several times in a row, then end the turn."""
    last: list[str] = []

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        answer = yield from inner.call(tool_call)
        fingerprint = dumps([tool_call.name, dict(tool_call.arguments), answer.text], sort_keys=True, default=str)
        last[:] = [*last, fingerprint] if not last or last[-1] == fingerprint else [fingerprint]
        if len(last) >= most:
            text = f"{tool_call.name} was called {most} times in a row with the same arguments and the same answer"
            raise TurnEnding("repeating", text, hint="rephrase the request, or use a larger model")
        if len(last) >= warn:
            warning = f"[The same call and the same answer, {len(last)} times now. Do something else, or answer.]"
            return replace(answer, text=f"{answer.text}\n{warning}")
        return answer

    return Toolset(inner.tools, call)


class BudgetedModel:
    """A model that ends the turn once a limit is reached."""

    def __init__(
        self, inner: Model, bounds: TurnBounds, clock: Callable[[], float], spent: Usage = NOTHING_USED
    ) -> None:
        self.inner, self.bounds, self.clock = inner, bounds, clock
        self.spent, self.began = spent, clock()
        self.name, self.window = inner.name, inner.window

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        self._check()
        remaining = self.bounds.seconds - (self.clock() - self.began) if self.bounds.seconds else None
        waiting = stop if remaining is None else _DeadlineStop(stop, self.clock, self.clock() + remaining)
        try:
            reply = yield from self.inner.reply(request, waiting)
        except TurnEnding as ending:
            if ending.outcome == "interrupted" and not stop.is_set():
                self._check()
            raise
        self.spent += reply.usage
        return reply

    def left(self) -> TurnBounds:
        """What a subagent may spend; one request is kept back for its parent to report the result."""
        bounds, spent = self.bounds, self.spent
        return TurnBounds(
            None if bounds.turns is None else max(0, bounds.turns - spent.requests - 1),
            None if bounds.tokens is None else max(0, bounds.tokens - spent.tokens),
            None if bounds.seconds is None else max(0.0, bounds.seconds - (self.clock() - self.began)),
            None if bounds.cost is None else max(0.0, bounds.cost - (spent.cost or 0.0)),
        )

    def _check(self) -> None:
        bounds, spent = self.bounds, self.spent
        if bounds.turns is not None and spent.requests >= bounds.turns:
            raise TurnEnding(
                "out-of-turns",
                f"the limit of {bounds.turns} requests to the model is reached",
                hint=_RAISE_HINT.format("turns"),
            )
        if bounds.tokens is not None and spent.tokens >= bounds.tokens:
            raise TurnEnding(
                "out-of-tokens",
                f"{spent.tokens} of {bounds.tokens} tokens are used",
                hint=_RAISE_HINT.format("tokens"),
            )
        if bounds.cost is not None and (spent.cost or 0.0) >= bounds.cost:
            raise TurnEnding(
                "over-cost",
                f"${spent.cost or 0.0:.4f} of ${bounds.cost:g} is spent",
                hint=_RAISE_HINT.format("cost"),
            )
        if bounds.seconds is not None and self.clock() - self.began >= bounds.seconds:
            raise TurnEnding(
                "out-of-time", f"the limit of {bounds.seconds:g} seconds is reached", hint="raise --seconds"
            )

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)


class WindowedModel:
    """A model that is never sent more than its window holds."""

    def __init__(self, inner: Model, most: int) -> None:
        self.inner, self.most = inner, most
        self.name, self.window = inner.name, inner.window

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        tokens = estimate_tokens(request.system) + tool_tokens(request.tools) + tokens_in(request.messages)
        if tokens > self.most:
            raise ModelError(
                f"the request has about {tokens:,} tokens, and {self.name} takes {self.most:,}",
                "send less, or use a larger model; where its window is larger, set `window` under [models.NAME]",
                "too-long",
            )
        return (yield from self.inner.reply(request, stop))

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)


@dataclass(frozen=True)
class _DeadlineStop:
    stop: StopFlag
    clock: Callable[[], float]
    until: float

    def is_set(self) -> bool:
        return self.stop.is_set() or self.clock() >= self.until


# --- Durable steps ---


class StepResult(NamedTuple):
    """The outcome of a step: the events on the way, and a value or an error."""

    events: tuple[Event, ...] = ()
    value: Reply | Answer | None = None
    fault: TurnEnding | ModelError | None = None


StepRunner = Callable[[str, Callable[[], StepResult]], StepResult]
"""Runs a piece of work once: where it was done before a crash, its stored result is returned instead."""


class DurableModel:
    """A model whose every reply is a durable step; events on the way are yielded when the step is done."""

    def __init__(self, inner: Model, step: StepRunner) -> None:
        self.inner, self.step = inner, step
        self.name, self.window = inner.name, inner.window

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        return (yield from _run_step(self.step, "ask", lambda: self.inner.reply(request, stop)))

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)


def with_durable_steps(inner: Toolset, step: StepRunner) -> Toolset:
    """Make every tool call a durable step: after a crash at most the one in flight is repeated."""

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        return (yield from _run_step(step, f"call {tool_call.name}", lambda: inner.call(tool_call)))

    return Toolset(inner.tools, call)


def _run_step(step: StepRunner, name: str, work: Callable[[], EventSteps[T]]) -> EventSteps[T]:
    """Run work as a step.  An ending or a failing provider is a result too: a replay must end the same way."""

    def done() -> StepResult:
        events: list[Event] = []
        steps = work()
        try:
            while True:
                events.append(next(steps))
        except StopIteration as end:
            return StepResult(tuple(events), end.value)
        except (TurnEnding, ModelError) as fault:
            if is_machine_trouble(fault):
                raise  # not a result of the step: it can be tried again
            return StepResult(tuple(events), fault=fault)

    result = step(name, done)
    yield from result.events
    if result.fault is not None:
        raise result.fault
    return cast("T", result.value)


MemoizeStep = Callable[[str, Callable[[], object]], object]
"""Runs a piece of work once and stores its result, which must be JSON."""
_VALUES: Mapping[str, type[Any]] = {"reply": Reply, "answer": Answer}


def durable_step(keep: MemoizeStep, hide: Callable[[str], str] = str) -> StepRunner:
    """A step runner over a store; steps are numbered, so the same steps in the same order have the same names."""
    number = count(1)

    def step(name: str, work: Callable[[], StepResult]) -> StepResult:
        stored = keep(f"{next(number)} {name}", lambda: dumps(hide_strings(encode_step(work()), hide)))
        return decode_step(loads(str(stored)))

    return step


def encode_step(result: StepResult) -> dict[str, object]:
    """A result as plain values.  Pieces of a reply are left out: the reply has all of the text."""
    encoded: dict[str, object] = {
        "events": [encode_event(event) for event in result.events if not isinstance(event, Wrote | Waited)]
    }
    if isinstance(result.fault, ModelError):
        encoded["failed"] = [result.fault.message, result.fault.hint, result.fault.reason]
    elif result.fault is not None:
        fault = result.fault
        encoded["ending"] = [fault.outcome, fault.text, fault.reason, fault.hint, fault.code]
    elif result.value is not None:
        encoded[type(result.value).__name__.lower()] = encode_dataclass(result.value)
    return encoded


def decode_step(encoded: Mapping[str, Any]) -> StepResult:
    events = tuple(decoded for event in encoded["events"] if (decoded := decode_event(event)) is not None)
    if "failed" in encoded:
        return StepResult(events, fault=ModelError(*encoded["failed"]))
    if "ending" in encoded:
        return StepResult(events, fault=TurnEnding(*encoded["ending"]))
    values = [decode_dataclass(kind, encoded[name]) for name, kind in _VALUES.items() if name in encoded]
    return StepResult(events, values[0] if values else None)
