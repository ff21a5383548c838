"""The results of a trial: figures, files of each run, `benchmark.json`, and an HTML page.

The page is one file without scripts that fetches nothing, under a policy that forbids both: most of its text comes from
a skill or a model.  All of it is escaped as well.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from json import dumps, loads
from typing import Any, NamedTuple

from ..host import fs, paths
from ..host.facts import utc_timestamp
from ..types.improvement import CheckSpelling, EvalArm, EvalCase, EvalOutput, EvalSample, EvalSuite, GradedCheck
from ..types.text import shorten_text, visible_text
from .score import ArmComparison, ConfidenceInterval, compare_arms, pass_rate, scores_by_case, spread_of_values
from .tasks import EvalTask

_LARGEST = 64 << 20
"""Bytes of a stored run."""
BASELINES: tuple[EvalArm, ...] = ("without_skill", "old_skill")


class Benchmark(NamedTuple):
    """A trial and its figures."""

    suite: EvalSuite
    samples: tuple[EvalSample, ...]
    arms: tuple[EvalArm, ...]
    runs: int
    model: str = ""
    at: str = ""
    notes: tuple[str, ...] = ()
    folder: str = ""
    """The folder of its files."""

    def rate(self, arm: EvalArm) -> ConfidenceInterval:
        """The pass rate of an arm."""
        return pass_rate(self.samples, arm)

    @property
    def baseline(self) -> EvalArm | None:
        return next((arm for arm in self.arms if arm in BASELINES), None)

    @property
    def comparison(self) -> ArmComparison | None:
        """The skill compared with the baseline."""
        if self.baseline is None:
            return None
        return compare_arms(scores_by_case(self.samples, self.baseline), scores_by_case(self.samples, "with_skill"))

    def of(self, arm: EvalArm) -> tuple[EvalSample, ...]:
        return tuple(sample for sample in self.samples if sample.arm == arm)

    @property
    def undecided(self) -> int:
        """Checks that could not be decided."""
        return sum(grade.passed is None for sample in self.samples for grade in sample.graded)


def summary_sentence(benchmark: Benchmark) -> str:
    """What a trial shows, in one sentence."""
    comparison = benchmark.comparison
    if comparison is None:
        rate = benchmark.rate("with_skill")
        return f"It passes {format_percent(rate.mean)} of its checks." if rate.cases else "Nothing was decided."
    against = "going without it" if benchmark.baseline == "without_skill" else "what it was"
    match comparison.verdict:
        case "better":
            return f"The skill does better than {against}."
        case "worse":
            return f"The skill does worse than {against}."
        case "same":
            return f"The skill makes no difference to {against}."
    suggestion = f" About {comparison.needed} cases like these would." if comparison.needed else ""
    every = len(benchmark.suite.cases)
    if comparison.cases < every:
        return f"No verdict: {comparison.cases} of {every} cases could be compared, and they do not tell.{suggestion}"
    return (
        f"No verdict: {comparison.cases} {'case does' if comparison.cases == 1 else 'cases do'} not tell.{suggestion}"
    )


def format_percent(share: float) -> str:
    return f"{round(100 * share)} %"


def format_points(share: float) -> str:
    return f"{round(100 * share):+d}"


def run_folder(folder: str, task: EvalTask, runs: int) -> str:
    """The folder of a run; with several runs of a case, each has its own."""
    above = f"{folder}/eval-{task.case.slug}/{task.arm}"
    return above if runs == 1 else f"{above}/run-{task.number}"


def write_run(folder: str, sample: EvalSample, spelling: CheckSpelling) -> None:
    """Store the grades, the timing and the whole of a run."""
    _write_json(f"{folder}/grading.json", grading_document(sample, spelling))
    _write_json(f"{folder}/timing.json", timing_document(sample))
    # Last, as `read_run` takes it as the sign that a run is complete.
    _write_json(f"{folder}/run.json", sample._asdict() | {"made": sample.made._asdict()})


def read_run(folder: str) -> EvalSample | None:
    """Read a stored run; None if there is none, or it was interrupted."""
    text = paths.read_text_file(f"{folder}/run.json", _LARGEST) if paths.exists(f"{folder}/run.json") else None
    if text is None:
        return None
    stored = loads(text)
    graded = tuple(GradedCheck(*row) for row in stored["graded"])
    return EvalSample(stored["case"], stored["arm"], stored["number"], EvalOutput(**stored["made"]), graded)


def grading_document(sample: EvalSample, spelling: CheckSpelling = "assertions") -> dict[str, Any]:
    key = "assertion_results" if spelling == "assertions" else "expectations"
    rows = [
        {"text": grade.text, "passed": grade.passed is True, "evidence": grade.evidence, "decided_by": grade.by}
        | ({"undecided": True} if grade.passed is None else {})
        for grade in sample.graded
    ]
    return {key: rows, "summary": _grading_summary(sample)}


def _grading_summary(sample: EvalSample) -> dict[str, Any]:
    good = sum(grade.passed is True for grade in sample.graded)
    bad = sum(grade.passed is False for grade in sample.graded)
    total = good + bad
    summary = {"passed": good, "failed": bad, "total": total, "pass_rate": round(good / total, 4) if total else 0.0}
    undecided = len(sample.graded) - total
    return summary | ({"undecided": undecided} if undecided else {})


def timing_document(sample: EvalSample) -> dict[str, Any]:
    eval_output = sample.made
    return {
        "total_tokens": eval_output.tokens,
        "duration_ms": round(eval_output.seconds * 1000),
        "total_duration_seconds": round(eval_output.seconds, 3),
    }


def benchmark_document(benchmark: Benchmark) -> dict[str, Any]:
    """`benchmark.json`: the standard's fields, plus intervals and the comparison."""
    return {
        "metadata": {
            "skill_name": benchmark.suite.skill,
            "executor_model": benchmark.model,
            "timestamp": benchmark.at or utc_timestamp(),
            "evals_run": [case.id for case in benchmark.suite.cases],
            "runs_per_configuration": benchmark.runs,
        },
        "runs": [_run_document(sample) for sample in benchmark.samples],
        "run_summary": {
            **{arm: _arm_summary(benchmark.of(arm)) for arm in benchmark.arms},
            **_delta_document(benchmark),
        },
        "intervals": {arm: _interval_document(benchmark.rate(arm)) for arm in benchmark.arms},
        "comparison": _comparison_document(benchmark.comparison),
        "undecided": benchmark.undecided,
        "notes": list(benchmark.notes),
    }


def _run_document(sample: EvalSample) -> dict[str, Any]:
    eval_output = sample.made
    return {
        "eval_id": sample.case,
        "configuration": sample.arm,
        "run_number": sample.number,
        "result": _grading_summary(sample)
        | {
            "time_seconds": round(eval_output.seconds, 3),
            "tokens": eval_output.tokens,
            "tool_calls": eval_output.calls,
            "errors": eval_output.failed,
            "outcome": eval_output.outcome,
            "activated": eval_output.activated,
        }
        | ({"note": eval_output.note} if eval_output.note else {}),
        "expectations": [
            {"text": grade.text, "passed": grade.passed is True, "evidence": grade.evidence} for grade in sample.graded
        ],
    }


def _arm_summary(samples: Sequence[EvalSample]) -> dict[str, Any]:
    # Runs without a score are left out of time and tokens too: most of them were cut short.
    counted = [sample for sample in samples if sample.score is not None]
    figures = {
        "pass_rate": [sample.score or 0.0 for sample in counted],
        "time_seconds": [sample.made.seconds for sample in counted],
        "tokens": [float(sample.made.tokens) for sample in counted],
    }
    return {name: _spread_document(values) for name, values in figures.items()}


def _spread_document(values: Sequence[float]) -> dict[str, float]:
    figures = spread_of_values(values)
    return {
        "mean": round(figures.mean, 4),
        "stddev": round(figures.stddev, 4),
        "min": round(figures.least, 4),
        "max": round(figures.most, 4),
    }


def _delta_document(benchmark: Benchmark) -> dict[str, Any]:
    if benchmark.baseline is None:
        return {}
    new, old = _arm_summary(benchmark.of("with_skill")), _arm_summary(benchmark.of(benchmark.baseline))
    return {"delta": {name: round(new[name]["mean"] - old[name]["mean"], 4) for name in new}}


def _interval_document(interval: ConfidenceInterval) -> dict[str, Any]:
    return {
        "pass_rate": round(interval.mean, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "cases": interval.cases,
    }


def _comparison_document(comparison: ArmComparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "delta": round(comparison.delta, 4),
        "low": round(comparison.low, 4),
        "high": round(comparison.high, 4),
        "cases": comparison.cases,
        "verdict": comparison.verdict,
        "lost": list(comparison.lost),
        "gained": list(comparison.gained),
        "cases_needed": comparison.needed,
    }


def write_benchmark(benchmark: Benchmark) -> None:
    """Store the whole trial for programs to read."""
    _write_json(f"{benchmark.folder}/benchmark.json", benchmark_document(benchmark))


def _write_json(path: str, document: object) -> None:
    fs.make_folder(path.rpartition("/")[0])
    fs.write_text(path, dumps(document, indent=2, ensure_ascii=True) + "\n", sync=False)


# --- The page ---

_ANSWER, _PROMPT = 4_000, 2_000
"""Characters shown of an answer and of a prompt."""
_ARM_NAMES: dict[EvalArm, str] = {
    "with_skill": "with the skill",
    "without_skill": "without it",
    "old_skill": "as it was",
}
_TONES = {"better": "good", "worse": "bad", "same": "calm", "underpowered": "open"}
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --dim: #667; --line: #d9dce1; --back: #fff; --soft: #f4f5f7;
  --good: #1a7f4b; --bad: #c0392b; --open: #9a6b00; --bar: #3465a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #99a; --line: #3a3f47; --back: #16181c;
  --soft: #1f2227; --good: #5fc78f; --bad: #ef7d70; --open: #e0b04a; --bar: #7aa6da; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
p.dim, td.dim, .dim { color: var(--dim); } .verdict { font-size: 1.15rem; border-left: 4px solid var(--dim);
  padding: .5rem .9rem; background: var(--soft); }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict.open { border-color: var(--open); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem .35rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
td.num, th.num { text-align: right; white-space: nowrap; }
svg { width: 16rem; height: 1.4rem; display: block; } .axis { stroke: var(--line); } .range { stroke: var(--bar);
  stroke-width: 4; } .mean { fill: var(--bar); } .yes { color: var(--good); } .no { color: var(--bad); }
.none { color: var(--open); } details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; } summary .score { float: right; font-variant-numeric: tabular-nums; }
pre { background: var(--soft); padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; }
td { overflow-wrap: anywhere; }
"""


def render_page(benchmark: Benchmark) -> str:
    """The page as HTML."""
    # The style is allowed by its hash, so no style or script from the text could take effect even unescaped.
    digest = b64encode(sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    name = _escape_text(benchmark.suite.skill)
    tone = _TONES[benchmark.comparison.verdict] if benchmark.comparison else "calm"
    count = len(benchmark.suite.cases)
    about = (
        f"{count} {'case' if count == 1 else 'cases'}, "
        f"{benchmark.runs} {'run' if benchmark.runs == 1 else 'runs'} of each"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Evals of {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{name}</h1>\n<p class="dim">{about}, {_escape_text(benchmark.model)}, {_escape_text(benchmark.at)}</p>\n'
        f'<p class="verdict {tone}">{_escape_text(summary_sentence(benchmark))}</p>\n'
        f"<h2>Checks passed</h2>\n{_arms_table(benchmark)}\n"
        f"<h2>Cases</h2>\n{''.join(_case_section(benchmark, case) for case in benchmark.suite.cases)}\n"
        f"{_notes_section(benchmark)}</body>\n</html>\n"
    )


def _escape_text(text: str, most: int = 300) -> str:
    return escape(shorten_text(visible_text(text), most))


def _arms_table(benchmark: Benchmark) -> str:
    rows = []
    for arm in benchmark.arms:
        rate, counted = benchmark.rate(arm), [sample for sample in benchmark.of(arm) if sample.score is not None]
        seconds = spread_of_values([sample.made.seconds for sample in counted]).mean
        tokens = spread_of_values([float(sample.made.tokens) for sample in counted]).mean
        rows.append(
            f"<tr><td>{_ARM_NAMES[arm]}</td><td>{_range_chart(rate.low, rate.mean, rate.high)}</td>"
            f'<td class="num">{format_percent(rate.mean)}</td>'
            f'<td class="num dim">{format_percent(rate.low)} to {format_percent(rate.high)}</td>'
            f'<td class="num">{seconds:.1f} s</td><td class="num">{tokens:,.0f}</td></tr>'
        )
    comparison = benchmark.comparison
    if comparison is not None:
        # The interval includes the imaginary cases, the mean does not: keep the dot on the bar.
        middle = max(comparison.low, min(comparison.high, comparison.delta))
        rows.append(
            f"<tr><td>difference</td><td>{_range_chart(comparison.low, middle, comparison.high, -1.0)}</td>"
            f'<td class="num">{format_points(comparison.delta)}</td>'
            f'<td class="num dim">{format_points(comparison.low)} to {format_points(comparison.high)}</td>'
            '<td class="num dim" colspan="2">points</td></tr>'
        )
    head = '<th></th><th></th><th class="num">mean</th><th class="num">95 % interval</th>'
    return f'<table><tr>{head}<th class="num">time</th><th class="num">tokens</th></tr>{"".join(rows)}</table>'


def _range_chart(low: float, mean: float, high: float, least: float = 0.0) -> str:
    """An interval as a chart from `least` to 1."""

    def at(value: float) -> str:
        return f"{4 + 192 * (value - least) / (1 - least):.1f}"

    zero = f'<line class="axis" x1="{at(0)}" x2="{at(0)}" y1="2" y2="18"/>'
    return (
        '<svg viewBox="0 0 200 20" role="img" aria-label="interval">'
        f'<line class="axis" x1="4" x2="196" y1="10" y2="10"/>{zero}'
        f'<line class="range" x1="{at(low)}" x2="{at(high)}" y1="10" y2="10"/>'
        f'<circle class="mean" cx="{at(mean)}" cy="10" r="5"/></svg>'
    )


def _case_section(benchmark: Benchmark, case: EvalCase) -> str:
    mine = [sample for sample in benchmark.samples if sample.case == case.id]
    scores = []
    for arm in benchmark.arms:
        decided = [sample.score for sample in mine if sample.arm == arm and sample.score is not None]
        scores.append(f"{_ARM_NAMES[arm]} {format_percent(sum(decided) / len(decided)) if decided else 'undecided'}")
    inner = "".join(_sample_section(sample) for sample in mine)
    return (
        f'<details><summary>{_escape_text(case.id, 30)}: {_escape_text(case.prompt, 50)}<span class="score dim">'
        f"{', '.join(scores)}</span></summary>\n<pre>{_escape_text(case.prompt, _PROMPT)}</pre>\n{inner}</details>\n"
    )


def _sample_section(sample: EvalSample) -> str:
    eval_output = sample.made
    details = [
        f"{eval_output.seconds:.1f} s",
        f"{eval_output.tokens:,} tokens",
        f"{eval_output.calls} tool call{'' if eval_output.calls == 1 else 's'}",
    ]
    if eval_output.outcome != "finished":
        details.append(f"ended: {eval_output.outcome}")
    if sample.arm != "without_skill" and not eval_output.activated:
        details.append("the skill was not used")
    note = f'<p class="none">{_escape_text(eval_output.note)}</p>' if eval_output.note else ""
    answer = f"<pre>{_escape_text(eval_output.answer, _ANSWER)}</pre>" if eval_output.answer else ""
    return (
        f'<p><b>{_ARM_NAMES[sample.arm]}, run {sample.number}</b> <span class="dim">{", ".join(details)}</span></p>\n'
        f"{note}<table>{''.join(_check_rows(sample))}</table>{answer}\n"
    )


def _check_rows(sample: EvalSample) -> Iterator[str]:
    labels = {True: ("yes", "passed"), False: ("no", "failed"), None: ("none", "undecided")}
    for grade in sample.graded:
        tone, label = labels[grade.passed]
        by = "" if grade.by != "model" else " (judged by a model)"
        yield (
            f'<tr><td class="{tone}">{label}</td><td>{_escape_text(grade.text)}</td>'
            f'<td class="dim">{_escape_text(grade.evidence)}{by}</td></tr>'
        )


def _notes_section(benchmark: Benchmark) -> str:
    notes = list(benchmark.notes)
    if benchmark.undecided:
        notes.append(f"{benchmark.undecided} checks could not be decided, and were not counted.")
    notes.append("Intervals treat each case as one observation, however often it was run.")
    return "<h2>Notes</h2>\n<ul>" + "".join(f"<li>{_escape_text(note)}</li>" for note in notes) + "</ul>\n"
