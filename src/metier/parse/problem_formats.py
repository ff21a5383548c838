"""Findings in the formats that other programs read: SARIF for code scanning, and GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from ..light_typing import Any
from ..types.problem import Problem
from ..types.text import clean_line, one_line

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def relative_path(path: str, base: str) -> str:
    """The path below a folder, as these formats want it; the path itself where it is not below."""
    return path.removeprefix(base.rstrip("/") + "/")


def sarif_document(problems: Iterable[Problem], base: str, version: str) -> dict[str, Any]:
    """A SARIF 2.1.0 log of one run of that version; places are relative to `base`, the repository's root."""
    listed = list(problems)
    codes = sorted({problem.code for problem in listed})
    driver = {
        "name": "metier",
        "semanticVersion": version,
        "rules": [{"id": code, "shortDescription": {"text": code.replace("-", " ")}} for code in codes],
    }
    results = [_sarif_result(problem, base, codes.index(problem.code)) for problem in listed]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_result(problem: Problem, base: str, rule: int) -> dict[str, Any]:
    text = problem.message + (f" ({problem.hint})" if problem.hint else "")
    place = relative_path(problem.path, base)
    artifact = {"uri": ("file://" if place.startswith("/") else "") + quote(place)}
    location: dict[str, Any] = {"artifactLocation": artifact}
    # SARIF counts from 1, and a finding on the whole file has no region.
    if problem.line:
        location["region"] = {"startLine": problem.line} | ({"startColumn": problem.column} if problem.column else {})
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[problem.severity],
        "message": {"text": clean_line(text)},
        "locations": [{"physicalLocation": location}],
    }


def github_lines(problems: Iterable[Problem], base: str) -> Iterator[str]:
    """Workflow commands that annotate the lines of a pull request.

    The text comes from skills, so all that ends a command or a property is escaped: a line of its own could be another
    command of the runner.
    """
    for problem in problems:
        properties = {"file": relative_path(problem.path, base), "title": f"metier: {problem.code}"}
        if problem.line:
            properties["line"] = str(problem.line)
        written = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
        message = "\n".join(clean_line(text) for text in (problem.message, problem.hint) if text)
        yield f"::{_GITHUB_LEVELS[problem.severity]} {written}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    # Not `clean_line`: a path keeps its blanks.
    return _escape_data(one_line(text)).replace(":", "%3A").replace(",", "%2C")
