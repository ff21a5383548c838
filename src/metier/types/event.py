"""The events of a run, in order: what journals store, faces render and traces are built from."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from .activation import InvokedBy, Message, ToolCall
from .sandbox import FailureCause

# --- Usage and outcomes ---


@dataclass(frozen=True)
class Usage:
    """What replies cost."""

    requests: int = 0
    input: int = 0
    """Tokens sent, those from a cache included."""
    output: int = 0
    cached: int = 0
    """Tokens that the service read from its cache."""
    cost: float | None = None
    """In US dollars, where the price is known."""

    def __add__(self, other: Usage) -> Usage:
        # An unknown price stays unknown only if no price is known: a partial sum is still a lower bound.
        costs = [usage.cost for usage in (self, other) if usage.cost is not None]
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            sum(costs) if costs else None,
        )

    @property
    def tokens(self) -> int:
        return self.input + self.output


NOTHING_USED = Usage()

TurnOutcome: TypeAlias = Literal[
    "finished",
    "refused",
    "out-of-turns",
    "out-of-tokens",
    "out-of-time",
    "over-cost",
    "repeating",
    "interrupted",
    "failed",
]
"""How a turn ended."""

EXIT_CODES: Mapping[TurnOutcome, int] = {
    "finished": 0,
    "refused": 4,
    "failed": 5,
    "out-of-turns": 6,
    "out-of-tokens": 6,
    "out-of-time": 6,
    "over-cost": 6,
    "repeating": 6,
    "interrupted": 130,
}
"""The exit code for each outcome; a failure may have a code of its own."""

FailureReason: TypeAlias = Literal[
    "",
    "failed",
    "unknown-tool",
    "bad-arguments",
    "bad-request",
    "missing-file",
    "refused",
    "exit-status",
    "timeout",
    "machine",
    "unfinished",
]
"""Why a call of a tool went wrong, for a program to read; empty where it did not."""

ApprovalDecision: TypeAlias = Literal["once", "always", "network", "git", "network+git", "no"]
"""The answer to an approval request: this time, always for the same call, this time with more, or not."""


class ApprovalChoice(NamedTuple):
    """How a decision is offered to a person."""

    key: str
    label: str


APPROVAL_CHOICES: Mapping[str, ApprovalChoice] = {
    "once": ApprovalChoice("y", "this once"),
    "always": ApprovalChoice("a", "always"),
    "network": ApprovalChoice("w", "once, with network"),
    "git": ApprovalChoice("g", "once, may write .git"),
    "network+git": ApprovalChoice("b", "once, with both"),
    "no": ApprovalChoice("n", "no"),
}
"""The decisions in the order they are offered; `Asked.choices` has those that apply to a call."""


# --- Events ---

# Journals store events by class and field name, so both are a file format: a new field needs a default, and none is
# renamed.


@dataclass(frozen=True)
class Started:
    """A conversation begins.  All that stays the same in it is here."""

    run: str
    system: str = ""
    """The system prompt: the same bytes for the whole conversation."""
    model: str = ""
    dialect: str = ""
    agent: str = ""
    cwd: str = ""
    parent: str = ""
    """The run that delegated this one."""
    skills: tuple[str, ...] = ()
    """The names in the catalog, as it stood."""
    listing: Mapping[str, str] = field(default_factory=dict)
    """The catalog's lines by name: what later changes are compared with."""
    used: Mapping[str, int] = field(default_factory=dict)
    """How often skills were used before, by path, where that decided which of them are listed."""
    schedule: str = ""
    """The schedule that it was for."""
    instructions: tuple[str, ...] = ()
    """The project's own instructions in the system prompt, by path within the project."""


@dataclass(frozen=True)
class Resumed:
    """A conversation is continued."""

    model: str = ""
    run: str = ""
    cwd: str = ""
    """Where it works now."""
    before: str = ""
    """The earlier working folder, if it was another one; the model is then told."""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Heard:
    """A request by a person, a program or a schedule."""

    text: str
    by: InvokedBy = "user"
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Offered:
    """The skills changed, and the model is told so."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Suggested:
    """The catalog can't list all skills, so the best for the request are added at the end of the conversation."""

    shown: tuple[str, ...] = ()
    """The paths of their files, best first."""
    would: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each engine alone would have suggested, including those that only run for comparison."""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Activated:
    """A skill's instructions are part of the conversation now."""

    skill: str
    path: str = ""
    by: InvokedBy = "user"
    arguments: str = ""
    digest: str = ""
    text: str = ""
    """The instructions, rendered; kept, so that nothing has to run again to restore them."""
    tokens: int = 0
    tools: tuple[str, ...] = ()
    """What its author asks to be allowed: granted for this run."""
    directory: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Restored:
    """What the conversation had lost is in it again: the instructions of active skills, answers to open calls."""

    skills: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    """What is added at the end; or, with `whole`, the conversation from here on."""
    whole: bool = False


@dataclass(frozen=True)
class Wrote:
    """A piece of a reply while it is being written.  Not kept: `Replied` has the whole."""

    text: str
    thinking: bool = False


@dataclass(frozen=True)
class Waited:
    """The service has been silent for so long.  Not kept."""

    seconds: float
    limit: float
    """When it is given up."""
    begun: bool = False
    """Whether a part of the reply has come."""


@dataclass(frozen=True)
class Replied:
    """The model's reply: text, calls of tools, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NOTHING_USED
    messages: tuple[Message, ...] = ()


UNDECIDED = "it may match your rule"
"""How `Asked.why` begins where it can't be told whether a rule that denies or asks matches."""


@dataclass(frozen=True)
class Asked:
    """A question that must be answered before the turn goes on, with `session.answer(id, …)`."""

    id: str
    kind: Literal["approval", "question"]
    tool: str
    text: str
    """What is asked, for a person to read."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    skill: str = ""
    """The skill whose program it is about."""
    why: str = ""
    """Why approval is needed."""
    change: str = ""
    """The diff of a file, if the question is about a change to one."""


@dataclass(frozen=True)
class Answered:
    """The answer to a question; `by` is `nobody` if there was no one to ask."""

    id: str
    answer: str
    by: Literal["person", "rule", "nobody"] = "person"


@dataclass(frozen=True)
class Used:
    """A tool was called, and answered."""

    call: ToolCall
    text: str = ""
    """The text for the model."""
    error: bool = False
    status: int | None = None
    note: str = ""
    seconds: float = 0.0
    skill: str = ""
    """The skill it belonged to, if any."""
    messages: tuple[Message, ...] = ()
    reason: FailureReason = ""
    cause: FailureCause = ""
    """What of the machine made its program fail, if it is known."""

    @property
    def failed(self) -> bool:
        """Whether the tool failed, or the program it ran exited with another status than 0."""
        return self.error or self.status not in (None, 0)


@dataclass(frozen=True)
class Retried:
    """The model's service failed; the request is sent again."""

    reason: str
    seconds: float = 0.0
    """Seconds until the retry."""
    attempt: int = 1


@dataclass(frozen=True)
class Compacted:
    """The conversation was compacted: these messages replace all that came before."""

    before: int
    """Tokens, estimated."""
    after: int
    dropped: int
    """Messages that were dropped."""
    messages: tuple[Message, ...] = ()
    usage: Usage = NOTHING_USED
    """What the summary cost."""


@dataclass(frozen=True)
class Nested:
    """Something happened in a run that this one delegated."""

    run: str
    name: str
    event: Event


@dataclass(frozen=True)
class Ended:
    """A turn is over."""

    outcome: TurnOutcome
    text: str = ""
    """The answer; or what went wrong, for a person to read."""
    reason: str = ""
    """What went wrong, for a program to read: `unknown-skill`, `missing-key`, `provider-down`…"""
    hint: str = ""
    usage: Usage = NOTHING_USED
    """Of the turn."""
    seconds: float = 0.0
    code: int = 0
    """The exit code for a command."""
    messages: tuple[Message, ...] = ()


Event: TypeAlias = (
    Started
    | Resumed
    | Heard
    | Offered
    | Suggested
    | Activated
    | Restored
    | Wrote
    | Waited
    | Replied
    | Asked
    | Answered
    | Used
    | Retried
    | Compacted
    | Nested
    | Ended
)


def innermost_event(event: Event) -> Event:
    """What happened, however deep in delegated runs."""
    while isinstance(event, Nested):
        event = event.event
    return event


T = TypeVar("T")
EventSteps: TypeAlias = Generator[Event, None, T]
"""A computation that yields events on the way and returns a result."""
