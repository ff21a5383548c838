"""The locks of a library's roots: which installed skills may be used, and whether they are still what was approved.

Listing skills must not hash every installed file each time, so a note in the index remembers, for a folder that
matched its lock, a digest of its files' stat data.  As long as that is the same, nothing is read.  Before something
runs the files themselves are hashed, by `SkillVerifier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..host import paths, trees
from ..host.facts import now_ns
from ..host.fs import make_folder
from ..host.sqlite import IndexDatabase
from ..sources.bundled import is_unedited
from ..sources.roots import any_lock, receipts_path, roots_with_lock
from ..sources.scan import is_settled
from ..sources.skill_files import manifest_digest
from ..types.errors import Changed, HostError
from ..types.installed import FileManifest, LockEntry, Lockfile
from ..types.place import Place, SkillRoot
from ..types.problem import Finding
from ..types.skill import Skill
from . import lockfile
from .lockfile import InstallRoot
from .trust import is_skill_approved, run_digests

if TYPE_CHECKING:
    from .library import Library


_WRITE_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
_MAX_SEALED_BYTES = 64 << 20
"""Of one file of a skill that is copied."""
_MOST_SEALED, _SEALED_DAYS = 32, 1.0
_MAX_SKILL_BYTES = 256_000
"""Of a SKILL.md that is read to find its commands."""


class LockedSkills(NamedTuple):
    """The locks of a library's roots."""

    entries: Mapping[str, tuple[InstallRoot, LockEntry]]
    """By the path of the skill's folder."""
    unreadable: Mapping[str, str]
    """Roots whose lock can't be read, and why."""
    lost: Mapping[str, str] = {}
    """Folders of skills that were installed and have no entry, and the lock that should have it."""


def locks_beside_roots(roots: Sequence[SkillRoot], place: Place) -> LockedSkills | None:
    """The locks beside the roots; None, and nothing read, where no root has one."""
    folders = [root.origin.path for root in roots]
    if not any_lock(folders, place):
        return None
    locks = read_locks(locked_roots(folders, place))
    return locks._replace(lost=_lost_entries(folders, place, locks))


def _lost_entries(folders: Iterable[str], place: Place, locks: LockedSkills) -> dict[str, str]:
    """What was installed into these roots, or for the plugins, and is in no lock any more."""
    receipts = lockfile.read_receipts(receipts_path(place))
    lost: dict[str, str] = {}
    for root in dict.fromkeys((*folders, f"{place.state}/plugins")) if receipts else ():
        for key in receipts.get(paths.real_path(root), ()):
            if f"{root}/{key}" not in locks.entries and root not in locks.unreadable:
                lost[f"{root}/{key}"] = InstallRoot(root).lock
    return lost


def locked_roots(roots: Iterable[str], place: Place) -> Iterator[InstallRoot]:
    """The roots that have a lock."""
    for root in dict.fromkeys((*roots, f"{place.state}/plugins")):
        shared = paths.is_inside(root, place.project) and not paths.is_inside(root, place.state)
        install_root = InstallRoot(root, shared)
        if paths.exists(install_root.lock):
            yield install_root


def read_locks(install_roots: Iterable[InstallRoot]) -> LockedSkills:
    """Read locks.  A folder that is in place but not in the lock yet counts as what its journal record says."""
    entries: dict[str, tuple[InstallRoot, LockEntry]] = {}
    unreadable: dict[str, str] = {}
    for install_root in install_roots:
        try:
            # The journal before the lock: an entry that leaves the journal in between is in the lock by then.
            pending = lockfile.pending_entries(install_root)
            lock: Lockfile = lockfile.read_lock(install_root)
        except HostError as error:
            unreadable[install_root.root] = error.message
            continue
        for key, entry in {**lock.skills, **pending}.items():
            entries[f"{install_root.root}/{key}"] = (install_root, entry)
    return LockedSkills(entries, unreadable)


def lock_findings(
    skills: Iterable[Skill], locks: LockedSkills, database: IndexDatabase | None, is_approved: Callable[[Skill], bool]
) -> dict[str, Finding]:
    """The skills that may not be used, and why: never approved, changed since, or installed and in no lock.

    `is_approved` is asked about the last ones: a person may have approved them without the lock.
    """
    findings: dict[str, Finding] = {}
    notes = _read_lock_notes(database)
    fresh: list[tuple[str, str]] = []
    for skill in skills:
        fault = next((why for root, why in locks.unreadable.items() if paths.is_inside(skill.path, root)), None)
        if fault is not None:
            findings[skill.path] = Finding("lock-unreadable", 0, (fault,))
            continue
        if skill.directory in locks.lost and skill.origin.source != "project" and not is_approved(skill):
            findings[skill.path] = Finding("lock-missing", 0, (skill.name, locks.lost[skill.directory]))
        if skill.directory not in locks.entries:
            continue
        install_root, entry = locks.entries[skill.directory]
        finding = _lock_finding(skill, install_root, entry, notes, fresh)
        if finding is not None:
            findings[skill.path] = finding
    if database is not None and fresh:
        with database.change() as change:
            for note in fresh:
                change(_WRITE_NOTE, note)
    return findings


def _read_lock_notes(database: IndexDatabase | None) -> dict[str, str]:
    if database is None:
        return {}
    return dict(database.rows("SELECT key, value FROM notes WHERE key >= 'lock' AND key < 'locl'"))


def _lock_finding(
    skill: Skill, install_root: InstallRoot, entry: LockEntry, notes: Mapping[str, str], fresh: list[tuple[str, str]]
) -> Finding | None:
    name = skill.directory[len(install_root.root) + 1 :]
    # Of a project's skill the trust book decides: the lock's approval is somebody else's.
    if entry.approval is None and skill.origin.source != "project":
        return Finding("unapproved", 0, (name,))
    key, began = f"lock\0{skill.directory}", now_ns()
    try:
        stat_stamp, newest = trees.tree_stat_digest(skill.directory)
        stamp = f"{stat_stamp} {manifest_digest(entry.files)}"
        if notes.get(key) == stamp:
            return None
        manifest = lockfile.folder_manifest(skill.directory)
        differences = list(lockfile.compare_files(entry.files, manifest, install_root.shared))
    except (OSError, HostError) as error:
        return Finding("changed-since-approval", 0, (name, f"it can't be read: {error}"))
    if not differences:
        # A file written within the clock's resolution could change again without another time: no note for it.
        if is_settled((0, newest, newest, 0), began):
            fresh.append((key, stamp))
        return None
    # A frozen skill may not differ at all; any other only in what can't run.
    if entry.frozen:
        return Finding("changed-since-approval", 0, (name, f"{differences[0][0]} was {differences[0][1]}"))
    if _within_approval(skill, entry):
        return None
    return Finding(
        "changed-since-approval",
        0,
        (name, ", ".join(f"{path} was {difference}" for path, difference in differences[:3])),
    )


class SkillVerifier:
    """Checks one skill against its lock and, in a project, against what was trusted.

    A verifier serves one activation or one export: the folder is hashed at most once, however many commands run or
    files are read, and all of them are judged by the same look.
    """

    def __init__(self, library: Library, skill: Skill) -> None:
        self._library = library
        self._skill = skill

    def check(self, running: bool = False) -> None:
        """Refuse a frozen skill if any file differs, and name the file.

        `running` is for when something of the skill is about to run.  Then a skill that is not frozen is checked too:
        it must still be what was approved, and in a project what was trusted.
        """
        self._judge(self._skill, running)

    def sealed(self) -> str:
        """The folder to run the skill from: a copy that was checked itself; empty for a skill of the user's own.

        A check of the skill's folder says what was there a moment ago.  The copy is judged in its place, and nothing
        that runs here can reach it.
        """
        if self._skill.origin.source != "project" and not self._entries:
            return ""
        return self._sealed

    @cached_property
    def _sealed(self) -> str:
        skill, store = self._skill, f"{self._library.place.state}/sealed"
        name = skill.directory.rpartition("/")[2]
        known = f"{store}/{manifest_digest(self._files).removeprefix('sha256:')}"
        sealed = f"{known}/{name}"
        if not paths.is_folder(sealed):
            make_folder(store)
            with trees.temporary_folder_in(store) as staged:
                try:
                    trees.copy_marked_files(skill.directory, f"{staged}/{name}", self._files, _MAX_SEALED_BYTES)
                    trees.seal_folder(f"{staged}/{name}", sealed)
                except OSError as error:
                    message = f"`{skill.name}` changed while it was read: {error}"
                    raise Changed(message, "try again", skill.directory) from error
            trees.remove_older(store, _SEALED_DAYS, _MOST_SEALED)
        # A copy holds what its name says, so the look at the skill's folder was a look at it.
        self._judge(skill._replace(path=f"{sealed}/{skill.path.rpartition('/')[2]}"), True)
        trees.touch_file(known)
        return sealed

    def _judge(self, looked_at: Skill, running: bool) -> None:
        """Check files of this skill: in its own folder, or in a copy of it."""
        library, skill = self._library, self._skill
        if running and skill.origin.source == "project" and not self._is_trusted(looked_at):
            raise Changed(
                f"`{skill.name}` is not what was trusted: what it runs or is granted has changed",
                f"review it, then run `metier trust {library.place.project}`",
                skill.directory,
            )
        for install_root, entry in self._entries:
            if not (entry.frozen or running):
                continue
            differences = list(lockfile.compare_files(entry.files, self._files, install_root.shared))
            if differences and (entry.frozen or not _within_approval(looked_at, entry)):
                raise _changed_error(skill, entry, *differences[0])

    @cached_property
    def _entries(self) -> list[tuple[InstallRoot, LockEntry]]:
        """The lock entries for this skill.  An unreadable lock is an error: it may forbid what would be used."""
        library, skill = self._library, self._skill
        entries = []
        for install_root in locked_roots(roots_with_lock(skill, library.place), library.place):
            locks = read_locks([install_root])
            if locks.unreadable:
                raise HostError(
                    locks.unreadable[install_root.root], "repair the lock; until then no skill of this root is used"
                )
            if skill.directory in locks.entries:
                entries.append(locks.entries[skill.directory])
        if not entries and _is_lost(library, skill):
            raise Changed(
                f"`{skill.name}` was installed, and its lock has no entry for it any more",
                f"restore {skill.origin.path}-lock.json, or review the skill and run `metier approve {skill.name}`",
                skill.directory,
            )
        return entries

    @cached_property
    def _files(self) -> FileManifest:
        return lockfile.folder_manifest(self._skill.directory)

    def _is_trusted(self, looked_at: Skill) -> bool:
        from .settings import read_trust_record
        from .trust import trust_findings

        place = self._library.place
        record = read_trust_record(place)
        return not trust_findings([self._skill], place, record, self._library.limits, looked_at)


class SkillBaseline:
    """The skills as they were when a conversation began: what runs is what was there, or what a person agreed to.

    An agent that could make a skill, or change one, while it works would run what nobody has seen.  Looking at every
    skill when a conversation begins would be slow, so the kernel's times say what changed since, and what a skill ran
    is kept when it is first used.
    """

    def __init__(self, began: int) -> None:
        self.began = began
        self._known: dict[str, frozenset[str]] = {}

    def covers(self, library: Library, skill: Skill) -> bool:
        """Whether everything that the skill runs and asks for was there, or a person agreed to it since."""
        limit = library.limits.file_bytes
        try:
            if trees.newest_change(skill.directory, skill.origin.path) <= self.began:
                if skill.path not in self._known:
                    self._known[skill.path] = run_digests(skill, limit)
                return True
        except OSError:
            return False
        # It changed: prose may, and then nothing that runs is new.
        if skill.path in self._known and run_digests(skill, limit) <= self._known[skill.path]:
            return True
        return has_agreement(library, skill)

    def check(self, library: Library, skill: Skill) -> None:
        """Refuse to run anything of a skill that appeared or changed meanwhile."""
        if not self.covers(library, skill):
            raise Changed(
                f"`{skill.name}` appeared or changed while the agent was at work, and nobody has approved it since",
                f"review it, then run `metier approve {skill.name}`",
                skill.directory,
            )


def verify_installed(library: Library, skill: Skill, running: bool = False) -> None:
    """Check a skill once, as `SkillVerifier.check` does."""
    SkillVerifier(library, skill).check(running)


def _changed_error(skill: Skill, entry: LockEntry, path: str, difference: str) -> Changed:
    state = "frozen" if entry.frozen else "approved as it was"
    restore = "`metier sync --force`" if entry.frozen else "`metier sync --force` or `metier rollback`"
    return Changed(
        f"`{skill.name}` is {state}, and {path} was {difference}",
        f"{restore} restores it; `metier approve` accepts it as it is",
        f"{skill.directory}/{path}",
    )


def has_agreement(library: Library, skill: Skill) -> bool:
    """Whether a person agreed to what this skill runs and asks for as it is now; what ships with metier counts too."""
    place = library.place
    if skill.origin.source == "project":
        return skill.path not in library.untrusted
    # Whoever schedules a skill agrees to it as it is: what runs is that copy, checked by digest each time.
    if paths.is_inside(skill.directory, f"{place.state}/pinned"):
        return True
    if skill.path in library.bundled and is_unedited(place.state, skill.id):
        return True
    for install_root in locked_roots(roots_with_lock(skill, place), place):
        # A lock that lies elsewhere may have come with a repository: only the book says what a person here approved.
        if paths.is_inside(install_root.lock, place.state):
            entry = read_locks([install_root]).entries.get(skill.directory)
            if entry is not None and _within_approval(skill, entry[1]):
                return True
    return is_skill_approved(place.state, skill, library.limits.file_bytes)


def _within_approval(skill: Skill, entry: LockEntry) -> bool:
    """Whether everything that can run in it was approved, whatever its prose says; in a project trust decides."""
    if skill.origin.source == "project":
        return True
    return entry.approval is not None and run_digests(skill, _MAX_SKILL_BYTES, beside=False) <= frozenset(
        entry.approval.runs
    )


def _is_lost(library: Library, skill: Skill) -> bool:
    """Whether a skill was installed, is in no lock, and nobody approved it without one."""
    if skill.origin.source == "project" or not _has_receipt(library, skill):
        return False
    return not is_skill_approved(library.place.state, skill, library.limits.file_bytes)


def _has_receipt(library: Library, skill: Skill) -> bool:
    receipts = lockfile.read_receipts(receipts_path(library.place))
    folder = paths.real_path(skill.directory)
    return any(folder == f"{root}/{key}" for root, keys in receipts.items() for key in keys)


def was_installed(library: Library, skill: Skill) -> bool:
    """Whether a skill was installed, and so written by others, wherever it lies."""
    if _has_receipt(library, skill):
        return True
    # A local entry is a skill of the user's own that was frozen, not one that was installed.
    for install_root in locked_roots(roots_with_lock(skill, library.place), library.place):
        entry = read_locks([install_root]).entries.get(skill.directory)
        if entry is not None and entry[1].provenance.kind != "local":
            return True
    return False


def source_uri(library: Library, path: str) -> str:
    """Where the skill of a file comes from: what it was installed from, or the file, with the home shortened."""
    folder = path.rpartition("/")[0]
    skill = next((skill for skill in library.skills if skill.directory == folder), None)
    for install_root in locked_roots(roots_with_lock(skill, library.place), library.place) if skill else ():
        entry = read_locks([install_root]).entries.get(folder)
        if entry is not None and entry[1].provenance.kind != "local":
            return entry[1].provenance.source
    # A user's name is nobody's business who only reads traces.
    home = library.place.home
    return f"file:~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else f"file://{path}"
