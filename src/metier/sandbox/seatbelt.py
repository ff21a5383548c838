"""The tier of macOS: Seatbelt, by `sandbox-exec` with a profile that denies what it does not name.

The last rule of a profile that matches decides, so the view's paths are written outer ones first, as they would be
mounted elsewhere.  Paths are parameters of the profile, never part of its text: no name can end a string and add a
rule.  Where a rule needs a pattern, what is not a plain letter becomes a wildcard, which can only deny more.

Seatbelt compares real paths as the disk spells them, and the disk ignores case: protected names are matched in every
case, and everything else is asked of the disk (`canonical_path`).  We can't run this: the self-test decides.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ..host.facts import monotonic
from ..host.paths import is_inside
from ..host.process import Confinement, launch_program
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxLimits, SandboxSpec
from . import limits
from .obeyed import PROTECTED
from .profile import IN_GIT, PathAccess, SandboxView

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_HOMEBREW = ("bin", "sbin", "Cellar", "Frameworks", "include", "lib", "opt", "share")
"""What is programs in a Homebrew folder: `var` and `etc` hold databases and settings."""
MAC_SYSTEM = (
    # Not /System as a whole: /System/Volumes/Data is another name for everything, homes included.
    "/System/Library",
    "/System/Cryptexes",
    "/System/Volumes/Preboot/Cryptexes",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/libexec",
    "/usr/share",
    "/bin",
    "/sbin",
    "/Library/Apple",
    "/Library/Frameworks",
    "/Library/Developer/CommandLineTools",
    "/Applications/Xcode.app/Contents/Developer",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/db/xcode_select_link",
    "/private/var/select",
    "/nix/store",
    *(f"{prefix}/{name}" for prefix in ("/opt/homebrew", "/usr/local") for name in _HOMEBREW),
)
"""Programs, libraries and the shared cache of the loader, which every user of the machine may read."""
MAC_ETC = ("localtime", "passwd", "group", "protocols", "services", "shells", "ssl/openssl.cnf")
_MAC_ETC_NETWORK = ("hosts", "resolv.conf", "ssl")
_METADATA = (
    "/",
    "/etc",
    "/tmp",
    "/var",
    "/private",
    "/private/etc",
    "/private/var",
    "/dev",
    "/usr",
    "/opt",
    "/Library",
)
"""Links and folders that are stepped through on the way to what may be read."""
_READ = "file-read* file-test-existence"
_RUN = "file-map-executable process-exec*"
_NUMBERS = (
    *("kern.argmax", "kern.hostname", "kern.maxfilesperproc", "kern.ngroups", "kern.osproductversion"),
    *("kern.osrelease", "kern.ostype", "kern.osvariant_status", "kern.osversion", "kern.secure_kernel"),
    *("kern.usrstack64", "kern.version", "sysctl.proc_cputype", "vm.loadavg"),
)
"""Figures of the machine.  `kern.procargs2`, arguments and environment of every process, is not one of them."""
_SERVICES = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center")
_NETWORK_SERVICES = ("com.apple.SystemConfiguration.configd", "com.apple.dnssd.service", "com.apple.trustd.agent")
_plain_letter = re.compile(r"[A-Za-z0-9/_-]").fullmatch
_WATCH_INTERVAL = 0.5


class SeatbeltRequest(NamedTuple):
    """What to confine, and with which program."""

    program: ProgramSpec
    box: SandboxSpec
    view: SandboxView
    sandbox_exec: str


class SeatbeltProfile(NamedTuple):
    """A profile and the paths it takes as parameters."""

    text: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def options(self) -> tuple[str, ...]:
        """As options of `sandbox-exec`."""
        named = [word for name, path in self.parameters for word in ("-D", f"{name}={path}")]
        return (*named, "-p", self.text)


# --- The profile ---


class _RuleWriter:
    """Collects rules, and a parameter for each path."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, str] = {}

    def add(self, action: str, operations: str, *filters: str) -> None:
        self.lines.append(f"({' '.join((action, operations, *filters))})")

    def parameter(self, path: str) -> str:
        name = self.names.setdefault(path, f"P{len(self.names)}")
        return f'(param "{name}")'

    def whole(self, path: str) -> str:
        return f"(subpath {self.parameter(path)})"

    def itself(self, path: str) -> str:
        return f"(literal {self.parameter(path)})"


def seatbelt_profile(view: SandboxView, box: SandboxSpec) -> SeatbeltProfile:
    """The profile of a view, which names real paths."""
    rules = _RuleWriter()
    _write_base(rules, box.permissions.network)
    protected = tuple(dict.fromkeys((*PROTECTED, *box.protected)))
    for access in view.seen:
        _write_access(rules, access, view.work, protected)
    for path in sorted(_stepped_through(view)):
        rules.add("allow", "file-read-metadata", rules.itself(path))
    for path in sorted(_anchors(view)):
        # Renamed, everything in it would be where no rule knows it.
        rules.add("deny", "file-write-unlink", rules.itself(path))
    # A second name for a file would open it by the wrong path.
    rules.add("deny", "file-link")
    rules.add("deny", "file-write-setugid")
    text = "\n".join(("(version 1)", "(deny default)", *rules.lines)) + "\n"
    return SeatbeltProfile(text, tuple((name, path) for path, name in rules.names.items()))


def _write_base(rules: _RuleWriter, network: bool) -> None:
    """What every program needs: to start, to load libraries, to see its own processes."""
    rules.add("allow", "process-fork")
    rules.add("allow", "signal process-info*", "(target same-sandbox)")
    rules.add("allow", "sysctl-read", '(sysctl-name-prefix "hw.")', *(f'(sysctl-name "{name}")' for name in _NUMBERS))
    services = (*_SERVICES, *(_NETWORK_SERVICES if network else ()))
    rules.add("allow", "mach-lookup", *(f'(global-name "{name}")' for name in services))
    rules.add("allow", f"{_READ} {_RUN}", *(f'(subpath "{path}")' for path in MAC_SYSTEM))
    # The loader opens the root itself, and fails without.
    rules.add("allow", "file-read*", '(literal "/")')
    rules.add("allow", "file-read-metadata", *(f'(literal "{path}")' for path in _METADATA))
    names = (*MAC_ETC, *(_MAC_ETC_NETWORK if network else ()))
    rules.add("allow", _READ, *(f'(subpath "/private/etc/{name}")' for name in names))
    rules.add("allow", "file-read*", *(f'(literal "/dev/{name}")' for name in ("random", "urandom", "dtracehelper")))
    rules.add("allow", "file-read* file-write-data", *(f'(literal "/dev/{name}")' for name in ("null", "zero")))
    rules.add("allow", "file-read* file-write-data", '(subpath "/dev/fd")')
    if network:
        rules.add("allow", "system-socket")
        rules.add("allow", "network-outbound", '(remote ip "*:*")', '(literal "/private/var/run/mDNSResponder")')
        rules.add("allow", "network-bind network-inbound", '(local ip "*:*")')
        rules.add("allow", _READ, '(literal "/private/var/run/resolv.conf")')


def _write_access(rules: _RuleWriter, access: PathAccess, work: str, protected: Iterable[str]) -> None:
    path = access.path
    if access.kind == "read":
        rules.add("allow", f"{_READ} {_RUN}", rules.whole(path))
        rules.add("deny", "file-write*", rules.whole(path))  # it may lie inside a folder that is writable
    elif access.kind == "write":
        rules.add("allow", f"{_READ} {_RUN} file-write*", rules.whole(path))
        if path != work:
            patterns = " ".join(f'(regex #"{pattern}")' for pattern in _protected_patterns(path, protected))
            rules.add("deny", "file-write*", f"(require-all {rules.whole(path)} (require-any {patterns}))")
    elif access.kind == "hide":
        rules.add("deny", f"{_READ} {_RUN} file-write*", rules.whole(path))
    elif access.kind == "guard":
        rules.add("deny", "file-write*", rules.whole(path))
    else:
        rules.add("allow", "file-read-metadata", rules.itself(path))


def _protected_patterns(folder: str, protected: Iterable[str]) -> Iterator[str]:
    """Patterns of the names in a folder, at any depth, that stay read-only whether they exist or not.

    Names without a dot are protected only if they exist, and then the view has their paths.
    """
    names = IN_GIT if ".git" in folder.split("/") else [name for name in protected if name.startswith(".")]
    start = "^" + _pattern(folder, lambda letter: letter) + "/(.*/)?"
    for name in names:
        yield start + _pattern(name, _any_case) + "(/|$)"
    # The disk takes some letters of other alphabets for the same name.
    yield start + "[.][^/]*[^ -~]"


def _pattern(text: str, spell: Callable[[str], str]) -> str:
    """A pattern for a text in which nothing but plain letters, wildcards and our own brackets occurs."""
    # A letter of another alphabet is several bytes, and may be stored as another number of them.
    pieces = re.split(r"([^\x00-\x7f]+)", text)
    plain = (
        "".join(spell(letter) if _plain_letter(letter) else _dot(letter) for letter in piece) for piece in pieces[::2]
    )
    return ".+".join(plain)


def _dot(letter: str) -> str:
    return "[.]" if letter == "." else "."


def _any_case(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter


def _stepped_through(view: SandboxView) -> set[str]:
    """The folders around what is visible: programs ask what they are on the way, not what is in them."""
    visible = [access.path for access in view.seen if access.kind in ("read", "write", "link")]
    return {folder for path in visible for folder in _folders_around(path)} - set(_METADATA)


def _anchors(view: SandboxView) -> set[str]:
    """What must not be renamed: writable folders, and the folders around what is hidden or guarded in them."""
    writable = [access.path for access in view.seen if access.kind == "write" and access.path != view.work]
    kept = [access.path for access in view.seen if access.kind != "write"]
    around = {
        folder
        for path in kept
        for folder in _folders_around(path)
        if any(is_inside(folder, outer) for outer in (*writable, view.work) if outer)
    }
    return around | {path for path in (*writable, view.work) if path}


def _folders_around(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


def canonical_path(path: str) -> str:
    """The path as the disk spells it; of one that does not exist, the part that does."""
    get_path: int | None = getattr(fcntl, "F_GETPATH", None)
    if get_path is None:
        return path
    existing, missing = path, ""
    while existing != "/":
        try:
            opened = os.open(existing, getattr(os, "O_EVTONLY", os.O_RDONLY) | os.O_CLOEXEC)
        except OSError:
            existing, name = os.path.split(existing)
            missing = f"/{name}{missing}"
            continue
        try:
            return os.fsdecode(fcntl.fcntl(opened, get_path, bytes(1024)).rstrip(b"\0")) + missing
        finally:
            os.close(opened)
    return missing or "/"


def canonical_view(view: SandboxView, spell: Callable[[str], str] = canonical_path) -> SandboxView:
    """The view with every path as the disk spells it: Seatbelt compares nothing else.  A link keeps its own name."""
    seen = [access if access.kind == "link" else replace(access, path=spell(access.path)) for access in view.seen]
    ordered = sorted(seen, key=lambda access: access.path.split("/"))
    return replace(view, seen=tuple(ordered), work=view.work and spell(view.work))


# --- Running ---


def run_under_seatbelt(request: SeatbeltRequest) -> ProcessResult:
    """Run a program that `sandbox-exec` confines before it starts."""
    view, box = canonical_view(request.view), request.box
    watch = TreeWatch(box.limits, limits.LimitWatch(box.limits, None, view.work, view.writes))
    confinement = Confinement(
        limits=limits.process_rlimits(
            box.limits, None, box.limits.processes + len(read_processes("-U", str(os.getuid())))
        ),
        tier="seatbelt",
        watch=watch,
    )
    argv = (request.sandbox_exec, *seatbelt_profile(view, box).options, *view.argv)
    # `sandbox-exec` is the system's: the loader ignores what a skill's variables would have it load.
    return launch_program(replace(request.program, argv=argv, cwd=view.cwd, env=view.env), confinement)


def read_processes(*selection: str) -> list[tuple[int, int, int]]:
    """The id, the parent's id and the bytes in memory of processes, as `ps` lists them: there is no /proc."""
    try:
        listed = subprocess.run(
            ["/bin/ps", *(selection or ("-A",)), "-o", "pid=", "-o", "ppid=", "-o", "rss="],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            timeout=5,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [line.split() for line in listed.splitlines()]
    return [(int(pid), int(parent), int(size) << 10) for pid, parent, size in (row for row in rows if len(row) == 3)]


class TreeWatch:
    """Holds a process tree to memory and processes by listing it; the folders are another watch's."""

    def __init__(
        self,
        most: SandboxLimits,
        folders: Callable[[int], str],
        processes: Callable[[], list[tuple[int, int, int]]] = read_processes,
    ) -> None:
        self._most, self._folders, self._processes = most, folders, processes
        self._due = monotonic() + _WATCH_INTERVAL

    def __call__(self, pid: int) -> str:
        if monotonic() >= self._due:
            self._due = monotonic() + _WATCH_INTERVAL
            if excess := self._excess(pid):
                return excess
        return self._folders(pid)

    def _excess(self, pid: int) -> str:
        rows = self._processes()
        members, size = {pid}, 0
        # A child may be listed before its parent: until a round finds no more.
        while new := {child for child, parent, _ in rows if parent in members} - members:
            members |= new
        size = sum(bytes_used for child, _, bytes_used in rows if child in members)
        if len(members) - 1 > self._most.processes:
            return f"processes: more than {self._most.processes}"
        return f"oom: more than {self._most.memory >> 20} MiB of memory" if size > self._most.memory else ""
