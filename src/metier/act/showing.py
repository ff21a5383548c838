"""A call as a person sees it who has to decide about it."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps

from ..types.activation import ToolCall
from ..types.text import exact_lines
from .permission import subject

_TOLD: Mapping[str, tuple[str, ...]] = {
    "run_command": ("command",),
    "skill_run_script": ("skill_name", "script_name"),
    "skill_use": ("skill_name",),
    "run_skill": ("skill",),
    "delegate": ("agent",),
    "read": ("path",),
    "read_file": ("path",),
    "write_file": ("path", "content"),  # what becomes of a file is shown by itself
    "edit_file": ("path", "old", "new"),
    "list_files": ("path",),
    "find_files": ("path",),
    "search_files": ("path", "glob"),
}
"""The arguments that a call's subject names; of another tool it names all."""


def shown(call: ToolCall, known: frozenset[str]) -> str:
    """What decides first, then its other arguments, all of it whole and every character of it to be seen.

    An argument that the tool does not know does nothing, and would only be in the way.
    """
    lines = [f"{call.name}: {_value(subject(call))}"]
    told = _TOLD.get(call.name)
    if told is not None:
        lines += [f"  {key}: {_value(value)}" for key, value in call.arguments.items() if key in known - {*told}]
    return "\n".join(exact_lines("\n".join(lines)))


def _value(value: object) -> str:
    """Every line but the first is marked, so that none looks like something that metier says."""
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    return text.replace("\n", "\n  \u2502 ")
