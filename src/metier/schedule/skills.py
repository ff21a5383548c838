"""Scheduler skills: a tree of their own, never in the catalog, each offered as `/sched-NAME`."""

from __future__ import annotations

from typing import NamedTuple

from ..dialects import ALL
from ..host import files, paths
from ..parse import parse
from ..parse.body import body_of
from ..types.dialect import Commands, Dialect
from ..types.errors import BadRequest, Refused, UnknownSkill, Unloadable
from ..types.place import Place
from ..types.skill import Broken, Found, Origin

CREATOR = "scheduler-skill-creator"
PREFIX = "sched-"
_FILE = 256_000


class Tree(NamedTuple):
    """A folder of scheduler skills."""

    path: str
    dialect: Dialect


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
