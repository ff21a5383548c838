"""The evals of a skill: read `evals/evals.json` and the trigger prompts, and run and judge the prompts.

The formats are those found in published skills, with their variants.  All faults of a file are reported at once, as
someone who writes evals by hand makes several.  A file that is wrong in part is refused: a suite that silently lost
half its cases would still give a score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from json import loads
from typing import Any, NamedTuple, TypeAlias

from ..host import files
from ..host.trees import inner_path
from ..types.errors import BadRequest, MetierError, Refused
from ..types.improvement import CheckSpelling, EvalCase, EvalCheck, EvalQueue, EvalSuite, TriggerCase
from ..types.text import shorten_text
from .score import ConfidenceInterval, wilson_interval

# --- Reading ---

EVALS_FILE = "evals/evals.json"
TRIGGER_FILES = ("evals/triggers.json", "evals/trigger.json")
_LARGEST = 1 << 20
"""Bytes of a file."""
_MOST = 1_000
"""Cases or trigger prompts in a file."""
_LONGEST = {"prompt": 100_000, "command": 4_000, "matches": 1_000}
"""Characters of a text."""
_MOST_SHOWN = 5
"""Faults that an error names."""
_unfit = re.compile(r"[^a-z0-9]+")


def read_suite(folder: str, name: str = "") -> EvalSuite:
    """Read the cases of a skill.  An error names everything that is wrong with the file."""
    document = _read_json(folder, EVALS_FILE)
    faults = _FileFaults(EVALS_FILE)
    rows = document.get("evals") if isinstance(document, Mapping) else document
    skill_name = document.get("skill_name") if isinstance(document, Mapping) else None
    if document is not None and not isinstance(rows, list):
        faults.add("", "must hold a list called `evals`")
    cases = tuple(_read_cases(rows if isinstance(rows, list) else [], faults))
    faults.raise_if_any(folder)
    spelled: CheckSpelling = "assertions"
    if any(isinstance(row, Mapping) and "expectations" in row for row in rows or ()):
        spelled = "expectations"
    return EvalSuite(skill_name if isinstance(skill_name, str) and skill_name else name, _assign_slugs(cases), spelled)


def read_triggers(folder: str) -> tuple[TriggerCase, ...]:
    """Read the prompts that should trigger a skill, and those that should not."""
    for path in TRIGGER_FILES:
        rows = _read_json(folder, path)
        if rows is None:
            continue
        if isinstance(rows, Mapping):
            rows = rows.get("evals", rows.get("triggers"))
        faults = _FileFaults(path)
        triggers = []
        if not isinstance(rows, list):
            faults.add("", "must be a list of prompts")
        for at, row in enumerate(_first_rows(rows, faults)):
            query = row.get("query", row.get("prompt")) if isinstance(row, Mapping) else None
            should = row.get("should_trigger", True) if isinstance(row, Mapping) else None
            if not isinstance(query, str) or not query.strip() or len(query) > _LONGEST["prompt"]:
                faults.add(f"[{at}].query", "must be a text")
            elif not isinstance(should, bool):
                faults.add(f"[{at}].should_trigger", "must be true or false")
            else:
                triggers.append(TriggerCase(query, should))
        faults.raise_if_any(folder)
        return tuple(triggers)
    return ()


class _FileFaults:
    """Collects what is wrong with a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[str] = []

    def add(self, where: str, problem: str) -> None:
        self.faults.append(f"{where or 'it'} {problem}")

    def raise_if_any(self, folder: str) -> None:
        if self.faults:
            remaining = len(self.faults) - _MOST_SHOWN
            suffix = f"; and {remaining} more" if remaining > 0 else ""
            shown = "; ".join(self.faults[:_MOST_SHOWN])
            raise BadRequest(
                f"{self.file}: {shown}{suffix}", "correct the file, then try again", f"{folder}/{self.file}"
            )


def _read_json(folder: str, path: str) -> Any:
    """Read a JSON file of a skill; None if there is none."""
    where = f"{folder}/{path}"
    try:
        data = files.read_skill_file(folder, path, _LARGEST)[1]
        return loads(data.decode("utf-8-sig"), parse_constant=_reject_constant)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except MetierError:
        raise
    except OSError as error:
        why = error.strerror or f"not a regular file of at most {_LARGEST:,} bytes"
        raise BadRequest(f"{path} can't be read: {why}", "replace the file", where) from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is not JSON: {shorten_text(str(error), 120)}", "correct the file", where) from error


def _reject_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _first_rows(rows: object, faults: _FileFaults) -> list[Any]:
    entries = rows if isinstance(rows, list) else []
    if len(entries) > _MOST:
        faults.add("", f"holds more than {_MOST:,} entries")
    return entries[:_MOST]


def _read_cases(rows: list[Any], faults: _FileFaults) -> Iterator[EvalCase]:
    ids: set[str] = set()
    for at, row in enumerate(_first_rows(rows, faults)):
        where = f"evals[{at}]"
        if not isinstance(row, Mapping):
            faults.add(where, "must be an object")
            continue
        # In Python a bool is an int; as an id it is a mistake.
        id = row.get("id", at + 1)
        if isinstance(id, bool) or not isinstance(id, str | int) or not str(id).strip() or len(str(id)) > 200:
            faults.add(f"{where}.id", "must be a number or a short text")
            continue
        if str(id) in ids:
            faults.add(f"{where}.id", f"`{id}` is used twice")
        ids.add(str(id))
        prompt = row.get("prompt", row.get("query"))
        if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > _LONGEST["prompt"]:
            faults.add(f"{where}.prompt", "must be a text")
            continue
        expected = row.get("expected_output", "")
        if not isinstance(expected, str):
            faults.add(f"{where}.expected_output", "must be a text")
            continue
        checks = tuple(_read_checks(row, where, faults))
        # Many suites have only an expected output: it becomes a check for the grader.
        if not checks and expected.strip():
            checks = (EvalCheck(f"The result is what was expected: {expected.strip()}"),)
        if not checks:
            faults.add(where, "checks nothing: give it assertions, checks or an expected_output")
        yield EvalCase(str(id), prompt, checks, tuple(_read_inputs(row, where, faults)), expected)


def _read_inputs(row: Mapping[str, Any], where: str, faults: _FileFaults) -> Iterator[str]:
    paths = row.get("files") or []
    if not isinstance(paths, list) or len(paths) > 100:
        faults.add(f"{where}.files", "must be a list of at most 100 paths")
        return
    for at, path in enumerate(paths):
        try:
            yield inner_path(path if isinstance(path, str) else "")
        except Refused:
            faults.add(f"{where}.files[{at}]", "must be the path of a file inside the skill's folder")


def _read_checks(row: Mapping[str, Any], where: str, faults: _FileFaults) -> Iterator[EvalCheck]:
    for key in ("checks", "assertions", "expectations", "expected_behavior"):
        entries = row.get(key)
        if entries is None:
            continue
        if not isinstance(entries, list) or len(entries) > 100:
            faults.add(f"{where}.{key}", "must be a list of at most 100")
            continue
        for at, entry in enumerate(entries):
            check, fault = parse_check(entry)
            if check is None:
                faults.add(f"{where}.{key}[{at}]", fault)
            else:
                yield check


def parse_check(written: object) -> tuple[EvalCheck | None, str]:
    """Parse a check: a sentence for a model, or an object that needs none; or else what is wrong with it."""
    if isinstance(written, str) and written.strip():
        return EvalCheck(written.strip()), ""
    if not isinstance(written, Mapping):
        return None, "must be a sentence or an object"
    unknown = sorted(set(map(str, written)) - _CHECK_KEYS)
    if unknown:
        return None, f"has `{shorten_text(unknown[0], 40)}`, which is none of: {', '.join(sorted(_CHECK_KEYS))}"
    texts = {key: written[key] for key in _TEXT_KEYS if key in written}
    for key, value in texts.items():
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST.get(key, 4_000):
            return None, f"`{key}` must be a text of at most {_LONGEST.get(key, 4_000):,} characters"
    if not isinstance(written.get("not", False), bool):
        return None, "`not` must be true or false"
    deciding = [key for key in ("matches", "contains", "json", "command") if key in written]
    if len(deciding) > 1:
        return None, f"`{deciding[0]}` and `{deciding[1]}` are two checks: write two"
    if "equals" in written and deciding != ["json"]:
        return None, "`equals` goes with `json`"
    return _build_check(written, texts, deciding)


_TEXT_KEYS = ("text", "file", "matches", "contains", "command", "json")
_CHECK_KEYS = {*_TEXT_KEYS, "equals", "not"}


def _build_check(
    written: Mapping[str, Any], texts: Mapping[str, str], deciding: list[str]
) -> tuple[EvalCheck | None, str]:
    kind: Any = deciding[0] if deciding else "file" if "file" in texts else "model"
    file, expected = texts.get("file", ""), texts.get(kind, "") if kind != "file" else ""
    if kind == "command" and file:
        return None, "`command` runs in the folder of the outputs: leave `file` out"
    if kind == "model" and "text" not in texts:
        return None, "has nothing to check"
    if file:
        try:
            file = inner_path(file)
        except Refused:
            return None, "`file` must be a path inside the folder of the outputs"
    if kind == "matches":
        try:
            re.compile(expected)
        except (re.error, RecursionError, OverflowError) as error:
            return None, f"`matches` is not a regular expression: {shorten_text(str(error), 80)}"
    check = EvalCheck(texts.get("text", ""), kind, file, expected, written.get("equals"), written.get("not", False))
    return (check if check.text else replace(check, text=_check_text(check))), ""


def _check_text(check: EvalCheck) -> str:
    """A check in words, if its author wrote none."""
    where = f"`{check.file}`" if check.file else "the answer"
    predicates = {
        "file": "exists",
        "json": f"holds `{check.wanted}`" + ("" if check.value is None else f" = {check.value!r}"),
        "matches": f"matches `{check.wanted}`",
        "contains": f"contains `{check.wanted}`",
    }
    sentence = f"`{check.wanted}` succeeds" if check.kind == "command" else f"{where} {predicates[check.kind]}"
    return f"not: {sentence}" if check.negated else sentence


def _assign_slugs(cases: tuple[EvalCase, ...]) -> tuple[EvalCase, ...]:
    """Give each case a unique name for its folder."""
    taken: set[str] = set()
    slugged = []
    for case in cases:
        plain = _unfit.sub("-", case.id.lower()).strip("-")[:40].strip("-") or "case"
        slug, number = plain, 1
        while slug in taken:
            number += 1
            slug = f"{plain}-{number}"
        taken.add(slug)
        slugged.append(replace(case, slug=slug))
    return tuple(slugged)


# --- Trigger prompts ---

ChooseSkill: TypeAlias = Callable[[str], str]
"""Returns the skill chosen for a prompt; empty for none."""
THRESHOLD = 0.5
"""A prompt triggers a skill if it does in at least this share of its runs."""
ENOUGH = 8
"""How many prompts of each kind a verdict takes."""


class TriggerResult(NamedTuple):
    """A prompt, and the skill chosen for it in each run."""

    query: str
    should: bool
    chosen: tuple[str, ...]
    skill: str

    @property
    def triggers(self) -> int:
        return sum(name == self.skill for name in self.chosen)

    @property
    def rate(self) -> float:
        return self.triggers / len(self.chosen) if self.chosen else 0.0

    @property
    def passed(self) -> bool:
        return (self.rate >= THRESHOLD) == self.should

    @property
    def instead(self) -> tuple[str, ...]:
        """The skills chosen in its place."""
        return tuple(dict.fromkeys(name for name in self.chosen if name and name != self.skill))


class TriggerReport(NamedTuple):
    """The results of all prompts of a skill."""

    skill: str
    description: str
    tier: str
    """What chose: `ranker`, or the name of a model."""
    tried: tuple[TriggerResult, ...]

    def share(self, should: bool) -> ConfidenceInterval:
        """The share of correct results among the prompts that should trigger, or should not."""
        kind = [result for result in self.tried if result.should == should]
        return (
            wilson_interval(sum(result.passed for result in kind) / len(kind), len(kind))
            if kind
            else wilson_interval(0.0, 0)
        )

    @property
    def underpowered(self) -> str:
        """Why there is no verdict; empty if there is one."""
        few = [(name, self.share(should).cases) for name, should in (("should", True), ("should not", False))]
        short = [f"{count} that {name} trigger" for name, count in few if count < ENOUGH]
        return f"only {' and '.join(short)}; {ENOUGH} of each are needed" if short else ""

    @property
    def verdict(self) -> str:
        if self.underpowered:
            return "underpowered"
        if min(self.share(True).mean, self.share(False).mean) >= THRESHOLD:
            return "good" if all(result.passed for result in self.tried) else "fair"
        return "poor"


def run_triggers(
    triggers: Sequence[TriggerCase], skill: str, choose: ChooseSkill, queue: EvalQueue, runs: int = 1
) -> tuple[TriggerResult, ...]:
    """Run every prompt so many times; results in the order given."""
    attempts = [(at, number) for number in range(runs) for at in range(len(triggers))]
    chosen: dict[int, list[str]] = {at: [] for at in range(len(triggers))}
    for (at, _), choice in queue.each(lambda attempt: choose(triggers[attempt[0]].query), attempts):
        chosen[at].append(choice)
    return tuple(
        TriggerResult(trigger.query, trigger.should, tuple(chosen[at]), skill) for at, trigger in enumerate(triggers)
    )


def triggers_document(report: TriggerReport) -> dict[str, Any]:
    """The results in the format of other tools for skills, plus intervals and a verdict."""
    passed = sum(result.passed for result in report.tried)
    return {
        "skill_name": report.skill,
        "description": report.description,
        "tier": report.tier,
        "results": [
            {
                "query": result.query,
                "should_trigger": result.should,
                "trigger_rate": round(result.rate, 4),
                "triggers": result.triggers,
                "runs": len(result.chosen),
                "pass": result.passed,
                "instead": list(result.instead),
            }
            for result in report.tried
        ],
        "summary": {"total": len(report.tried), "passed": passed, "failed": len(report.tried) - passed},
        "intervals": {
            "should_trigger": _interval_document(report.share(True)),
            "should_not_trigger": _interval_document(report.share(False)),
        },
        "verdict": report.verdict,
        "underpowered": report.underpowered,
    }


def _interval_document(interval: ConfidenceInterval) -> dict[str, float | int]:
    return {
        "rate": round(interval.mean, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "prompts": interval.cases,
    }
