"""A call as a person sees it who has to decide about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import count
from json import dumps, loads
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..record.journal import decode_dataclass, decode_event, encode_dataclass, encode_event
from ..types.activation import ToolCall
from ..types.agent import TurnBounds
from ..types.errors import ModelError
from ..types.event import NOTHING_USED, Answered, ApprovalDecision, Asked, Event, EventSteps, T, Usage, Wrote
from ..types.model import Answer, Model, Reply, ReplyRequest, StopFlag
from ..types.text import escaped_lines
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
    format_rule,
    narrowest_rule,
    path_target_of,
)

if TYPE_CHECKING:
    from ..library.library import Library


_SUBJECT_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "run_command": ("command",),
    "skill_run_script": ("skill_name", "script_name"),
    "skill_use": ("skill_name",),
    "run_skill": ("skill",),
    "delegate": ("agent",),
    "read": ("path",),
    "read_file": ("path",),
    "write_file": ("path", "content"),  # what becomes of a file is shown by itself
    "edit_file": ("path", "old", "new"),
    "list_files": ("path",),
    "find_files": ("path",),
    "search_files": ("path", "glob"),
}
"""The arguments that a call's subject names; of another tool it names all."""


def render_call(call: ToolCall, parameters: frozenset[str]) -> str:
    """What decides first, then its other arguments, all of it whole and every character of it to be seen.

    An argument that the tool does not know does nothing, and would only be in the way.
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
    """Every line but the first is marked, so that none looks like something that metier says."""
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    return text.replace("\n", "\n  \u2502 ")


_RAISE_HINT = "raise --max-{0}, or `{0}` under [agent] or in the agent's own `limits`"


@dataclass
class AnswerMailbox:
    """Where a person's answers are put while a turn waits for them."""

    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, question: Asked) -> EventSteps[str | None]:
        """Say that there is a question; what `answer` was told before it goes on again is the answer."""
        self.answers.pop(question.id, None)
        yield question
        answer = self.answers.pop(question.id, None)
        yield Answered(question.id, answer or "", "person" if answer is not None else "nobody")
        return answer


def with_aliases(inner: Toolset) -> Toolset:
    """Calls by the names that other agents have for a tool and its parameters reach it all the same."""
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
    """An agent calls nothing that its own list of tools does not cover, whatever others allow."""
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


@dataclass(frozen=True)
class ApprovalPolicy:
    """What decides about a call: the user's rules, what was decided before, and whom to ask."""

    permission: Permission
    mailbox: AnswerMailbox
    granted: Callable[[], Sequence[str]] = tuple
    """The tools that active skills were granted."""
    key: Callable[[ToolCall], str] = lambda call: f"{call.name} {call_subject(call)}"
    """What a decision is remembered by: for a skill's program, the digest of the skill."""
    spot: Callable[[ToolCall], PathTarget] = path_target_of
    """Where a call leads."""
    change: Callable[[ToolCall], str] = lambda call: ""
    """What a call would make of a file, for a person to read."""
    remembered: Callable[[str], bool] = lambda key: False
    remember: Callable[[str], None] = lambda key: None


def with_approval(inner: Toolset, approval: ApprovalPolicy) -> Toolset:
    """Nothing is called that a rule forbids, or that nobody allowed."""
    names = {tool.name: frozenset(parameter.name for parameter in tool.parameters) for tool in inner.tools}

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        if tool_call.name not in names:
            return (yield from inner.call(tool_call))  # which says so
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
        return (yield from inner.call(tool_call))

    return Toolset(inner.tools, call)


def _ask_decision(approval: ApprovalPolicy, tool_call: ToolCall, why: str, text: str) -> EventSteps[ApprovalDecision]:
    skill = str(tool_call.arguments.get("skill_name", "")) if tool_call.name == "skill_run_script" else ""
    question = Asked(
        tool_call.id,
        "approval",
        tool_call.name,
        text,
        tool_call.arguments,
        ("once", "always", "no"),
        skill,
        why,
        approval.change(tool_call),
    )
    answer = yield from approval.mailbox.ask(question)
    if answer is None:
        rule = shlex.quote(_rule_to_allow(approval, tool_call))
        hint = f"allow it with --allow {rule}, or under [agent] in the configuration"
        about = f"{tool_call.name}: {call_subject(tool_call)}"
        raise TurnEnding("refused", f"{about} needs a yes, and nobody is there to give it", "refused-approval", hint)
    return "once" if answer == "once" else "always" if answer == "always" else "no"


def _rule_to_allow(approval: ApprovalPolicy, tool_call: ToolCall) -> str:
    """The rule that would have allowed a call: a file that others take orders from must be named in it."""
    target = approval.spot(tool_call)
    if not target.orders:
        return narrowest_rule(tool_call)
    before, _, after = target.real[-1].partition(f"/{target.orders}")
    return f"{tool_call.name}({before}/{target.orders}{'/*' if after else ''})"


def with_redaction(inner: Toolset, hide: Callable[[str], str]) -> Toolset:
    """No secret reaches the model, the journal or the screen by way of a tool."""

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        answer = yield from inner.call(tool_call)
        messages = tuple(replace(message, text=hide(message.text)) for message in answer.messages)
        activated = answer.activated and replace(answer.activated, text=hide(answer.activated.text))
        return replace(answer, text=hide(answer.text), note=hide(answer.note), messages=messages, activated=activated)

    return Toolset(inner.tools, call)


def with_repeat_guard(inner: Toolset, warn: int = 3, most: int = 6) -> Toolset:
    """The same call with the same answer, again and again, is told to stop, and then ends the turn."""
    last: list[str] = []

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        answer = yield from inner.call(tool_call)
        fingerprint = dumps([tool_call.name, dict(tool_call.arguments), answer.text], sort_keys=True, default=str)
        last[:] = [*last, fingerprint] if not last or last[-1] == fingerprint else [fingerprint]
        if len(last) >= most:
            text = f"{tool_call.name} was called {most} times in a row with the same words and the same answer"
            raise TurnEnding("repeating", text, hint="say what you want in other words, or use a larger model")
        if len(last) >= warn:
            warning = f"[The same call and the same answer, {len(last)} times now. Do something else, or answer.]"
            return replace(answer, text=f"{answer.text}\n{warning}")
        return answer

    return Toolset(inner.tools, call)


class BudgetedModel:
    """A model that is asked no more once what may be spent is spent."""

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
        """What somebody else may spend of it: one request is kept back, to say what came of that."""
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
                f"the model was asked {spent.requests} times, and may be no more",
                hint=_RAISE_HINT.format("turns"),
            )
        if bounds.tokens is not None and spent.tokens >= bounds.tokens:
            raise TurnEnding(
                "out-of-tokens",
                f"{spent.tokens} tokens are used, of {bounds.tokens}",
                hint=_RAISE_HINT.format("tokens"),
            )
        if bounds.cost is not None and (spent.cost or 0.0) >= bounds.cost:
            raise TurnEnding(
                "over-cost",
                f"${spent.cost or 0.0:.4f} is spent, of ${bounds.cost:g}",
                hint=_RAISE_HINT.format("cost"),
            )
        if bounds.seconds is not None and self.clock() - self.began >= bounds.seconds:
            raise TurnEnding("out-of-time", f"{bounds.seconds:g} seconds are over", hint="raise --seconds")

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)


@dataclass(frozen=True)
class _DeadlineStop:
    stop: StopFlag
    clock: Callable[[], float]
    until: float

    def is_set(self) -> bool:
        return self.stop.is_set() or self.clock() >= self.until


class StepResult(NamedTuple):
    """What came of a step."""

    events: tuple[Event, ...] = ()
    value: Reply | Answer | None = None
    fault: TurnEnding | ModelError | None = None


StepRunner = Callable[[str, Callable[[], StepResult]], StepResult]
"""Does a piece of work once: where it was done before a crash, what came of it is given and it is not done again."""


class DurableModel:
    """A model whose every reply is one step of something durable; what happens on the way is told at its end."""

    def __init__(self, inner: Model, step: StepRunner) -> None:
        self.inner, self.step = inner, step
        self.name, self.window = inner.name, inner.window

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        return (yield from _run_step(self.step, "ask", lambda: self.inner.reply(request, stop)))

    def wire(self, request: ReplyRequest) -> str:
        return self.inner.wire(request)


def with_durable_steps(inner: Toolset, step: StepRunner) -> Toolset:
    """Every call of a tool is one step of something durable: a crash repeats at most the one in flight."""

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        return (yield from _run_step(step, f"call {tool_call.name}", lambda: inner.call(tool_call)))

    return Toolset(inner.tools, call)


def _run_step(step: StepRunner, name: str, work: Callable[[], EventSteps[T]]) -> EventSteps[T]:
    """What a piece of work told, and what it gave.  An ending or a failing service is a result too."""

    def done() -> StepResult:
        events: list[Event] = []
        steps = work()
        try:
            while True:
                events.append(next(steps))
        except StopIteration as end:
            return StepResult(tuple(events), end.value)
        except (TurnEnding, ModelError) as fault:
            return StepResult(tuple(events), fault=fault)

    result = step(name, done)
    yield from result.events
    if result.fault is not None:
        raise result.fault
    return cast("T", result.value)


MemoizeStep = Callable[[str, Callable[[], object]], object]
"""Does a piece of work once, and keeps what it gave, which must be JSON."""
_VALUES: Mapping[str, type[Any]] = {"reply": Reply, "answer": Answer}


def durable_step(keep: MemoizeStep, hide: Callable[[str], str] = str) -> StepRunner:
    """Steps that are kept; the same ones in the same order have the same names."""
    number = count(1)

    def step(name: str, work: Callable[[], StepResult]) -> StepResult:
        stored = keep(f"{next(number)} {name}", lambda: hide(dumps(encode_step(work()))))
        return decode_step(loads(str(stored)))

    return step


def encode_step(result: StepResult) -> dict[str, object]:
    """What came of a step as plain values.  Pieces of a reply are left out: the reply has them all."""
    encoded: dict[str, object] = {
        "events": [encode_event(event) for event in result.events if not isinstance(event, Wrote)]
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


_is_secret_name = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$").search
_SHORTEST_SECRET = 8
HIDDEN = "[hidden]"


def secret_hider(library: Library) -> Callable[[str], str]:
    """Takes the values of keys, tokens and passwords of this environment and configuration out of a text."""
    secrets = {form for value in _secret_values(library) for form in (value, dumps(value)[1:-1])}
    if not secrets:
        return str
    pattern = re.compile("|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True)))
    return lambda text: pattern.sub(HIDDEN, text)


def _secret_values(library: Library) -> Iterator[str]:
    for name, value in library.place.env.items():
        if _is_secret_name(name.upper()) and len(value) >= _SHORTEST_SECRET and not value.startswith("/"):
            yield value
    for skill in library.skills if library.settings.mentions_skills else ():
        entry = library.settings.entry(skill.settings_key)
        if len(entry.api_key) >= _SHORTEST_SECRET:
            yield entry.api_key
        for name, value in entry.env.items():
            if _is_secret_name(name.upper()) and len(value) >= _SHORTEST_SECRET:
                yield value
