"""Reading what a skill is tried with: `evals/evals.json` in both of its spellings, and its trigger prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from json import loads
from typing import Any

from ..host import files
from ..host.inner import inner_path
from ..types.errors import BadRequest, MetierError, Refused
from ..types.evals import Case, Check, Spelling, Suite, Trigger
from ..types.text import shortened

EVALS = "evals/evals.json"
TRIGGERS = ("evals/triggers.json", "evals/trigger.json")
_LARGEST = 1 << 20
_MOST = 1_000
"""Cases, or trigger prompts, in one file."""
_LONGEST = {"prompt": 100_000, "command": 4_000, "matches": 1_000}
_SHOWN = 5
"""Faults that are named."""
_unfit = re.compile(r"[^a-z0-9]+")


def suite_of(folder: str, name: str = "") -> Suite:
    """The cases that the folder of a skill holds to try it with.  Whatever is wrong in it is said at once."""
    found = _document(folder, EVALS)
    faults = _Faults(EVALS)
    rows = found.get("evals") if isinstance(found, Mapping) else found
    said = found.get("skill_name") if isinstance(found, Mapping) else None
    if found is not None and not isinstance(rows, list):
        faults.add("", "must hold a list called `evals`")
    cases = tuple(_cases(rows if isinstance(rows, list) else [], faults))
    faults.complain(folder)
    spelled: Spelling = "assertions"
    if any(isinstance(row, Mapping) and "expectations" in row for row in rows or ()):
        spelled = "expectations"
    return Suite(said if isinstance(said, str) and said else name, _with_slugs(cases), spelled)


def triggers_of(folder: str) -> tuple[Trigger, ...]:
    """The prompts that the skill must be chosen for, and those that it must not."""
    for path in TRIGGERS:
        rows = _document(folder, path)
        if rows is None:
            continue
        if isinstance(rows, Mapping):
            rows = rows.get("evals", rows.get("triggers"))
        faults = _Faults(path)
        found = []
        if not isinstance(rows, list):
            faults.add("", "must be a list of prompts")
        for at, row in enumerate(_first(rows, faults)):
            query = row.get("query", row.get("prompt")) if isinstance(row, Mapping) else None
            should = row.get("should_trigger", True) if isinstance(row, Mapping) else None
            if not isinstance(query, str) or not query.strip() or len(query) > _LONGEST["prompt"]:
                faults.add(f"[{at}].query", "must be a text")
            elif not isinstance(should, bool):
                faults.add(f"[{at}].should_trigger", "must be true or false")
            else:
                found.append(Trigger(query, should))
        faults.complain(folder)
        return tuple(found)
    return ()


class _Faults:
    """What is wrong with a file, gathered."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        self.found.append(f"{where or 'it'} {what}")

    def complain(self, folder: str) -> None:
        if self.found:
            left = len(self.found) - _SHOWN
            more = f"; and {left} more" if left > 0 else ""
            said = "; ".join(self.found[:_SHOWN])
            raise BadRequest(f"{self.file}: {said}{more}", "mend the file, then try again", f"{folder}/{self.file}")


def _document(folder: str, path: str) -> Any:
    """A JSON file of a skill; None where there is none."""
    where = f"{folder}/{path}"
    try:
        data = files.read_skill_file(folder, path, _LARGEST)[1]
        return loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except MetierError:
        raise
    except OSError as error:
        why = error.strerror or f"it is no regular file of at most {_LARGEST:,} bytes"
        raise BadRequest(f"{path} can't be read: {why}", "replace it", where) from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is not JSON: {shortened(str(error), 120)}", "mend the file", where) from error


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _first(rows: object, faults: _Faults) -> list[Any]:
    found = rows if isinstance(rows, list) else []
    if len(found) > _MOST:
        faults.add("", f"holds more than {_MOST:,} entries")
    return found[:_MOST]


def _cases(rows: list[Any], faults: _Faults) -> Iterator[Case]:
    seen: set[str] = set()
    for at, row in enumerate(_first(rows, faults)):
        where = f"evals[{at}]"
        if not isinstance(row, Mapping):
            faults.add(where, "must be an object")
            continue
        id = row.get("id", at + 1)
        if isinstance(id, bool) or not isinstance(id, str | int) or not str(id).strip() or len(str(id)) > 200:
            faults.add(f"{where}.id", "must be a number or a short text")
            continue
        if str(id) in seen:
            faults.add(f"{where}.id", f"`{id}` is there twice")
        seen.add(str(id))
        prompt = row.get("prompt", row.get("query"))
        if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > _LONGEST["prompt"]:
            faults.add(f"{where}.prompt", "must be a text")
            continue
        expected = row.get("expected_output", "")
        if not isinstance(expected, str):
            faults.add(f"{where}.expected_output", "must be a text")
            continue
        checks = tuple(_checks(row, where, faults))
        if not checks and expected.strip():
            checks = (Check(f"The result is what was expected: {expected.strip()}"),)
        if not checks:
            faults.add(where, "checks nothing: give it assertions, checks or an expected_output")
        yield Case(str(id), prompt, checks, tuple(_inputs(row, where, faults)), expected)


def _inputs(row: Mapping[str, Any], where: str, faults: _Faults) -> Iterator[str]:
    given = row.get("files") or []
    if not isinstance(given, list) or len(given) > 100:
        faults.add(f"{where}.files", "must be a list of at most 100 paths")
        return
    for at, path in enumerate(given):
        try:
            yield inner_path(path if isinstance(path, str) else "")
        except Refused:
            faults.add(f"{where}.files[{at}]", "must be the path of a file inside the skill's folder")


def _checks(row: Mapping[str, Any], where: str, faults: _Faults) -> Iterator[Check]:
    for key in ("checks", "assertions", "expectations", "expected_behavior"):
        given = row.get(key)
        if given is None:
            continue
        if not isinstance(given, list) or len(given) > 100:
            faults.add(f"{where}.{key}", "must be a list of at most 100")
            continue
        for at, one in enumerate(given):
            check, fault = check_of(one)
            if check is None:
                faults.add(f"{where}.{key}[{at}]", fault)
            else:
                yield check


def check_of(written: object) -> tuple[Check | None, str]:
    """One check as it is written: a sentence for a model, or an object that needs none; or what is wrong with it."""
    if isinstance(written, str) and written.strip():
        return Check(written.strip()), ""
    if not isinstance(written, Mapping):
        return None, "must be a sentence or an object"
    unknown = sorted(set(map(str, written)) - _KEYS)
    if unknown:
        return None, f"has `{shortened(unknown[0], 40)}`, which is none of: {', '.join(sorted(_KEYS))}"
    words = {key: written[key] for key in _WORDS if key in written}
    for key, value in words.items():
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST.get(key, 4_000):
            return None, f"`{key}` must be a text of at most {_LONGEST.get(key, 4_000):,} characters"
    if not isinstance(written.get("not", False), bool):
        return None, "`not` must be true or false"
    deciding = [key for key in ("matches", "contains", "json", "command") if key in written]
    if len(deciding) > 1:
        return None, f"`{deciding[0]}` and `{deciding[1]}` are two checks: write two"
    if "equals" in written and deciding != ["json"]:
        return None, "`equals` goes with `json`"
    return _decided(written, words, deciding)


_WORDS = ("text", "file", "matches", "contains", "command", "json")
_KEYS = {*_WORDS, "equals", "not"}


def _decided(written: Mapping[str, Any], words: Mapping[str, str], deciding: list[str]) -> tuple[Check | None, str]:
    kind: Any = deciding[0] if deciding else "file" if "file" in words else "model"
    file, wanted = words.get("file", ""), words.get(kind, "") if kind != "file" else ""
    if kind == "command" and file:
        return None, "`command` runs in the folder of the outputs: leave `file` out"
    if kind == "model" and "text" not in words:
        return None, "says nothing to check"
    if file:
        try:
            file = inner_path(file)
        except Refused:
            return None, "`file` must be a path inside the folder of the outputs"
    if kind == "matches":
        try:
            re.compile(wanted)
        except (re.error, RecursionError, OverflowError) as error:
            return None, f"`matches` is no regular expression: {shortened(str(error), 80)}"
    check = Check(words.get("text", ""), kind, file, wanted, written.get("equals"), written.get("not", False))
    return (check if check.text else replace(check, text=_said(check))), ""


def _said(check: Check) -> str:
    """A check in words, where its author wrote none."""
    where = f"`{check.file}`" if check.file else "the answer"
    what = {
        "file": "is there",
        "json": f"holds `{check.wanted}`" + ("" if check.value is None else f" = {check.value!r}"),
        "matches": f"matches `{check.wanted}`",
        "contains": f"contains `{check.wanted}`",
    }
    said = f"`{check.wanted}` succeeds" if check.kind == "command" else f"{where} {what[check.kind]}"
    return f"not: {said}" if check.negated else said


def _with_slugs(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Each with a name of its own for a folder."""
    taken: set[str] = set()
    found = []
    for case in cases:
        plain = _unfit.sub("-", case.id.lower()).strip("-")[:40].strip("-") or "case"
        slug, number = plain, 1
        while slug in taken:
            number += 1
            slug = f"{plain}-{number}"
        taken.add(slug)
        found.append(replace(case, slug=slug))
    return tuple(found)
