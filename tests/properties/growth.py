"""How processor time grows with the size of a text."""

import time
from collections.abc import Callable


def grows_evenly(work: Callable[[str], object], piece: str, small: int, times: int = 8) -> bool:
    """Whether so many times the text takes about so many times as long, and not the square of it."""
    few, many = (_least_seconds(work, piece * (size // len(piece))) for size in (small, small * times))
    # A floor for the clock's own steps, and room for a busy machine: the square would be far beyond both.
    return many < times * 3 * max(few, 0.0005)


def _least_seconds(work: Callable[[str], object], text: str) -> float:
    """The best of several: other programs can only make it slower."""
    best = float("inf")
    for _ in range(4):
        began = time.process_time()
        work(text)
        best = min(best, time.process_time() - began)
    return best
