"""Failed work: the outcome of an error, and a guard that records one for work that crashes."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ..types.errors import MetierError
from ..types.schedule import RunOutcome


def failed_outcome(error: Exception) -> RunOutcome:
    """The outcome of work that ended in an error: its message and hint, or its type if metier does not know it."""
    if isinstance(error, MetierError):
        return RunOutcome(False, f"{error.message}; {error.hint}" if error.hint else error.message)
    return RunOutcome(False, f"{type(error).__name__}: {error}")


class CrashRecorder:
    """Records a failure if the block inside it raises; the error goes on to the caller either way.

    Work that crashed must not stay `running`: its schedule would wait for it forever.  What is not an `Exception` is
    not recorded: an interrupt, an exit or a cancellation by DBOS says that this worker stops, not that the work failed,
    and whoever takes over resumes it.  This is not an `except` clause because there is nothing to handle.
    """

    def __init__(self, record: Callable[[RunOutcome], object]) -> None:
        self._record = record

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self._record(failed_outcome(error))
