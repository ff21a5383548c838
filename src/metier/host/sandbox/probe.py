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
from ...types.sandbox import BoundaryCheck, ProcessResult, ProgramSpec, SandboxSpec, SandboxSupport, SandboxTier
from ..fs import make_folder, write_text
from ..process import Confinement, launch_program
from . import bubblewrap, kernel, limits, profile
from .profile import build_view

_SELFTEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "selftest.py")
_KEPT_CAPABILITIES = 0b110
"""The capabilities that the second tier keeps when we are root; it has the paths to itself."""


_KERNEL_SETTINGS = (
    "kernel/random/boot_id",
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
"""What of the kernel's settings decides over namespaces, and changes with each boot."""


_NAMESPACES = ("ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/cgroup")
"""Where this process lives: a container on the same machine may refuse what the machine itself allows."""
_STATUS_FIELDS = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")


class MachineOptions(NamedTuple):
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


def read_machine_options(env: Mapping[str, str], state: str = "") -> MachineOptions:
    """This machine, as the environment lets us use it."""
    only = env.get("METIER_SANDBOX", "auto") or "auto"
    if only not in ("auto", "bubblewrap", "landlock", "none"):
        raise BadRequest(f"METIER_SANDBOX is `{only}`", "give auto, bubblewrap, landlock or none")
    return MachineOptions(only=only, state=state)


def home_folders() -> tuple[str, ...]:
    """The home folders of whoever runs us, as the environment and as the system says."""
    folders = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):
        folders.append(pwd.getpwuid(os.getuid()).pw_dir)
    spelled = [folder.rstrip("/") for folder in folders if folder.startswith("/") and folder != "/"]
    return tuple(dict.fromkeys([*spelled, *map(os.path.realpath, spelled)]))


_footings: dict[str, SandboxSupport] = {}


def probe_sandbox(machine: MachineOptions | None = None, fresh: bool = False) -> SandboxSupport:
    """The best tier that refuses all it must; `none`, and why, when there is none."""
    machine = read_machine_options(os.environ) if machine is None else machine
    key = _cache_key(machine)
    if not fresh:
        if key in _footings:
            return _footings[key]
        if (cached := _read_cached_footing(machine.state, key)) is not None:
            _footings[key] = cached
            return cached
    footing = _find_footing(machine)
    _footings[key] = footing
    if footing.tier != "none":
        _cache_footing(machine.state, key, footing)
    return footing


def sandbox_tier(machine: MachineOptions | None = None) -> SandboxTier:
    return probe_sandbox(machine).tier


def _find_footing(machine: MachineOptions) -> SandboxSupport:
    reasons: list[str] = []
    checks: tuple[BoundaryCheck, ...] = ()
    if machine.only not in ("auto", "none"):
        reasons.append(f"METIER_SANDBOX is {machine.only}")
    for name, attempt in {"bubblewrap": _try_bubblewrap, "landlock": _try_landlock}.items():
        if machine.only in ("auto", name):
            footing = attempt(machine)
            if footing.tier != "none":
                return replace(footing, reason="; ".join([*reasons, *filter(None, [footing.reason])]))
            reasons.append(footing.reason)
            checks += footing.checks
    if machine.only == "none":
        reasons.append("METIER_SANDBOX is none")
    return SandboxSupport("none", "; ".join(reasons), checks, profile.current_python(), limits=_limit_keeper(machine))


def _limit_keeper(machine: MachineOptions) -> str:
    with limits.control_group(SandboxSpec("require").limits, machine.groups) as cgroup:
        return "control group" if cgroup else "resource limits and watching"


def _try_bubblewrap(machine: MachineOptions) -> SandboxSupport:
    places = (machine.bwrap,) if machine.bwrap else bubblewrap.BWRAP_PATHS
    bwrap = next((place for place in places if os.access(place, os.X_OK)), "")
    if sys.platform != "linux":
        return SandboxSupport("none", "bubblewrap needs Linux")
    if not bwrap:
        return SandboxSupport("none", "bubblewrap is not installed")
    if not kernel.is_supported():
        return SandboxSupport("none", f"there is no filter of system calls for {os.uname().machine}")
    help_text = launch_program(ProgramSpec((bwrap, "--help"), "/", seconds=10, merged=True), Confinement()).stdout
    return _try_footing(
        SandboxSupport("bubblewrap", "", bwrap=bwrap, closes_users="--disable-userns" in help_text), machine, 0
    )


def _try_landlock(machine: MachineOptions) -> SandboxSupport:
    version = kernel.landlock_abi() if machine.landlock and sys.platform == "linux" else 0
    if not version:
        return SandboxSupport("none", "the kernel has no Landlock")
    if not kernel.is_supported():
        return SandboxSupport("none", f"there is no filter of system calls for {os.uname().machine}")
    return _try_footing(
        SandboxSupport("landlock", "", abi=version), machine, _KEPT_CAPABILITIES if os.geteuid() == 0 else 0
    )


def _try_footing(footing: SandboxSupport, machine: MachineOptions, capabilities: int) -> SandboxSupport:
    """The footing when all that it must refuse was refused; otherwise none, with what went wrong."""
    chosen = profile.choose_program(profile.current_python(), os.defpath, "/", (), home_folders())
    footing = replace(footing, interpreter=chosen.path, limits=_limit_keeper(machine))
    with _lay_bait() as bait:
        program = ProgramSpec(
            (profile.current_python(), "-I", "-S", "-c", _selftest_source(), *bait.words, str(capabilities)),
            bait.work,
            {"PATH": os.defpath, "LANG": "C.UTF-8"},
            seconds=20,
        )
        box = SandboxSpec("require", bait.skill, bait.work)
        result = run_confined(program, box, footing, machine.groups)
        checks, wrong = _judge_trial(result, bait)
    if wrong:
        return SandboxSupport("none", f"{footing.tier}: {wrong}", checks, footing.interpreter)
    return replace(footing, checks=checks)


def run_confined(
    program: ProgramSpec, box: SandboxSpec, footing: SandboxSupport, groups: bool, state: str = ""
) -> ProcessResult:
    """Run a program within a footing's tier, whatever the box asks for."""
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work and footing.tier == "landlock":
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        ours = os.environ.get("METIER_HOME", "")
        hidden = (*box.hidden, *([os.path.abspath(ours)] if ours else []))
        visible = build_view(program, replace(box, hidden=hidden), work, home_folders())
        if not visible.program:
            return ProcessResult(
                None, "", tier=footing.tier, note=f"{program.argv[0]}: not found, or it can't be shown inside"
            )
        if footing.tier == "landlock":
            result = kernel.run_under_landlock(kernel.LandlockRequest(program, box, visible, footing.abi, groups))
        else:
            request = bubblewrap.BubblewrapRequest(
                program, box, visible, footing.bwrap, footing.closes_users, groups, state
            )
            result = bubblewrap.run_in_bubblewrap(request)
    return replace(result, note="; ".join(filter(None, (result.note, visible.note))))


def _selftest_source() -> str:
    with open(_SELFTEST, encoding="utf-8") as file:
        return file.read()


class _ProbeBait(NamedTuple):
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
def _lay_bait() -> Iterator[_ProbeBait]:
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
        for listener in listening:
            listener.listen(8)
        victim = subprocess.Popen(
            ["/bin/sleep", "60"], stdin=subprocess.DEVNULL, env={"METIER_PROBE_SECRET": "1"}, start_new_session=True
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield _ProbeBait(f"{base}/skill", f"{base}/work", f"{base}/outside", port, victim)


def _judge_trial(result: ProcessResult, bait: _ProbeBait) -> tuple[tuple[BoundaryCheck, ...], str]:
    """Each check, and what is wrong with them; what the trial could not have told is looked at from here."""
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    checks = [BoundaryCheck(line[1], line[0] == "ok", line[2].strip()) for line in lines if len(line) == 3]
    if bait.victim.poll() is not None:
        checks.append(BoundaryCheck("signal another, seen from outside", False, "it ended"))
    if not bait.is_whole():
        checks.append(BoundaryCheck("write outside, seen from outside", False, "a file was changed"))
    if not lines or lines[-1] != ["end"]:
        reason = result.note or next(iter(result.stderr.splitlines()[-1:]), "") or f"it ended with {result.status}"
        return tuple(checks), f"the trial did not come to its end: {reason}"
    failed = [f"{check.name} was {check.note or 'done'}" for check in checks if not check.held]
    return tuple(checks), "; ".join(failed)


def _cache_key(machine: MachineOptions) -> str:
    """Changes with whatever could change the outcome."""
    package = os.path.dirname(_SELFTEST)
    evidence: list[object] = [
        machine._replace(state=""),
        os.getuid(),
        os.geteuid(),
        sys.executable,
        sys.prefix,
        home_folders(),
    ]
    places = (machine.bwrap,) if machine.bwrap else bubblewrap.BWRAP_PATHS
    ours = [f"{package}/{name}" for name in sorted(os.listdir(package))]
    for path in (*places, os.path.realpath(sys.executable), *ours):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            evidence.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    for name in _KERNEL_SETTINGS:
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
            evidence.append(file.read())
    for name in _NAMESPACES:
        with contextlib.suppress(OSError):
            evidence.append(os.readlink(f"/proc/self/{name}"))
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        evidence += [line for line in file if line.startswith(_STATUS_FIELDS)]
    return hashlib.sha256(repr(evidence).encode()).hexdigest()


def _read_cached_footing(state: str, key: str) -> SandboxSupport | None:
    if not state:
        return None
    try:
        with open(f"{state}/sandbox.json", encoding="utf-8") as file:
            cached = json.load(file)
        if cached["key"] != key:
            return None
        checks = tuple(BoundaryCheck(**check) for check in cached["footing"].pop("checks"))
        return SandboxSupport(**cached["footing"], checks=checks)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not ours: it is found again


def _cache_footing(state: str, key: str, footing: SandboxSupport) -> None:
    if not state:
        return
    with contextlib.suppress(HostError):  # remembering saves time and nothing else
        make_folder(state)
        write_text(f"{state}/sandbox.json", json.dumps({"key": key, "footing": asdict(footing)}))
