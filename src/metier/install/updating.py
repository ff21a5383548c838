"""metier update: what upstream has now, merged with what was edited here, offered with its differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ..host import paths, swap
from ..host.writing import head_of
from ..types.errors import BadRequest, Refused
from ..types.installed import Entry, FileMark, Files, Inspected, Lock, Powers, Provenance, Reference, Rest
from . import place
from .adding import Target, Wish, entries_of, skill_places, target_of, within
from .compare import differences, marks_at
from .edits import edits_of
from .fetch import fetch
from .keeping import base_of, find, upstream
from .merge import diff, merge3, merged_mode, steps
from .outfit import Fetched, Outfit
from .place import Change, Ground, Staging
from .store import MOST, is_text, keep, kept

_MOST_DIFF = 2_000


class Proposal(NamedTuple):
    """An update that is ready, and waits for a yes."""

    folder: str
    target: Target
    theirs: Files
    """Upstream's own files, before anything of ours was merged in."""
    before: Files
    """What was there when it was merged: it must still be there when it is replaced."""
    old: Mapping[str, Entry]
    text: tuple[str, ...]
    """The differences of its texts."""
    wider: Mapping[str, Powers]
    """By skill: what it could not do before."""
    kept: tuple[str, ...] = ()
    """Files with edits of ours that stay."""


def reference_of(source: Provenance) -> Reference:
    """The reference that a folder came by."""
    if source.kind not in ("github", "git", "archive", "folder", "index"):
        raise BadRequest(f"it did not come from anywhere ({source.kind})", "edit it where it is")
    name = source.path.rpartition("/")[2] or source.source.rstrip("/").rpartition("/")[2].removesuffix(".git")
    path = "" if source.kind == "index" else source.path
    kind = source.kind
    return Reference(kind, source.source, source.source, path, source.ref, repo=name)  # type: ignore[arg-type]


def folders(lock: Lock, names: Sequence[str]) -> dict[str, Provenance]:
    """The installed folders that names mean, each with where it came from."""
    found = {name: rest.provenance for name, rest in lock.folders.items()}
    for entry in lock.skills.values():
        found.setdefault(entry.folder, entry.provenance)
    wanted = {folder for name in names for folder in _meant(lock, name)}
    return {name: one for name, one in sorted(found.items()) if (name in wanted if names else one.kind != "local")}


def _meant(lock: Lock, name: str) -> set[str]:
    if name in lock.folders or any(one.folder == name for one in lock.skills.values()):
        return {name}
    return {lock.skills[key].folder for key in find(lock, name)}


@contextmanager
def proposed(wish: Wish, folder: str, outfit: Outfit) -> Iterator[tuple[Staging, Proposal | None]]:
    """Everything up to the question; None when upstream has nothing new."""
    ground = wish.ground
    with place.staging(ground) as staging, place.turn(ground, [folder]):
        lock = place.read_lock(ground)
        old = {key: entry for key, entry in lock.skills.items() if entry.folder == folder}
        refuse_frozen(folder, old)
        source = folders(lock, [folder])[folder]
        fetched = again(source, staging, outfit)
        _refuse_rollback(folder, source, fetched.provenance, wish.force)
        if old and not skill_places(fetched.path):
            raise _no_skill(folder, source)
        theirs = swap.marks(fetched.path)
        base = fetched_before(lock, folder)
        if theirs == base:
            yield staging, None
            return
        yield staging, _merged(wish, folder, fetched, _Sides(base, _now(ground, folder, base), theirs), old)


def refuse_frozen(folder: str, entries: Mapping[str, Entry]) -> None:
    frozen = [key for key, entry in entries.items() if entry.frozen]
    if frozen:
        raise Refused(
            f"`{frozen[0]}` is frozen, and stays what it is",
            f"`metier freeze --off {frozen[0]}` lets it change; then update `{folder}`",
        )


def _no_skill(folder: str, source: Provenance) -> Refused:
    """Upstream without a skill is no update: what is here is all that is left of it."""
    where = f"{source.source} ({source.path})" if source.path else source.source
    return Refused(
        f"there is no SKILL.md in {where} any more",
        f"nothing was changed; keep `{folder}`, or `metier remove {folder}`",
    )


def again(source: Provenance, staging: Staging, outfit: Outfit) -> Fetched:
    """What a folder came from, fetched anew."""
    found = fetch(reference_of(source), staging.inner, outfit)
    if source.kind == "index":
        found = tuple(one for one in found if one.provenance.path == source.path)
        if not found:
            raise BadRequest(f"{source.source} no longer offers `{source.path}`", "keep it, or `metier remove` it")
    if source.path and source.kind in ("folder", "archive"):  # one skill that was chosen out of many
        path = f"{found[0].path}/{source.path}"
        if not paths.is_folder(path):
            raise BadRequest(f"{source.source} no longer has `{source.path}`", "keep it, or `metier remove` it")
        return found[0]._replace(path=path, provenance=replace(found[0].provenance, path=source.path))
    return found[0]


def _refuse_rollback(folder: str, before: Provenance, now: Provenance, force: bool) -> None:
    if now.commit != before.commit and now.committed < before.committed and not force:
        raise Refused(
            f"upstream of `{folder}` went back: {now.commit[:12]} was made before {before.commit[:12]}, which is here",
            "it was rewound; say --force if that is meant",
        )


def fetched_before(lock: Lock, folder: str) -> dict[str, FileMark]:
    """Upstream's files of a whole folder, as they were when it was last fetched."""
    found: dict[str, FileMark] = {}
    rest: Rest | None = lock.folders.get(folder)
    if rest is not None:
        found |= upstream(rest)
    for key, entry in lock.skills.items():
        if entry.folder == folder:
            inside = key[len(folder) + 1 :]
            found |= {f"{inside}/{path}" if inside else path: mark for path, mark in upstream(entry).items()}
    return found


def _now(ground: Ground, folder: str, base: Files) -> dict[str, FileMark]:
    """What is there now; modes that differ by a umask alone are taken for upstream's."""
    now = dict(marks_at(f"{ground.root}/{folder}"))
    odd = {path for path, _ in differences(base, now, ground.shared)}
    return {path: mark if path in odd or path not in base else base[path] for path, mark in now.items()}


class _Sides(NamedTuple):
    base: Files
    mine: Files
    theirs: Files


def _merged(wish: Wish, folder: str, fetched: Fetched, sides: _Sides, old: Mapping[str, Entry]) -> Proposal:
    """Upstream's folder with our edits in it: local files stay, texts that both changed become one."""
    here = f"{wish.ground.root}/{folder}"
    text = tuple(_text(wish.state, fetched.path, sides))
    keep(wish.state, fetched.path, sides.theirs)
    stays: list[str] = []
    clashes: list[str] = []
    for path, choice in steps(sides.base, sides.mine, sides.theirs):
        if choice == "mine":
            stays.append(path)
            _take_mine(here, fetched.path, path, sides.mine.get(path))
        elif choice == "merge" and _merge_file(wish.state, here, fetched.path, path, sides):
            stays.append(path)
        elif choice in ("merge", "clash") and not wish.force:
            clashes.append(path)
    if clashes:
        raise Refused(
            f"both you and upstream changed {', '.join(clashes[:10])} of `{folder}`",
            "make your edit elsewhere, or say --force to take upstream's; yours then goes to the trash",
        )
    target = target_of(wish, fetched, folder)
    wider = {}
    for one in target.skills:
        key = f"{folder}/{one.place}" if one.place else folder
        beyond = one.powers.beyond(old[key].powers if key in old else Powers())
        beyond = replace(beyond, scripts=(*beyond.scripts, *_changed(one, target.files, sides.mine)))
        if not beyond.nothing:
            wider[key] = beyond
    return Proposal(folder, target, sides.theirs, sides.mine, old, text, wider, tuple(stays))


def _changed(one: Inspected, files: Files, before: Files) -> Iterator[str]:
    """Where a skill runs anything, the files that would have other content than what was approved."""
    inside = f"{one.place}/" if one.place else ""
    if one.powers.commands or one.powers.scripts:
        for path, mark in sorted(files.items()):
            name = path.removeprefix(inside)
            if path.startswith(inside) and path in before and mark != before[path] and name.lower() != "skill.md":
                yield f"{name} (changed)"


def _take_mine(here: str, there: str, path: str, mark: FileMark | None) -> None:
    if mark is None:
        swap.remove_tree(f"{there}/{path}")
        swap.remove_empty(there, path.rpartition("/")[0])
    else:
        swap.copy_entry(f"{here}/{path}", f"{there}/{path}")


def _merge_file(state: str, here: str, there: str, path: str, sides: _Sides) -> bool:
    """One text that both changed; False when it can't be done."""
    old, mine, theirs = sides.base[path], sides.mine[path], sides.theirs[path]
    if "link" in (mine.mode, theirs.mode) or "special" in (mine.mode, theirs.mode):
        return False
    if mine.digest == theirs.digest or mine.digest == old.digest:
        data = head_of(f"{there}/{path}", 1 << 40)
    elif theirs.digest == old.digest:
        data = head_of(f"{here}/{path}", 1 << 40)
    else:
        versions = [kept(state, old.digest), head_of(f"{here}/{path}", MOST + 1), head_of(f"{there}/{path}", MOST + 1)]
        if any(one is None or len(one) > MOST or not is_text(one) for one in versions):
            return False
        merged = merge3(*(one.decode() for one in versions if one is not None))
        if merged is None:
            return False
        data = merged.encode()
    swap.put_bytes(f"{there}/{path}", data, int(merged_mode(old, mine, theirs), 8))
    return True


def _text(state: str, there: str, sides: _Sides) -> Iterator[str]:
    """What upstream changed, as differences of text; other files by a word."""
    lines = 0
    for path in sorted({*sides.base, *sides.theirs}):
        old, new = sides.base.get(path), sides.theirs.get(path)
        if old == new:
            continue
        before = b"" if old is None else kept(state, old.digest)
        after = b"" if new is None else head_of(f"{there}/{path}", MOST + 1)
        if before is None or len(after) > MOST or not is_text(before) or not is_text(after):
            yield f"{path}: {'added' if old is None else 'removed' if new is None else 'changed'}"
        else:
            for line in diff(path, before.decode(), after.decode()):
                lines += 1
                if lines <= _MOST_DIFF:
                    yield line
        if old is not None and new is not None and old.mode != new.mode:
            yield f"{path}: mode {old.mode} is now {new.mode}"
    if lines > _MOST_DIFF:
        yield f"… and {lines - _MOST_DIFF} lines more"


def accept(wish: Wish, staging: Staging, one: Proposal, approve: bool = True) -> Change:
    """Put an update in place of what was there, which goes to the trash."""
    now = _now(wish.ground, one.folder, fetched_before(place.read_lock(wish.ground), one.folder))
    if now != one.before:
        raise Refused(f"`{one.folder}` changed while it was being updated", "nothing was replaced; try again")
    change = entries_of(wish, one.target, approve, one.old)
    skills = {}
    for key, entry in change.skills.items():
        inside = key[len(one.folder) + 1 :]
        base = base_of(within(one.theirs, inside), entry.files)
        there = f"{one.target.path}/{inside}" if inside else one.target.path
        skills[key] = replace(entry, base=base, edits=edits_of(there, entry.files, base))
    rests = {}
    for name, rest in change.folders.items():
        mine = {path: mark for path, mark in one.theirs.items() if not _of_a_skill(path, one.target)}
        base = base_of(mine, rest.files)
        rests[name] = replace(rest, base=base, edits=edits_of(one.target.path, rest.files, base))
    change = replace(change, skills=skills, folders=rests, act="update")
    place.commit(staging, change, one.target.path)
    return change


def _of_a_skill(path: str, target: Target) -> bool:
    return any(not one.place or path.startswith(one.place + "/") for one in target.skills)
