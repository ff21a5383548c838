"""Scheduler skills: a tree of their own, never in the catalog, each offered as `/sched-NAME`."""

from __future__ import annotations

from typing import NamedTuple

from ..dialects import DIALECTS
from ..host import files, paths
from ..types.dialect import CommandRules, Dialect
from ..types.errors import BadRequest, Refused, UnknownSkill, Unloadable
from ..types.place import Place
from ..types.skill import BrokenSkill, Found, Origin

CREATOR_SKILL = "scheduler-skill-creator"
COMMAND_PREFIX = "sched-"
_MOST_SKILL_BYTES = 256_000


class SchedulerTree(NamedTuple):
    """A folder of scheduler skills."""

    path: str
    dialect: Dialect


def scheduler_trees(place: Place) -> tuple[SchedulerTree, ...]:
    """metier's own tree, then Agenvoy's."""
    return (
        SchedulerTree(f"{place.state}/scheduler", DIALECTS["standard"]),
        SchedulerTree(f"{place.home.rstrip('/')}/.config/agenvoy/skills/scheduler", DIALECTS["agenvoy"]),
    )


def scheduler_folders(place: Place) -> dict[str, str]:
    """Every scheduler skill by name; what metier's own tree has comes first."""
    by_name: dict[str, str] = {}
    for tree in scheduler_trees(place):
        for name in paths.folders_with(tree.path, "SKILL.md"):
            by_name.setdefault(name, f"{tree.path}/{name}")
    return by_name


def find_scheduler_skill(place: Place, name: str) -> str:
    """The folder of a scheduler skill whose frontmatter says the folder's own name."""
    by_name = scheduler_folders(place)
    bare = name.removeprefix("/").removeprefix(COMMAND_PREFIX)
    folder = by_name.get(name) or by_name.get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(name, tuple(get_close_matches(bare, by_name, 3, 0.6)))
    declared = _read_skill(folder)[0]
    if declared != paths.real_name(folder):
        message = f"the folder of this scheduler skill is {paths.real_name(folder)}, its frontmatter says `{declared}`"
        raise Refused(message, "make the two equal", f"{folder}/SKILL.md")
    return folder


def _read_skill(folder: str) -> tuple[str, str]:
    """Name and body of the skill in a folder."""
    try:
        key, data = files.read_skill_file(folder, "SKILL.md", _MOST_SKILL_BYTES)
    except OSError as error:
        raise Unloadable(f"{folder}/SKILL.md can't be read: {error.strerror or 'too large'}", "", folder) from error
    lenient = DIALECTS["agenvoy"]  # what a scheduler skill must hold is a name and a body
    origin = Origin("user", 1, "scheduler", folder, lenient)
    from ..parse.reader import parse, parse_body  # listing the commands needs no parser

    skill = parse(Found(origin, paths.real_name(folder), f"{folder}/SKILL.md", key, data, True), DIALECTS)
    body, marks = parse_body(data, lenient)
    if isinstance(skill, BrokenSkill) or (marks and marks[-1].fatal):
        raise Unloadable(f"{folder}/SKILL.md is no skill", "run `metier validate` on its folder", folder)
    return skill.name, body.strip()


def read_body(folder: str) -> str:
    """The instructions, without frontmatter and white space around them."""
    return _read_skill(folder)[1]


def manual_message(place: Place, name: str, extra: str, rules: CommandRules) -> str:
    """The message that `/sched-NAME extra` sends: this is a run, and nothing is to be scheduled."""
    bare = name.removeprefix("/").removeprefix(COMMAND_PREFIX).strip()
    if not bare:
        raise BadRequest("scheduler skill name required", "type `/sched-` and its name")
    folder = scheduler_folders(place).get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(
            COMMAND_PREFIX + bare,
            tuple(COMMAND_PREFIX + near for near in get_close_matches(bare, scheduler_folders(place), 3, 0.6)),
        )
    text = read_body(folder)
    if not text:
        raise Unloadable(f"scheduler skill {bare} is empty", "write what it is to do", f"{folder}/SKILL.md")
    message = rules.manual_run.replace("<name>", bare) + "\n\n---\n" + text
    return message + (f"\n\n---\n{rules.manual_extra}{extra.strip()}" if extra.strip() else "")


def scheduler_roots(place: Place) -> tuple[str, ...]:
    """The folders of scheduler skills, which an agent may write in once somebody allowed it."""
    return tuple(tree.path for tree in scheduler_trees(place))
