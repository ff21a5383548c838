"""Installing, strung together: what the install stages are given, and the same as an async API that takes turns."""

from __future__ import annotations

from collections.abc import Sequence

from ..host import paths
from ..install.adding import Scan
from ..install.place import Ground
from ..sources.trusted import add_skills, record_of
from ..types.errors import MetierError
from ..types.place import Place
from .opening import Request, open_at


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
    prefix = paths.real_path(program).rpartition("/")[0].rpartition("/")[0]
    return scanning(program, prefix, place.env, sandbox.run)


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
