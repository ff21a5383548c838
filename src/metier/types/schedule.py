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
State: TypeAlias = Literal[
    "waiting", "queued", "running", "finished", "failed", "lost", "missed", "skipped", "replaced", "cancelled"
]
"""`waiting` has its turn to come; `queued` and `running` are at work; the others are ends."""
ENDS: frozenset[State] = frozenset(("finished", "failed", "lost", "missed", "skipped", "replaced", "cancelled"))


@dataclass(frozen=True)
class Rules:
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
class Terms:
    """What a run may use; nothing here is widened while nobody watches."""

    model: str = ""
    permissions: tuple[str, ...] = ()
    budget: float = 0.0
    """The most a run may cost; 0 is the agent's own limit."""
    sink: str = ""
    """Where results go beside the journal: `file:PATH`, `command:WORDS` or `webhook:URL`."""


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
    """A scheduler skill of the user's: an edit of it is theirs, and is pinned anew."""
    arguments: str = ""
    session: str = ""
    rules: Rules = field(default_factory=Rules)
    terms: Terms = field(default_factory=Terms)
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
    state: State
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
class Outcome:
    """How a run ended."""

    ok: bool
    text: str = ""
    """What it said, or what went wrong."""
    run: str = ""
    """The run that it was, where there was one."""


class Run(Protocol):
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


Fire: TypeAlias = Callable[[Schedule, datetime, Run], Outcome]
"""The agent: it is handed in."""
