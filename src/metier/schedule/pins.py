"""What metier keeps for a scheduled skill: its pinned copy, the folder of its session, and the trash.

A pin is a copy of every file in the database, named by a digest.  The digest alone would detect a change, but workers
of other homes have no folder to run, and `on_change = "run-pinned"` needs the old files.  The copy is checked against
its digest whenever it is unpacked, so neither the database nor the unpacked folder has to be trusted.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress
from json import dumps, loads
from typing import TYPE_CHECKING, NamedTuple

from ..host import facts, files, fs, paths, trees
from ..record import history
from ..sources.skill_files import SkillFile, SkillFiles
from ..types.errors import Changed, MetierError, Refused, Unloadable
from ..types.place import Place

if TYPE_CHECKING:
    from os import stat_result

_MOST_PINNED_BYTES = 8_000_000
"""A copy is one value in the database, and read whole."""


class PinnedCopy(NamedTuple):
    """A copy of a skill: its digest, and every file of it as JSON."""

    digest: str
    files: str


def pin_folder(folder: str) -> PinnedCopy:
    """Copy a folder as it is now."""
    contents: dict[str, SkillFile] = {}
    total = 0
    for path, status in _whole_tree(folder):
        try:
            _, data = files.read_skill_file(folder, path, _MOST_PINNED_BYTES)
        except OSError as error:
            raise Unloadable(f"can't read {folder}/{path}: {error.strerror or 'too large'}", "", folder) from error
        total += len(data)
        if total > _MOST_PINNED_BYTES:
            raise Refused(
                f"{folder} is too large to schedule",
                f"a scheduled skill can have at most {_MOST_PINNED_BYTES} bytes",
                folder,
            )
        contents[path] = SkillFile(status.st_mode & 0o777, data)
    skill_files = SkillFiles(contents)
    return PinnedCopy(skill_files.digest, _dump_files(skill_files))


def _whole_tree(folder: str) -> list[tuple[str, stat_result]]:
    """Every file of a folder.  One that can't be listed whole is an error: a part has the digest of another skill."""
    try:
        return paths.tree_of(folder, whole=True)
    except OSError as error:
        raise Unloadable(f"can't read {folder}: {error.strerror}", "", folder) from error


def _dump_files(skill_files: SkillFiles) -> str:
    """Files as the database stores them: of the mode only whether a file may be run."""
    stored = {path: [file.executable, b64encode(file.data).decode("ascii")] for path, file in skill_files.items()}
    return dumps(stored, sort_keys=True)


def _load_files(text: str) -> SkillFiles:
    stored = loads(text)
    return SkillFiles(
        {
            path: SkillFile(0o755 if executable else 0o644, b64decode(data))
            for path, (executable, data) in stored.items()
        }
    )


def unpack_pin(place: Place, pinned: PinnedCopy) -> str:
    """Unpack a pinned copy unless it is there; its folder, checked against the digest."""
    target = f"{place.state}/pinned/{pinned.digest.removeprefix('sha256:')}"
    skill_files = _load_files(pinned.files)
    if skill_files.digest != pinned.digest:
        raise Changed("the pinned copy of a skill does not match its digest", "remove the schedule and add it again")
    if paths.exists(target):
        if pin_folder(target).digest == pinned.digest:
            return target
        trees.remove_tree(target)
    # Filled elsewhere and then copied: a crash must not leave half a skill under the name of its digest.
    with trees.temporary_folder() as scratch_folder:
        trees.fill_folder(f"{scratch_folder}/skill", {path: file.data for path, file in skill_files.items()})
        for path, file in skill_files.items():
            if file.executable:
                trees.make_executable(trees.path_inside(f"{scratch_folder}/skill", path))
        fs.make_folder(f"{place.state}/pinned")
        fs.copy_tree(f"{scratch_folder}/skill", target)
    return target


# --- Sessions and the trash ---

DEFAULT_BOT = """# {name}

This agent works unattended: it asks nobody, and says in its answer what it did and what it could not do.
"""


def session_folder(place: Place, session: str, name: str) -> str:
    """The folder of a session, with a default `bot.md`."""
    folder = trees.path_inside(f"{place.state}/sessions", session)
    fs.make_folder(folder)
    if not paths.exists(f"{folder}/bot.md"):
        fs.write_text(f"{folder}/bot.md", DEFAULT_BOT.format(name=name), sync=False)
    return folder


def trash_skill(place: Place, folder: str) -> str:
    """Move a scheduler skill to `.Trash` in its tree, and record that in the history; its new path."""
    tree, _, name = folder.rpartition("/")
    _record_history(place, tree, name, "add")
    target = f"{tree}/.Trash/{name}"
    fs.make_folder(f"{tree}/.Trash")
    if paths.exists(target):
        target = f"{target}-{facts.now_ns()}"
    trees.move_into_place(folder, target)
    _record_history(place, tree, name, "trash")
    return target


def _record_history(place: Place, tree: str, name: str, act: str) -> None:
    """Record a scheduler skill as it is now.  Failing that is no error: the trash has it too."""
    repository = history.repository_path(place.state, tree)
    with suppress(MetierError):
        if act == "add" and name in history.skill_names(repository):
            act = "edit"
        history.record_change(repository, history.HistoryChange(act, name, f"{tree}/{name}"))
