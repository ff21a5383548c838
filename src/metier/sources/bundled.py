"""The skills that come with metier, copied once to where the user may edit or delete them."""

from __future__ import annotations

from json import dumps, loads
from typing import NamedTuple

from ..host import files, paths, state
from ..types.errors import HostError, MetierError

MANIFEST = "bundled.json"


class Copied(NamedTuple):
    """What one run of `init` did, by skill."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]
    """Edited by the user, or the user's own under the same name."""
    deleted: tuple[str, ...]
    """Deleted by the user, and so left deleted."""


def bundle() -> str:
    """The folder of the bundled skills in this installation."""
    return paths.package_folder() + "/bundled"


def bundled_paths(folder: str) -> frozenset[str]:
    """The SKILL.md files of skills that came with metier, edited or not."""
    return frozenset(f"{folder}/skills/{name}/SKILL.md" for name in _read(folder))


def _read(folder: str) -> dict[str, str]:
    """The manifest: each bundled skill that was copied, and the digest it had."""
    text = paths.read_text_file(f"{folder}/{MANIFEST}")
    if text is None:
        return {}
    try:
        found = loads(text)["skills"]
        return {str(name): str(digest) for name, digest in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HostError(f"{folder}/{MANIFEST} is damaged: {error}", "move it away and run `metier init`") from error


def was_copied(folder: str) -> bool:
    return paths.exists(f"{folder}/{MANIFEST}")


def copy_bundled(folder: str) -> Copied:
    """Copy what is new and bring unedited copies up to date; nothing of the user's is overwritten."""
    state.make_folder(folder)
    done: dict[str, list[str]] = {"added": [], "updated": [], "kept": [], "deleted": []}
    with state.locked(f"{folder}/.{MANIFEST}.lock"):
        manifest = _read(folder)
        state.make_folder(f"{folder}/skills")
        source = bundle()
        for name in paths.list_names(source).folders:
            target = f"{folder}/skills/{name}"
            state.mend_tree(target)
            before = dict(manifest)
            done[_one(f"{source}/{name}", target, name, manifest)].append(name)
            if manifest != before:  # at once: what is copied and not written down would pass for the user's own
                _write(folder, manifest)
        if not was_copied(folder):
            _write(folder, manifest)
    return Copied(*(tuple(done[key]) for key in Copied._fields))


def _write(folder: str, manifest: dict[str, str]) -> None:
    state.write_text(f"{folder}/{MANIFEST}", dumps({"skills": manifest}, indent=1, sort_keys=True) + "\n")


def _one(source: str, target: str, name: str, manifest: dict[str, str]) -> str:
    new = digest(source)
    there = paths.exists(target)
    if name not in manifest:
        if there and _digest_now(target) != new:
            return "kept"
        if not there:
            state.copy_tree(source, target)
        manifest[name] = new
        return "added"
    if not there:
        return "deleted"
    now = _digest_now(target)
    if now == new or now != manifest[name]:
        return "kept"
    state.copy_tree(source, target)
    manifest[name] = new
    return "updated"


def _digest_now(target: str) -> str:
    """The digest of the user's copy; nothing when it holds what ours never does or what can't be read."""
    try:
        return "" if _holds_more(target) else digest(target)
    except (MetierError, OSError):
        return ""


def _holds_more(folder: str) -> bool:
    """Whether there is anything that a digest passes over: a repository, or a folder without a file."""
    listed = paths.list_names(folder)
    folders = [name for name in listed.folders if name != "__pycache__"]
    if ".git" in folders or not (folders or listed.files or listed.links):
        return True
    return any(_holds_more(f"{folder}/{name}") for name in folders)


def digest(directory: str) -> str:
    """Every file of a folder, its mode and its bytes."""
    from hashlib import sha256  # slow to load, and every command imports this module

    found = sha256()
    for path, status in paths.tree_of(directory):
        _, data = files.read_skill_file(directory, path, 16_777_216)
        executable = "x" if status.st_mode & 0o100 else "-"
        found.update(f"{path}\0{executable}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
        found.update(data)
    return "sha256:" + found.hexdigest()
