"""metier conform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from ...host import paths
from ...testing.conformance import ABSENT, OPS
from ...types.errors import BadRequest, HostError
from .output import paint, printable, say, say_json


@click.command("conform")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def conform(context: click.Context, paths: tuple[str, ...], as_json: bool) -> None:
    """Run conformance cases (JSON lines) and show expected and actual values of each failure.

    Exits with 1 if a case fails.
    """
    passed = 0
    failures: list[dict[str, Any]] = []
    for path in paths:
        for number, case in read_cases(path):
            wrong = run_case(case)
            if wrong:
                failures.append(
                    {
                        "file": path,
                        "line": number,
                        "id": case.get("id"),
                        "note": case.get("note"),
                        "wrong": wrong,
                    }
                )
            else:
                passed += 1
    if as_json:
        say_json({"passed": passed, "failed": len(failures), "failures": failures})
    else:
        for failure in failures:
            where = f"{printable(str(failure['file']))}:{failure['line']}"
            say(
                f"{paint('failed', 'red')} {printable(str(failure['id']))} "
                f"({where}) {printable(str(failure['note'] or ''))}"
            )
            for key, expected, actual in failure["wrong"]:
                label = printable(key)
                say(f"  {label}: expected {printable(json.dumps(expected, ensure_ascii=False))}")
                say(f"  {' ' * len(label)}       got {printable(json.dumps(actual, ensure_ascii=False, default=str))}")
        say(f"{passed} passed, {len(failures)} failed")
    context.exit(1 if failures else 0)


def read_cases(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    # A quarter of a gigabyte is more than any file of cases: it keeps a wrong path from filling the memory.
    text = paths.read_text_file(paths.absolute_path(path, paths.working_folder(), paths.home_folder()), 268_435_456)
    if text is None:
        raise BadRequest(f"{path} does not exist", "pass a file of cases, one JSON object per line", path)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            if (
                not isinstance(case, dict)
                or not isinstance(case.get("given"), dict)
                or not isinstance(case.get("expect"), dict)
            ):
                raise ValueError("not a conformance case")
        except (ValueError, RecursionError) as error:
            raise BadRequest(
                f"{path}:{number}: {error}", "each line is one JSON object with op, given and expect"
            ) from error
        yield number, case


def run_case(case: dict[str, Any]) -> list[tuple[str, object, object]]:
    """What differs: the key, the expected and the actual value. Empty if the case passes."""
    op = OPS.get(str(case.get("op")))
    if op is None:
        return [("op", case.get("op"), "unknown operation; known: " + ", ".join(OPS))]
    try:
        actual = op(str(case.get("dialect")), case["given"])
    # What a case can get wrong: a missing key, a value of another type, a path that can't be written. Anything else is
    # a defect of metier, and must not look like a failed case.
    except (KeyError, TypeError, ValueError, AttributeError, OSError, HostError) as error:
        return [("given", f"input for `{case['op']}`", f"{type(error).__name__}: {error}")]
    expect = _fill_places(case["expect"], actual.get("places", {}))
    # A key that a case leaves out is usually not checked. For some operations its absence is what is tested.
    absent = [key for key in ABSENT.get(case["op"], ()) if key in actual and key not in expect]
    return [
        *(
            (key, expected, actual.get(key))
            for key, expected in expect.items()
            if not key_matches(key, expected, actual)
        ),
        *((key, None, actual[key]) for key in absent),
    ]


def _fill_places(expected: Any, places: dict[str, str]) -> Any:
    """What a case expects, with its `{{…}}` replaced by the folders it ran in."""
    if isinstance(expected, str):
        for name, path in places.items():
            expected = expected.replace(name, path)
        return expected
    if isinstance(expected, list):
        return [_fill_places(item, places) for item in expected]
    if isinstance(expected, dict):
        return {key: _fill_places(item, places) for key, item in expected.items()}
    return expected


def key_matches(key: str, expected: Any, actual: dict[str, Any]) -> bool:
    """Only the keys a case names are checked, each in its own way."""
    if key == "contains":
        return all(part in actual.get("text", "") for part in expected)
    if key == "not_contains":
        return not any(part in actual.get("text", "") for part in expected)
    if key == "absent_paths":
        return not any(path in actual["present"] or (path[:1] == "/" and paths.exists(path)) for path in expected)
    if key in ("results", "messages"):
        results = actual.get(key, [])
        return len(results) == len(expected) and all(
            key_matches(inner, value, result)
            for result, expectation in zip(results, expected, strict=True)
            for inner, value in expectation.items()
        )
    if key == "codes":
        return set(expected) <= set(actual.get("codes", ()))
    if key == "codes_absent":
        return not set(expected) & set(actual.get("codes", ()))
    if key in ("errors", "blocked"):
        return key in actual and set(expected) == set(actual[key])
    if key == "error":
        return bool(actual.get("error")) is expected
    if key == "error_contains":
        return expected in actual.get("message", "")
    if key == "at":
        return "at" in actual and datetime.fromisoformat(actual["at"]) == datetime.fromisoformat(expected)
    if key == "fields":
        return _is_subset(expected, actual.get("fields"))
    return key in actual and bool(actual[key] == expected)


def _is_subset(expected: Any, actual: Any) -> bool:
    """Objects match by their listed keys; everything else must be equal."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and _is_subset(value, actual[key]) for key, value in expected.items()
        )
    return bool(expected == actual)
