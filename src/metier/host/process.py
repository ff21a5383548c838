"""Run a program with bounds but no boundary: own session, closed input, bounded output, nothing left behind."""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..types.running import Program, Ran, Tier
from .follow import Followed, Spawned, follow
from .gate import PROGRAMS, Gate

_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import launch"


class Confinement(NamedTuple):
    """What the launcher lays on a program before it starts."""

    limits: tuple[tuple[int, int], ...] = ()
    landlock: Mapping[str, Any] | None = None
    seccomp: bytes = b""
    uid: int = 0
    capabilities: int = 0
    tier: Tier = "none"
    watch: Callable[[int], str] = lambda pid: ""
    """Is given the launcher's process id, often; says why all beneath it has to be ended."""
    joins: tuple[str, ...] = ()
    """The lists of control groups that the program is put on."""


def run(program: Program, gate: Gate = PROGRAMS) -> Ran:
    """Run a program to its end.  How it fails is in what is returned; nothing it started outlives it."""
    return admitted(gate, lambda: launch(program, Confinement()))


def admitted(gate: Gate, start: Callable[[], Ran]) -> Ran:
    """What a start gives when the gate lets it through."""
    with gate.enter() as entered:
        if entered:
            return start()
    return Ran(None, "", note=f"busy: {gate.room} programs run and {gate.queue} wait")


def find(name: str, path: str, cwd: str) -> str:
    """The file that a program's name means, empty when there is none."""
    if "/" in name:
        return os.path.abspath(os.path.join(cwd, name))
    for folder in path.split(os.pathsep):
        candidate = os.path.join(cwd, folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return ""


def unfit(program: Program) -> str:
    """Why no system could start this; empty when one could."""
    words = [*program.argv, program.cwd, *program.env.keys(), *program.env.values()]
    if not program.argv or not program.argv[0]:
        return "there is nothing to run"
    if any("\0" in word for word in words):
        return "an argument or a variable holds a NUL, which no program can be given"
    if any(not name or "=" in name for name in program.env):
        return "a variable has a name that can't be one"
    try:
        os.fsencode("".join(words))
    except UnicodeEncodeError:
        return "an argument or a variable holds half a character, which no program can be given"
    return ""


def launch(program: Program, confinement: Confinement) -> Ran:
    """Run a program under a launcher that ends all of its descendants."""
    if why := unfit(program):
        return Ran(None, "", note=why)
    found = find(program.argv[0], program.env.get("PATH", os.defpath), program.cwd)
    if not found:
        return Ran(None, "", note=f"{program.argv[0]}: not found on PATH")
    try:
        spawned = _spawn(program, found, confinement)
    except OSError as error:
        return Ran(None, "", note=f"it can't be started: {error.strerror}")
    return _ran(follow(spawned, program.seconds, program.output), confinement.tier)


def _spawn(program: Program, found: str, confinement: Confinement) -> Spawned:
    with contextlib.ExitStack() as undo:
        report, told = _pipe(undo)
        output, written = _pipe(undo)
        errors, complained = (-1, written) if program.merged else _pipe(undo)
        process = subprocess.Popen(
            [_python(), "-I", "-S", "-c", _LAUNCH, os.path.dirname(os.path.abspath(__file__))],
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=complained,
            env={},
            cwd="/",
            pass_fds=(told,),
            start_new_session=True,
        )
        spawned = Spawned(
            process,
            (output,) if program.merged else (output, errors),
            report,
            lambda: process.send_signal(signal.SIGTERM),
            lambda: process.send_signal(signal.SIGUSR1),
            lambda report: None,
            lambda: confinement.watch(process.pid),
        )
        undo.callback(process.wait)
        undo.callback(process.kill)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(marshal.dumps(_plan(program, found, confinement, told)))
        undo.pop_all()
        for opened in {told, written, complained}:
            os.close(opened)
        return spawned


def _python() -> str:
    """An interpreter for the launcher: ours, or the system's where ours may not be run by who we are now."""
    return sys.executable if os.access(sys.executable or "/", os.X_OK) and sys.executable else "/usr/bin/python3"


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


def _plan(program: Program, found: str, confinement: Confinement, report: int) -> dict[str, object]:
    return {
        "report": report,
        "parent": os.getpid(),
        "program": os.fsencode(found),
        "argv": [os.fsencode(word) for word in program.argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in program.env.items()},
        "cwd": os.path.abspath(program.cwd),
        "limits": list(confinement.limits),
        "joins": list(confinement.joins),
        "landlock": dict(confinement.landlock) if confinement.landlock else None,
        "seccomp": confinement.seccomp,
        "uid": confinement.uid,
        "capabilities": confinement.capabilities,
    }


def _ran(followed: Followed, tier: Tier) -> Ran:
    word, _, rest = followed.report.partition(b" ")
    texts = (*followed.texts, "")
    status = int(rest) if word == b"status" else None
    notes = [followed.reason]
    if word == b"failed":
        notes.append(rest.decode(errors="replace"))
    elif status is None and not followed.reason:
        notes.append("it was ended from outside")
    note = "; ".join(filter(None, notes))
    return Ran(status, texts[0], texts[1], followed.timed_out, followed.left_out, tier, note)
