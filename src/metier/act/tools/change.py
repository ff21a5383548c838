"""What a call would make of a file, as a person should see it before they say yes."""

from __future__ import annotations

from difflib import unified_diff

from ...host import workspace
from ...types.activation import ToolCall
from ...types.errors import MetierError
from .desk import text_of
from .workspace import Ground

_LARGEST = 200_000
"""Bytes of a file that is compared."""


def change_of(ground: Ground, call: ToolCall) -> str:
    """A diff for what writes a file; nothing for any other call, and for one that will be refused anyway."""
    try:
        if call.name == "write_file":
            return _written(ground, call)
        if call.name == "edit_file":
            old, new = text_of(call.arguments, "old"), text_of(call.arguments, "new")
            return _diff(old, new)
    except (MetierError, OSError, ValueError):
        return ""
    return ""


def _written(ground: Ground, call: ToolCall) -> str:
    text, (base, path) = text_of(call.arguments, "content"), ground.at(call.arguments)
    try:
        size, data = workspace.read(base, path, 0, _LARGEST)
    except (MetierError, OSError):
        return f"a new file:\n{_diff('', text)}"
    if size > _LARGEST or b"\0" in data:
        return f"in place of a file of {size:,} bytes:\n{_diff('', text)}"
    told = _diff(data.decode("utf-8", "replace"), text)
    return f"in place of what is there:\n{told}" if told else "what is there already"


def _diff(old: str, new: str) -> str:
    return "\n".join(list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:])
