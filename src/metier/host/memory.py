"""Making many things at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_MOST_UNSEEN = 300_000
_unseen = 0
"""How many things were taken for old without a look since the last look at everything."""


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Meanwhile nobody looks for garbage: what is made here is kept, so that each look would be for nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            _age_objects()
            gc.enable()


def _age_objects() -> None:
    """Take what was made for old: nobody looks at it twice for being young, only now and then with all the rest."""
    global _unseen
    _unseen += gc.get_count()[0]
    if _unseen > _MOST_UNSEEN:
        _unseen = 0
        gc.collect()
    elif not gc.get_freeze_count():  # else somebody keeps things frozen, and they would thaw
        gc.freeze()
        gc.unfreeze()
