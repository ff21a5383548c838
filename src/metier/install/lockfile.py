"""The lock of a root as text, and back.  What can't be read is refused; nothing is ever reset."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Any, NamedTuple

from ..types.installed import Approval, Entry, FileMark, Files, Lock, Powers, Provenance, Rest

VERSION = 1
_octal = re.compile("[0-7]{1,4}").fullmatch


class BadLock(ValueError):
    """A lock that can't be read; the argument says why."""


def tree_digest(files: Files) -> str:
    """One digest for a folder: every path, mode and content, each with its length before it."""
    found = sha256()
    for path, mark in sorted(files.items()):
        for part in (path, mark.mode, mark.digest):
            data = part.encode("utf-8", "surrogateescape")
            found.update(f"{len(data)}:".encode() + data)
    return "sha256:" + found.hexdigest()


def written(lock: Lock) -> str:
    """Sorted, one value to a line where a person reads it, and a line break at the end."""
    tree = {
        "lockVersion": VERSION,
        "skills": {place: skill_tree(entry) for place, entry in sorted(lock.skills.items())},
        "folders": {name: rest_tree(rest) for name, rest in sorted(lock.folders.items())},
    }
    return json.dumps(tree, indent=1, ensure_ascii=True) + "\n"


def skill_tree(entry: Entry) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "name": entry.name,
        "folder": entry.folder,
        "source": _source_tree(entry.provenance),
        "digest": tree_digest(entry.files),
        "files": _files_tree(entry.files),
        "capabilities": {key: list(value) for key, value in entry.powers.named().items()},
        "findings": list(entry.findings),
        "approved": None,
    }
    tree |= _local_tree(entry)
    if entry.approval is not None:
        one = entry.approval
        tree["approved"] = {"by": one.by, "at": one.at, "digest": one.digest, "runs": list(one.runs)}
    if entry.frozen:
        tree["frozen"] = True
    if entry.previous:
        tree["previous"] = entry.previous
    return tree


def rest_tree(rest: Rest) -> dict[str, Any]:
    tree: dict[str, Any] = {"source": _source_tree(rest.provenance), "files": _files_tree(rest.files)}
    return tree | _local_tree(rest)


def _local_tree(entry: Entry | Rest) -> dict[str, Any]:
    """What is not as upstream has it: upstream's mark of each file, and our own text line by line."""
    tree: dict[str, Any] = {}
    if entry.base:
        tree["base"] = _files_tree(entry.base)
    if entry.edits:
        tree["edits"] = {path: text.splitlines(keepends=True) for path, text in sorted(entry.edits.items())}
    return tree


def _source_tree(source: Provenance) -> dict[str, Any]:
    return {one.name: value for one in fields(source) if (value := getattr(source, one.name))}


def _files_tree(files: Mapping[str, FileMark | None]) -> dict[str, Any]:
    return {path: None if mark is None else list(mark) for path, mark in sorted(files.items())}


def read(text: str) -> Lock:
    """What a lock says; BadLock when any of it is not as it should be."""
    tree = _json(text)
    if tree.get("lockVersion") != VERSION:
        what = tree.get("lockVersion", tree.get("version"))
        raise BadLock(f"its version is {what!r}; this metier reads {VERSION}")
    try:
        return Lock(
            {_inside(place): read_skill(one) for place, one in tree["skills"].items()},
            {_inside(name): read_rest(one) for name, one in tree.get("folders", {}).items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadLock(f"it lacks something: {error}") from error


def _json(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadLock(str(error) or "it is nested too deeply") from error
    if not isinstance(tree, dict):
        raise BadLock("it is not a JSON object")
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [key for key, _ in pairs]
        raise BadLock(f"`{next(key for key in names if names.count(key) > 1)[:80]}` is there twice")
    return tree


def read_skill(tree: Mapping[str, Any]) -> Entry:
    approved = tree.get("approved")
    files = _read_files(tree["files"])
    approval = None
    if approved is not None:
        runs = tuple(map(str, approved.get("runs", ())))
        approval = Approval(str(approved["digest"]), str(approved["at"]), str(approved["by"]), runs)
    if tree["digest"] != tree_digest(files):
        raise BadLock(f"the digest of `{tree['name']}` is not that of its files")
    return Entry(
        str(tree["name"]), _inside(tree["folder"]), _read_source(tree["source"]),
        files, _read_base(tree.get("base", {})),
        Powers(**{key: tuple(map(str, tree["capabilities"].get(key, ()))) for key in Powers().named()}),
        tuple(map(str, tree.get("findings", ()))), approval, tree.get("frozen") is True, str(tree.get("previous", "")),
        _read_edits(tree.get("edits", {}), files),
    )  # fmt: skip


def read_rest(tree: Mapping[str, Any]) -> Rest:
    files = _read_files(tree["files"])
    edits = _read_edits(tree.get("edits", {}), files)
    return Rest(_read_source(tree["source"]), files, _read_base(tree.get("base", {})), edits)


def _read_source(tree: Mapping[str, Any]) -> Provenance:
    known = {one.name for one in fields(Provenance)}
    values = {key: value for key, value in tree.items() if key in known}
    if not all(isinstance(value, int if key == "committed" else str) for key, value in values.items()):
        raise ValueError("a source is not as it should be")
    return Provenance(**values)


def _read_files(tree: Mapping[str, Any]) -> dict[str, FileMark]:
    return {_inside(path): _read_mark(one) for path, one in tree.items()}


def _read_base(tree: Mapping[str, Any]) -> dict[str, FileMark | None]:
    return {_inside(path): None if one is None else _read_mark(one) for path, one in tree.items()}


def _read_mark(one: Any) -> FileMark:
    digest, mode = map(str, one)
    if mode not in ("link", "special") and not _octal(mode):
        raise ValueError(f"`{mode[:80]}` is no mode")
    return FileMark(digest, mode)


def _inside(path: Any) -> str:
    """A path that leads nowhere else: a lock may come from somebody else, and what it names is written and removed."""
    if not isinstance(path, str) or path.startswith("/") or not {"", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"`{str(path)[:80]}` is no path inside a folder")
    return path


def _read_edits(tree: Mapping[str, Any], files: Files) -> dict[str, str]:
    if not set(tree) <= set(files):
        raise ValueError("`edits` names a file that `files` does not")
    return {path: "".join(lines) for path, lines in tree.items()}


class Foreign(NamedTuple):
    """A skill as another program's lock has it."""

    name: str
    spec: str
    """What `metier add` takes."""
    digest: str = ""
    """That program's own hash of the folder, where it has one."""


def read_foreign(text: str) -> tuple[Foreign, ...]:
    """The skills that `npx skills` wrote down, in its project lock or its global one."""
    tree = _json(text)
    skills = tree.get("skills")
    if "lockVersion" in tree or not isinstance(tree.get("version"), int) or not isinstance(skills, dict):
        raise BadLock("it is not a lock of `npx skills`")
    found = []
    for name, one in sorted(skills.items()):
        if isinstance(one, dict) and isinstance(one.get("source"), str):
            found.append(Foreign(str(name), _foreign_spec(one), str(one.get("computedHash", ""))))
    return tuple(found)


def _foreign_spec(one: Mapping[str, Any]) -> str:
    source, ref = str(one["source"]), str(one.get("ref") or "")
    path = str(one.get("skillPath") or "").removesuffix("SKILL.md").strip("/")
    if one.get("sourceType") == "local" and not source.startswith(("/", ".", "~")):
        source = "./" + source
    if one.get("sourceType") != "github" or source.count("/") != 1:
        return source
    return source + (f"/{path}" if path else "") + (f"@{ref}" if ref else "")


def foreign_digest(contents: Mapping[str, bytes]) -> str:
    """The hash that `npx skills` gives a folder: each path and its bytes, in the order of their names."""
    found = sha256()
    for path in sorted(contents, key=lambda path: (path.lower(), path)):
        found.update(path.encode() + contents[path])
    return found.hexdigest()
