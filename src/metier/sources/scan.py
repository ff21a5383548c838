"""Walk the roots and hand on every SKILL.md, in an order that no file system decides.

Folders are opened relative to an open root and read through that handle, so nothing that is swapped for a link between
two steps leads outside.  Names are sorted, and the same real file loads once, under the first root that has it.

What the index still knows is not read: a file with the same inode, times and size is the same file.  When a whole root
is unchanged, its entries stay packed and become `Skill` values only when somebody asks (`LazySkills`).
"""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from ..host import files, paths
from ..host.facts import now_ns
from ..host.sqlite import IndexDatabase
from ..light_typing import NamedTuple, overload
from ..types.dialect import LibraryLimits
from ..types.place import SkillRoot
from ..types.problem import Finding, Problem, ProblemCode, problem_from
from ..types.skill import NO_STAT_KEY, BrokenSkill, Found, Origin, Skill, StatKey
from .index import IndexedSkills, IndexEntry, load_indexed, make_entry, save_changes

SKILL_FILE = "SKILL.md"
_FILE_SUFFIX = "/" + SKILL_FILE
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
_PEEK_LIMIT = 50
"""Folders that are looked into for a message only: whether a skill lies beyond a limit."""
_READ_BATCH = 128
"""Files read at a time, before their heads are parsed: that bounds the memory they take."""


class SkillReader(NamedTuple):
    """What makes a skill of a file."""

    short: Callable[[Origin, str, str, StatKey, bytes], Skill | None]
    """Of the first five fields of a Found without marks, if the head is plain enough."""
    long: Callable[[Found], Skill | BrokenSkill]

    def __call__(self, candidate: Found) -> Skill | BrokenSkill:
        try:
            return (None if candidate.findings else self.short(*candidate[:5])) or self.long(candidate)
        except Exception as error:  # noqa: BLE001  # a bug in the reader must cost one skill, not all
            finding = Finding("reader-fault", 0, (type(error).__name__,), fatal=True)
            return BrokenSkill(candidate.id, candidate.path, candidate.key, candidate.origin, (finding,), candidate.id)


class RootScan(NamedTuple):
    items: list[Skill | BrokenSkill] | IndexedSkills
    """In order; all that the index knew, if that is what there is."""
    fresh: list[Skill | BrokenSkill]
    """Those the index should learn."""


class ScanState:
    """What one scan of all roots gathers in addition to the skills."""

    def __init__(self, limits: LibraryLimits) -> None:
        self.limits = limits
        self.seen: dict[int, set[int]] = defaultdict(set)
        """By device, the inode of every file taken: the same real file loads once."""
        self.doubted: dict[int, set[int]] = defaultdict(set)
        """The same for roots that are not trusted: a link there must not make a trusted skill disappear."""
        self.problems: list[Problem] = []
        self.guards: list[tuple[str, StatKey | None]] = []
        """Folders whose names were read, with their keys: while these hold, the walk would be the same."""

    def say(self, code: ProblemCode, path: str, *details: str) -> None:
        self.problems.append(problem_from(Finding(code, 0, details), path))


def scan_root(root: SkillRoot, visit: ScanState, indexed: IndexedSkills, read: SkillReader) -> RootScan:
    """Every skill of one root.  What the index still knows comes out ready; each file it does not know is
    handed to `read` at once, so that no more than one head is held at a time."""
    path = root.origin.path
    try:
        folder = files.open_root(path, root.base)
    except (FileNotFoundError, NotADirectoryError):
        visit.guards.append((path, files.stat_key(path)))
        if root.named:
            visit.say("not-found" if not paths.exists(path) else "not-a-directory", path)
        return RootScan([], [])
    except OSError as error:
        visit.guards.append((path, files.stat_key(path)))
        if error.errno == errno.EXDEV:
            visit.say("link-outside", path, path, root.base)
        else:
            visit.say("unreadable", path, path, error.strerror or "no reason given")
        return RootScan([], [])
    try:
        walk = _RootWalk(root, visit, indexed, folder, read)
        walk.skills()
        return RootScan(indexed if walk.all_known else walk.found, walk.fresh)
    finally:
        files.close(folder)


class _RootWalk:
    """One root being walked."""

    def __init__(
        self, root: SkillRoot, visit: ScanState, indexed: IndexedSkills, folder: int, read: SkillReader
    ) -> None:
        self.root = root
        self.visit = visit
        self.known = indexed
        self.all_known = False
        self.folder = folder
        self.path = root.origin.path
        self.read = read
        self.found: list[Skill | BrokenSkill] = []
        self.fresh: list[Skill | BrokenSkill] = []
        self.directories = 0
        self.full = False
        self.seen = visit.seen if root.origin.trusted else visit.doubted
        self.limit = visit.limits.file_bytes

    def skills(self) -> None:
        listed = self._list("", self.folder)
        if listed is None:
            return
        spelled = _skill_file_name(listed) if self.root.itself else None
        if spelled is not None:
            self._take("", self.path.rpartition("/")[2], spelled)
        elif (
            self.root.nested
            and "skills" in listed.folders
            and _holds_skills(self.folder, "skills", self.visit.limits.candidates)
            # A folder of that name among skills is one of them, or it would hide all others.
            and not any(_is_skill(self.path, name) for name in (*listed.folders, *listed.links) if name != "skills")
        ):
            self._group("skills/", 1, "skills")
        else:
            self._level("", 1, listed)

    def _list(self, relative: str, folder: int) -> paths.FolderListing | None:
        """The names in a folder, which from now on is guarded."""
        path = f"{self.path}/{relative}" if relative else self.path
        try:
            self.visit.guards.append((path, files.folder_key(folder)))
            return paths.list_names(folder)
        except OSError as error:
            self.visit.say("unreadable", path, path, error.strerror or "no reason given")
            return None

    def _level(self, prefix: str, level: int, listed: paths.FolderListing) -> None:
        """What a folder holds, in order: links and what the index knows one by one, other folders in runs."""
        links = frozenset(listed.links)
        skip = _SKIPPED_FOLDERS | self.root.skip if not prefix else _SKIPPED_FOLDERS
        names = sorted([*listed.folders, *links]) if links else listed.folders
        eligible = names
        if names and (names[0] < "/" or not skip.isdisjoint(names)):  # sorted, names with a dot come before "/"
            eligible = [name for name in names if name[0] != "." and name not in skip]
        # Folders that the index does not know are collected into runs, and a run is read before the next known name:
        # the result stays in order of names, whatever came from where.
        items, most = self.found, self.visit.limits.candidates
        run: list[str] = []
        if not self.known.batches and not links:
            run, eligible = eligible, []
        elif not links and _take_unchanged(self, prefix, eligible):
            return
        for name, item, device in files.find_unchanged(self.folder, prefix, eligible, self.known.by_folder, self.limit):
            if item is None and name not in links:
                run.append(name)
                continue
            stopped = self._run(prefix, run, level) if run else ""
            # The limit is checked before each item: a full root stops, it does not sample.
            if stopped or len(items) >= most:
                _report_full(self, prefix, names[names.index(stopped or name) :])
                return
            run = []
            if name in links:
                self._linked(prefix + name, name)
                continue
            if self._first(device, item.key[0]):
                items.append(item)
        if run and (stopped := self._run(prefix, run, level)):
            _report_full(self, prefix, names[names.index(stopped) :])

    def _run(self, prefix: str, names: list[str], level: int) -> str:
        """Real folders, each a skill or a group of skills; the one it stopped at when the root has given all it may."""
        items, seen_inodes, fresh, short, origin = self.found, self.seen, self.fresh, self.read.short, self.root.origin
        most, before = self.visit.limits.candidates, f"{self.path}/{prefix}"
        contained = self.root.links == "contain"
        # Opening many files and then reading many is faster than taking turns: each step keeps the CPU caches.
        for start in range(0, len(names), _READ_BATCH):
            batch = names[start : start + _READ_BATCH]
            for name, head, key, complete, device in files.read_heads(
                self.folder, prefix, batch, self.limit, contained
            ):
                if len(items) >= most:
                    return name
                # Not bytes but an OSError: mostly a folder without SKILL.md, which is no failure and not raised.
                if type(head) is not bytes:
                    self._odd(prefix + name, name, level, head)  # type: ignore[arg-type]
                    continue
                if key[0] not in seen_inodes[device]:
                    seen_inodes[device].add(key[0])
                    path = f"{before}{name}{_FILE_SUFFIX}"
                    item = short(origin, name, path, key, head) or _read_at_length(
                        self, prefix + name, Found(origin, name, path, key, head, complete)
                    )
                    items.append(item)
                    fresh.append(item)
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
        # `skills/SKILL.md` of a nested root is not a skill called "skills": the folder holds the others.
        spelled = _skill_file_name(listed)
        if spelled is not None and not (prefix == "skills/" and level == 1):
            self._take(relative, relative.rpartition("/")[2], spelled)
        elif level <= self.root.depth:
            self._level(prefix, level, listed)
        else:
            deep = _find_too_deep(self.folder, relative, listed.folders)
            if deep:
                self.visit.say("limit-depth", f"{self.path}/{deep}", deep, str(self.root.depth))

    def _take(self, relative: str, name: str, spelled: str) -> None:
        """A skill file under the name it has."""
        file = f"{relative}/{spelled}" if relative else spelled
        findings = () if spelled == SKILL_FILE else (Finding("file-case", 0, (spelled,)),)
        try:
            key, head, complete, device = files.read_head(self.folder, file, self.limit)
        except OSError as error:
            self._faulty(relative, name, spelled, error)
            return
        if self._first(device, key[0]):
            self.found.append(
                self.read(Found(self.root.origin, name, f"{self.path}/{file}", key, head, complete, findings, False))
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
            self.visit.problems.append(problem_from(_link_finding(error, relative, self.path), path))
            return
        try:
            key, head, complete, device = files.read_head(folder, SKILL_FILE, self.limit)
        except FileNotFoundError:
            return
        except OSError as error:
            self._faulty(relative, name, SKILL_FILE, error, folder)
            return
        finally:
            files.close(folder)
        if self._first(device, key[0]):
            self.found.append(
                self.read(Found(self.root.origin, name, path + _FILE_SUFFIX, key, head, complete, lasting=False))
            )

    def _faulty(self, relative: str, name: str, spelled: str, error: OSError, inside: int | None = None) -> None:
        """A SKILL.md that is not an ordinary file: a link inside its folder is fine, the rest is broken.

        `inside` is its folder where that was reached by a link."""
        file = f"{relative}/{spelled}" if relative else spelled
        path = f"{self.path}/{file}"
        origin = self.root.origin
        # SKILL.md is opened without following links; this one is a link, so it is opened again, contained.
        if error.errno == errno.ELOOP and not isinstance(error, files.NotRegular):
            try:
                place = (self.folder, relative) if inside is None else (inside, "")
                key, head, complete, device = files.read_linked_head(*place, spelled, self.limit)
            except OSError as second:
                error = second
            else:
                if self._first(device, key[0]):
                    self.found.append(self.read(Found(origin, name, path, key, head, complete, lasting=False)))
                return
        key = error.key if isinstance(error, files.TooLarge) else files.stat_key(path) or NO_STAT_KEY
        self.found.append(BrokenSkill(name, path, key, origin, (_file_finding(error, spelled, self.limit),), name))


def _read_at_length(walk: _RootWalk, relative: str, candidate: Found) -> Skill | BrokenSkill:
    """A skill whose first bytes were not plain; where they were not enough, the file is read again."""
    if candidate.whole or not files.bytes_needed_beyond(candidate.head):
        return walk.read(candidate)
    try:
        contained = walk.root.links == "contain"
        key, head, complete, _ = files.read_more(walk.folder, relative + _FILE_SUFFIX, walk.limit, contained)
    except OSError as error:
        finding = _file_finding(error, SKILL_FILE, walk.limit)
        return BrokenSkill(candidate.id, candidate.path, candidate.key, candidate.origin, (finding,), candidate.id)
    return walk.read(candidate._replace(key=key, head=head, whole=complete))


def _report_full(walk: _RootWalk, prefix: str, names: list[str]) -> None:
    """Say, once for a root, where its cap cut: at the first folder that is or holds a skill."""
    limits = walk.visit.limits
    for name in names[: limits.directories] if not walk.full else ():
        relative = prefix + name
        if name[0] == "." or name in _SKIPPED_FOLDERS:
            continue
        if files.stat_key(f"{walk.path}/{relative}{_FILE_SUFFIX}") or _holds_skills(walk.folder, relative, _PEEK_LIMIT):
            walk.full = True
            walk.visit.say("limit-candidates", walk.path, walk.path, str(limits.candidates), relative)
            return


def _skill_file_name(listed: paths.FolderListing) -> str | None:
    """The skill file of a folder by the name it has there; the right spelling first."""
    spellings = [file for file in (*listed.files, *listed.links) if file.lower() == "skill.md"]
    return SKILL_FILE if SKILL_FILE in spellings else spellings[0] if spellings else None


def _file_finding(error: OSError, spelled: str, limit: int) -> Finding:
    """Why a SKILL.md can't be read."""
    if isinstance(error, files.TooLarge):
        return Finding("too-large", 0, (str(error.key[3]), str(limit)), fatal=True)
    if isinstance(error, files.NotRegular):
        return Finding("not-a-file", 0, (spelled, str(error)), fatal=True)
    if error.errno == errno.ENXIO:
        return Finding("not-a-file", 0, (spelled, "a socket or a device"), fatal=True)
    if error.errno == errno.EXDEV:
        return Finding("link-outside", 0, (spelled, "its folder"), fatal=True)
    if error.errno in (errno.ELOOP, errno.ENOENT):
        return Finding("link-broken", 0, (spelled,), fatal=True)
    return Finding("unreadable", 0, (spelled, error.strerror or "no reason given"), fatal=True)


def _is_skill(root: str, name: str) -> bool:
    try:
        return name[0] != "." and _skill_file_name(paths.list_names(f"{root}/{name}")) is not None
    except OSError:
        return False


def _holds_skills(folder: int, relative: str, most: int) -> bool:
    """Whether a folder inside has at least one skill directly in it."""
    try:
        inside = files.open_beneath(folder, relative)
    except OSError:
        return False
    try:
        sample = paths.list_names(inside).folders[:most]
        return any(files.regular_file_key(inside, name + _FILE_SUFFIX) is not None for name in sample)
    except OSError:
        return False
    finally:
        files.close(inside)


def _find_too_deep(folder: int, relative: str, names: list[str]) -> str:
    """A skill that lies deeper than is searched, if a look finds one."""
    for name in names[:_PEEK_LIMIT]:
        if files.regular_file_key(folder, f"{relative}/{name}{_FILE_SUFFIX}") is not None:
            return f"{relative}/{name}"
    return ""


def _link_finding(error: OSError, relative: str, root: str) -> Finding:
    """Why a link in a root is not followed."""
    if error.errno == errno.EACCES:
        return Finding("unreadable", 0, (relative, error.strerror or "no reason given"))
    if error.errno == errno.EXDEV:
        return Finding("link-outside", 0, (relative, root))
    return Finding("link-broken", 0, (relative,))


def _take_unchanged(walk: _RootWalk, prefix: str, names: list[str]) -> bool:
    """The usual warm start: nothing changed, nothing twice, no limit reached.  Then all is taken at once."""
    indexed = walk.known
    if prefix or names != indexed.folders or len(names) > walk.visit.limits.candidates:
        return False
    # One device and as many inodes as names: then no file is there twice, and no set has to be kept for each.
    devices = files.all_unchanged(walk.folder, names, indexed.keys, walk.limit)
    inodes = set(indexed.keys[0])
    if devices is None or len(devices) > 1 or len(inodes) < len(names):
        return False
    seen_inodes = walk.seen[devices.pop()]
    if not seen_inodes.isdisjoint(inodes):
        return False
    seen_inodes |= inodes
    walk.all_known = True
    return True


# --- All roots ---

_SETTLED_NS = 50_000_000
"""A file younger than this may change again without its times showing it: it is not remembered yet."""

_COARSE_NS = 2_000_000_000
"""The same where the file system keeps whole seconds only."""


def is_settled(key: StatKey, at: int) -> bool:
    """Whether a file read at that time or later will show any further change in its key."""
    changed = max(key[1], key[2])
    return changed < at - (_SETTLED_NS if changed % 1_000_000_000 else _COARSE_NS)


class LazySkills(Sequence[Skill]):
    """The skills of a scan, in order.  What the index knows becomes a `Skill` when one is first asked for."""

    __slots__ = ("_made", "_runs")

    def __init__(self, runs: Sequence[IndexedSkills | list[Skill]]) -> None:
        self._runs = runs
        self._made: tuple[Skill, ...] | None = None

    def _all(self) -> tuple[Skill, ...]:
        if self._made is None:
            skills: list[Skill] = []
            for run in self._runs:
                skills += run.skills if isinstance(run, IndexedSkills) else run
            self._runs = [skills]
            self._made = tuple(skills)
        return self._made

    @property
    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        for run in self._runs:
            names += run.names if isinstance(run, IndexedSkills) else [skill.name for skill in run]
        return tuple(names)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._all())

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @overload
    def __getitem__(self, at: int) -> Skill: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, at: int | slice) -> Skill | tuple[Skill, ...]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


def skill_names(skills: Sequence[Skill]) -> tuple[str, ...]:
    """The names of skills, without making a `Skill` of what is still packed."""
    return skills.names if isinstance(skills, LazySkills) else tuple(skill.name for skill in skills)


class ScanResult(NamedTuple):
    skills: Sequence[Skill]
    broken: tuple[BrokenSkill, ...]
    problems: tuple[Problem, ...]
    guards: tuple[tuple[str, StatKey | None], ...]


def scan_roots(
    roots: Sequence[SkillRoot], limits: LibraryLimits, database: IndexDatabase | None, read: SkillReader
) -> ScanResult:
    """Every skill and every broken one; `read` makes a skill of what the index does not know."""
    visit = ScanState(limits)
    runs: list[IndexedSkills | list[Skill]] = []
    broken: list[BrokenSkill] = []
    loaded: dict[str, int] = {}
    left_out: dict[str, list[str]] = {}
    for root in roots:
        began = now_ns()  # before reading: a file that changes meanwhile is younger than this, and not remembered
        indexed = load_indexed(database, root)
        scanned = scan_root(root, visit, indexed, read)
        tier = root.origin.tier
        mine = _take_loadable(scanned.items, broken)
        # Roots of one tier share a limit; the earlier root, which takes precedence, fills it first.
        room = limits.skills - loaded.get(tier, 0)
        if len(mine) > room:
            every = mine.skills if isinstance(mine, IndexedSkills) else mine
            left_out.setdefault(tier, []).extend(skill.id for skill in every[room:])
            mine = every[:room]
        loaded[tier] = loaded.get(tier, 0) + len(mine)
        if mine:
            runs.append(mine)
        if database is not None and (changes := _index_changes(root, indexed, scanned, began)):
            save_changes(database, root, changes)
    for tier, ids in left_out.items():
        details = (tier, str(limits.skills), str(len(ids)), ids[0])
        visit.problems.append(problem_from(Finding("limit-skills", 0, details)))
    return ScanResult(LazySkills(runs), tuple(broken), tuple(visit.problems), tuple(visit.guards))


def _take_loadable(
    items: list[Skill | BrokenSkill] | IndexedSkills, broken: list[BrokenSkill]
) -> IndexedSkills | list[Skill]:
    """What loads, as it came; what does not is added to the broken."""
    if isinstance(items, IndexedSkills):
        broken += items.broken
        return items
    if set(map(type, items)) <= {Skill}:
        return items  # type: ignore[return-value]
    broken += [item for item in items if isinstance(item, BrokenSkill)]
    return [item for item in items if isinstance(item, Skill)]


def _index_changes(
    root: SkillRoot, indexed: IndexedSkills, scanned: RootScan, began: int
) -> dict[str, IndexEntry | None]:
    """What the index should learn, and forget, by folder."""
    if isinstance(scanned.items, IndexedSkills):
        return {}
    cut = len(root.origin.path) + 1
    present = {item.path[cut:].rpartition("/")[0] for item in scanned.items}
    before = set(indexed.folders)
    changes: dict[str, IndexEntry | None] = dict.fromkeys(before - present)
    for item in scanned.fresh:
        # A skill that names its own dialect has another origin, and its reading does not belong under this root's tag.
        if item.origin is root.origin and is_settled(item.key, began):
            folder = item.path[cut:].rpartition("/")[0]
            entry = make_entry(folder, item)
            if entry is not None or folder in before:
                changes[folder] = entry
    return changes
