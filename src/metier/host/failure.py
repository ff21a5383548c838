"""What of the machine made a program fail: a full disk, a missing program, an expired login, no network.

First what the process layer knows by itself: a signal, a timeout, a limit, a file system that is full.  Then the words
of the kernel and of common programs for the same, looked up in a fixed table: they are compared, never followed.  All
that output can do here is clear a skill of blame, so nobody gains by forging it.

The same for metier's own calls: too many open files, a full or broken disk, no memory say nothing about a skill, a
schedule or a request, since what failed with them may succeed in a minute.  They are told from every other failure,
however many errors were raised from one, and nothing is decided by what a machine in trouble could not see.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from ..types.errors import MachineTrouble
from ..types.sandbox import FailureCause, ProcessResult, ProgramSpec

_TAIL = 4_000
"""Characters of output that are searched: what ended a program stands at the end."""
_FULL_BYTES, _FULL_FILES = 65_536, 1

# From the particular to the general: an expired login also says "denied", and a missing network also "failed".
_PHRASES: dict[FailureCause, tuple[str, ...]] = {
    "no-space": (
        "no space left on device",
        r"\bENOSPC\b",
        r"\[errno (?:28|122)\]",
        "disk quota exceeded",
        "disk (?:is )?full",
    ),
    "read-only": ("read-only file ?system", r"\bEROFS\b", r"\[errno 30\]"),
    "memory": (
        "cannot allocate memory",
        r"\bMemoryError\b",
        r"\bENOMEM\b",
        "out of memory",
        r"\[errno 12\]",
        "heap limit",
        "^killed$",
    ),
    "no-network": (
        "network is (?:unreachable|down)",
        "name resolution",
        "name or service not known",
        "nodename nor servname",
        "could ?n[o']t resolve",
        r"\bgetaddrinfo\b",
        r"\b(?:EAI_AGAIN|ENOTFOUND|ETIMEDOUT|ECONN[A-Z]+|EHOST[A-Z]+|ENET[A-Z]+)\b",
        "no route to host",
        "host is (?:unreachable|down)",
        "unknown host",
        "connection (?:was )?(?:refused|reset|timed out|closed|aborted)",
        "failed to connect to",
        r"unable to access '?\w+://",
        "max retries exceeded",
        "tls handshake",
        "certificate verify failed",
        r"\[errno (?:-[23]|100|101|104|110|111|113)\]",
        "could not read from remote repository",
    ),
    "no-login": (
        r"\b40[13]\b",
        "unauthori[sz]ed",
        r"authenticat\w+ (?:failed|required|error|expired)",
        "not (?:logged|signed) in",
        r"(?:token|session|credential|log-?in|certificate|key|cookie|ticket|password)s?(?: \w+){0,3} expired",
        "expired[ _-]?(?:token|session|credential|login|certificate|key|ticket)",
        "log(?:ged)?[ -]?in (?:required|again|first|failed)",
        "(?:please|need to|must) (?:re-?)?(?:log ?in|sign in|authenticate)",
        "invalid (?:api[ _-]?key|token|credentials?|password)",
        r"\b(?:run|use|try|with)\b[^\n]{0,40}\b(?:log ?in|auth)\b",
        "could not read (?:username|password)",
        r"\(publickey",
        "access(?: is| was)? denied",
        "re-?authenticate",
    ),
    "no-key": (
        r"(?:token|secret|password|api_?key|credentials?)\b[^\n]{0,20}\b(?:not set|unset|missing|required|empty)",
        r"\b(?:missing|set|export|provide|no)\b[^\n]{0,20}\w+(?:_TOKEN|_SECRET|_PASSWORD|_KEY)\b",
        "unbound variable",
        "keyerror: '(?-i:[A-Z][A-Z0-9_]{2,})'",
        "environment variable",
    ),
    "no-program": (
        "command not found",
        ": not found$",
        "executable file not found",
        "no such program",
        "modulenotfounderror",
        "no module named",
        "cannot find (?:module|package)",
        "error while loading shared libraries",
        r"\bnot installed\b",
        "please install",
        r"filenotfounderror: \[errno 2\][^\n]*: '[\w+-]+'$",
        "^(?:/usr/bin/)?env: .{1,80}: no such file",
        "unable to locate (?:package|a java)",
        "cannot run program",
    ),
    "busy": (
        r"\b(?:429|50[234])\b",
        "too many requests",
        "rate limit",
        "quota exceeded",
        "service unavailable",
        "temporarily unavailable",
        "try again later",
        "resource busy",
        "text file busy",
        "could not get lock",
        "database is locked",
        r"\b(?:EAGAIN|EBUSY|EMFILE)\b",
        "too many open files",
        r"\[errno (?:11|16|24|26)\]",
        r"index\.lock",
    ),
    "denied": ("permission denied", "operation not permitted", r"\b(?:EACCES|EPERM)\b", r"\[errno (?:1|13)\]"),
}
_PATTERNS = {cause: re.compile("|".join(words), re.IGNORECASE | re.MULTILINE) for cause, words in _PHRASES.items()}
_LIMIT_NOTES: dict[str, FailureCause] = {"oom:": "memory", "processes:": "limit", "disk:": "no-space", "limit": "limit"}
"""How the notes begin or what they contain that say which limit ended a program."""

_SIGNAL_BASE, _LAST_SIGNAL = 128, 192
"""A shell reports a program that a signal ended as 128 and the signal's number."""


def find_cause(result: ProcessResult, program: ProgramSpec) -> FailureCause:
    """What of the machine made a program fail; empty if it succeeded, or if nothing is known."""
    if result.timed_out:
        return "timeout"
    if result.status == 0:
        return ""
    if result.status is None:
        return "no-program" if "not found" in result.note else ""
    # A limit kills too: its note, which metier wrote, says more than the signal.
    for word, cause in _LIMIT_NOTES.items():
        if word in result.note:
            return cause
    known = cause_of_output(f"{result.stdout[-_TAIL:]}\n{result.stderr[-_TAIL:]}", result.status)
    return known or ("no-space" if _is_full(program.cwd) else "")


def cause_of_output(text: str, status: int | None) -> FailureCause:
    """What of the machine a program's status or output tells of; empty if neither does."""
    if status is not None and (status < 0 or _SIGNAL_BASE < status < _LAST_SIGNAL):
        return "signal"
    tail = text[-2 * _TAIL :]
    for cause, pattern in _PATTERNS.items():
        if pattern.search(tail):
            return cause
    # From shells: 127 is a program that does not exist; from sysexits.h: unavailable, I/O error, not permitted.
    by_status: dict[int | None, FailureCause] = {127: "no-program", 124: "timeout", 69: "busy", 74: "no-space"}
    by_status |= {75: "busy", 77: "denied", 71: "busy"}
    return by_status.get(status, "")


def _is_full(folder: str) -> bool:
    """Whether the file system of a folder has no room left."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    # Some file systems count no files: they report 0 of 0.
    return status.f_bavail * status.f_frsize < _FULL_BYTES or (status.f_files > 0 and status.f_favail < _FULL_FILES)


# --- Trouble of the machine in metier's own calls ---

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
