"""The history of skills: every change of one is a commit, with what led to it, in a repository beside the skills."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from json import dumps, loads
from typing import Any, NamedTuple

from ..host import repository as git
from ..host.clock import day_of, now_ns
from ..host.repository import Leaf, Repository, Step
from ..types.errors import BadRequest
from ..types.text import one_line, seen, shortened

_MOST_EVIDENCE = 20_000
_ABOUT = "about.json"
_LINK = 0o120000
_rev = re.compile(r"[0-9a-f]{4,40}|HEAD(~[0-9]{1,6})?").fullmatch
_unsafe = re.compile(r"[%/\\\x00-\x1f\x7f]")
_spelt = re.compile(r"%([0-9A-F]{2})")


class Change(NamedTuple):
    """What is to be kept: a skill as its folder is now; where that is gone, so is the skill."""

    act: str
    """add, update, improve, edit, trash, rollback…"""
    name: str
    """The skill's place in its root."""
    folder: str
    evidence: str = ""
    """What led to it, for a person to read.  Never interpreted."""
    run: str = ""
    """The run that it came from."""
    lock: str = ""
    """What the lock says of it, as JSON."""


class Version(NamedTuple):
    rev: str
    act: str
    name: str
    at: str
    """As `2026-08-01T09:30:00Z`."""
    subject: str
    evidence: str
    run: str


class Line(NamedTuple):
    """A line of a skill, and the version that it came from."""

    text: str
    version: Version


def repository_of(state: str, root: str) -> str:
    """Where the history of a root's skills lies: in metier's own folder, never among the skills."""
    known = {f"{state}/skills": "skills", f"{state}/plugins": "plugins", f"{state}/scheduler": "scheduler"}
    name = known.get(root) or f"root-{sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    return f"{state}/history/{name}.git"


def record(repository: str, change: Change) -> Version | None:
    """Keep a skill as it is now; None when nothing changed.  Any number of processes may do so at once."""
    with git.writing(repository) as one:
        head = git.head(one)
        place = _place(change.name)
        before = git.tree(one, head, place) if head else {}
        found = git.looked(change.folder)
        leaves = {} if found is None else _leaves(one, change, found, before)
        if leaves == before:
            return None
        at = now_ns() // 1_000_000_000
        message = _message(change, day_of(at).replace("-", "")[:8])
        return _version(git.commit(one, head, Step(place, before, leaves), message, at), at, message)


def _leaves(
    one: Repository, change: Change, found: Mapping[str, git.Seen], before: Mapping[str, Leaf]
) -> dict[str, Leaf]:
    """The skill as the repository will have it.  Bytes that it has already are not written again."""
    known = {leaf.oid for leaf in before.values()}
    odd = {path: f"{here.permissions:o}" for path, here in sorted(found.items()) if not _usual(here)}
    lock = loads(change.lock) if change.lock else None
    about = dumps({"modes": odd, "lock": lock}, indent=1, sort_keys=True).encode()
    fresh = [path for path, here in found.items() if here.leaf.oid not in known]
    kept = git.keep(one, change.folder, fresh, about if git.oid_of(about) not in known else None)
    leaves = {
        f"files/{_spelled_path(path)}": Leaf(here.leaf.mode, kept.get(path, here.leaf.oid))
        for path, here in found.items()
    }
    return {**leaves, _ABOUT: Leaf("100644", git.oid_of(about))}


def _usual(here: git.Seen) -> bool:
    """Whether a tree's mode says all there is to say."""
    return here.leaf.mode == "120000" or here.permissions == int(here.leaf.mode, 8) & 0o777


def _message(change: Change, day: str) -> str:
    """The subject; then what a program reads, a fixed number of lines; then the evidence, which none does."""
    subject = f"{change.act}_{one_line(change.name)}_{day}"
    evidence = shortened(seen(change.evidence).strip(), _MOST_EVIDENCE)
    head = f"Act: {_spelled(change.act)}\nName: {_spelled(change.name)}\nRun: {_spelled(change.run)}"
    return f"{subject}\n\n{head}\n" + (f"\n{evidence}\n" if evidence else "")


def _version(rev: str, at: int, message: str) -> Version:
    subject, _, rest = message.partition("\n\n")
    head, _, evidence = rest.partition("\n\n")
    said = dict(line.partition(": ")[::2] for line in head.splitlines()[:3])
    act, name, run = (_unspelled(said.get(key, "")) for key in ("Act", "Name", "Run"))
    return Version(rev, act, name, day_of(at), subject, evidence.strip("\n"), run)


def versions(repository: str, name: str = "", limit: int = 50) -> tuple[Version, ...]:
    """The changes of a skill, or of all of them, the newest first."""
    return _versions(repository, limit, _place(name) if name else "")


def since(repository: str, rev: str) -> tuple[Version, ...]:
    """What came after a version, the newest first."""
    return _versions(repository, 1_000_000, "", _commit(repository, rev))


def _versions(repository: str, limit: int, prefix: str = "", after: str = "") -> tuple[Version, ...]:
    if not _begun(repository):
        return ()
    return tuple(_version(*found) for found in git.log(Repository(repository), limit, prefix, after))


def _begun(repository: str) -> bool:
    return git.is_made(repository) and bool(git.head(Repository(repository)))


def names(repository: str) -> tuple[str, ...]:
    """The skills that are there, as far as the history knows."""
    if not _begun(repository):
        return ()
    one = Repository(repository)
    return tuple(_unspelled(name) for name in git.names(one, git.head(one), "skills"))


def version(repository: str, rev: str) -> Version:
    """The version that a few hexadecimal digits mean, or `HEAD` and so many before it."""
    found = _commit(repository, rev)
    return next(_version(*one) for one in git.log(Repository(repository), 1, rev=found))


def has(repository: str, rev: str) -> bool:
    return bool(_resolved(repository, rev))


def _resolved(repository: str, rev: str) -> str:
    return git.resolved(Repository(repository), rev) if _rev(rev) and _begun(repository) else ""


def _commit(repository: str, rev: str) -> str:
    found = _resolved(repository, rev)
    if not found:
        raise BadRequest(f"the history has no version `{one_line(rev)}`", "run `metier history` to see what it has")
    return found


def files(repository: str, name: str, rev: str) -> dict[str, tuple[int, bytes]]:
    """A skill as it was: the mode and the bytes of every file; of a link, where it led.  Empty where it was not."""
    one, commit = Repository(repository), _commit(repository, rev)
    leaves = git.tree(one, commit, _place(name))
    modes = _about(one, leaves)["modes"]
    paths = {path: leaf for path, leaf in leaves.items() if path != _ABOUT}
    found = {}
    for (path, leaf), data in zip(paths.items(), git.read(one, [leaf.oid for leaf in paths.values()]), strict=True):
        plain = _unspelled_path(path.removeprefix("files/"))
        found[plain] = (_mode(leaf, modes.get(plain)), data)
    return found


def _mode(leaf: Leaf, said: object) -> int:
    if leaf.mode == "120000":
        return _LINK
    return int(said, 8) if isinstance(said, str) else int(leaf.mode, 8) & 0o777


def lock(repository: str, name: str, rev: str) -> str:
    """What the lock said of a skill then, as JSON; empty where it had no entry."""
    one, commit = Repository(repository), _commit(repository, rev)
    said = _about(one, git.tree(one, commit, _place(name)))["lock"]
    return dumps(said) if said else ""


def _about(one: Repository, leaves: Mapping[str, Leaf]) -> dict[str, Any]:
    if _ABOUT not in leaves:
        return {"modes": {}, "lock": None}
    found: dict[str, Any] = loads(git.read(one, [leaves[_ABOUT].oid])[0])
    return found


def difference(repository: str, name: str, rev: str, to: str = "") -> str:
    """What changed in a skill from a version to another, or to the newest, as text."""
    one = Repository(repository)
    old, new = _commit(repository, rev), _commit(repository, to) if to else git.head(one)
    place = f"{_place(name)}/files"
    trees = [f"{commit}:{place}" if git.tree(one, commit, place) else git.NOTHING for commit in (old, new)]
    return git.difference(one, *trees) + "".join(_remoded(repository, name, old, new))


def _remoded(repository: str, name: str, old: str, new: str) -> list[str]:
    """The modes that trees can't tell apart."""
    one = Repository(repository)
    before, after = (_about(one, git.tree(one, commit, _place(name)))["modes"] for commit in (old, new))
    usual = "as usual"
    return [
        f"{path}: mode {before.get(path, usual)} is now {after.get(path, usual)}\n"
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def blame(repository: str, name: str, path: str = "SKILL.md") -> tuple[Line, ...]:
    """Each line of a skill's file, and the version that it came from."""
    if not _begun(repository):
        return ()
    one = Repository(repository)
    head, inside = git.head(one), f"files/{_spelled_path(path)}"
    if inside not in git.tree(one, head, _place(name)):
        return ()
    lines = git.blame(one, head, f"{_place(name)}/{inside}")
    known = {found.rev: found for found in versions(repository, name, 1_000_000)}
    return tuple(Line(text, known[rev]) for rev, text in lines)


# --- Names as git may have them ---


def _place(name: str) -> str:
    return f"skills/{_spelled(name)}"


def _spelled(text: str) -> str:
    """A name as one step of a path.  What git gives a meaning to (`.git`, `.gitattributes`…) is spelled otherwise."""
    spelled = _unsafe.sub(lambda found: f"%{ord(found[0]):02X}", text)
    plain = "".join(character for character in spelled if "!" <= character <= "~").lower()
    special = plain.startswith((".git", "git~")) or (plain.startswith("gi") and "~" in plain)
    return f"%.{spelled}" if special or plain in (".", "..") else spelled


def _unspelled(text: str) -> str:
    return _spelt.sub(lambda found: chr(int(found[1], 16)), text.removeprefix("%."))


def _spelled_path(path: str) -> str:
    return "/".join(_spelled(part) for part in path.split("/"))


def _unspelled_path(path: str) -> str:
    return "/".join(_unspelled(part) for part in path.split("/"))
