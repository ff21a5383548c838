"""The prompts that a skill's author tests it with: what it must be chosen for."""

from __future__ import annotations

import re
from json import loads

FILES = ("evals/triggers.json", "evals/trigger.json", "evals/evals.json")
_quoted = re.compile(r"[\"“]([^\"“”\n]{6,120})[\"”]|(?<!\w)'([^'\n]{6,80})'(?!\w)").findall
_MOST = 40


def triggers_in(text: str) -> tuple[str, ...]:
    """The prompts of a trigger set, or of an `evals.json`; what is neither holds none."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return ()
    rows = found.get("evals") if isinstance(found, dict) else found
    prompts = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("should_trigger", True) is True:
            prompt = row.get("query", row.get("prompt"))
            prompts += [prompt] if isinstance(prompt, str) and prompt.strip() else []
    return tuple(prompts[:_MOST])


def triggers_said(description: str) -> tuple[str, ...]:
    """The phrases of two words or more that a description quotes."""
    said = (one or other for one, other in _quoted(description))
    return tuple(dict.fromkeys(phrase.strip(" ,.") for phrase in said if " " in phrase.strip()))[:_MOST]
