"""`cisco-ai-skill-scanner`, where it is installed: one more voice, never the gate; its silence is no consent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..host import paths
from ..types.problem import Mark, Problem, problem
from ..types.running import Box, Permissions, Program, Ran
from ..types.text import flat

PROGRAM = "skill-scanner"
SECONDS = 180.0
_GRAVE = ("CRITICAL", "HIGH")

Runner: TypeAlias = Callable[[Program, Box], Ran]


def scanning(program: str, env: Mapping[str, str], run: Runner) -> Callable[[str], tuple[Problem, ...]]:
    """What asks the scanner about a folder.  It gets no network, and no longer than its time."""

    def scan(folder: str) -> tuple[Problem, ...]:
        prefix = readable(program, folder)
        asked = Program(
            (program, "scan", folder, "--format", "json"),
            folder,
            {name: env[name] for name in ("PATH", "LANG") if name in env} | {"HOME": "/tmp"},
            SECONDS,
            4_000_000,
        )
        return said(run(asked, Box("prefer", skill=folder, permissions=Permissions(read=(prefix,)))))

    return scan


def readable(program: str, writable: str) -> str:
    """The folder to be read in the sandbox so that a program runs: that of its `bin`, with its libraries beside."""
    own = paths.real_path(program.rpartition("/")[0])
    outer = own.rpartition("/")[0] or "/"
    return own if paths.is_inside(writable, outer) else outer


def said(ran: Ran) -> tuple[Problem, ...]:
    """Its findings as ours; whatever it did not finish is an error, for nothing was scanned then."""
    if ran.timed_out:
        return (_failed("it took too long"),)
    if ran.status is None:
        return (_failed(ran.note or "it could not start"),)
    try:
        tree = json.loads(ran.stdout[ran.stdout.index("{") :])
        findings = tree["findings"]
        return tuple(_finding(one) for one in findings)
    except (ValueError, KeyError, TypeError, AttributeError):
        return (_failed(f"it ended with {ran.status} and no report: {flat(ran.stderr)[-200:]}"),)


def _failed(why: str) -> Problem:
    return problem(Mark("scan-failed", 0, (why,), fatal=True))


def _finding(one: Mapping[str, Any]) -> Problem:
    severity = str(one.get("severity", "")).upper()
    if severity not in ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO", "SAFE"):
        return _failed(f"it speaks of a severity `{severity[:20]}`")
    title = flat(str(one.get("title") or one.get("rule_id") or one.get("description") or ""))[:200]
    line = one.get("line_number")
    mark = Mark("scan-finding", line if isinstance(line, int) else 0, (f"{severity}: {title}",), severity in _GRAVE)
    return problem(mark, str(one.get("file_path") or ""))
