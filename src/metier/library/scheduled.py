"""Scheduler skills: kept in folders of their own, never in the catalog, each offered as `/sched-NAME`."""

from __future__ import annotations

from ..dialects import DIALECTS
from ..host import files, paths
from ..light_typing import NamedTuple
from ..types.dialect import CommandRules, Dialect
from ..types.errors import BadRequest, Refused, UnknownSkill, Unloadable
from ..types.place import Place
from ..types.skill import BrokenSkill, Found, Origin
from ..types.text import neutralize_frames

CREATOR_SKILL = "scheduler-skill-creator"
COMMAND_PREFIX = "sched-"
_MAX_SKILL_BYTES = 256_000


class SchedulerTree(NamedTuple):
    """A folder of scheduler skills."""

    path: str
    dialect: Dialect


def scheduler_trees(place: Place) -> tuple[SchedulerTree, ...]:
    """metier's own folder, then Agenvoy's."""
    return (
        SchedulerTree(f"{place.state}/scheduler", DIALECTS["standard"]),
        SchedulerTree(f"{place.home.rstrip('/')}/.config/agenvoy/skills/scheduler", DIALECTS["agenvoy"]),
    )


def scheduler_folders(place: Place) -> dict[str, str]:
    """Every scheduler skill by name; metier's own folder wins."""
    by_name: dict[str, str] = {}
    for tree in scheduler_trees(place):
        for name in paths.folders_with(tree.path, "SKILL.md"):
            by_name.setdefault(name, f"{tree.path}/{name}")
    return by_name


def find_scheduler_skill(place: Place, name: str) -> str:
    """The folder of a scheduler skill; its frontmatter must have the folder's name."""
    by_name = scheduler_folders(place)
    bare = name.removeprefix("/").removeprefix(COMMAND_PREFIX)
    folder = by_name.get(name) or by_name.get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(name, tuple(get_close_matches(bare, by_name, 3, 0.6)))
    declared = _read_skill(folder)[0]
    # Schedules refer to the folder's name; another name in the file would make two for one task.
    if declared != paths.real_name(folder):
        message = f"the folder of this scheduler skill is {paths.real_name(folder)}, its frontmatter says `{declared}`"
        raise Refused(message, "use one name for both", f"{folder}/SKILL.md")
    return folder


def _read_skill(folder: str) -> tuple[str, str]:
    """Name and body of the skill in a folder."""
    try:
        key, data = files.read_skill_file(folder, "SKILL.md", _MAX_SKILL_BYTES)
    except OSError as error:
        raise Unloadable(f"{folder}/SKILL.md can't be read: {error.strerror or 'too large'}", "", folder) from error
    lenient = DIALECTS["agenvoy"]  # a scheduler skill needs only a name and a body
    origin = Origin("user", 1, "scheduler", folder, lenient)
    from ..parse.reader import parse, parse_body  # listing the commands needs no parser

    skill = parse(Found(origin, paths.real_name(folder), f"{folder}/SKILL.md", key, data, True), DIALECTS)
    body, findings = parse_body(data, lenient)
    if isinstance(skill, BrokenSkill) or (findings and findings[-1].fatal):
        raise Unloadable(f"{folder}/SKILL.md is not a valid skill", "run `metier validate` on its folder", folder)
    return skill.name, body.strip()


def read_body(folder: str) -> str:
    """The instructions, without frontmatter and surrounding white space."""
    return _read_skill(folder)[1]


def manual_message(place: Place, name: str, extra: str, rules: CommandRules) -> str:
    """The message that `/sched-NAME extra` sends: it asks to run the task now, not to schedule it."""
    bare = name.removeprefix("/").removeprefix(COMMAND_PREFIX).strip()
    if not bare:
        raise BadRequest("scheduler skill name required", "type `/sched-NAME`")
    folder = scheduler_folders(place).get(bare)
    if folder is None:
        from difflib import get_close_matches

        raise UnknownSkill(
            COMMAND_PREFIX + bare,
            tuple(COMMAND_PREFIX + near for near in get_close_matches(bare, scheduler_folders(place), 3, 0.6)),
        )
    text = read_body(folder)
    if not text:
        hint = "write its instructions below the frontmatter"
        raise Unloadable(f"scheduler skill {bare} is empty", hint, f"{folder}/SKILL.md")
    message = rules.manual_run.replace("<name>", bare) + "\n\n---\n" + text
    extra_part = f"\n\n---\n{rules.manual_extra}{extra.strip()}" if extra.strip() else ""
    return neutralize_frames(message + extra_part)


def scheduler_roots(place: Place) -> tuple[str, ...]:
    """The folders of scheduler skills, which an agent may write to if a person allows it."""
    return tuple(tree.path for tree in scheduler_trees(place))
