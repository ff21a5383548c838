"""What a skill's programs are granted: what it asks for or the configuration says, less what nobody may open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..host import paths
from ..host.sandbox.view import PRIVATE
from ..resolve.asking import asked_of
from ..types.running import Permissions
from ..types.settings import Setting, Settings
from ..types.skill import Skill
from .installed import from_elsewhere

if TYPE_CHECKING:
    from .library import Library


@dataclass(frozen=True)
class Granted:
    """What a skill gets: permissions, names of the environment, and words about what it does not get."""

    permissions: Permissions = field(default_factory=Permissions)
    env: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def granted(library: Library, skill: Skill) -> Granted:
    """What the skill's own frontmatter asks for; where the configuration speaks of it, that counts instead.

    Nothing opens metier's own folder, and keys and passwords only what stands in the user's own configuration.
    """
    asked = asked_of(skill)._asdict()
    said = _said(library.settings, skill)
    wanted = {key: said.get(key, value) for key, value in asked.items()}
    notes: list[str] = []
    read, write = (tuple(_places(library, skill, key, wanted, notes)) for key in ("read", "write"))
    notes += [f"{one} may be written and is not there: make it first" for one in write if not paths.exists(one)]
    hosts, env = (tuple(map(str, _list(wanted[key]))) for key in ("hosts", "env"))
    return Granted(Permissions(bool(wanted["network"]), hosts, read, write), env, tuple(notes))


def _places(library: Library, skill: Skill, key: str, wanted: Mapping[str, object], notes: list[str]) -> Iterator[str]:
    """The paths of one kind as they are; those that stay shut are noted."""
    own = _is_own(library.settings, skill, key)
    for one in map(str, _list(wanted[key])):
        path = paths.absolute(one.replace("$METIER_HOME", library.place.state), skill.directory, library.place.home)
        real = paths.real_path(path)
        if _may_schedule(library, skill, real):
            yield path
        elif _is_ours(library, real):
            notes.append(f"{one} is not opened to it: it is metier's own")
        elif _is_private(library, real) and not own:
            notes.append(
                f"{one} is not opened to it: it is private; your own configuration may,"
                f" with `{key}` in [skills.entries.{skill.settings_key}.permissions]"
            )
        else:
            yield path


def _said(settings: Settings, skill: Skill) -> Mapping[str, Setting]:
    """What the configuration opens to a skill; a project's speaks of its own skills alone."""
    return settings.entry_for(skill.settings_key, skill.origin.source == "project").permissions


def _is_own(settings: Settings, skill: Skill, key: str) -> bool:
    """Whether the user's configuration says it, and not the project's."""
    own = Settings(settings.own_tree if settings.project_tree else settings.tree).entry(skill.settings_key).permissions
    theirs = Settings(settings.project_tree).entry(skill.settings_key).permissions
    return key in own and (skill.origin.source != "project" or key not in theirs)


def _is_ours(library: Library, real: str) -> bool:
    return paths.is_inside(real, paths.real_path(library.place.state))


def _is_private(library: Library, real: str) -> bool:
    return any(paths.is_inside(real, paths.real_path(f"{library.place.home}/{name}")) for name in PRIVATE)


def _may_schedule(library: Library, skill: Skill, real: str) -> bool:
    """The skill that ships with metier and makes scheduled tasks writes where they lie."""
    place = paths.real_path(f"{library.place.state}/scheduler")
    return real == place and skill.path in library.bundled and not from_elsewhere(library, skill)


def _list(value: Setting | object) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    return () if value is None or value == "" else (value,)
