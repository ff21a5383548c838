"""Commands without the wait: processes forked from one that has loaded metier already.

Most of what a command of a test costs is what it loads, and a suite gives thousands of them.  Each is still a process
of its own, with its own folder, environment, files and exit status; only its modules are there when it begins.
METIER_FRESH=1 starts every command anew, as a person's shell does.  `make soak` sets it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

_HEAVY = (
    "dbos", "genai_prices.data", "openai.resources.chat.completions", "pydantic_ai.models.openai", "rich.progress",
    "sqlalchemy.dialects.sqlite",
)  # fmt: skip
"""What commands load of other people's, where it is installed."""
_RARE = ("metier.adapters.", "metier.faces.acp.", "metier.faces.tui.")


def takes(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment can be forked: the interpreter reads some of it only as it starts."""
    odd = any(name.startswith(("PYTHON", "LC_")) for name in env)
    return not odd and env.get("LANG") == "C.UTF-8" and not os.environ.get("METIER_FRESH")


class Forked:
    """One command, as `subprocess` would show it."""

    def __init__(self, words: Sequence[str], reply: socket.socket) -> None:
        self.words = words
        self._reply = reply
        self.pid = int.from_bytes(self._read(60.0), "big")
        self.returncode: int | None = None

    def _read(self, timeout: float | None) -> bytes:
        self._reply.settimeout(timeout)
        found = self._reply.recv(4)
        assert len(found) == 4, "the press has ended"
        return found

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._reply], [], [], 0)[0]:
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._read(timeout), "big"))
            except TimeoutError as error:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(self.words), timeout or 0) from error
            self._reply.close()
        return self.returncode


def fork(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], files: tuple[int, int, int], lean: bool = True
) -> Forked:
    """Begin `metier WORDS` with these as its standard files, as it runs, or parsed by click alone."""
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as order:
        order.write(json.dumps([lean, list(words), str(cwd), dict(env)]).encode())
        order.seek(0)
        socket.send_fds(_press(), [b"1"], [order.fileno(), *files, theirs.fileno()])
    return Forked(words, ours)


def run(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float, lean: bool = True
) -> tuple[int, bytes, bytes]:
    """All of `metier WORDS`: its status and what it wrote."""
    ends = [os.pipe(), os.pipe()]
    try:
        with open(os.devnull, "rb") as nothing:
            one = fork(words, cwd, env, (nothing.fileno(), ends[0][1], ends[1][1]), lean)
    finally:
        for _, end in ends:
            os.close(end)
    parts: dict[int, list[bytes]] = {end: [] for end, _ in ends}
    waiting, until = set(parts), time.monotonic() + timeout
    try:
        while waiting and (left := until - time.monotonic()) > 0:
            for end in select.select(list(waiting), [], [], left)[0]:
                part = os.read(end, 65_536)
                parts[end].append(part)
                if not part:
                    waiting.remove(end)
        status = one.wait(max(0.01, until - time.monotonic()))
    finally:
        for end in parts:
            os.close(end)
    out, err = (b"".join(part) for part in parts.values())
    return status, out, err


@cache
def _press() -> socket.socket:
    """The way to the process that is forked; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {"LANG": "C.UTF-8", "HOME": "/nonexistent", "PATH": os.environ["PATH"]}
    with theirs:
        subprocess.Popen([sys.executable, "-P", __file__], env=env, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    return ours


def _load() -> None:
    import metier

    for found in pkgutil.walk_packages(metier.__path__, "metier."):
        if not found.name.endswith("__main__") and not found.name.startswith(_RARE):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert threading.active_count() == 1, "what runs beside does not live on in a fork"
    gc.collect()
    gc.freeze()


def _serve() -> None:
    """Fork for every order, and say of each its process and then its status."""
    _load()
    orders = socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([orders.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with running.pop(pid) as reply, contextlib.suppress(OSError):
                        reply.sendall(status.to_bytes(4, "big"))
        if orders.fileno() in ready:
            said, files, _, _ = socket.recv_fds(orders, 1, 5)
            if not said:
                return
            pid = os.fork()
            if not pid:
                _become(*files[:4])
            reply = running[pid] = socket.socket(fileno=files[4])
            reply.sendall(pid.to_bytes(4, "big"))
            for file in files[:4]:
                os.close(file)


def _become(order: int, *files: int) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with open(order, "rb") as file:
            lean, words, cwd, env = json.loads(file.read())
        for number, opened in enumerate(files):
            os.dup2(opened, number)
        os.closerange(3, 4096)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        _begin()
        status = _status_of(words, lean)
    except BaseException:  # noqa: BLE001 - as an interpreter does at its end
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _begin() -> None:
    """New standard streams, as an interpreter makes them."""
    encoding, errors, at = sys.stdout.encoding, sys.stdout.errors, os.isatty(1)
    streams = [
        io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding, errors),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding, errors, line_buffering=at),
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding, "backslashreplace", line_buffering=True
        ),
    ]
    for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _status_of(words: Sequence[str], lean: bool) -> int:
    from metier.faces.cli import app

    if not lean:
        setattr(app, "READ_ONLY", frozenset())  # noqa: B010 - it is a name that `app` imports
    sys.argv = [app.__file__, *words]
    try:
        return app.main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1


if __name__ == "__main__":
    _serve()
