"""Trouble of the machine: too many open files, a full or broken disk, no memory.

None of it says anything about a skill, a schedule or a request: what failed with it may succeed in a minute.  So it is
told from every other failure, however many errors were raised from it, and nothing is decided by what a machine in
trouble could not see.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from ..types.errors import MachineTrouble

MACHINE_ERRNOS = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN)
)
_SPARE_FILES = 16
"""Files that a machine must still be able to open before a decision is believed."""
_SPARE_BYTES = 1 << 20


def is_machine_trouble(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, is the machine's."""
    return any(
        isinstance(cause, MachineTrouble | MemoryError)
        or (isinstance(cause, OSError) and cause.errno in MACHINE_ERRNOS)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        # `from None` says that what came before is not the reason.
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def check_machine(folder: str, *reading: str) -> None:
    """Raise `MachineTrouble` if files can't be opened, memory had, a folder written, or one of `reading` listed."""
    try:
        with ExitStack() as opened:
            for _ in range(_SPARE_FILES):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            bytearray(_SPARE_BYTES)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x" * 4_096)
                file.flush()
                os.fsync(file.fileno())
            for path in reading:
                _list_folder(path)
    except (OSError, MemoryError) as error:
        raise MachineTrouble(
            f"the machine is in trouble: {error}", "check its disk, its memory and `ulimit -n`"
        ) from error


def _list_folder(path: str) -> None:
    # That it is not there, or not ours to read, is an answer.
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.listdir(path)
