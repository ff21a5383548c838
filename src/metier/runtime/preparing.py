"""Installing, strung together: what the install stages are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..host import paths
from ..host.archive import Progress
from ..host.place import has_binary, is_superuser
from ..host.state import make_folder
from ..install.adding import Scan
from ..install.outfit import Outfit
from ..install.place import Ground
from ..install.recipes import MANAGERS, Means, Plan, asked_about
from ..install.tools import Done, program_prefix
from ..install.tools import perform as tools_perform
from ..sources.trusted import add_skills, record_of
from ..types.errors import MetierError
from ..types.place import Place
from ..types.skill import Skill
from .library import Library
from .opening import Request, open_at
from .versions import bump_everywhere


def nearby(place: Place, besides: str = "") -> tuple[tuple[str, str], ...]:
    """Names and descriptions of the skills that are here already, besides those of one folder."""
    try:
        library = open_at(place, Request(index=False))
    except (MetierError, OSError):
        return ()
    others = [one for one in library.skills if not besides or not paths.is_inside(one.path, besides)]
    return tuple((skill.name, skill.description) for skill in others)


def scanner(place: Place) -> Scan | None:
    """`skill-scanner`, where it is installed; it runs in the sandbox."""
    from ..host import process, sandbox
    from ..install.scanner import PROGRAM, scanning

    program = process.find(PROGRAM, place.env.get("PATH", ""), place.cwd)
    if not program:
        return None
    return scanning(program, place.env, sandbox.run)


def trust_placed(place: Place, ground: Ground, keys: Sequence[str]) -> None:
    """What a person approved in a project is trusted there, and nothing else of it."""
    if not ground.shared:
        return
    library = open_at(place, Request(index=False))
    wanted = {f"{ground.root}/{key}" for key in keys}
    mine = [
        skill for skill in library.skills if skill.directory in wanted and paths.is_inside(skill.path, place.project)
    ]
    add_skills(place.state, place.project, record_of(place.project, mine, library.limits.file_bytes))


def means_of(library: Library, skill: Skill) -> Means:
    """What this machine has to install with."""
    place = library.place
    programs = {*MANAGERS, "brew", "uv", "go", *asked_about(skill.install)}
    said = library.settings.at("skills.install")
    wishes = said if isinstance(said, Mapping) else {}
    brew, node = wishes.get("preferBrew"), wishes.get("nodeManager")
    return Means(
        place.platform,
        frozenset(name for name in programs if has_binary(name, place.env.get("PATH", ""))),
        f"{place.state}/tools",
        is_superuser(),
        brew if isinstance(brew, bool) else None,
        node if isinstance(node, str) else "npm",
    )


def perform(
    library: Library, plan: Plan, skill: Skill, seconds: float, progress: Progress | None = None, insecure: bool = False
) -> Done:
    """Carry out a plan; every snapshot is out of date afterwards."""
    from ..host import sandbox

    place = library.place
    wanted = tuple(dict.fromkeys((*plan.binaries, *skill.requires.binaries, *skill.requires.any_binary)))
    kit = Outfit(place.env, place.cwd, place.home, insecure, seconds=seconds, progress=progress)
    tools = f"{place.state}/tools"
    make_folder(place.state)
    done = tools_perform(
        replace(plan, binaries=wanted), tools, kit, sandbox.run, program_prefix(plan, place.env, tools)
    )
    if done.ok:
        bump_everywhere(library.database)
    return done
