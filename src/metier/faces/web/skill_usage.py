"""How skills were used in the last twelve weeks, from the newest runs."""

from __future__ import annotations

from typing import NamedTuple

from ...host import paths, trees
from ...host.facts import now_ns
from ...record.journal import Journal, run_ids, runs_folder
from ...record.trace import read_trace
from ...types.text import shorten_text

WEEKS = 12
MOST_RUNS = 1_000
"""The newest runs that count, as for `metier stats`."""
_WEEK_SECONDS = 7 * 86_400
_MOST_KEPT = 4 * MOST_RUNS


class RunDigest(NamedTuple):
    """What lists and figures need of a run."""

    run: str
    at: float
    task: str
    model: str
    skills: tuple[str, ...]
    outcome: str
    cause: str
    """What went wrong, in a line; empty for a run that ended well."""
    schedule: str
    seconds: float
    tokens: int
    cost: float | None

    @property
    def good(self) -> bool:
        return self.outcome == "finished" and not self.cause


class SkillUse(NamedTuple):
    """The uses of one skill."""

    weeks: tuple[int, ...] = (0,) * WEEKS
    """Uses in each week, the newest last."""
    uses: int = 0
    good: int = 0
    """Uses in runs that ended well."""


# Journals only grow: a digest holds while size and time of its file do.  No state: a restart fills it again.
_digests: dict[str, tuple[tuple[int, int], RunDigest]] = {}


def run_digest(state: str, name: str) -> RunDigest:
    """A run in short."""
    path = f"{runs_folder(state)}/{name}.jsonl"
    mark = (paths.size_of(path), trees.changed_at(path))
    known = _digests.get(path)
    if known is not None and known[0] == mark:
        return known[1]
    trace = read_trace(Journal(path))
    failed = trace.failures[-1] if trace.failures else None
    ended = trace.ended
    cause = ""
    if ended is not None and ended.outcome != "finished":
        cause = ended.text or ended.reason or ended.outcome
    elif ended is None:
        cause = "cut off, or still running"
    elif failed is not None:
        cause = f"{failed.call.name}: {_last_words(failed.text) or failed.reason}"
    digest = RunDigest(
        name,
        trace.at,
        shorten_text(trace.task, 400),
        trace.started.model,
        trace.skills,
        trace.outcome,
        shorten_text(cause, 400),
        trace.started.schedule,
        trace.seconds,
        trace.usage.tokens,
        trace.usage.cost,
    )
    if len(_digests) >= _MOST_KEPT:
        _digests.clear()
    _digests[path] = (mark, digest)
    return digest


def _last_words(text: str) -> str:
    """The last line that a program said: an error is at the end, before what metier notes in brackets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("[")]
    return (own or lines or [""])[-1]


def newest_runs(state: str, most: int = MOST_RUNS) -> list[RunDigest]:
    """The newest runs in short, the newest first."""
    return [run_digest(state, name) for name in reversed(run_ids(state)[-most:])]


def skill_uses(state: str) -> dict[str, SkillUse]:
    """The uses of every skill that was used, by its name."""
    now = now_ns() / 1e9
    weeks: dict[str, list[int]] = {}
    counts: dict[str, list[int]] = {}
    for digest in newest_runs(state):
        age = int((now - digest.at) // _WEEK_SECONDS)
        if not 0 <= age < WEEKS:
            continue
        for name in digest.skills:
            weeks.setdefault(name, [0] * WEEKS)[WEEKS - 1 - age] += 1
            tally = counts.setdefault(name, [0, 0])
            tally[0] += 1
            tally[1] += digest.good
    return {name: SkillUse(tuple(weeks[name]), *counts[name]) for name in weeks}
