"""A trial as a page: one file, nothing fetched, no script, and everything that came from a skill or a model escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape

from ..types.evals import Arm, Case, Sample
from ..types.text import seen, shortened
from .results import Benchmark, percent, points, said
from .score import spread

_ANSWER, _PROMPT = 4_000, 2_000
"""Characters that are shown."""
_NAMES: dict[Arm, str] = {"with_skill": "with the skill", "without_skill": "without it", "old_skill": "as it was"}
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


def page(found: Benchmark) -> str:
    """The whole page."""
    digest = b64encode(sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    name = _text(found.suite.skill)
    tone = _TONES[found.comparison.verdict] if found.comparison else "calm"
    count = len(found.suite.cases)
    about = f"{count} {'case' if count == 1 else 'cases'}, {found.runs} {'run' if found.runs == 1 else 'runs'} of each"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Evals of {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{name}</h1>\n<p class="dim">{about}, {_text(found.model)}, {_text(found.at)}</p>\n'
        f'<p class="verdict {tone}">{_text(said(found))}</p>\n'
        f"<h2>Checks passed</h2>\n{_arms(found)}\n"
        f"<h2>Cases</h2>\n{''.join(_case(found, case) for case in found.suite.cases)}\n"
        f"{_notes(found)}</body>\n</html>\n"
    )


def _text(text: str, most: int = 300) -> str:
    return escape(shortened(seen(text), most))


def _arms(found: Benchmark) -> str:
    rows = []
    for arm in found.arms:
        rate, counted = found.rate(arm), [one for one in found.of(arm) if one.score is not None]
        seconds = spread([one.made.seconds for one in counted]).mean
        tokens = spread([float(one.made.tokens) for one in counted]).mean
        rows.append(
            f"<tr><td>{_NAMES[arm]}</td><td>{_range(rate.low, rate.mean, rate.high)}</td>"
            f'<td class="num">{percent(rate.mean)}</td>'
            f'<td class="num dim">{percent(rate.low)} to {percent(rate.high)}</td>'
            f'<td class="num">{seconds:.1f} s</td><td class="num">{tokens:,.0f}</td></tr>'
        )
    one = found.comparison
    if one is not None:
        middle = max(one.low, min(one.high, one.delta))
        rows.append(
            f"<tr><td>difference</td><td>{_range(one.low, middle, one.high, -1.0)}</td>"
            f'<td class="num">{points(one.delta)}</td>'
            f'<td class="num dim">{points(one.low)} to {points(one.high)}</td>'
            '<td class="num dim" colspan="2">points</td></tr>'
        )
    head = '<th></th><th></th><th class="num">mean</th><th class="num">95 % interval</th>'
    return f'<table><tr>{head}<th class="num">time</th><th class="num">tokens</th></tr>{"".join(rows)}</table>'


def _range(low: float, mean: float, high: float, least: float = 0.0) -> str:
    """An interval on a line from the least to 1."""

    def at(value: float) -> str:
        return f"{4 + 192 * (value - least) / (1 - least):.1f}"

    zero = f'<line class="axis" x1="{at(0)}" x2="{at(0)}" y1="2" y2="18"/>'
    return (
        '<svg viewBox="0 0 200 20" role="img" aria-label="interval">'
        f'<line class="axis" x1="4" x2="196" y1="10" y2="10"/>{zero}'
        f'<line class="range" x1="{at(low)}" x2="{at(high)}" y1="10" y2="10"/>'
        f'<circle class="mean" cx="{at(mean)}" cy="10" r="5"/></svg>'
    )


def _case(found: Benchmark, case: Case) -> str:
    mine = [one for one in found.samples if one.case == case.id]
    scores = []
    for arm in found.arms:
        decided = [one.score for one in mine if one.arm == arm and one.score is not None]
        scores.append(f"{_NAMES[arm]} {percent(sum(decided) / len(decided)) if decided else 'undecided'}")
    inner = "".join(_sample(one) for one in mine)
    return (
        f'<details><summary>{_text(case.id, 30)}: {_text(case.prompt, 50)}<span class="score dim">'
        f"{', '.join(scores)}</span></summary>\n<pre>{_text(case.prompt, _PROMPT)}</pre>\n{inner}</details>\n"
    )


def _sample(sample: Sample) -> str:
    made = sample.made
    how = [
        f"{made.seconds:.1f} s",
        f"{made.tokens:,} tokens",
        f"{made.calls} tool call{'' if made.calls == 1 else 's'}",
    ]
    if made.outcome != "finished":
        how.append(f"ended: {made.outcome}")
    if sample.arm != "without_skill" and not made.activated:
        how.append("the skill was not used")
    note = f'<p class="none">{_text(made.note)}</p>' if made.note else ""
    answer = f"<pre>{_text(made.answer, _ANSWER)}</pre>" if made.answer else ""
    return (
        f'<p><b>{_NAMES[sample.arm]}, run {sample.number}</b> <span class="dim">{", ".join(how)}</span></p>\n'
        f"{note}<table>{''.join(_checks(sample))}</table>{answer}\n"
    )


def _checks(sample: Sample) -> Iterator[str]:
    words = {True: ("yes", "passed"), False: ("no", "failed"), None: ("none", "undecided")}
    for one in sample.graded:
        tone, word = words[one.passed]
        by = "" if one.by != "model" else " (judged by a model)"
        yield (
            f'<tr><td class="{tone}">{word}</td><td>{_text(one.text)}</td>'
            f'<td class="dim">{_text(one.evidence)}{by}</td></tr>'
        )


def _notes(found: Benchmark) -> str:
    notes = list(found.notes)
    if found.undecided:
        notes.append(f"{found.undecided} checks could not be decided; they count for nothing.")
    notes.append("Intervals treat each case as one observation, however often it was run.")
    return "<h2>Notes</h2>\n<ul>" + "".join(f"<li>{_text(one)}</li>" for one in notes) + "</ul>\n"
