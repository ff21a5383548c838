"""Scheduler skills: a tree of their own, never in the catalog, each offered as `/sched-NAME`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress
from hashlib import sha256
from json import dumps, loads
from typing import NamedTuple

from ..dialects import ALL
from ..host import clock, files, paths, scratch, state
from ..parse import parse
from ..parse.body import body_of
from ..record import history
from ..types.dialect import Commands, Dialect
from ..types.errors import BadRequest, Changed, MetierError, Refused, UnknownSkill, Unloadable
from ..types.place import Place
from ..types.skill import Broken, Found, Origin

CREATOR = "scheduler-skill-creator"
PREFIX = "sched-"
_LARGEST = 8_000_000
_FILE = 256_000


class Tree(NamedTuple):
    """A folder of scheduler skills."""

    path: str
    dialect: Dialect


class Pin(NamedTuple):
    """A skill as it was: its digest, and every file of it as JSON."""

    digest: str
    files: str


def trees(place: Place) -> tuple[Tree, ...]:
    """metier's own tree, then Agenvoy's."""
    return (
        Tree(f"{place.state}/scheduler", ALL["standard"]),
        Tree(f"{place.home.rstrip('/')}/.config/agenvoy/skills/scheduler", ALL["agenvoy"]),
    )


def folders(place: Place) -> dict[str, str]:
    """Every scheduler skill by name; what metier's own tree has comes first."""
    found: dict[str, str] = {}
    for tree in trees(place):
        for name in paths.folders_with(tree.path, "SKILL.md"):
            found.setdefault(name, f"{tree.path}/{name}")
    return found


def find(place: Place, name: str) -> str:
    """The folder of a scheduler skill whose frontmatter says the folder's own name."""
    known = folders(place)
    bare = name.removeprefix("/").removeprefix(PREFIX)
    folder = known.get(name) or known.get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(name, tuple(get_close_matches(bare, known, 3, 0.6)))
    said = _read(folder)[0]
    if said != paths.real_name(folder):
        message = f"the folder of this scheduler skill is {paths.real_name(folder)}, its frontmatter says `{said}`"
        raise Refused(message, "make the two equal", f"{folder}/SKILL.md")
    return folder


def _read(folder: str) -> tuple[str, str]:
    """Name and body of the skill in a folder."""
    try:
        key, data = files.read_skill_file(folder, "SKILL.md", _FILE)
    except OSError as error:
        raise Unloadable(f"{folder}/SKILL.md can't be read: {error.strerror or 'too large'}", "", folder) from error
    lenient = ALL["agenvoy"]  # what a scheduler skill must hold is a name and a body
    origin = Origin("user", 1, "scheduler", folder, lenient)
    skill = parse(Found(origin, paths.real_name(folder), f"{folder}/SKILL.md", key, data, True), ALL)
    body, marks = body_of(data, lenient)
    if isinstance(skill, Broken) or (marks and marks[-1].fatal):
        raise Unloadable(f"{folder}/SKILL.md is no skill", "run `metier validate` on its folder", folder)
    return skill.name, body.strip()


def body(folder: str) -> str:
    """The instructions, without frontmatter and white space around them."""
    return _read(folder)[1]


def manual(place: Place, name: str, extra: str, rules: Commands) -> str:
    """The message that `/sched-NAME extra` sends: this is a run, and nothing is to be scheduled."""
    bare = name.removeprefix("/").removeprefix(PREFIX).strip()
    if not bare:
        raise BadRequest("scheduler skill name required", "type `/sched-` and its name")
    folder = folders(place).get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(
            PREFIX + bare, tuple(PREFIX + one for one in get_close_matches(bare, folders(place), 3, 0.6))
        )
    text = body(folder)
    if not text:
        raise Unloadable(f"scheduler skill {bare} is empty", "write what it is to do", f"{folder}/SKILL.md")
    message = rules.manual_run.replace("<name>", bare) + "\n\n---\n" + text
    return message + (f"\n\n---\n{rules.manual_extra}{extra.strip()}" if extra.strip() else "")


# --- Pinning ---


def pin(folder: str) -> Pin:
    """A folder as it is now, whole."""
    kept: dict[str, list[object]] = {}
    total = 0
    for path, status in paths.tree_of(folder):
        try:
            _, data = files.read_skill_file(folder, path, _LARGEST)
        except OSError as error:
            raise Unloadable(f"{folder}/{path} can't be read: {error.strerror or 'too large'}", "", folder) from error
        total += len(data)
        if total > _LARGEST:
            raise Refused(
                f"{folder} is too large to be pinned", f"a scheduled skill has at most {_LARGEST} bytes", folder
            )
        kept[path] = [bool(status.st_mode & 0o100), b64encode(data).decode("ascii")]
    return Pin(_digest(kept), dumps(kept, sort_keys=True))


def _digest(kept: dict[str, list[object]]) -> str:
    """The digest of a folder, as `sources.bundled.digest` has it."""
    found = sha256()
    for path, (executable, text) in sorted(kept.items()):
        data = b64decode(str(text))
        found.update(f"{path}\0{'x' if executable else '-'}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
        found.update(data)
    return "sha256:" + found.hexdigest()


def unpin(place: Place, one: Pin) -> str:
    """The folder of a pinned copy, written where it is not there yet, and checked against its digest."""
    target = f"{place.state}/pinned/{one.digest.removeprefix('sha256:')}"
    kept = loads(one.files)
    if _digest(kept) != one.digest:
        raise Changed("the pinned copy of a skill is not what was pinned", "schedule it anew")
    if paths.exists(target):
        if pin(target).digest == one.digest:
            return target
        state.remove_tree(target)
    with scratch.folder() as made:
        contents = {path: b64decode(text) for path, (_, text) in kept.items()}
        scratch.fill(f"{made}/skill", contents)
        for path, (executable, _) in kept.items():
            if executable:
                scratch.make_executable(scratch.inside(f"{made}/skill", path))
        state.make_folder(f"{place.state}/pinned")
        state.copy_tree(f"{made}/skill", target)
    return target


# --- Sessions and the bin ---

BOT = """# {name}

This agent works unattended: it asks nobody, and says in its answer what it did and what it could not do.
"""


def session_folder(place: Place, session: str, name: str) -> str:
    """The session's own folder, with a default `bot.md`."""
    folder = scratch.inside(f"{place.state}/sessions", session)
    state.make_folder(folder)
    if not paths.exists(f"{folder}/bot.md"):
        state.write_text(f"{folder}/bot.md", BOT.format(name=name), sync=False)
    return folder


def trash(place: Place, folder: str) -> str:
    """Move a scheduler skill to the bin of its tree; where it lies then.  Its history keeps it too."""
    tree, _, name = folder.rpartition("/")
    _remember(place, tree, name, "add")
    target = f"{tree}/.Trash/{name}"
    state.make_folder(f"{tree}/.Trash")
    if paths.exists(target):
        target = f"{target}-{clock.now_ns()}"
    state.rename(folder, target)
    _remember(place, tree, name, "trash")
    return target


def _remember(place: Place, tree: str, name: str, act: str) -> None:
    """Keep a scheduler skill as it is now; where that can't be done, the bin has it."""
    repository = history.repository_of(place.state, tree)
    with suppress(MetierError):
        called = "edit" if act == "add" and name in history.names(repository) else act
        history.record(repository, history.Change(called, name, f"{tree}/{name}"))
