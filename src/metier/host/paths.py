"""Paths: questions about files and folders, listings, installed packages, and the watch for changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator

from ..light_typing import NamedTuple, Protocol
from ..types.errors import HostError, MissingExtra

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TYPE, _REGULAR = 0o170000, 0o100000


# --- Questions about paths ---


def working_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise HostError("the working folder no longer exists", "change to an existing folder") from error


def real_path(path: str) -> str:
    return os.path.realpath(path)


def is_folder(path: str) -> bool:
    return os.path.isdir(path)


def size_of(path: str) -> int:
    """Bytes of a file; 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def exists(path: str) -> bool:
    return os.path.lexists(path)


def is_missing(path: str) -> bool:
    """Whether a path leads to nothing; that it can't be told is an error, and not an answer."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check its permissions", path) from error
    return False


def mode_of(path: str) -> int:
    """A file's permissions; 0 if it does not exist."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies beneath it; both are compared as text, so resolve links first."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_file(path: str) -> bool:
    return os.path.isfile(path)


def can_be_path(text: str) -> bool:
    """Whether a text from outside can be a path at all."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def home_folder() -> str:
    return os.path.expanduser("~")


def real_name(folder: str) -> str:
    """The name of a folder, also for `.` and a path with a trailing slash."""
    return os.path.basename(os.path.abspath(folder))


def read_text_file(path: str, limit: int = 1_048_576) -> str | None:
    """A small UTF-8 file; None if it does not exist."""
    try:
        opened = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check its permissions", path) from error
    try:
        status = os.fstat(opened)
        # A size of zero may lie, as in /proc: bytes are counted while reading too.
        if status.st_mode & _TYPE != _REGULAR or status.st_size > limit:
            raise HostError(f"{path} is not a regular file of at most {limit} bytes", "replace it", path)
        data = b""
        while part := os.read(opened, 65_536):
            data += part
            if len(data) > limit:
                raise HostError(f"{path} is not a regular file of at most {limit} bytes", "replace it", path)
    finally:
        os.close(opened)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HostError(f"{path} is not UTF-8", "save it as UTF-8", path) from error


def absolute_path(path: str, cwd: str, home: str) -> str:
    """A path as a user writes it, made absolute: `~` is the home, anything else is relative to the working folder."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(cwd, path))


def relative_path(path: str, start: str) -> str:
    return os.path.relpath(path, start)


def links_on_the_way(path: str) -> list[str]:
    """The links that a path leads through, the outermost first."""
    steps = path.strip("/").split("/")
    prefixes = ["/" + "/".join(steps[:count]) for count in range(1, len(steps) + 1)]
    return [prefix for prefix in prefixes if os.path.islink(prefix)]


# --- Listings ---


class FolderListing(NamedTuple):
    """The names in a folder by kind, each sorted, so that nothing depends on the order of the file system."""

    folders: list[str]
    links: list[str]
    files: list[str]


def list_names(folder: int | str) -> FolderListing:
    """What a folder holds; OSError if it can't be read."""
    with os.scandir(folder) as scan:
        entries = list(scan)
    folders = sorted([entry.name for entry in entries if entry.is_dir(follow_symlinks=False)])
    if len(folders) == len(entries):
        return FolderListing(folders, [], [])  # usual for a root of skills, so not scanned again
    others = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
    links = sorted([entry.name for entry in others if entry.is_symlink()])
    return FolderListing(folders, links, sorted([entry.name for entry in others if not entry.is_symlink()]))


MOST_FILES = 20_000
"""Files after which a folder is not searched further."""

_PASSED_OVER = frozenset({"__pycache__", ".git"})


def tree_of(
    directory: str, most: int = MOST_FILES, passing_over: frozenset[str] = _PASSED_OVER, *, whole: bool = False
) -> list[tuple[str, os.stat_result]]:
    """Every file and link beneath a folder with its status, sorted; at most so many, following no link.

    A folder that can't be listed is passed over, or with `whole` an error: a part must not pass for all of it.
    """
    files: list[tuple[str, os.stat_result]] = []
    waiting = [""]
    while waiting and len(files) < most:
        inner = waiting.pop()
        try:
            with os.scandir(f"{directory}/{inner}" if inner else directory) as entries:
                for entry in entries:
                    if len(files) >= most:
                        break
                    path = f"{inner}/{entry.name}" if inner else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in passing_over:
                            waiting.append(path)
                    else:
                        files.append((path, entry.stat(follow_symlinks=False)))
        except OSError:
            if whole:
                raise
    return sorted(files)


def tree_paths(directory: str) -> list[str]:
    """Every file and folder beneath a folder, sorted."""
    files = [path for path, _ in tree_of(directory)]
    return sorted({*files, *(path.rpartition("/")[0] for path in files if "/" in path)})


def folders_with(folder: str, name: str) -> list[str]:
    """The folders in a folder that hold a file of that name, sorted, without hidden ones."""
    try:
        listed = list_names(folder)
    except OSError:
        return []
    return [inner for inner in listed.folders if inner[0] != "." and os.path.isfile(f"{folder}/{inner}/{name}")]


def folders_with_skill(folder: str) -> list[str]:
    """The folders in a folder that hold a SKILL.md in any case, links included."""
    try:
        listed = list_names(folder)
    except OSError:
        return []
    matching = []
    for name in sorted([*listed.folders, *listed.links]):
        try:
            inner = list_names(f"{folder}/{name}")
        except OSError:
            continue
        if name[0] != "." and any(file.lower() == "skill.md" for file in (*inner.files, *inner.links, *inner.folders)):
            matching.append(name)
    return matching


# --- Installed packages ---


def package_folder() -> str:
    """The folder of the metier package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def entry_points(group: str) -> list[tuple[str, str, str]]:
    """Name, module and site folder of installed entry points."""
    points: list[tuple[str, str, str]] = []
    for site in site_folders():
        try:
            changed = os.stat(site).st_mtime_ns
        except OSError:
            continue
        # A server or a daemon asks with every call, for hundreds of files that change when a package is installed: that
        # makes or removes a folder here.  One that changed just now may change again within the same tick of the clock.
        known = _site_points.get((group, site))
        if known is None or known[0] != changed or time.time_ns() - changed < _SETTLED_NS:
            known = _site_points[group, site] = (changed, list(_read_points(group, site)))
        points += known[1]
    return sorted(points)


_SETTLED_NS = 2_000_000_000
_site_points: dict[tuple[str, str], tuple[int, list[tuple[str, str, str]]]] = {}
"""The entry points of each site folder, and when the folder had changed."""


def _read_points(group: str, site: str) -> Iterator[tuple[str, str, str]]:
    # Metadata is read as text: `importlib.metadata` takes longer to import than a scan of skills.
    header = f"[{group}]"
    try:
        names = sorted(entry.name for entry in os.scandir(site) if entry.name.endswith(".dist-info"))
    except OSError:
        return
    for name in names:
        try:
            text = read_text_file(f"{site}/{name}/entry_points.txt")
        except HostError:
            continue
        if text is None or header not in text:
            continue
        for line in text.partition(header)[2].partition("\n[")[0].splitlines():
            label, separator, module = line.partition("=")
            if separator and label.lstrip()[:1] not in ("#", ";"):
                yield label.strip(), module.strip().partition(":")[0], site


def site_folders() -> list[str]:
    """The folders that installed Python packages live in."""
    return [path for path in dict.fromkeys(sys.path) if path.endswith(("site-packages", "dist-packages"))]


def module_folder(module: str, site: str) -> str | None:
    """The folder of a dotted module, found without importing it."""
    inside = module.replace(".", "/")
    if not inside or ".." in module or inside.startswith("/"):
        return None
    for base in dict.fromkeys([site, *sys.path]):
        if base and os.path.isdir(f"{base}/{inside}"):
            return f"{base}/{inside}"
    return None


# --- Watching for changes ---

DEBOUNCE_MS = 250
_LONGEST_MS = 2_000
_MOST_FOLDERS = 4_096


class StopSignal(Protocol):
    def is_set(self) -> bool: ...


def watch_batches(
    folders: Iterable[str], is_relevant: Callable[[str], bool], every_ms: int, stop: StopSignal | None
) -> Iterator[frozenset[str]]:
    """Batches of changed paths, once they settle; an empty batch whenever `every_ms` have passed."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise MissingExtra("watching for changes", "watch") from error

    existing = sorted({folder for folder in folders if os.path.isdir(folder)})
    # Too many folders would use up the watches of all programs of the user.
    if not existing or len(existing) > _MOST_FOLDERS:
        yield from _empty_batches(every_ms, stop)
        return
    try:
        for changes in watch(
            *existing,
            watch_filter=lambda _, path: is_relevant(path),
            debounce=_LONGEST_MS,
            step=DEBOUNCE_MS,
            rust_timeout=every_ms,
            yield_on_timeout=True,
            recursive=False,
            raise_interrupt=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            yield frozenset(path for _, path in changes)
    except (OSError, RuntimeError):  # out of inotify watches or instances: poll instead
        yield from _empty_batches(every_ms, stop)


def _empty_batches(every_ms: int, stop: StopSignal | None) -> Iterator[frozenset[str]]:
    from .facts import monotonic, sleep

    while stop is None or not stop.is_set():
        until = monotonic() + every_ms / 1000
        while monotonic() < until and not (stop is not None and stop.is_set()):
            sleep(min(0.05, max(0.0, until - monotonic())))
        yield frozenset()
