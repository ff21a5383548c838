"""Empty folders that stand for what is guarded and not there, so that bubblewrap has something to mount on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence

from ...types.errors import HostError
from ..clock import sleep
from ..state import make_folder

_PLACEHOLDER = 0o1555
"""The mode of an empty folder that we made: nobody makes one like it by chance."""


@contextlib.contextmanager
def laid(guarded: Sequence[str], state: str) -> Iterator[None]:
    """What is guarded and not there needs a folder to mount on, for as long as any program runs in that grant.

    Whoever is the last in a grant takes them away: removing one would lift the guard from another's program.
    """
    with contextlib.ExitStack() as stack:
        if state and guarded:
            stack.enter_context(_noted([path for path in guarded if not os.path.lexists(path) or is_one(path)], state))
        held = {folder: _shared(folder, stack) for folder in {os.path.dirname(path) for path in guarded}}
        for path in guarded:
            with contextlib.suppress(OSError):  # it is there, or nobody can make it
                os.mkdir(path)
                os.chmod(path, _PLACEHOLDER)
        try:
            yield
        finally:
            for folder, opened in held.items():
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for path in guarded:
                        if os.path.dirname(path) == folder:
                            _remove(path)


def _shared(folder: str, stack: contextlib.ExitStack) -> int:
    """A folder held open and locked with all others who have programs in it."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"{folder} can't be guarded: {error.strerror}", "try again", folder) from error
    stack.callback(os.close, opened)
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return opened
        sleep(0.02)
    raise HostError(f"{folder} is locked by another program", "try again when that has ended", folder)


def _remove(path: str) -> None:
    """Take a placeholder away, and nothing else."""
    with contextlib.suppress(OSError):
        if is_one(path):
            os.rmdir(path)


def is_one(path: str) -> bool:
    """Whether something that is there stands for what is not."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) == _PLACEHOLDER
    except OSError:
        return False


@contextlib.contextmanager
def _noted(paths: Sequence[str], state: str) -> Iterator[None]:
    """A note of what is being laid down, locked while we live: should we be killed, the next run tidies up."""
    folder = f"{state}/placeholders"
    opened = -1
    with contextlib.suppress(OSError, HostError):  # a note saves tidying and nothing else
        make_folder(folder)
        sweep(state)
        if paths:
            opened, note = tempfile.mkstemp(dir=folder)
            fcntl.flock(opened, fcntl.LOCK_EX)
            os.write(opened, os.fsencode("\0".join(paths)))
    try:
        yield
    finally:
        if opened >= 0:
            with contextlib.suppress(OSError):
                os.unlink(note)
            os.close(opened)


def sweep(state: str) -> None:
    """Take away what runs that were killed left behind."""
    folder = f"{state}/placeholders"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = [os.fsdecode(path) for path in file.read().split(b"\0") if path]
            if left and all(_tidied(path) for path in left):
                os.unlink(f"{folder}/{name}")


def _tidied(path: str) -> bool:
    """Whether a placeholder is gone; it stays while another program runs in the same grant, which takes it away."""
    try:
        opened = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True
