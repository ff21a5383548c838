"""The skills that come with metier, copied once to where the user may edit or delete them.

A manifest remembers the digest of each copy.  A copy that still has it is updated with metier; one that was edited is
the user's and stays; one that was deleted stays deleted.
"""

from __future__ import annotations

from ..host import fs, paths
from ..light_typing import NamedTuple
from ..types.errors import HostError, MetierError

MANIFEST = "bundled.json"


class BundledCopyReport(NamedTuple):
    """What one run of `init` did, by skill."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]
    """Edited by the user, or the user's own under the same name."""
    deleted: tuple[str, ...]
    """Deleted by the user, and so left deleted."""


def bundled_folder() -> str:
    """The folder of the bundled skills in this installation."""
    return paths.package_folder() + "/bundled"


def bundled_paths(folder: str) -> frozenset[str]:
    """The SKILL.md files of skills that came with metier, edited or not."""
    return frozenset(f"{folder}/skills/{name}/SKILL.md" for name in _read_manifest(folder))


def _read_manifest(folder: str) -> dict[str, str]:
    """The manifest: each bundled skill that was copied, and the digest it had."""
    text = paths.read_text_file(f"{folder}/{MANIFEST}")
    if text is None:
        return {}
    from json import loads  # here, because every command imports this module and few have a manifest to read

    try:
        digests = loads(text)["skills"]
        return {str(name): str(digest) for name, digest in digests.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HostError(f"{folder}/{MANIFEST} is damaged: {error}", "move it away and run `metier init`") from error


def is_unedited(folder: str, name: str) -> bool:
    """Whether a copy of a bundled skill is still the one that metier made."""
    digest = _read_manifest(folder).get(name)
    return digest is not None and _current_digest(f"{folder}/skills/{name}") == digest


def was_copied(folder: str) -> bool:
    return paths.exists(f"{folder}/{MANIFEST}")


def copy_bundled(folder: str) -> BundledCopyReport:
    """Copy new skills and update unedited copies; nothing of the user's is overwritten."""
    fs.make_folder(folder)
    outcomes: dict[str, list[str]] = {"added": [], "updated": [], "kept": [], "deleted": []}
    with fs.hold_lock(f"{folder}/.{MANIFEST}.lock"):
        manifest = _read_manifest(folder)
        fs.make_folder(f"{folder}/skills")
        source = bundled_folder()
        for name in paths.list_names(source).folders:
            target = f"{folder}/skills/{name}"
            fs.recover_copy(target)
            before = dict(manifest)
            outcomes[_copy_skill(f"{source}/{name}", target, name, manifest)].append(name)
            if manifest != before:  # at once: an unrecorded copy would count as the user's own
                _write_manifest(folder, manifest)
        if not was_copied(folder):
            _write_manifest(folder, manifest)
    return BundledCopyReport(*(tuple(outcomes[key]) for key in BundledCopyReport._fields))


def _write_manifest(folder: str, manifest: dict[str, str]) -> None:
    from json import dumps

    fs.write_text(f"{folder}/{MANIFEST}", dumps({"skills": manifest}, indent=1, sort_keys=True) + "\n")


def _copy_skill(source: str, target: str, name: str, manifest: dict[str, str]) -> str:
    # Here and not above: every command asks which skills are bundled, and only `init` digests them.
    from .skill_files import folder_digest

    new = folder_digest(source)
    present = paths.exists(target)
    if name not in manifest:
        # A folder of that name that we did not copy is the user's, unless it is the same to the byte.
        if present and _current_digest(target) != new:
            return "kept"
        if not present:
            fs.copy_tree(source, target)
        manifest[name] = new
        return "added"
    if not present:
        return "deleted"
    # Edited since it was copied (its digest is not the recorded one), or current already.
    now = _current_digest(target)
    if now == new or now != manifest[name]:
        return "kept"
    fs.copy_tree(source, target)
    manifest[name] = new
    return "updated"


def _current_digest(target: str) -> str:
    """The digest of the user's copy; empty when it can't be read or contains what a bundled skill never does."""
    from .skill_files import folder_digest

    try:
        return "" if _holds_undigested(target) else folder_digest(target)
    except (MetierError, OSError):
        return ""


def _holds_undigested(folder: str) -> bool:
    """Whether there is anything that a digest ignores: a repository, or a folder without a file."""
    listed = paths.list_names(folder)
    folders = [name for name in listed.folders if name != "__pycache__"]
    if ".git" in folders or not (folders or listed.files or listed.links):
        return True
    return any(_holds_undigested(f"{folder}/{name}") for name in folders)
