"""Installing as an async API that takes turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..dialects import ALL
from ..install import adding, removing
from ..install.adding import Wish
from ..install.outfit import Outfit
from ..install.recipes import SECONDS, options
from ..install.tools import Done
from ..install.turns import Keys, serialize
from ..types.errors import Refused
from ..types.place import Place
from .changing import ground_of
from .library import Library
from .preparing import means_of, nearby, perform


async def add(here: Place, spec: str, *, name: str = "", skills: Sequence[str] = (), force: bool = False) -> list[str]:
    """Add skills that the caller has approved; waits its turn.  What is placed, by its place in the root."""
    ground = ground_of(here, f"{here.state}/skills")
    kit = Outfit(here.env, here.cwd, here.home)
    wish = Wish(spec, ground, ALL["standard"], here.state, tuple(skills), name, force, nearby(here))

    def work() -> list[str]:
        with adding.offered(wish, kit) as offer:
            if offer.dangers:
                raise Refused(f"{offer.wish.spec} has grave findings: {offer.dangers[0].message}", "read them first")
            return [key for change in adding.accept(offer) for key in change.skills]

    wanted = name or adding.referred(spec, kit).repo
    return await serialize(Keys.skill_add(wanted), lambda: asyncio.to_thread(work))


async def remove(here: Place, name: str) -> str:
    """Put a skill into the trash; waits its turn.  Where it was in the root."""
    ground = ground_of(here, f"{here.state}/skills")
    done = await serialize(Keys.skill_remove(name), lambda: asyncio.to_thread(removing.remove, ground, name))
    return done.target


async def install(library: Library, name: str, id: str, seconds: float = SECONDS[1]) -> Done:
    """Carry out a recipe of a skill that the caller has approved; waits its turn."""
    skill = library.find(name).skill
    chosen = next(
        (one for one in options(skill.install, means_of(library, skill), skill.settings_key) if one.recipe.id == id),
        None,
    )
    if chosen is None or chosen.plan is None:
        why = chosen.refusal if chosen is not None else "there is no such recipe"
        raise Refused(f"`{id}` of {name} is refused: {why}", "choose another recipe")
    plan = chosen.plan
    return await serialize(Keys.skill_install(name), lambda: asyncio.to_thread(perform, library, plan, skill, seconds))
