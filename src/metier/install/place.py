"""Folders put in place whole.  A change is written down before it is made, so that whoever comes next can finish it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any, Literal

from ..host import locks, paths, state, swap
from ..host.clock import stamp
from ..types.errors import BadRequest, HostError, MetierError
from ..types.installed import Entry, Lock, Rest
from . import lockfile

_MOST_LOCK = 67_108_864


def _nobody(text: str) -> None:
    """Whoever asks not to be told."""


@dataclass(frozen=True)
class Ground:
    """A root that metier installs into."""

    root: str
    shared: bool = False
    """It lies in a project: other people and other settings of file modes have a part in it."""
    history: str = ""
    """The repository that keeps what its skills were; empty where nothing is kept."""
    note: Callable[[str], None] = field(default=_nobody, compare=False, repr=False)
    """Told what a person should know, although all was done."""

    @property
    def work(self) -> str:
        return f"{self.root}/.metier"

    @property
    def lock(self) -> str:
        """Beside the root: `skills-lock.json` for a root called `skills`."""
        return f"{self.root}-lock.json"


@dataclass(frozen=True)
class Change:
    """One folder of a root placed, replaced or removed, and what its lock says afterwards."""

    op: Literal["place", "remove"]
    target: str
    """Inside the root."""
    skills: Mapping[str, Entry] = field(default_factory=dict)
    folders: Mapping[str, Rest] = field(default_factory=dict)
    act: str = "edit"
    """What the history calls it."""
    evidence: str = ""
    run: str = ""


def read_lock(ground: Ground) -> Lock:
    """The lock of a root; empty where there is none.  One that can't be read stops everything."""
    try:
        text = paths.read_text_file(ground.lock, _MOST_LOCK)
        if text is None:
            return Lock()
        if swap.is_link(ground.lock):
            raise lockfile.BadLock("it is a link")
        if swap.others_may_write(ground.lock):
            raise lockfile.BadLock("everybody may write it")
        return lockfile.read(text)
    except (lockfile.BadLock, HostError) as error:
        raise HostError(
            f"the lock {ground.lock} can't be read: {error}",
            "bring back a good copy (from git or a backup), or move it away and run `metier freeze`;"
            " nothing was changed",
            ground.lock,
        ) from error


class Staging:
    """A folder of one's own to prepare things in; swept by the next one if its owner dies."""

    def __init__(self, ground: Ground, name: str, opened: int) -> None:
        self.ground = ground
        self.name = name
        self.folder = f"{ground.work}/staging/{name}"
        self._opened = opened
        self._count = 0

    def inner(self) -> str:
        """A new folder in it."""
        self._count += 1
        path = f"{self.folder}/{self._count}"
        swap.make_folders(path)
        return path

    def close(self) -> None:
        """What was begun and could not be finished stays for whoever recovers it; the rest goes."""
        if not any(one.startswith(self.name) for one in swap.names(f"{self.ground.work}/journal")):
            swap.remove_tree(self.folder)
            swap.remove_file(self.folder + ".lock")
        locks.let_go(self._opened)


@contextmanager
def staging(ground: Ground) -> Iterator[Staging]:
    """Prepare the root, finish what somebody left half-done, and give a folder to work in."""
    read_lock(ground)  # one that can't be read stops us before anything is made
    for inner in ("staging", "journal", "trash", "locks"):
        swap.make_folders(f"{ground.work}/{inner}", 0o755)
    if not paths.exists(f"{ground.work}/.gitignore"):
        state.write_text(f"{ground.work}/.gitignore", "*\n", 0o644)
    with locks.held([_root_lock(ground)]):
        _recover(ground)
        name = token_hex(8)
        mine = Staging(ground, name, locks.take_new(f"{ground.work}/staging/{name}.lock"))
        swap.make_folders(mine.folder, 0o700)
    try:
        yield mine
    finally:
        mine.close()


@contextmanager
def alone(ground: Ground) -> Iterator[None]:
    """Nobody places or removes anything in a root meanwhile."""
    with locks.held([_root_lock(ground)]):
        yield


def recover(ground: Ground) -> None:
    """Finish or undo what a killed process left in a root."""
    if paths.exists(ground.work):
        with staging(ground):
            pass


@contextmanager
def turn(ground: Ground, names: Iterable[str], waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """One's turn at these folders of a root: nobody else changes them meanwhile, in this process or another."""
    swap.make_folders(f"{ground.work}/locks")
    held = [f"{ground.work}/locks/{sha256(name.encode()).hexdigest()[:16]}.lock" for name in names]
    with locks.held(held, waiting=waiting):
        yield


def _root_lock(ground: Ground) -> str:
    return f"{ground.work}/locks/root.lock"


def commit(mine: Staging, change: Change, new: str = "") -> str:
    """Make a change: written down, done in one step, entered in the lock.  Where the old folder is now, if anywhere."""
    ground = mine.ground
    swap.make_folders(ground.root)
    with locks.held([_root_lock(ground)]):
        if not paths.exists(ground.lock):  # from now on whoever reads this root looks for a journal too
            state.write_text(ground.lock, lockfile.written(Lock()), 0o644)
        if paths.exists(f"{ground.root}/{change.target}"):
            remember(ground, change.target, "edit")
        journal = f"{ground.work}/journal/{mine.name}-{token_hex(4)}.json"
        record = _planned(mine, change, new)
        state.write_text(journal, json.dumps(record, indent=1), 0o600)
        _do(ground, record)
        _finish(ground, record, journal)
    return f"{record['trash']}/folder" if paths.exists(f"{record['trash']}/folder") else ""


def _planned(mine: Staging, change: Change, new: str) -> dict[str, Any]:
    """A change as it is written down before it is made."""
    ground = mine.ground
    source = new or f"{ground.root}/{change.target}"
    return {
        "op": change.op,
        "target": change.target,
        "act": (change.act, change.evidence, change.run),
        "new": source,
        "inode": swap.inode(source),
        "old": f"{mine.folder}/old-{token_hex(4)}",
        "trash": f"{ground.work}/trash/{stamp()}-{token_hex(4)}",
        "skills": {place: lockfile.skill_tree(entry) for place, entry in change.skills.items()},
        "folders": {name: lockfile.rest_tree(rest) for name, rest in change.folders.items()},
    }


def _do(ground: Ground, record: Mapping[str, Any]) -> None:
    target, new = f"{ground.root}/{record['target']}", record["new"]
    if record["op"] == "remove":
        _to_trash(ground, record, target)
    elif not paths.exists(target):
        swap.make_folders(target.rpartition("/")[0])
        swap.move(new, target)
    elif not swap.exchange(new, target):
        swap.move(target, record["old"])
        swap.move(new, target)


def _to_trash(ground: Ground, record: Mapping[str, Any], path: str) -> None:
    """Put something into the trash, with what the lock said of it."""
    trash = record["trash"]
    if paths.exists(f"{trash}/folder"):
        return
    swap.make_folders(trash)
    inside = record["target"]
    lock = read_lock(ground)
    kept = {
        "target": inside,
        "skills": {place: lockfile.skill_tree(one) for place, one in lock.skills.items() if _within(place, inside)},
        "folders": {name: lockfile.rest_tree(one) for name, one in lock.folders.items() if name == inside},
    }
    state.write_text(f"{trash}/what.json", json.dumps(kept, indent=1), 0o600)
    swap.move(path, f"{trash}/folder")


def _within(place: str, target: str) -> bool:
    return place == target or place.startswith(target + "/")


def _finish(ground: Ground, record: Mapping[str, Any], journal: str) -> None:
    """The steps after the folder is in place; each may be done twice.  The root's lock is held."""
    target = record["target"]
    if record["op"] == "place":
        for old in (record["old"], record["new"]):
            if paths.exists(old):
                _to_trash(ground, record, old)
    lock = read_lock(ground)
    skills = {place: one for place, one in lock.skills.items() if not _within(place, target)}
    folders = {name: one for name, one in lock.folders.items() if name != target}
    skills |= {place: lockfile.read_skill(one) for place, one in record["skills"].items()}
    folders |= {name: lockfile.read_rest(one) for name, one in record["folders"].items()}
    state.write_text(ground.lock, lockfile.written(Lock(skills, folders)), 0o644)
    act, evidence, run = record.get("act", ("edit", "", ""))
    remember(ground, target, act, evidence, run, lock.skills)
    swap.remove_file(journal)


def look(ground: Ground, targets: Iterable[str]) -> None:
    """Keep what was edited by hand, while nobody replaces it."""
    ours = [_root_lock(ground)] if paths.exists(f"{ground.work}/locks") else []
    with locks.held(ours):
        for target in targets:
            keep(ground, target, "edit")


def remember(
    ground: Ground, target: str, act: str, evidence: str = "", run: str = "", besides: Iterable[str] = ()
) -> None:
    """Keep the skills in a folder of a root as they are now.  What goes wrong is said, and stops nothing:
    whoever looks next finds the change and keeps it."""
    try:
        if ground.history:
            keep(ground, target, act, evidence, run, besides)
    except MetierError as error:
        ground.note(f"the history does not have it yet: {error.message}")


def keep(ground: Ground, target: str, act: str, evidence: str = "", run: str = "", besides: Iterable[str] = ()) -> None:
    """The same, where nothing may go wrong."""
    from ..record import history  # whoever only reads a lock does without

    lock = read_lock(ground)
    known = history.names(ground.history)
    keys = sorted({key for key in (*lock.skills, *besides, *known) if _within(key, target)}) or [target]
    for key in keys:
        entry = json.dumps(lockfile.skill_tree(lock.skills[key])) if key in lock.skills else ""
        called = act if key in known or act != "edit" else "add"
        history.record(ground.history, history.Change(called, key, f"{ground.root}/{key}", evidence, run, entry))


def change_lock(ground: Ground, change: Callable[[Lock], Lock]) -> Lock:
    """Read, change and write the lock with nobody in between."""
    swap.make_folders(f"{ground.work}/locks")
    with locks.held([_root_lock(ground)]):
        lock = change(read_lock(ground))
        state.write_text(ground.lock, lockfile.written(lock), 0o644)
        return lock


def _recover(ground: Ground) -> None:
    """Finish or undo every change whose owner is dead, and sweep what nobody needs.  The root's lock is held."""
    folder = f"{ground.work}/journal"
    for name in swap.names(folder):
        owner = f"{ground.work}/staging/{_owner(name)}.lock"
        opened = locks.take_now(owner)
        if opened is None and paths.exists(owner):
            continue
        record = _record(f"{folder}/{name}")
        if record is None:
            swap.remove_file(f"{folder}/{name}")  # it was never written whole, so nothing was done
        else:
            _settle(ground, record, f"{folder}/{name}")
        if opened is not None:
            locks.let_go(opened)
    _sweep(ground)


def _owner(name: str) -> str:
    """Whose a record is; one that is still being written has a dot before its name."""
    return name.lstrip(".").partition("-")[0]


def _settle(ground: Ground, record: Mapping[str, Any], journal: str) -> None:
    target = f"{ground.root}/{record['target']}"
    done = f"{record['trash']}/folder" if record["op"] == "remove" else target
    if swap.inode(done) == record["inode"]:
        _finish(ground, record, journal)
        return
    if record["op"] == "place" and not paths.exists(target) and paths.exists(record["old"]):
        swap.move(record["old"], target)
    if record["op"] == "remove" and not paths.exists(f"{record['trash']}/folder"):
        swap.remove_tree(record["trash"])
    swap.remove_file(journal)


def _record(path: str) -> dict[str, Any] | None:
    text = paths.read_text_file(path, _MOST_LOCK)
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) and "trash" in found else None


def _sweep(ground: Ground) -> None:
    folder = f"{ground.work}/staging"
    busy = {_owner(name) for name in swap.names(f"{ground.work}/journal")}
    for name in {one.removesuffix(".lock") for one in swap.names(folder)} - busy:
        opened = locks.take_now(f"{folder}/{name}.lock")
        if opened is None and paths.exists(f"{folder}/{name}.lock"):
            continue
        swap.remove_tree(f"{folder}/{name}")
        swap.remove_file(f"{folder}/{name}.lock")
        if opened is not None:
            locks.let_go(opened)
    for name in swap.names(f"{ground.work}/trash"):
        if not paths.exists(f"{ground.work}/trash/{name}/folder") and not busy:
            swap.remove_tree(f"{ground.work}/trash/{name}")


def pending(ground: Ground) -> dict[str, Entry]:
    """Skills of folders that are in place and not in the lock yet, because their owner is not done or was killed."""
    found: dict[str, Entry] = {}
    for name in swap.names(f"{ground.work}/journal"):
        record = _record(f"{ground.work}/journal/{name}")
        if record is None or record["op"] != "place":
            continue
        if swap.inode(f"{ground.root}/{record['target']}") == record["inode"]:
            found |= {place: lockfile.read_skill(one) for place, one in record["skills"].items()}
    return found


def trash(ground: Ground) -> list[tuple[str, str, str]]:
    """What lies in the trash, the latest first: its place in the trash, what it was, and when."""
    found = []
    for name in reversed(swap.names(f"{ground.work}/trash")):
        record = _trash_record(f"{ground.work}/trash/{name}")
        if record is not None:
            found.append((name, str(record["target"]), name.partition("-")[0]))
    return found


def _trash_record(path: str) -> dict[str, Any] | None:
    text = paths.read_text_file(f"{path}/what.json", _MOST_LOCK)
    if text is None or not paths.exists(f"{path}/folder"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("target"), str) else None


def from_trash(mine: Staging, name: str) -> Change:
    """Put something from the trash back where it was, with what the lock said of it."""
    ground = mine.ground
    record = _trash_record(f"{ground.work}/trash/{name}")
    if record is None:
        raise BadRequest("it is no longer in the trash", "run `metier restore` to see what is")
    change = Change(
        "place",
        record["target"],
        {place: lockfile.read_skill(one) for place, one in record["skills"].items()},
        {name: lockfile.read_rest(one) for name, one in record["folders"].items()},
        "restore",
    )
    commit(mine, change, f"{ground.work}/trash/{name}/folder")
    swap.remove_tree(f"{ground.work}/trash/{name}")
    return change
