"""Which commands may write a repository: lines of plain git, with nothing in them that runs or writes anything else."""

from __future__ import annotations

import re

from .commandline import read
from .starting import Words

WRITES = (
    "add", "branch", "checkout", "cherry-pick", "commit", "merge", "notes", "reset", "restore", "revert", "rm", "stash",
    "switch", "tag",
)  # fmt: skip
"""What of git writes objects, refs and the index, and starts nothing that its own words name."""
_READS = ("status", "log", "show", "diff", "rev-parse")
_PATTERNS = ("add", "rm")
"""Where a word that the shell makes of a pattern can be nothing but a path."""
_merges_streams = re.compile(r"(?<=\s)2>&1(?=\s|$)")
_inside = re.compile(r"(?:^|[/=:])\.git(?:/|$)", re.IGNORECASE).search


def writes_repository(command: str) -> bool:
    """Whether a line is git alone, by its plain name, and some of it writes the repository."""
    line = read(_merges_streams.sub("", command))
    if not line.plain:
        return False
    found = [_told(part) for part in line.parts]
    return all(found) and any(one in WRITES for one in found)


def mentions(command: str) -> bool:
    """Whether a line would write a repository, for all that can be seen, among other things."""
    parts = read(_merges_streams.sub("", command)).parts
    return any(part[0].text == "git" and any(word.text in WRITES for word in part[1:4]) for part in parts)


def _told(part: Words) -> str:
    """What git is told to do, or `cd`; empty where anything else is in it."""
    words = [word.text for word in part]
    if not part[0].fixed or any(map(_inside, words)) or any(word.startswith("--ou") for word in words):
        return ""
    if words[0] == "cd":
        return "cd" if len(words) == 2 and part[1].fixed else ""
    at = 1
    while words[0] == "git" and words[at : at + 1] and words[at] in ("--no-pager", "-P", "-C"):
        at += 2 if words[at] == "-C" else 1
    if words[0] != "git" or at >= len(words) or not all(word.fixed for word in part[: at + 1]):
        return ""
    spread = any(not word.fixed and re.search(r"[*?\[]", word.text) for word in part)
    return words[at] if words[at] in (*WRITES, *_READS) and (not spread or words[at] in _PATTERNS) else ""
