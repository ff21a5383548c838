"""What holds for the whole suite on every machine: patience with a busy one, and a word about what did not run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made says how busy the machine is and nothing about the property.
settings.register_profile("anywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anywhere")


SOAK = bool(os.environ.get("METIER_SOAK"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests are for `make soak`: they were not asked for, which is no lack of this machine."""
    long = [] if SOAK else [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def skip_reasons(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """How many tests did not run, by the reason they give."""
    found: Counter[str] = Counter()
    for report in reports:
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[said.removeprefix("Skipped: ").strip()] += 1
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = skip_reasons(terminalreporter.stats.get("skipped", ()))
    if reasons:
        told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"not run here: {told}")
