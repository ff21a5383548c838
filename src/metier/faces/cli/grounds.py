"""Which root a command works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from ...dialects import ALL
from ...host import paths
from ...host.place import here
from ...install.adding import Scan, Wish
from ...install.outfit import Outfit
from ...install.place import Ground
from ...runtime.changing import ground_of
from ...sources.roots import Wanted, guessed
from ...types.dialect import Dialect
from ...types.errors import BadRequest
from ...types.place import Place
from ...types.settings import Settings
from .app import Context
from .printing import clean, warn
from .progress import Bar

Command = TypeVar("Command", bound=Callable[..., Any])


class Field(NamedTuple):
    """A root to install into, and how its skills are read."""

    ground: Ground
    dialect: Dialect
    place: Place


def where(command: Command) -> Command:
    """The options that choose a root."""
    for option in (
        click.option("--user", is_flag=True, help="Your own skills (~/.metier/skills)."),
        click.option("--project", "in_project", is_flag=True, help="This project's skills (.metier/skills)."),
        click.option("--profile", "profile", metavar="ID", default="", help="The skills of that agent profile."),
    ):
        command = option(command)
    return command


def field(context: Context, user: bool, in_project: bool, profile: str) -> Field:
    """The one root that is meant; the user's own if nothing is said."""
    profile = profile or context.profile
    if sum((user, in_project, bool(profile), context.root is not None)) > 1:
        raise BadRequest("--user, --project, --profile and --root exclude each other", "choose one")
    place = here(context.project, profile)
    if in_project:
        return Field(_ground(place, f"{place.project}/.metier/skills", True), ALL["standard"], place)
    if profile:
        root = f"{place.home}/.super-multica/agent-profiles/{profile}/skills"
        return Field(_ground(place, root), ALL["multica"], place)
    if context.root is not None:
        root = paths.absolute(context.root, place.cwd, place.home)
        dialect = context.dialect or guessed(root, Wanted(ALL["standard"], ALL, Settings()))
        shared = paths.is_inside(root, place.project) and not paths.is_inside(root, place.state)
        return Field(_ground(place, root, shared and place.project != place.home), ALL[dialect], place)
    return _own(context.dialect or "standard", place)


def _ground(place: Place, root: str, shared: bool = False) -> Ground:
    return ground_of(place, root, shared, lambda text: warn(f"note: {clean(text)}"))


def plugins_field(place: Place) -> Field:
    return Field(_ground(place, f"{place.state}/plugins"), ALL["standard"], place)


def _own(name: str, place: Place) -> Field:
    """The user's own root in a dialect."""
    if name not in ALL:
        raise BadRequest(f"`{name}` is not a dialect to install for", "one of: " + ", ".join(ALL))
    for spec in ALL[name].serving.roots:
        if spec.source == "user" and "{" not in spec.path:
            root = spec.path.replace("~/.metier", place.state, 1) if spec.path.startswith("~/.metier/") else spec.path
            return Field(_ground(place, paths.absolute(root, place.cwd, place.home)), ALL[spec.dialect], place)
    return Field(_ground(place, f"{place.state}/skills"), ALL["standard"], place)


def is_named(context: Context, user: bool, in_project: bool, profile: str) -> bool:
    """Whether somebody said which root is meant."""
    chosen = context.root is not None or bool(context.profile or context.dialect)
    return user or in_project or bool(profile) or chosen


def fields(context: Context, user: bool, in_project: bool, profile: str, lockless: bool = False) -> list[Field]:
    """The roots that are meant: the one that was named, or every one here that has a lock, or none is asked for."""
    if is_named(context, user, in_project, profile):
        return [field(context, user, in_project, profile)]
    mine, theirs = field(context, True, False, ""), field(context, False, True, "")
    plugins = plugins_field(mine.place)
    others = [one for one in (theirs, plugins) if paths.exists(one.ground.root if lockless else one.ground.lock)]
    return [mine, *(one for one in others if one.ground.root != mine.ground.root)]


def scoped(command: str, at: Field) -> str:
    """A command as it must be typed to mean that root."""
    root, place = at.ground.root, at.place
    if root == f"{place.state}/skills":
        return f"metier {command}"
    if root == f"{place.project}/.metier/skills":
        return f"metier {command} --project"
    return f"metier --root {clean(root)} {command}"


def outfit(place: Place, bar: Bar | None = None, insecure: bool = False) -> Outfit:
    return Outfit(place.env, place.cwd, place.home, insecure, progress=bar)


def wish(spec: str, at: Field, scan: Scan | None = None, **more: Any) -> Wish:
    return Wish(spec, at.ground, at.dialect, at.place.state, scan=scan, **more)
