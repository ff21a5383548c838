"""A skill on a schedule: what was agreed, and each firing with how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

CatchUp: TypeAlias = Literal["one", "none", "all"]
Overlap: TypeAlias = Literal["skip", "queue-one", "replace"]
AfterCrash: TypeAlias = Literal["resume", "at-most-once"]
OnChange: TypeAlias = Literal["pause", "run-pinned"]
FiringState: TypeAlias = Literal[
    "waiting", "queued", "running", "finished", "failed", "lost", "missed", "skipped", "replaced", "cancelled"
]
"""`waiting` has its turn to come; `queued` and `running` are at work; the others are ends."""
END_STATES: frozenset[FiringState] = frozenset(
    ("finished", "failed", "lost", "missed", "skipped", "replaced", "cancelled")
)


@dataclass(frozen=True)
class ScheduleRules:
    """What happens when time does not run smoothly."""

    catch_up: CatchUp = "one"
    """Of what was missed: the last one of 24 hours, nothing, or up to ten."""
    overlap: Overlap = "skip"
    jitter: int = 0
    """Seconds by which a firing may start late, the same for each instant every time."""
    pause_after: int = 3
    """Failures in a row that pause it; 0 is never."""
    after_crash: AfterCrash = "resume"
    on_change: OnChange = "pause"


@dataclass(frozen=True)
class RunTerms:
    """What a run may use; an unattended run never gets more than this."""

    model: str = ""
    permissions: tuple[str, ...] = ()
    budget: float = 0.0
    """The most a run may cost; 0 is the agent's own limit."""
    sink: str = ""
    """Where results go in addition to the journal: `file:PATH`, `command:WORDS` or `webhook:URL`."""


@dataclass(frozen=True)
class Schedule:
    """One skill, at one time or again and again."""

    id: str
    skill: str
    when: str
    """Five cron fields, or the instant of a one-shot in ISO 8601."""
    once: bool
    zone: str
    digest: str
    """The skill as it was agreed: every file of its folder."""
    source: str
    """The folder it was pinned from."""
    home: str
    """Whose folder that is: workers of other homes run the pinned copy."""
    own: bool = True
    """A scheduler skill of the user's own: when it is edited, the new version is pinned."""
    arguments: str = ""
    session: str = ""
    rules: ScheduleRules = field(default_factory=ScheduleRules)
    terms: RunTerms = field(default_factory=RunTerms)
    project: str = ""
    """Where it was agreed to: whether a skill that is not the user's own may still be used is judged from there."""
    created: datetime | None = None
    # What changes while it lives:
    next: datetime | None = None
    paused: str = ""
    """Why it is paused; empty while it is not."""
    failures: int = 0
    """In a row."""
    revision: int = 0


@dataclass(frozen=True)
class Firing:
    """One instant of a schedule.  There is never a second one of the same."""

    schedule: str
    due: datetime
    state: FiringState
    note: str = ""
    """Why it ended so; the error of a failure."""
    owner: str = ""
    attempt: int = 0
    manual: bool = False
    started: datetime | None = None
    ended: datetime | None = None
    run: str = ""
    """The run that it was: `metier runs show` reads it back."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    ok: bool
    text: str = ""
    """What it said, or what went wrong."""
    run: str = ""
    """The run that it was, where there was one."""


class FiringContext(Protocol):
    """What a firing is given to work with."""

    @property
    def folder(self) -> str:
        """The skill, as it was agreed to."""

    @property
    def session(self) -> str:
        """A folder of the session's own, with a `bot.md`."""

    @property
    def body(self) -> str:
        """The instructions, without frontmatter."""

    def step(self, name: str, work: Callable[[], object]) -> object:
        """Do something once: after a crash its result, which must be JSON, is taken from the book."""

    def stopped(self) -> bool:
        """Whether to stop: replaced, removed, or the worker is leaving."""


FireCallback: TypeAlias = Callable[[Schedule, datetime, FiringContext], RunOutcome]
"""The agent: it is handed in."""


@dataclass(frozen=True)
class BatchTask:
    """One call: a request, or `/skill words`, and what it is done with."""

    text: str
    cwd: str = ""
    model: str = ""
    dialect: str = ""
    agent: str = ""
    allow: tuple[str, ...] = ()
    trial: str = ""
    """The folder of a trial, where this is one of its runs; `text` says which."""


@dataclass(frozen=True)
class BatchResult:
    """A call that has ended; `number` counts from 1."""

    number: int
    text: str
    outcome: RunOutcome


DurableStep: TypeAlias = Callable[[str, Callable[[], object]], object]
TaskRunner: TypeAlias = Callable[[BatchTask, DurableStep, Callable[[], bool]], RunOutcome]
"""The agent: it is handed in, with steps that are done once, and a word on whether to stop."""
