"""Find out what boundary this machine gives, by trying one: a boundary that was not tried is none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import NamedTuple

from ...types.errors import BadRequest, HostError
from ...types.running import Box, Check, Footing, Program, Ran, Tier
from ..process import Confinement, launch
from ..state import make_folder, write_text
from . import bubblewrap, interpreter, landlock, limits, seccomp
from .view import view

_SELFTEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "selftest.py")
_KEPT = 0b110
"""The capabilities that the second tier keeps when we are root; it has the paths to itself."""


_SETTINGS = (
    "kernel/random/boot_id",
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
"""What of the kernel's settings decides over namespaces, and changes with each boot."""


_WORLD = ("ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/cgroup")
"""Where this process lives: a container on the same machine may refuse what the machine itself allows."""
_RIGHTS = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")


class Machine(NamedTuple):
    """What of this machine may be used, and where what was found is kept."""

    bwrap: str = ""
    """The program to use; empty looks where systems have it."""
    landlock: bool = True
    groups: bool = True
    """Whether control groups may be made."""
    only: str = "auto"
    """The one tier to consider, or `auto` for the best."""
    state: str = ""
    """metier's folder, where the outcome is remembered until the next boot; empty remembers it in this process."""


def here(env: Mapping[str, str], state: str = "") -> Machine:
    """This machine, as the environment lets us use it."""
    only = env.get("METIER_SANDBOX", "auto") or "auto"
    if only not in ("auto", "bubblewrap", "landlock", "none"):
        raise BadRequest(f"METIER_SANDBOX is `{only}`", "give auto, bubblewrap, landlock or none")
    return Machine(only=only, state=state)


def homes() -> tuple[str, ...]:
    """The home folders of whoever runs us, as the environment and as the system says."""
    found = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    spelled = [one.rstrip("/") for one in found if one.startswith("/") and one != "/"]
    return tuple(dict.fromkeys([*spelled, *map(os.path.realpath, spelled)]))


_known: dict[str, Footing] = {}


def probe(machine: Machine | None = None, fresh: bool = False) -> Footing:
    """The best tier that refuses all it must; `none`, and why, when there is none."""
    machine = here(os.environ) if machine is None else machine
    key = _key(machine)
    if not fresh:
        if key in _known:
            return _known[key]
        if (kept := _remembered(machine.state, key)) is not None:
            _known[key] = kept
            return kept
    found = _found(machine)
    _known[key] = found
    if found.tier != "none":
        _remember(machine.state, key, found)
    return found


def tier(machine: Machine | None = None) -> Tier:
    return probe(machine).tier


def _found(machine: Machine) -> Footing:
    reasons: list[str] = []
    checks: tuple[Check, ...] = ()
    if machine.only not in ("auto", "none"):
        reasons.append(f"METIER_SANDBOX is {machine.only}")
    for name, attempt in {"bubblewrap": _bubblewrap, "landlock": _landlock}.items():
        if machine.only in ("auto", name):
            footing = attempt(machine)
            if footing.tier != "none":
                return replace(footing, reason="; ".join([*reasons, *filter(None, [footing.reason])]))
            reasons.append(footing.reason)
            checks += footing.checks
    if machine.only == "none":
        reasons.append("METIER_SANDBOX is none")
    return Footing("none", "; ".join(reasons), checks, interpreter.python(), limits=_keeper(machine))


def _keeper(machine: Machine) -> str:
    with limits.group(Box("require").limits, machine.groups) as held:
        return "control group" if held else "resource limits and watching"


def _bubblewrap(machine: Machine) -> Footing:
    places = (machine.bwrap,) if machine.bwrap else bubblewrap.PLACES
    found = next((place for place in places if os.access(place, os.X_OK)), "")
    if sys.platform != "linux":
        return Footing("none", "bubblewrap needs Linux")
    if not found:
        return Footing("none", "bubblewrap is not installed")
    if not seccomp.is_known():
        return Footing("none", f"there is no filter of system calls for {os.uname().machine}")
    said = launch(Program((found, "--help"), "/", seconds=10, merged=True), Confinement()).stdout
    return _tried(Footing("bubblewrap", "", bwrap=found, closes_users="--disable-userns" in said), machine, 0)


def _landlock(machine: Machine) -> Footing:
    version = landlock.abi() if machine.landlock and sys.platform == "linux" else 0
    if not version:
        return Footing("none", "the kernel has no Landlock")
    if not seccomp.is_known():
        return Footing("none", f"there is no filter of system calls for {os.uname().machine}")
    return _tried(Footing("landlock", "", abi=version), machine, _KEPT if os.geteuid() == 0 else 0)


def _tried(footing: Footing, machine: Machine, kept: int) -> Footing:
    """The footing when all that it must refuse was refused; otherwise none, with what went wrong."""
    shown = interpreter.choose(interpreter.python(), os.defpath, "/", (), homes())
    footing = replace(footing, interpreter=shown.path, limits=_keeper(machine))
    with _bait() as bait:
        program = Program(
            (interpreter.python(), "-I", "-S", "-c", _source(), *bait.words, str(kept)),
            bait.work,
            {"PATH": os.defpath, "LANG": "C.UTF-8"},
            seconds=20,
        )
        box = Box("require", bait.skill, bait.work)
        ran = confined(program, box, footing, machine.groups)
        checks, wrong = _judged(ran, bait)
    if wrong:
        return Footing("none", f"{footing.tier}: {wrong}", checks, footing.interpreter)
    return replace(footing, checks=checks)


def confined(program: Program, box: Box, footing: Footing, groups: bool, state: str = "") -> Ran:
    """Run a program within a footing's tier, whatever the box asks for."""
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work and footing.tier == "landlock":
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        ours = os.environ.get("METIER_HOME", "")
        hidden = (*box.hidden, *([os.path.abspath(ours)] if ours else []))
        seen = view(program, replace(box, hidden=hidden), work, homes())
        if not seen.program:
            return Ran(None, "", tier=footing.tier, note=f"{program.argv[0]}: not found, or it can't be shown inside")
        if footing.tier == "landlock":
            ran = landlock.run(landlock.Asked(program, box, seen, footing.abi, groups))
        else:
            asked = bubblewrap.Asked(program, box, seen, footing.bwrap, footing.closes_users, groups, state)
            ran = bubblewrap.run(asked)
    return replace(ran, note="; ".join(filter(None, (ran.note, seen.note))))


def _source() -> str:
    with open(_SELFTEST, encoding="utf-8") as file:
        return file.read()


class _Bait(NamedTuple):
    """What the trial tries to reach: a folder nobody granted, sockets that listen, a process that is not its own."""

    skill: str
    work: str
    outside: str
    port: int
    victim: subprocess.Popen[bytes]

    @property
    def words(self) -> tuple[str, ...]:
        return self.skill, self.work, self.outside, str(self.port), str(self.victim.pid)

    def is_whole(self) -> bool:
        """Whether all that nobody may change is as it was."""
        try:
            with open(f"{self.outside}/secret", encoding="utf-8") as file:
                return file.read() == "metier\n" and os.listdir(self.skill) == ["SKILL.md"]
        except OSError:
            return False


@contextlib.contextmanager
def _bait() -> Iterator[_Bait]:
    with contextlib.ExitStack() as stack:
        base = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-probe-")))
        for name in ("skill", "work", "outside"):
            os.mkdir(f"{base}/{name}")
        for name in ("skill/SKILL.md", "outside/secret"):
            with open(f"{base}/{name}", "w", encoding="utf-8") as file:
                file.write("metier\n")
        listening = [stack.enter_context(socket.socket(family)) for family in (socket.AF_INET, *[socket.AF_UNIX] * 2)]
        listening[0].bind(("127.0.0.1", 0))
        port: int = listening[0].getsockname()[1]
        listening[1].bind(f"\0metier-probe-{port}")
        listening[2].bind(f"{base}/outside/socket")
        for one in listening:
            one.listen(8)
        victim = subprocess.Popen(
            ["/bin/sleep", "60"], stdin=subprocess.DEVNULL, env={"METIER_PROBE_SECRET": "1"}, start_new_session=True
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield _Bait(f"{base}/skill", f"{base}/work", f"{base}/outside", port, victim)


def _judged(ran: Ran, bait: _Bait) -> tuple[tuple[Check, ...], str]:
    """Each check, and what is wrong with them; what the trial could not have told is looked at from here."""
    lines = [line.split("\t") for line in ran.stdout.splitlines()]
    checks = [Check(line[1], line[0] == "ok", line[2].strip()) for line in lines if len(line) == 3]
    if bait.victim.poll() is not None:
        checks.append(Check("signal another, seen from outside", False, "it ended"))
    if not bait.is_whole():
        checks.append(Check("write outside, seen from outside", False, "a file was changed"))
    if not lines or lines[-1] != ["end"]:
        said = ran.note or next(iter(ran.stderr.splitlines()[-1:]), "") or f"it ended with {ran.status}"
        return tuple(checks), f"the trial did not come to its end: {said}"
    failed = [f"{one.name} was {one.note or 'done'}" for one in checks if not one.held]
    return tuple(checks), "; ".join(failed)


def _key(machine: Machine) -> str:
    """Changes with whatever could change the outcome."""
    package = os.path.dirname(_SELFTEST)
    looked: list[object] = [machine._replace(state=""), os.getuid(), os.geteuid(), sys.executable, sys.prefix, homes()]
    places = (machine.bwrap,) if machine.bwrap else bubblewrap.PLACES
    ours = [f"{package}/{name}" for name in sorted(os.listdir(package))]
    for path in (*places, os.path.realpath(sys.executable), *ours):
        with contextlib.suppress(OSError):
            found = os.stat(path)
            looked.append((path, found.st_ino, found.st_size, found.st_mtime_ns))
    for name in _SETTINGS:
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
            looked.append(file.read())
    for name in _WORLD:
        with contextlib.suppress(OSError):
            looked.append(os.readlink(f"/proc/self/{name}"))
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        looked += [line for line in file if line.startswith(_RIGHTS)]
    return hashlib.sha256(repr(looked).encode()).hexdigest()


def _remembered(state: str, key: str) -> Footing | None:
    if not state:
        return None
    try:
        with open(f"{state}/sandbox.json", encoding="utf-8") as file:
            kept = json.load(file)
        if kept["key"] != key:
            return None
        checks = tuple(Check(**one) for one in kept["footing"].pop("checks"))
        return Footing(**kept["footing"], checks=checks)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not ours: it is found again


def _remember(state: str, key: str, footing: Footing) -> None:
    if not state:
        return
    with contextlib.suppress(HostError):  # remembering saves time and nothing else
        make_folder(state)
        write_text(f"{state}/sandbox.json", json.dumps({"key": key, "footing": asdict(footing)}))
