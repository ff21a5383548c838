"""Write files in place of a program that may not, where its sandbox allows it: the second half of the Landlock tier.

Landlock can't close `.git` inside a folder that it opens, so it opens such a folder for reading only.  Calls that
would write reach this broker instead (a seccomp filter with a listener): it resolves the path, decides by names and
places, does the work itself and hands back the result or the open file.  What it does not allow goes on to the
kernel, where Landlock refuses it: a call that is overlooked here is refused, not let through.  Only modes and times
of files, for which Landlock has no rules, are refused here.

The broker acts on what it resolved, never on what the program could exchange in its memory meanwhile: arguments are
read once, a path is walked without following links, and the last step happens in the folder that was reached.

Part of `launcher`, which runs it in a thread of its own; it imports nothing of ours.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import select
import stat
import struct
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Action: TypeAlias = Callable[[], int | None]

# Requests and structures of <linux/seccomp.h>.
_RECEIVE, _SEND, _IS_VALID, _ADD_FILE, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103, 0x40082104
_NOTICE, _ANSWER, _ADDED = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI"), struct.Struct("=QIIII")
_CONTINUE, _SEND_TOO, _SYNC_WAKE = 1, 2, 1
_AT_CWD, _REMOVE_FOLDER, _NO_FOLLOW = -100, 0x200, 0x100
_EXCHANGE = 2
_LONGEST_PATH = 4096
_TIME_NOW, _TIME_KEPT = 0x3FFFFFFF, 0x3FFFFFFE
_MOST_MADE = 10_000
"""Protected names that a program may make: each is kept in our memory, which no limit of the program counts."""
_PACKAGE_FOLDERS = ("node_modules", "site-packages")
_SAFE_MODE = 0o1777
"""Never set-user-id or set-group-id: as root, a file would give root's rights to whoever runs it."""
_UNRULED = frozenset({"chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat"})
"""Calls that Landlock has no rule for: they are refused unless they are done here."""


_OWN_FILES = (
    ("/proc/self/", ""),
    ("/proc/thread-self/", ""),
    ("/dev/fd/", "fd/"),
    ("/dev/stdin", "fd/0"),
    ("/dev/stdout", "fd/1"),
    ("/dev/stderr", "fd/2"),
)
"""Paths that mean another file for each process."""


class NotOurs(Exception):
    """The call is not for the broker: the kernel decides."""


def _folded(name: str) -> str:
    """A name as file systems that ignore case, and some characters, compare it; protected names are ASCII."""
    return "".join(letter for letter in name.casefold() if letter.isascii())


class BrokerRules:
    """Which paths may be written, read and replaced."""

    def __init__(self, plan: dict[str, Any]) -> None:
        # As bytes, since the process that made the plan may decode names in another way.
        self._kinds: dict[str, str] = {os.fsdecode(path): kind for path, kind in plan["accesses"]}
        self._work: str = os.fsdecode(plan["work"])
        self.largest: int = plan["largest"]
        self._names: frozenset[str] = frozenset(map(_folded, plan["names"]))
        self._everywhere: frozenset[str] = frozenset(map(_folded, plan.get("everywhere", plan["names"])))
        """Those of them that count in installed packages too."""
        self._allowed: frozenset[str] = frozenset(map(_folded, plan.get("allowed", ())))
        """Those that a program may make at the top of a grant too."""
        self._made: set[str] = set()
        """Protected names that the program made itself further in, such as the `.git` of a new repository."""

    def nearest(self, path: str) -> tuple[str, str]:
        """The access that decides over a path, and its kind; empty if there is none."""
        if not path.startswith("/"):  # what the kernel calls a pipe or a socket, and never ends at the root
            return "", ""
        at = path
        while at not in self._kinds and at != "/":
            at = os.path.dirname(at)
        return (at, self._kinds[at]) if at in self._kinds else ("", "")

    def may_write(self, path: str, new: bool = False) -> bool:
        """Whether a file may be written; a `new` one may have a protected name, but not at the top of a grant."""
        root, kind = self.nearest(path)
        if kind != "write":
            return False
        if root == self._work or ".git" in root.split("/"):  # what is closed in these is listed path by path
            return True
        new = new and len(self._made) < _MOST_MADE
        steps = path[len(root) :].strip("/").split("/")
        names = self._names
        for count, name in enumerate(steps, start=1):
            folded = _folded(name)
            if folded in names:
                made = new and count == len(steps) and (count > 1 or folded in self._allowed)
                if not made and f"{root}/{'/'.join(steps[:count])}" not in self._made:
                    return False
            if name in _PACKAGE_FOLDERS:
                names = self._everywhere
        return True

    def may_read(self, path: str) -> bool:
        return self.nearest(path)[1] in ("read", "write", "guard")

    def may_replace(self, path: str, new: bool = False) -> bool:
        """Whether the entry of a path may be made, moved or removed: not a grant itself, nor what holds a rule."""
        inner = f"{path}/"
        # Also if what it holds is protected by its name: moved away, a copy with another content could take its place.
        holds = any(rule.startswith(inner) for rule in self._kinds)
        return path not in self._kinds and not holds and self.may_write(path, new)

    def may_make_folder(self, path: str) -> bool:
        """Whether an empty folder may be made: it may be the one around a protected path that does not exist."""
        return path not in self._kinds and self.may_write(path, new=True)

    def note_made(self, path: str) -> None:
        if _folded(os.path.basename(path)) in self._names:
            self._made.add(path)

    def note_moved(self, path: str, to: str) -> None:
        """Protected names that the program made move with their folder."""
        moved = self._take_made(path)
        if to:
            self._take_made(to)  # what was there is replaced
            self._made.update(to + rest for rest in moved)
            self.note_made(to)

    def note_exchanged(self, path: str, other: str) -> None:
        """Each takes along its own: one that was there before must not pass for one that the program made."""
        moved, back = self._take_made(path), self._take_made(other)
        self._made.update([*(other + rest for rest in moved), *(path + rest for rest in back)])

    def _take_made(self, path: str) -> list[str]:
        """Forget the made names at and below a path, and return what follows the path in each."""
        taken = [name for name in self._made if name == path or name.startswith(f"{path}/")]
        self._made.difference_update(taken)
        return [name[len(path) :] for name in taken]

    def check_same_grant(self, path: str, to: str) -> None:
        """Between grants nothing is moved or linked, as between mounts: in another one its names may mean nothing."""
        if self.nearest(path)[0] != self.nearest(to)[0]:
            raise OSError(errno.EXDEV, "another grant")


class _Task:
    """The thread that waits for its call, and the arguments of the call."""

    def __init__(self, pid: int, arguments: tuple[int, ...]) -> None:
        self.pid = pid
        self.arguments = arguments

    def number(self, at: int) -> int:
        """An argument as a signed 32-bit number."""
        value = self.arguments[at] & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

    def memory(self, address: int, size: int) -> bytes:
        opened = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(opened, size, address)
        finally:
            os.close(opened)

    def text(self, at: int) -> str:
        """The string that an argument points to."""
        if not self.arguments[at]:
            raise NotOurs
        content, end, _ = self.memory(self.arguments[at], _LONGEST_PATH).partition(b"\0")
        if not end:
            raise NotOurs
        return os.fsdecode(content)

    def base(self, folder: int) -> str:
        return os.readlink(f"/proc/{self.pid}/cwd" if folder == _AT_CWD else f"/proc/{self.pid}/fd/{folder}")

    def umask(self) -> int:
        with open(f"/proc/{self.pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
        return 0o077


def _resolve(task: _Task, folder: int, at: int, follow: bool) -> str:
    """The real path that an argument means; without `follow` its last step may be a link itself."""
    path = task.text(at)
    if not path:
        raise NotOurs
    if not path.startswith("/"):
        path = f"{task.base(folder)}/{path}"
    for spelled, meant in _OWN_FILES:
        if path.startswith(spelled):  # `self` would be us
            path = f"/proc/{task.pid}/{meant}{path[len(spelled) :]}"
    if follow:
        return os.path.realpath(path)
    above, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        raise NotOurs
    return f"{os.path.realpath(above).rstrip('/')}/{name}"


class _Reached:
    """The folder around a path, walked without following a link: the path is then what was decided about."""

    def __init__(self, path: str) -> None:
        above, self.name = os.path.split(path)
        self.folder = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in filter(None, above.split("/")):
                inner = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.folder)
                os.close(self.folder)
                self.folder = inner
        except OSError:
            os.close(self.folder)
            raise

    def __enter__(self) -> _Reached:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)

    def mode(self) -> int:
        """The mode of what is there; 0 if nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0


# --- The calls: each reads its arguments and returns what is to be done ---


def _open_path(task: _Task, rules: BrokerRules, path: str, flags: int, mode: int) -> Action:
    if flags & os.O_PATH:
        raise NotOurs
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return _open_nameless(rules, path)
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT))
    allowed = rules.may_write(path, new=bool(flags & os.O_CREAT)) if writes else rules.may_read(path)
    if not allowed:
        raise NotOurs
    mode = mode & _SAFE_MODE & ~task.umask() if flags & os.O_CREAT else 0

    def act() -> int:
        with _Reached(path) as reached:
            there = reached.mode()
            # A pipe or a device could keep us waiting, and with us every other thread of the program.
            if there and not (stat.S_ISREG(there) or stat.S_ISDIR(there) or stat.S_ISLNK(there)):
                raise NotOurs
            if there and writes and not rules.may_write(path):
                raise NotOurs  # a protected name that is there already
            if not there and not rules.may_replace(path, new=True):
                raise NotOurs
            ours = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            opened = os.open(reached.name, ours, mode, dir_fd=reached.folder)
            if not flags & os.O_NONBLOCK:
                fcntl.fcntl(opened, fcntl.F_SETFL, fcntl.fcntl(opened, fcntl.F_GETFL) & ~os.O_NONBLOCK)
            os.set_inheritable(opened, not flags & os.O_CLOEXEC)  # as it is to be in the program
            if not there:
                rules.note_made(path)
            return opened

    return act


def _open_nameless(rules: BrokerRules, path: str) -> Action:
    """A file without a name can be given one later, which we would not see: programs fall back to a file with one."""
    if not rules.may_write(path):
        raise NotOurs
    raise OSError(errno.EOPNOTSUPP, "no file without a name")


def _follows(flags: int) -> bool:
    return not (flags & os.O_NOFOLLOW or (flags & os.O_CREAT and flags & os.O_EXCL))


def _call_open(task: _Task, rules: BrokerRules) -> Action:
    flags = task.number(1)
    return _open_path(task, rules, _resolve(task, _AT_CWD, 0, _follows(flags)), flags, task.number(2))


def _call_creat(task: _Task, rules: BrokerRules) -> Action:
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    return _open_path(task, rules, _resolve(task, _AT_CWD, 0, True), flags, task.number(1))


def _call_openat(task: _Task, rules: BrokerRules) -> Action:
    flags = task.number(2)
    return _open_path(task, rules, _resolve(task, task.number(0), 1, _follows(flags)), flags, task.number(3))


def _make_folder(task: _Task, rules: BrokerRules, path: str, mode: int) -> Action:
    if not rules.may_make_folder(path):
        raise NotOurs
    mode = mode & _SAFE_MODE & ~task.umask()

    def act() -> None:
        with _Reached(path) as reached:
            os.mkdir(reached.name, mode, dir_fd=reached.folder)
            rules.note_made(path)

    return act


def _remove(rules: BrokerRules, path: str, folder: bool) -> Action:
    if not rules.may_replace(path):
        raise NotOurs

    def act() -> None:
        with _Reached(path) as reached:
            (os.rmdir if folder else os.unlink)(reached.name, dir_fd=reached.folder)
            rules.note_moved(path, "")

    return act


def _rename(rules: BrokerRules, path: str, to: str, flags: int) -> Action:
    if not rules.may_replace(path) or not rules.may_replace(to, new=True):
        raise NotOurs
    rules.check_same_grant(path, to)

    def act() -> None:
        with _Reached(path) as one, _Reached(to) as other:
            # A protected name that is there is not replaced; and what would be exchanged goes both ways.
            if (other.mode() or flags & _EXCHANGE) and not rules.may_replace(to):
                raise NotOurs
            if flags:
                _rename_flagged(one, other, flags)
            else:
                os.rename(one.name, other.name, src_dir_fd=one.folder, dst_dir_fd=other.folder)
            (rules.note_exchanged if flags & _EXCHANGE else rules.note_moved)(path, to)

    return act


def _rename_flagged(one: _Reached, other: _Reached, flags: int) -> None:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
    values = (one.folder, os.fsencode(one.name), other.folder, os.fsencode(other.name), flags)
    if library.syscall(number, *values) == -1:
        raise OSError(ctypes.get_errno(), "renameat2")


def _link(rules: BrokerRules, path: str, to: str) -> Action:
    # A second name for a file that may not be written would make it writable.
    if not rules.may_write(path) or not rules.may_replace(to, new=True):
        raise NotOurs
    rules.check_same_grant(path, to)

    def act() -> None:
        with _Reached(path) as one, _Reached(to) as other:
            os.link(one.name, other.name, src_dir_fd=one.folder, dst_dir_fd=other.folder, follow_symlinks=False)
            rules.note_made(to)

    return act


def _make_link(rules: BrokerRules, text: str, path: str) -> Action:
    if not rules.may_replace(path, new=True):
        raise NotOurs

    def act() -> None:
        with _Reached(path) as reached:
            os.symlink(text, reached.name, dir_fd=reached.folder)
            rules.note_made(path)

    return act


def _truncate(rules: BrokerRules, path: str, size: int) -> Action:
    if not rules.may_write(path):
        raise NotOurs
    if size > rules.largest:
        raise OSError(errno.EFBIG, "too large")

    def act() -> None:
        with _Reached(path) as reached:
            opened = os.open(
                reached.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=reached.folder
            )
            try:
                os.ftruncate(opened, size)
            finally:
                os.close(opened)

    return act


def _change_mode(rules: BrokerRules, path: str, mode: int) -> Action:
    if not rules.may_write(path):
        raise NotOurs

    def act() -> None:
        with _Reached(path) as reached:
            opened = os.open(reached.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=reached.folder)
            try:
                _set_mode(opened, mode)
            finally:
                os.close(opened)

    return act


def _set_mode(opened: int, mode: int) -> None:
    there = os.fstat(opened).st_mode
    if stat.S_ISLNK(there):
        raise OSError(errno.EOPNOTSUPP, "a link has no mode")
    if stat.S_IMODE(mode) & ~_SAFE_MODE and not stat.S_ISDIR(there):
        raise PermissionError(errno.EPERM, "set-user-id")
    os.chmod(f"/proc/self/fd/{opened}", mode & _SAFE_MODE)


def _call_fchmod(task: _Task, rules: BrokerRules) -> Action:
    return _on_open_file(task, rules, lambda opened: _set_mode(opened, task.number(1)))


def _on_open_file(task: _Task, rules: BrokerRules, change: Callable[[int], None]) -> Action:
    """Change a file that the program has open, if it may be written: by our own descriptor of the same file."""

    def act() -> None:
        opened = os.open(f"/proc/{task.pid}/fd/{task.number(0)}", os.O_PATH | os.O_CLOEXEC)
        try:
            if not rules.may_write(os.readlink(f"/proc/self/fd/{opened}")):
                raise NotOurs
            change(opened)
        finally:
            os.close(opened)

    return act


def _call_utimensat(task: _Task, rules: BrokerRules) -> Action:
    times = struct.unpack("=qqqq", task.memory(task.arguments[2], 32)) if task.arguments[2] else ()
    if not task.arguments[1]:
        return _on_open_file(task, rules, lambda opened: _set_times(f"/proc/self/fd/{opened}", times))
    path = _resolve(task, task.number(0), 1, not task.number(3) & _NO_FOLLOW)
    if not rules.may_write(path):
        raise NotOurs

    def act() -> None:
        with _Reached(path) as reached:
            _set_times(reached.name, times, reached.folder)

    return act


def _set_times(name: str, times: tuple[int, ...], folder: int | None = None) -> None:
    if not times:
        return os.utime(name, dir_fd=folder, follow_symlinks=folder is None)
    before = os.stat(name, dir_fd=folder, follow_symlinks=folder is None)
    wanted = []
    for seconds, fraction, kept in ((*times[:2], before.st_atime_ns), (*times[2:], before.st_mtime_ns)):
        now = fraction == _TIME_NOW
        wanted.append(kept if fraction == _TIME_KEPT else time_ns() if now else seconds * 10**9 + fraction)
    return os.utime(name, ns=(wanted[0], wanted[1]), dir_fd=folder, follow_symlinks=folder is None)


def _remove_at(task: _Task, rules: BrokerRules) -> Action:
    folder = bool(task.number(2) & _REMOVE_FOLDER)
    return _remove(rules, _resolve(task, task.number(0), 1, False), folder)


def _rename_at(task: _Task, rules: BrokerRules, flags: int = 0) -> Action:
    path, to = _resolve(task, task.number(0), 1, False), _resolve(task, task.number(2), 3, False)
    return _rename(rules, path, to, flags)


def _link_at(task: _Task, rules: BrokerRules) -> Action:
    if task.number(4):  # by a descriptor, or through a link: what is meant could be anywhere
        raise NotOurs
    return _link(rules, _resolve(task, task.number(0), 1, False), _resolve(task, task.number(2), 3, False))


_CALLS: dict[str, Callable[[_Task, BrokerRules], Action]] = {
    "open": _call_open,
    "creat": _call_creat,
    "openat": _call_openat,
    "mkdir": lambda task, rules: _make_folder(task, rules, _resolve(task, _AT_CWD, 0, False), task.number(1)),
    "mkdirat": lambda task, rules: _make_folder(task, rules, _resolve(task, task.number(0), 1, False), task.number(2)),
    "rmdir": lambda task, rules: _remove(rules, _resolve(task, _AT_CWD, 0, False), True),
    "unlink": lambda task, rules: _remove(rules, _resolve(task, _AT_CWD, 0, False), False),
    "unlinkat": _remove_at,
    "rename": lambda task, rules: _rename(
        rules, _resolve(task, _AT_CWD, 0, False), _resolve(task, _AT_CWD, 1, False), 0
    ),
    "renameat": _rename_at,
    "renameat2": lambda task, rules: _rename_at(task, rules, task.number(4)),
    "link": lambda task, rules: _link(rules, _resolve(task, _AT_CWD, 0, False), _resolve(task, _AT_CWD, 1, False)),
    "linkat": _link_at,
    "symlink": lambda task, rules: _make_link(rules, task.text(0), _resolve(task, _AT_CWD, 1, False)),
    "symlinkat": lambda task, rules: _make_link(rules, task.text(0), _resolve(task, task.number(1), 2, False)),
    "truncate": lambda task, rules: _truncate(rules, _resolve(task, _AT_CWD, 0, True), task.arguments[1]),
    "chmod": lambda task, rules: _change_mode(rules, _resolve(task, _AT_CWD, 0, True), task.number(1)),
    "fchmod": _call_fchmod,
    "fchmodat": lambda task, rules: _change_mode(rules, _resolve(task, task.number(0), 1, True), task.number(2)),
    "fchmodat2": lambda task, rules: _change_mode(
        rules, _resolve(task, task.number(0), 1, not task.number(3) & _NO_FOLLOW), task.number(2)
    ),
    "utimensat": _call_utimensat,
}


# --- Answering ---


class FileBroker:
    """Answers the calls of one program."""

    def __init__(self, listener: int, plan: dict[str, Any]) -> None:
        self._listener = listener
        self._names: dict[int, str] = plan["calls"]
        self._rules = BrokerRules(plan)

    def serve(self) -> None:
        """Answer until nothing is left that could call."""
        os.umask(0)  # modes are those that the program asked for, less its own umask
        try:  # noqa: SIM105 - `contextlib` costs as much as the launcher
            fcntl.ioctl(self._listener, _SET_FLAGS, _SYNC_WAKE)
        except OSError:
            pass  # an older kernel, which takes longer to wake us
        while True:
            notice = bytearray(_NOTICE.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, notice)
            except OSError as error:
                # A signal, or the caller was killed meanwhile; anything else is the end of all callers.
                if error.errno in (errno.EINTR, errno.ENOENT) and not self._is_deserted():
                    continue
                return
            call, pid, _, number, _, _, *arguments = _NOTICE.unpack(notice)
            self._answer(call, self._names.get(number, ""), _Task(pid, tuple(arguments)))

    def _is_deserted(self) -> bool:
        """Whether no process is left that could call."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        return any(event & select.POLLHUP for _, event in waiting.poll(0))

    def _answer(self, call: int, name: str, task: _Task) -> None:
        error = flags = 0
        try:
            action = _CALLS[name](task, self._rules)
            # What was read is the caller's only if it still waits: otherwise its number may be another process's.
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", call))
            opened = action()
            if opened is not None:
                return self._hand_over(call, opened)
        except NotOurs:
            error, flags = (-errno.EPERM, 0) if name in _UNRULED else (0, _CONTINUE)
        except OSError as failure:
            error = -(failure.errno or errno.EACCES)
        except (ValueError, OverflowError, struct.error):  # arguments that mean nothing
            error = -errno.EINVAL
        except (RecursionError, MemoryError):  # links without end; unanswered, every later call would wait for ever
            error = -errno.ELOOP
        return self._send(_SEND, _ANSWER.pack(call, 0, error, flags))

    def _hand_over(self, call: int, opened: int) -> None:
        """Put an open file among those of the caller, as the result of its call."""
        try:
            flags = 0 if os.get_inheritable(opened) else os.O_CLOEXEC
            fcntl.ioctl(self._listener, _ADD_FILE, _ADDED.pack(call, _SEND_TOO, opened, 0, flags))
        except OSError as error:  # it has as many open files as it may
            self._send(_SEND, _ANSWER.pack(call, 0, -(error.errno or errno.EMFILE), 0))
        finally:
            os.close(opened)

    def _send(self, request: int, answer: bytes) -> None:
        try:  # noqa: SIM105
            fcntl.ioctl(self._listener, request, answer)
        except OSError:
            pass  # the caller was killed meanwhile


def start(listener: int, plan: dict[str, Any]) -> None:
    """Serve in a thread, until the process ends."""
    _thread.start_new_thread(FileBroker(listener, plan).serve, ())
