"""metier without its index: every file is read, every diagnostic made, the whole catalog written."""

from __future__ import annotations

from contender import run

import metier


def discover(root: str) -> tuple[int, str, object]:
    """One library, its verdicts with every finding, its catalog."""
    library = metier.open(root=root, index=False)
    findings = [(verdict.findings, verdict.skill.findings) for verdict in library.verdicts]
    findings += [((), broken.findings) for broken in library.broken]
    catalog = library.catalog()
    return len(findings), catalog.text, (library, findings, catalog)


run(discover)
