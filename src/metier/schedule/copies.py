"""What is kept of a scheduled skill beside itself: the pinned copy, its session's folder, and the bin."""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress
from hashlib import sha256
from json import dumps, loads
from typing import NamedTuple

from ..host import clock, files, paths, scratch, state
from ..record import history
from ..types.errors import Changed, MetierError, Refused, Unloadable
from ..types.place import Place

_LARGEST = 8_000_000


class Pin(NamedTuple):
    """A skill as it was: its digest, and every file of it as JSON."""

    digest: str
    files: str


def pin(folder: str) -> Pin:
    """A folder as it is now, whole."""
    kept: dict[str, list[object]] = {}
    total = 0
    for path, status in paths.tree_of(folder):
        try:
            _, data = files.read_skill_file(folder, path, _LARGEST)
        except OSError as error:
            raise Unloadable(f"{folder}/{path} can't be read: {error.strerror or 'too large'}", "", folder) from error
        total += len(data)
        if total > _LARGEST:
            raise Refused(
                f"{folder} is too large to be pinned", f"a scheduled skill has at most {_LARGEST} bytes", folder
            )
        kept[path] = [bool(status.st_mode & 0o100), b64encode(data).decode("ascii")]
    return Pin(_digest(kept), dumps(kept, sort_keys=True))


def _digest(kept: dict[str, list[object]]) -> str:
    """The digest of a folder, as `sources.bundled.digest` has it."""
    found = sha256()
    for path, (executable, text) in sorted(kept.items()):
        data = b64decode(str(text))
        found.update(f"{path}\0{'x' if executable else '-'}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
        found.update(data)
    return "sha256:" + found.hexdigest()


def unpin(place: Place, one: Pin) -> str:
    """The folder of a pinned copy, written where it is not there yet, and checked against its digest."""
    target = f"{place.state}/pinned/{one.digest.removeprefix('sha256:')}"
    kept = loads(one.files)
    if _digest(kept) != one.digest:
        raise Changed("the pinned copy of a skill is not what was pinned", "schedule it anew")
    if paths.exists(target):
        if pin(target).digest == one.digest:
            return target
        state.remove_tree(target)
    with scratch.folder() as made:
        contents = {path: b64decode(text) for path, (_, text) in kept.items()}
        scratch.fill(f"{made}/skill", contents)
        for path, (executable, _) in kept.items():
            if executable:
                scratch.make_executable(scratch.inside(f"{made}/skill", path))
        state.make_folder(f"{place.state}/pinned")
        state.copy_tree(f"{made}/skill", target)
    return target


# --- Sessions and the bin ---

BOT = """# {name}

This agent works unattended: it asks nobody, and says in its answer what it did and what it could not do.
"""


def session_folder(place: Place, session: str, name: str) -> str:
    """The session's own folder, with a default `bot.md`."""
    folder = scratch.inside(f"{place.state}/sessions", session)
    state.make_folder(folder)
    if not paths.exists(f"{folder}/bot.md"):
        state.write_text(f"{folder}/bot.md", BOT.format(name=name), sync=False)
    return folder


def trash(place: Place, folder: str) -> str:
    """Move a scheduler skill to the bin of its tree; where it lies then.  Its history keeps it too."""
    tree, _, name = folder.rpartition("/")
    _remember(place, tree, name, "add")
    target = f"{tree}/.Trash/{name}"
    state.make_folder(f"{tree}/.Trash")
    if paths.exists(target):
        target = f"{target}-{clock.now_ns()}"
    state.rename(folder, target)
    _remember(place, tree, name, "trash")
    return target


def _remember(place: Place, tree: str, name: str, act: str) -> None:
    """Keep a scheduler skill as it is now; where that can't be done, the bin has it."""
    repository = history.repository_of(place.state, tree)
    with suppress(MetierError):
        called = "edit" if act == "add" and name in history.names(repository) else act
        history.record(repository, history.Change(called, name, f"{tree}/{name}"))
