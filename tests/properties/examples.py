"""How many examples a property is tried with: a fixed few in `make test`, and a hundred times as many in a soak."""

import os

from hypothesis import HealthCheck, settings

SOAK = bool(os.environ.get("METIER_SOAK"))


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples * 100 if SOAK else examples,
        derandomize=not SOAK,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
