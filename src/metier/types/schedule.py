"""A skill on a schedule: its trigger and terms, each firing with its outcome, and the tasks of a batch."""

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
"""`waiting` is due but not queued yet; `queued` and `running` are active; the others are final."""
# Every firing ends in one of these: the history never loses an instant.
END_STATES: frozenset[FiringState] = frozenset(
    ("finished", "failed", "lost", "missed", "skipped", "replaced", "cancelled")
)


@dataclass(frozen=True)
class CronTrigger:
    """Fires whenever five cron fields match, in the time zone of its schedule."""

    expression: str


@dataclass(frozen=True)
class OnceTrigger:
    """Fires once, at an instant in UTC."""

    at: datetime


# Code that depends on the kind of trigger matches every case and ends in `assert_never`: a new kind is one more case
# here, and mypy then lists every place that has to decide about it.
Trigger: TypeAlias = CronTrigger | OnceTrigger


# --- Schedules ---


@dataclass(frozen=True)
class ScheduleRules:
    """What happens when a firing is missed, overlaps another, fails or loses its worker."""

    catch_up: CatchUp = "one"
    """Which missed firings to run: the latest one of the last 24 hours, none, or up to ten."""
    overlap: Overlap = "skip"
    """What to do with a firing that is due while the one before it still runs."""
    jitter: int = 0
    """Maximum delay in seconds; the delay of an instant is the same on every worker."""
    pause_after: int = 3
    """Pause after so many failures in a row; 0 never pauses."""
    after_crash: AfterCrash = "resume"
    """When a worker dies during a run: resume it on another worker, or report it as lost."""
    on_change: OnChange = "pause"
    """When the skill differs from the pinned copy: pause, or run the pinned copy."""


@dataclass(frozen=True)
class RunTerms:
    """What an unattended run may use; a run can't extend its own terms."""

    model: str = ""
    permissions: tuple[str, ...] = ()
    budget: float = 0.0
    """Maximum cost of a run; 0 is the agent's own limit."""
    sink: str = ""
    """Where results are sent, besides the journal: `file:PATH`, `command:WORDS` or `webhook:URL`."""


@dataclass(frozen=True)
class Schedule:
    """A skill, the trigger that fires it, and the terms of its runs."""

    id: str
    skill: str
    trigger: Trigger
    zone: str
    digest: str
    """Of the pinned copy: every file of the skill's folder when it was scheduled."""
    source: str
    """The folder it was pinned from."""
    home: str
    """The home that has this folder; workers of other homes run the pinned copy."""
    own: bool = True
    """A scheduler skill of the user: edits are theirs, so the skill is pinned again without asking."""
    arguments: str = ""
    session: str = ""
    rules: ScheduleRules = field(default_factory=ScheduleRules)
    terms: RunTerms = field(default_factory=RunTerms)
    project: str = ""
    """The project it was scheduled from; each firing checks from there whether the skill may still run."""
    created: datetime | None = None
    # The fields below change while the schedule exists; the store keeps them in columns, the others in a document.
    next: datetime | None = None
    paused: str = ""
    """Why it is paused; empty if it is not."""
    failures: int = 0
    """Failures in a row."""
    revision: int = 0


@dataclass(frozen=True)
class Firing:
    """One instant of a schedule; the store never holds two for the same instant."""

    schedule: str
    due: datetime
    state: FiringState
    note: str = ""
    """Why it ended in this state; the error of a failure."""
    owner: str = ""
    attempt: int = 0
    manual: bool = False
    started: datetime | None = None
    ended: datetime | None = None
    run: str = ""
    """The id of its run, for `metier runs show`."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    ok: bool
    text: str = ""
    """The final answer, or the error."""
    run: str = ""
    """The id of the run; empty if none was started."""


# --- Runs and batches ---


class FiringContext(Protocol):
    """What the agent needs to run a firing."""

    @property
    def folder(self) -> str:
        """The folder of the pinned skill."""

    @property
    def session(self) -> str:
        """The session's own folder, with a `bot.md`."""

    @property
    def body(self) -> str:
        """The instructions, without frontmatter."""

    def step(self, name: str, work: Callable[[], object]) -> object:
        """Do something once: after a crash the stored result, which must be JSON, is returned instead."""

    def stopped(self) -> bool:
        """Whether to stop: the firing was replaced, or its schedule removed."""


FireCallback: TypeAlias = Callable[[Schedule, datetime, FiringContext], RunOutcome]
"""Runs a firing; the caller of the worker passes in the agent."""


@dataclass(frozen=True)
class BatchTask:
    """One task of a batch: a request, or `/skill arguments`, and the settings of its run."""

    text: str
    cwd: str = ""
    model: str = ""
    dialect: str = ""
    agent: str = ""
    allow: tuple[str, ...] = ()
    trial: str = ""
    """The folder of the trial this run belongs to; `text` then says which run it is."""


@dataclass(frozen=True)
class BatchResult:
    """A task that has ended; `number` counts from 1."""

    number: int
    text: str
    outcome: RunOutcome


DurableStep: TypeAlias = Callable[[str, Callable[[], object]], object]
TaskRunner: TypeAlias = Callable[[BatchTask, DurableStep, Callable[[], bool]], RunOutcome]
"""Runs a task, given a durable step and a function that says whether to stop."""
