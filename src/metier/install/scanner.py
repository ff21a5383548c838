"""`cisco-ai-skill-scanner`, where it is installed: one more voice, never the gate; its silence is no consent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..types.problem import Problem

PROGRAM = "skill-scanner"
_SECONDS = 180.0
_GRAVE = ("CRITICAL", "HIGH")


def found(env: Mapping[str, str]) -> Callable[[str], tuple[Problem, ...]] | None:
    return None
