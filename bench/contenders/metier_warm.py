"""metier with its index written by an earlier process: verdicts, no catalog."""

from __future__ import annotations

from contender import run

import metier


def verdicts(root: str) -> tuple[int, str, object]:
    """One library and its verdicts."""
    library = metier.open(root=root)
    verdicts = library.verdicts
    return len(verdicts) + len(library.broken), "", (library, verdicts)


run(verdicts)
