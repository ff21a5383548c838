"""Walk a root and hand on every SKILL.md in it, in an order that no file system decides."""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..host import compare, files, paths
from ..types.dialect import Limits
from ..types.place import Root
from ..types.problem import Code, Mark, Problem, problem
from ..types.skill import NO_KEY, Broken, Found, Origin, Skill, StatKey
from .batch import Known

SKILL_FILE = "SKILL.md"
_TAIL = "/" + SKILL_FILE
_NEVER = frozenset({"node_modules", "__pycache__"})
_PEEK = 50
_BATCH = 128


class Reader(NamedTuple):
    """What makes a skill of a file."""

    short: Callable[[Origin, str, str, StatKey, bytes], Skill | None]
    """Of the first five fields of a Found without marks, if the head is plain enough."""
    long: Callable[[Found], Skill | Broken]

    def __call__(self, found: Found) -> Skill | Broken:
        return (None if found.marks else self.short(*found[:5])) or self.long(found)


class Finding(NamedTuple):
    items: list[Skill | Broken] | Known
    """In order; all that the index knew, if that is what there is."""
    fresh: list[Skill | Broken]
    """Those the index should learn."""


@dataclass
class Visit:
    """What one look at all roots gathers beside the skills themselves."""

    limits: Limits
    seen: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By device, the inode of every file taken: the same real file loads once."""
    doubted: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The same for roots that are not trusted: what they hold takes nothing away from those that are."""
    problems: list[Problem] = field(default_factory=list)
    guards: list[tuple[str, StatKey | None]] = field(default_factory=list)
    """Folders whose names were read, with their keys: while these hold, the walk would be the same."""

    def say(self, code: Code, path: str, *details: str) -> None:
        self.problems.append(problem(Mark(code, 0, details), path))


def find(root: Root, visit: Visit, known: Known, read: Reader) -> Finding:
    """Every skill of one root.  What the index still knows comes out ready; each file it does not know is
    handed to `read` at once, so that no more than one head is held at a time."""
    path = root.origin.path
    try:
        folder = files.open_root(path, root.base)
    except (FileNotFoundError, NotADirectoryError):
        visit.guards.append((path, files.stat_key(path)))
        if root.named:
            visit.say("not-found" if not paths.exists(path) else "not-a-directory", path)
        return Finding([], [])
    except OSError as error:
        visit.guards.append((path, files.stat_key(path)))
        if error.errno == errno.EXDEV:
            visit.say("link-outside", path, path, root.base)
        else:
            visit.say("unreadable", path, path, error.strerror or "no reason given")
        return Finding([], [])
    try:
        walk = _Walk(root, visit, known, folder, read)
        walk.skills()
        return Finding(known if walk.all_known else walk.found, walk.fresh)
    finally:
        files.close(folder)


class _Walk:
    """One root being walked."""

    def __init__(self, root: Root, visit: Visit, known: Known, folder: int, read: Reader) -> None:
        self.root = root
        self.visit = visit
        self.known = known
        self.all_known = False
        self.folder = folder
        self.path = root.origin.path
        self.read = read
        self.found: list[Skill | Broken] = []
        self.fresh: list[Skill | Broken] = []
        self.directories = 0
        self.full = False
        self.seen = visit.seen if root.origin.trusted else visit.doubted
        self.limit = visit.limits.file_bytes

    def skills(self) -> None:
        listed = self._list("", self.folder)
        if listed is None:
            return
        spelled = _spelled(listed) if self.root.itself else None
        if spelled is not None:
            self._take("", self.path.rpartition("/")[2], spelled)
        elif (
            self.root.nested
            and "skills" in listed.folders
            and _holds_skills(self.folder, "skills", self.visit.limits.candidates)
        ):
            self._group("skills/", 1, "skills")
        else:
            self._level("", 1, listed)

    def _list(self, relative: str, folder: int) -> paths.Listed | None:
        """The names in a folder, which from now on is guarded."""
        path = f"{self.path}/{relative}" if relative else self.path
        try:
            self.visit.guards.append((path, files.folder_key(folder)))
            return paths.list_names(folder)
        except OSError as error:
            self.visit.say("unreadable", path, path, error.strerror or "no reason given")
            return None

    def _level(self, prefix: str, level: int, listed: paths.Listed) -> None:
        """What a folder holds, in order: links and what the index knows one by one, other folders in runs."""
        links = frozenset(listed.links)
        skip = _NEVER | self.root.skip if not prefix else _NEVER
        names = sorted([*listed.folders, *links]) if links else listed.folders
        wanted = names
        if names and (names[0] < "/" or not skip.isdisjoint(names)):  # in order, what begins with a dot is before that
            wanted = [name for name in names if name[0] != "." and name not in skip]
        found, most = self.found, self.visit.limits.candidates
        run: list[str] = []
        if not self.known.batches and not links:
            run, wanted = wanted, []
        elif not links and _take_all(self, prefix, wanted):
            return
        for name, item, device in compare.unchanged(self.folder, prefix, wanted, self.known.by_folder, self.limit):
            if item is None and name not in links:
                run.append(name)
                continue
            stopped = self._run(prefix, run, level) if run else ""
            if stopped or len(found) >= most:
                _say_full(self, prefix, names[names.index(stopped or name) :])
                return
            run = []
            if name in links:
                self._linked(prefix + name, name)
                continue
            if self._first(device, item.key[0]):
                found.append(item)
        if run and (stopped := self._run(prefix, run, level)):
            _say_full(self, prefix, names[names.index(stopped) :])

    def _run(self, prefix: str, names: list[str], level: int) -> str:
        """Real folders, each a skill or a group of skills; the one it stopped at when the root has given all it may."""
        found, seen, fresh, short, origin = self.found, self.seen, self.fresh, self.read.short, self.root.origin
        most, before = self.visit.limits.candidates, f"{self.path}/{prefix}"
        contained = self.root.links == "contain"
        # Opening many and then reading many is quicker than in turns: each has the processor's caches to itself.
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            for name, head, key, whole, device in files.read_heads(self.folder, prefix, batch, self.limit, contained):
                if len(found) >= most:
                    return name
                if type(head) is not bytes:
                    self._odd(prefix + name, name, level, head)  # type: ignore[arg-type]
                    continue
                if key[0] not in seen[device]:
                    seen[device].add(key[0])
                    path = f"{before}{name}{_TAIL}"
                    made = short(origin, name, path, key, head) or _at_length(
                        self, prefix + name, Found(origin, name, path, key, head, whole)
                    )
                    found.append(made)
                    fresh.append(made)
        return ""

    def _odd(self, relative: str, name: str, level: int, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            self._group(relative + "/", level + 1, relative)
        else:
            self._faulty(relative, name, SKILL_FILE, error)

    def _first(self, device: int, inode: int) -> bool:
        inodes = self.seen[device]
        before = len(inodes)
        inodes.add(inode)
        return len(inodes) > before

    def _group(self, prefix: str, level: int, relative: str) -> None:
        """A folder without SKILL.md: perhaps it is spelled otherwise, perhaps skills lie deeper."""
        self.directories += 1
        if self.directories > self.visit.limits.directories:
            if self.directories == self.visit.limits.directories + 1:
                self.visit.say("limit-directories", self.path, self.path, str(self.visit.limits.directories))
            return
        try:
            folder = files.open_beneath(self.folder, relative)
        except OSError as error:
            if error.errno == errno.EACCES:
                self.visit.say("unreadable", f"{self.path}/{relative}", relative, error.strerror or "no reason given")
            return
        try:
            listed = self._list(relative, folder)
        finally:
            files.close(folder)
        if listed is None:
            return
        spelled = _spelled(listed)
        if spelled is not None and not (prefix == "skills/" and level == 1):
            self._take(relative, relative.rpartition("/")[2], spelled)
        elif level <= self.root.depth:
            self._level(prefix, level, listed)
        else:
            deep = _too_deep(self.folder, relative, listed.folders)
            if deep:
                self.visit.say("limit-depth", f"{self.path}/{deep}", deep, str(self.root.depth))

    def _take(self, relative: str, name: str, spelled: str) -> None:
        """A skill file under the name it has."""
        file = f"{relative}/{spelled}" if relative else spelled
        marks = () if spelled == SKILL_FILE else (Mark("file-case", 0, (spelled,)),)
        try:
            key, head, whole, device = files.read_head(self.folder, file, self.limit)
        except OSError as error:
            self._faulty(relative, name, spelled, error)
            return
        if self._first(device, key[0]):
            self.found.append(
                self.read(Found(self.root.origin, name, f"{self.path}/{file}", key, head, whole, marks, False))
            )

    def _linked(self, relative: str, name: str) -> None:
        """A link in the root: followed where the user put it, contained elsewhere."""
        path = f"{self.path}/{relative}"
        self.visit.guards.append((path, files.stat_key(path)))
        try:
            folder = files.open_link(self.folder, relative, self.path, contain=self.root.links == "contain")
        except NotADirectoryError:
            return
        except OSError as error:
            self.visit.problems.append(problem(_link_mark(error, relative, self.path), path))
            return
        try:
            key, head, whole, device = files.read_head(folder, SKILL_FILE, self.limit)
        except FileNotFoundError:
            return
        except OSError as error:
            self._faulty(relative, name, SKILL_FILE, error, folder)
            return
        finally:
            files.close(folder)
        if self._first(device, key[0]):
            self.found.append(self.read(Found(self.root.origin, name, path + _TAIL, key, head, whole, lasting=False)))

    def _faulty(self, relative: str, name: str, spelled: str, error: OSError, inside: int | None = None) -> None:
        """A SKILL.md that is not an ordinary file: a link inside its folder is fine, the rest is broken.

        `inside` is its folder where that was reached by a link."""
        file = f"{relative}/{spelled}" if relative else spelled
        path = f"{self.path}/{file}"
        origin = self.root.origin
        if error.errno == errno.ELOOP and not isinstance(error, files.NotRegular):
            try:
                place = (self.folder, relative) if inside is None else (inside, "")
                key, head, whole, device = files.read_linked_head(*place, spelled, self.limit)
            except OSError as second:
                error = second
            else:
                if self._first(device, key[0]):
                    self.found.append(self.read(Found(origin, name, path, key, head, whole, lasting=False)))
                return
        key = error.key if isinstance(error, files.TooLarge) else files.stat_key(path) or NO_KEY
        self.found.append(Broken(name, path, key, origin, (_mark(error, spelled, self.limit),), name))


def _at_length(walk: _Walk, relative: str, found: Found) -> Skill | Broken:
    """A skill whose first bytes were not plain; where they were not enough, the file is read again."""
    if found.whole or not files.wanted_beyond(found.head):
        return walk.read.long(found)
    try:
        contained = walk.root.links == "contain"
        key, head, whole, _ = files.read_more(walk.folder, relative + _TAIL, walk.limit, contained)
    except OSError as error:
        mark = _mark(error, SKILL_FILE, walk.limit)
        return Broken(found.id, found.path, found.key, found.origin, (mark,), found.id)
    return walk.read(found._replace(key=key, head=head, whole=whole))


def _say_full(walk: _Walk, prefix: str, names: list[str]) -> None:
    """Say, once for a root, where its cap cut: at the first folder that is or holds a skill."""
    limits = walk.visit.limits
    for name in names[: limits.directories] if not walk.full else ():
        relative = prefix + name
        if name[0] == "." or name in _NEVER:
            continue
        if files.stat_key(f"{walk.path}/{relative}{_TAIL}") or _holds_skills(walk.folder, relative, _PEEK):
            walk.full = True
            walk.visit.say("limit-candidates", walk.path, walk.path, str(limits.candidates), relative)
            return


def _spelled(listed: paths.Listed) -> str | None:
    """The skill file of a folder by the name it has there; the right spelling first."""
    found = [file for file in (*listed.files, *listed.links) if file.lower() == "skill.md"]
    return SKILL_FILE if SKILL_FILE in found else found[0] if found else None


def _mark(error: OSError, spelled: str, limit: int) -> Mark:
    """Why a SKILL.md can't be read."""
    if isinstance(error, files.TooLarge):
        return Mark("too-large", 0, (str(error.key[3]), str(limit)), fatal=True)
    if isinstance(error, files.NotRegular):
        return Mark("not-a-file", 0, (spelled, str(error)), fatal=True)
    if error.errno == errno.ENXIO:
        return Mark("not-a-file", 0, (spelled, "a socket or a device"), fatal=True)
    if error.errno == errno.EXDEV:
        return Mark("link-outside", 0, (spelled, "its folder"), fatal=True)
    if error.errno in (errno.ELOOP, errno.ENOENT):
        return Mark("link-broken", 0, (spelled,), fatal=True)
    return Mark("unreadable", 0, (spelled, error.strerror or "no reason given"), fatal=True)


def _holds_skills(folder: int, relative: str, most: int) -> bool:
    """Whether a folder inside has at least one skill directly in it."""
    try:
        inside = files.open_beneath(folder, relative)
    except OSError:
        return False
    try:
        some = paths.list_names(inside).folders[:most]
        return any(files.plain_key(inside, name + _TAIL) is not None for name in some)
    except OSError:
        return False
    finally:
        files.close(inside)


def _too_deep(folder: int, relative: str, names: list[str]) -> str:
    """A skill that lies deeper than is searched, if a look finds one."""
    for name in names[:_PEEK]:
        if files.plain_key(folder, f"{relative}/{name}{_TAIL}") is not None:
            return f"{relative}/{name}"
    return ""


def _link_mark(error: OSError, relative: str, root: str) -> Mark:
    """Why a link in a root is not followed."""
    if error.errno == errno.EACCES:
        return Mark("unreadable", 0, (relative, error.strerror or "no reason given"))
    if error.errno == errno.EXDEV:
        return Mark("link-outside", 0, (relative, root))
    return Mark("link-broken", 0, (relative,))


def _take_all(walk: _Walk, prefix: str, names: list[str]) -> bool:
    """The usual warm start: nothing changed, nothing twice, no limit near.  Then all is taken at once."""
    known = walk.known
    if prefix or names != known.folders or len(names) > walk.visit.limits.candidates:
        return False
    devices = compare.all_unchanged(walk.folder, names, known.keys, walk.limit)
    inodes = set(known.keys[0])
    if devices is None or len(devices) > 1 or len(inodes) < len(names):
        return False
    seen = walk.seen[devices.pop()]
    if not seen.isdisjoint(inodes):
        return False
    seen |= inodes
    walk.all_known = True
    return True
