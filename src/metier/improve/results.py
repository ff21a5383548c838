"""Results in the layout that agentskills.io describes: a folder for each run, and `benchmark.json` over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps, loads
from typing import Any, NamedTuple

from ..host import paths, state
from ..host.clock import today
from ..types.evals import Arm, Graded, Made, Sample, Spelling, Suite
from .score import Comparison, Interval, by_case, compared, passed, spread
from .trial import Task

_LARGEST = 64 << 20
BASELINES: tuple[Arm, ...] = ("without_skill", "old_skill")


class Benchmark(NamedTuple):
    """A trial, in figures."""

    suite: Suite
    samples: tuple[Sample, ...]
    arms: tuple[Arm, ...]
    runs: int
    model: str = ""
    at: str = ""
    notes: tuple[str, ...] = ()
    folder: str = ""
    """Where it is kept."""

    def rate(self, arm: Arm) -> Interval:
        """The share of checks that an arm passes."""
        return passed(self.samples, arm)

    @property
    def baseline(self) -> Arm | None:
        return next((arm for arm in self.arms if arm in BASELINES), None)

    @property
    def comparison(self) -> Comparison | None:
        """The skill against what it is compared with."""
        if self.baseline is None:
            return None
        return compared(by_case(self.samples, self.baseline), by_case(self.samples, "with_skill"))

    def of(self, arm: Arm) -> tuple[Sample, ...]:
        return tuple(one for one in self.samples if one.arm == arm)

    @property
    def undecided(self) -> int:
        """Checks that nobody could decide."""
        return sum(one.passed is None for sample in self.samples for one in sample.graded)


def said(found: Benchmark) -> str:
    """What a trial shows, in one sentence; that it shows nothing, where it does not."""
    one = found.comparison
    if one is None:
        rate = found.rate("with_skill")
        return f"It passes {percent(rate.mean)} of its checks." if rate.cases else "Nothing was decided."
    against = "going without it" if found.baseline == "without_skill" else "what it was"
    match one.verdict:
        case "better":
            return f"The skill does better than {against}."
        case "worse":
            return f"The skill does worse than {against}."
        case "same":
            return f"The skill makes no difference to {against}."
    more = f" About {one.needed} cases like these would." if one.needed else ""
    every = len(found.suite.cases)
    if one.cases < every:
        return f"No verdict: {one.cases} of {every} cases could be compared, and they do not tell.{more}"
    return f"No verdict: {one.cases} {'case does' if one.cases == 1 else 'cases do'} not tell.{more}"


def percent(share: float) -> str:
    return f"{round(100 * share)} %"


def points(share: float) -> str:
    return f"{round(100 * share):+d}"


def run_folder(folder: str, task: Task, runs: int) -> str:
    """Where a run is kept; it has a folder of its own where there are several."""
    above = f"{folder}/eval-{task.case.slug}/{task.arm}"
    return above if runs == 1 else f"{above}/run-{task.number}"


def keep_run(folder: str, sample: Sample, spelling: Spelling) -> None:
    """Write down how a run was judged and what it took."""
    _write(f"{folder}/grading.json", grading(sample, spelling))
    _write(f"{folder}/timing.json", timing(sample))
    _write(f"{folder}/run.json", sample._asdict() | {"made": sample.made._asdict()})


def read_run(folder: str) -> Sample | None:
    """A run as it was kept; None where there is none, or it was cut off."""
    text = paths.read_text_file(f"{folder}/run.json", _LARGEST) if paths.exists(f"{folder}/run.json") else None
    if text is None:
        return None
    found = loads(text)
    graded = tuple(Graded(*one) for one in found["graded"])
    return Sample(found["case"], found["arm"], found["number"], Made(**found["made"]), graded)


def grading(sample: Sample, spelling: Spelling = "assertions") -> dict[str, Any]:
    key = "assertion_results" if spelling == "assertions" else "expectations"
    rows = [
        {"text": one.text, "passed": one.passed is True, "evidence": one.evidence, "decided_by": one.by}
        | ({"undecided": True} if one.passed is None else {})
        for one in sample.graded
    ]
    return {key: rows, "summary": _summary(sample)}


def _summary(sample: Sample) -> dict[str, Any]:
    good = sum(one.passed is True for one in sample.graded)
    bad = sum(one.passed is False for one in sample.graded)
    total = good + bad
    found = {"passed": good, "failed": bad, "total": total, "pass_rate": round(good / total, 4) if total else 0.0}
    left = len(sample.graded) - total
    return found | ({"undecided": left} if left else {})


def timing(sample: Sample) -> dict[str, Any]:
    made = sample.made
    return {
        "total_tokens": made.tokens,
        "duration_ms": round(made.seconds * 1000),
        "total_duration_seconds": round(made.seconds, 3),
    }


def document(found: Benchmark) -> dict[str, Any]:
    """`benchmark.json`: the standard's fields, and beside them how sure one may be."""
    return {
        "metadata": {
            "skill_name": found.suite.skill,
            "executor_model": found.model,
            "timestamp": found.at or today(),
            "evals_run": [case.id for case in found.suite.cases],
            "runs_per_configuration": found.runs,
        },
        "runs": [_run(one) for one in found.samples],
        "run_summary": {**{arm: _arm(found.of(arm)) for arm in found.arms}, **_delta(found)},
        "intervals": {arm: _interval(found.rate(arm)) for arm in found.arms},
        "comparison": _compared(found.comparison),
        "undecided": found.undecided,
        "notes": list(found.notes),
    }


def _run(sample: Sample) -> dict[str, Any]:
    made = sample.made
    return {
        "eval_id": sample.case,
        "configuration": sample.arm,
        "run_number": sample.number,
        "result": _summary(sample)
        | {
            "time_seconds": round(made.seconds, 3),
            "tokens": made.tokens,
            "tool_calls": made.calls,
            "errors": made.failed,
            "outcome": made.outcome,
            "activated": made.activated,
        }
        | ({"note": made.note} if made.note else {}),
        "expectations": [
            {"text": one.text, "passed": one.passed is True, "evidence": one.evidence} for one in sample.graded
        ],
    }


def _arm(samples: Sequence[Sample]) -> dict[str, Any]:
    counted = [one for one in samples if one.score is not None]
    figures = {
        "pass_rate": [one.score or 0.0 for one in counted],
        "time_seconds": [one.made.seconds for one in counted],
        "tokens": [float(one.made.tokens) for one in counted],
    }
    return {name: _spread(values) for name, values in figures.items()}


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = spread(values)
    return {
        "mean": round(found.mean, 4), "stddev": round(found.stddev, 4),
        "min": round(found.least, 4), "max": round(found.most, 4),
    }  # fmt: skip


def _delta(found: Benchmark) -> dict[str, Any]:
    if found.baseline is None:
        return {}
    new, old = _arm(found.of("with_skill")), _arm(found.of(found.baseline))
    return {"delta": {name: round(new[name]["mean"] - old[name]["mean"], 4) for name in new}}


def _interval(one: Interval) -> dict[str, Any]:
    return {"pass_rate": round(one.mean, 4), "low": round(one.low, 4), "high": round(one.high, 4), "cases": one.cases}


def _compared(one: Comparison | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "delta": round(one.delta, 4),
        "low": round(one.low, 4),
        "high": round(one.high, 4),
        "cases": one.cases,
        "verdict": one.verdict,
        "lost": list(one.lost),
        "gained": list(one.gained),
        "cases_needed": one.needed,
    }


def keep(found: Benchmark) -> None:
    """Write down the whole trial, for programs to read."""
    _write(f"{found.folder}/benchmark.json", document(found))


def _write(path: str, document: object) -> None:
    state.make_folder(path.rpartition("/")[0])
    state.write_text(path, dumps(document, indent=2, ensure_ascii=True) + "\n", sync=False)
