"""Making many things at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def making_many() -> Iterator[None]:
    """Meanwhile nobody looks for garbage: what is made here is kept, so that each look would be for nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
