"""Move away what a program made that other programs obey, and say so.

What was moved is kept in metier's own folder, with a list of where it came from.  Nothing is deleted: it may be what
the user asked for, and then `sandbox.allow` lets the next one stay.

A run that could write has a note in metier's folder for as long as it lasts.  If metier is killed meanwhile, its
program dies with it; the next run, anywhere, finds the note and sweeps the folders in its place.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..host.facts import monotonic, now_ns
from ..host.fs import folder_beneath, make_folder, try_flock, write_text
from ..host.trees import remove_tree, size_of_tree
from ..types.errors import HostError
from .obeyed import BARE, ObeyedFile, obeyed_names
from .scan import MOST_NEW_FOLDERS, GrantScan, MadeEntry, scan_grant, sweep_grant, sweep_top

_LIVE_INTERVAL = 0.1
_MOST_LIVE = 10
"""How often a program may make the same thing again before it is ended: it races with us."""
_BEAT = 1.0
"""Seconds between two signs of life in the note of a run."""
_MOST_COPIED = 64 << 20
"""Bytes that are copied to another disk; anything larger is renamed where it is."""
_MOST_NAMED = 5
_KEPT = ObeyedFile("", "git", "the repository's settings name it, or it is closed by its path")


@dataclass
class GrantSweeper:
    """Sweeps the writable folders of one run."""

    scans: Sequence[GrantScan]
    missing: Sequence[str]
    """Paths that are closed and did not exist before."""
    state: str
    strict: bool = True
    allowed: Sequence[str] = ()
    """Patterns of the table, or names, that may stay."""
    messages: list[str] = field(default_factory=list)
    patterns: set[str] = field(default_factory=set)
    _folder: str = ""
    _moved: list[dict[str, str]] = field(default_factory=list)
    _due: float = 0.0
    _again: Counter[str] = field(default_factory=Counter)

    def watch(self) -> str:
        """Called often while the program runs: look at the top of each folder; why it is to be ended, if it is."""
        if monotonic() < self._due:
            return ""
        self._due = monotonic() + _LIVE_INTERVAL
        for scan in self.scans:
            for made in sweep_top(scan):
                if not self._is_allowed(made):
                    self._again[os.path.basename(made.path)] += self.set_aside(scan.root, made)
        racing = [name for name, times in self._again.items() if times > _MOST_LIVE]
        return f"it made {racing[0]} again and again" if racing else ""

    def finish(self) -> tuple[str, ...]:
        """Sweep when the program has ended; what to say about it."""
        for scan in self.scans:
            findings = sweep_grant(scan, self.strict)
            for made in findings.made:
                if not self._is_allowed(made):
                    self.set_aside(scan.root, made)
            self._judge_unsearched(scan, findings.unsearched)
        for path in filter(os.path.lexists, self.missing):
            root = next((scan.root for scan in self.scans if path.startswith(f"{scan.root}/")), os.path.dirname(path))
            self.set_aside(root, MadeEntry(path, _KEPT))
        return self.report()

    def _is_allowed(self, made: MadeEntry) -> bool:
        return made.row.pattern in self.allowed or os.path.basename(made.path) in self.allowed

    def _judge_unsearched(self, scan: GrantScan, folders: list[str]) -> None:
        """A program that nobody watches may not hide something behind more folders than we look at."""
        if not folders:
            return
        if self.strict:
            row = ObeyedFile("", "any program", f"it made more than {MOST_NEW_FOLDERS:,} folders, too many to look at")
            for folder in folders[:_MOST_NAMED]:
                self.set_aside(scan.root, MadeEntry(folder, row))
        self.messages.append(
            f"{scan.root} has more than {MOST_NEW_FOLDERS:,} new folders, and {len(folders):,} of them were not"
            " looked at: review them before you use other programs there"
        )

    def set_aside(self, root: str, made: MadeEntry) -> bool:
        """Move one entry away; whether it was there."""
        inner = os.path.relpath(made.path, root)
        above, name = os.path.split(inner)
        try:
            with folder_beneath(root, above or ".") as folder:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                place = self._move(folder, name, status)
                if made.link:
                    os.symlink(made.link, name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except (OSError, HostError) as error:
            self.messages.append(
                f"{inner} could not be moved away ({error}): remove it, since {made.row.tool} obeys it:"
                f" {made.row.reason}"
            )
            return True
        self._moved.append({"from": made.path, "to": place, "tool": made.row.tool, "reason": made.row.reason})
        self.patterns.add(made.row.pattern or name)
        if len(self._moved) <= _MOST_NAMED:
            self.messages.append(f"{inner} was moved to {place}: {made.row.tool} obeys it, {made.row.reason}")
        return True

    def _move(self, folder: int, name: str, status: os.stat_result) -> str:
        """Move an entry of an open folder into quarantine; where it is now."""
        target = f"{self._quarantine()}/{len(self._moved)}-{name.lstrip('.')}"
        if stat.S_ISDIR(status.st_mode):
            # Without the right to write it, not even its owner may move a folder elsewhere.
            _add_mode(folder, name, 0o700)
        try:
            os.rename(name, target, src_dir_fd=folder)
            return target
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EACCES):
                raise
        _add_mode(folder, ".", 0o700)
        # Another disk: first give it a name that nothing obeys, at once; copying takes its time.
        plain = f"{name.lstrip('.')}.quarantine-{os.urandom(4).hex()}"
        os.rename(name, plain, src_dir_fd=folder, dst_dir_fd=folder)
        source = f"/proc/self/fd/{folder}/{plain}"
        if os.path.exists("/proc/self/fd") and _copy_plain(source, target):
            remove_tree(source)
            return target
        with contextlib.suppress(OSError):
            return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), plain)
        return plain

    def _quarantine(self) -> str:
        """The folder of this run, made when it is first needed."""
        if not self._folder:
            if self.state:
                make_folder(f"{self.state}/quarantine")
                self._folder = tempfile.mkdtemp(prefix="", dir=f"{self.state}/quarantine")
            else:  # a library that has no folder of metier's own
                self._folder = tempfile.mkdtemp(prefix="metier-quarantine-")
        return self._folder

    def report(self) -> tuple[str, ...]:
        if not self._moved:
            return tuple(self.messages)
        with contextlib.suppress(HostError, OSError):
            write_text(f"{self._folder}/list.json", json.dumps(self._moved, indent=1))
        if (more := len(self._moved) - _MOST_NAMED) > 0:
            self.messages.append(f"{more} more were moved to {self._folder}")
        names = json.dumps(sorted(self.patterns))
        return (*self.messages, f"to let such files stay, set `allow = {names}` under [sandbox] in your config.toml")


def _add_mode(folder: int, name: str, bits: int) -> None:
    with contextlib.suppress(OSError):
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fchmod(opened, stat.S_IMODE(os.fstat(opened).st_mode) | bits)
        finally:
            os.close(opened)


def _copy_plain(source: str, target: str) -> bool:
    """Copy files, folders and links; anything else is left out.  False if it is too large."""
    import shutil  # slow to import, and rarely needed

    def special(folder: str, names: list[str]) -> list[str]:
        modes = {name: os.lstat(f"{folder}/{name}").st_mode for name in names}
        return [
            name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
        ]

    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isdir(source):
            if size_of_tree(source) > _MOST_COPIED:
                return False
            shutil.copytree(source, target, symlinks=True, ignore=special)
        elif stat.S_ISREG(os.lstat(source).st_mode):
            if os.lstat(source).st_size > _MOST_COPIED:
                return False
            shutil.copyfile(source, target, follow_symlinks=False)
    except (OSError, shutil.Error):
        remove_tree(target)
        return False
    return True


# --- Runs that were killed ---


class RunNote:
    """A sign that a run with writable folders is under way."""

    def __init__(self, opened: int = -1) -> None:
        self._opened = opened
        self._due = 0.0

    def beat(self) -> None:
        """Note that it still runs."""
        if self._opened >= 0 and monotonic() >= self._due:
            self._due = monotonic() + _BEAT
            with contextlib.suppress(OSError):
                os.utime(self._opened)


@contextlib.contextmanager
def note_run(
    scans: Sequence[GrantScan], missing: Sequence[str], protected: tuple[str, ...], state: str
) -> Iterator[RunNote]:
    """Keep a note of a run while it lasts, after looking for notes of runs that were killed."""
    if not state or not scans:
        yield RunNote()
        return
    folder, opened, path = f"{state}/open-runs", -1, ""
    with contextlib.suppress(OSError, HostError):  # without a note, only the tidying after a kill is lost
        make_folder(folder)
        sweep_killed_runs(state)
        opened, path = tempfile.mkstemp(dir=folder)
        try_flock(opened)  # its name is new: no other process can hold it
        before = {scan.root: [*(at for at, _ in scan.found), *scan.bare] for scan in scans}
        record = {"began": now_ns(), "roots": before, "missing": list(missing), "protected": list(protected)}
        os.write(opened, json.dumps(record).encode("utf-8", "surrogateescape"))
    try:
        yield RunNote(opened)
    finally:
        if opened >= 0:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(opened)


def sweep_killed_runs(state: str) -> tuple[str, ...]:
    """Move away what runs made that were killed together with metier."""
    folder = f"{state}/open-runs"
    messages: list[str] = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError, ValueError, KeyError), open(f"{folder}/{name}", "rb") as file:
            if not try_flock(file.fileno()):
                continue
            ended = os.fstat(file.fileno()).st_mtime_ns + int(2 * _BEAT * 1e9)
            record = json.loads(file.read().decode("utf-8", "surrogateescape"))
            sweeper = GrantSweeper((), (), state)
            window = (record["began"], ended)
            for root, before in record["roots"].items():
                scan = scan_grant(root, obeyed_names(tuple(record["protected"])), frozenset())
                found = [*((path, entry.row) for path, entry in scan.found), *((path, BARE) for path in scan.bare)]
                new = [MadeEntry(path, row) for path, row in found if path not in before]
                closed = [MadeEntry(path, _KEPT) for path in record["missing"] if path.startswith(f"{root}/")]
                for made in (*new, *closed):
                    if _changed_within(made.path, window):
                        sweeper.set_aside(root, made)
            messages += sweeper.report()
            os.unlink(f"{folder}/{name}")
    return tuple(messages)


def _changed_within(path: str, window: tuple[int, int]) -> bool:
    """Whether something changed while the run lasted: what the user made since is left alone."""
    try:
        inside = [f"{path}/{name}" for name in os.listdir(path)] if os.path.isdir(path) else []
        statuses = [os.lstat(entry) for entry in (path, *inside[:100])]
    except OSError:
        return False
    first, last = window
    return any(first <= when <= last for status in statuses for when in (status.st_ctime_ns, status.st_mtime_ns))
