"""metier without its index: every file is read, every diagnostic made, the whole catalog written."""

from __future__ import annotations

from contender import run

import metier


def discover(root: str) -> tuple[int, str, object]:
    """One library, its verdicts with their problems, its catalog."""
    library = metier.open(root=root, index=False)
    problems = [verdict.problems for verdict in library.verdicts]
    catalog = library.catalog()
    return len(problems), catalog.text, (library, problems, catalog)


run(discover)
