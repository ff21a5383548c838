"""What may be the name of a folder of ours: judged before any path is built from it."""

from __future__ import annotations

import re

from ..types.errors import BadRequest

LONGEST = 100
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{number}" for number in range(10)), *(f"lpt{number}" for number in range(10))}
)
_folder = re.compile(r"[\w][\w.+-]*").fullmatch


def folder_name(name: str) -> str:
    """The name itself, if a folder of a root may have it; refused before any path is built from it."""
    fault = name_fault(name)
    if fault:
        raise BadRequest(f"`{name}` can't be the name of a skill's folder: {fault}", "choose another with --name")
    return name


def name_fault(name: str) -> str:
    """What keeps a name from being a folder's, or nothing."""
    if not name or name in (".", ".."):
        return "it names no folder of its own"
    if "/" in name or "\\" in name:
        return "it is a path"
    if len(name) > LONGEST:
        return f"it has more than {LONGEST} characters"
    if name.partition(".")[0].lower() in _DEVICES:
        return "some systems keep it for a device"
    if name.endswith("."):
        return "it ends with a dot"
    if not _folder(name):
        return "letters, digits, `-`, `_`, `+` and `.` are allowed, and a letter or digit comes first"
    return ""
