"""metier with its index written by an earlier process: names only, as completion and pickers need."""

from __future__ import annotations

from contender import run

import metier


def names(root: str) -> tuple[int, str, object]:
    """One library and its names."""
    library = metier.open(root=root)
    found = list(library.names)
    return len(found), "", (library, found)


run(names)
