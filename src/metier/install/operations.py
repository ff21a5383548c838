"""Taking turns inside one process: operations of one key run one after another, others side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..dialects import DIALECTS
from ..host import paths
from ..host.archives import Progress
from ..host.facts import is_superuser
from ..host.fs import make_folder
from ..host.lookup import has_binary
from ..library.library import Library
from ..library.lockfile import InstallRoot
from ..library.open import OpenRequest, open_at
from ..library.snapshot import bump_everywhere
from ..library.trust import make_trust_record, trust_skills
from ..types.errors import MetierError, Refused
from ..types.place import Place
from ..types.skill import Skill
from . import add as install_add
from . import remove as install_remove
from .add import AddRequest, FolderScanner
from .fetch import FetchOptions
from .managed import install_root_for
from .recipes import (
    INSTALL_SECONDS,
    NODE_MANAGERS,
    InstallEnvironment,
    InstallPlan,
    InstallResult,
    list_options,
    program_prefix,
    relevant_programs,
)
from .recipes import perform_plan as tools_perform

Result = TypeVar("Result")


class OperationKeys:
    """What operations are serialised by.  All that is done to one skill has one key."""

    @staticmethod
    def skill(name: str) -> str:
        return f"skill:{name}"

    skill_add = skill_remove = skill_install = skill

    @staticmethod
    def managed() -> str:
        """For what concerns every installed skill."""
        return "skills:managed"

    @staticmethod
    def file(path: str) -> str:
        return f"file:{path}"


@dataclass
class _KeyQueue:
    """Who waits for a key, the first first."""

    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    busy: bool = False


_queues: dict[tuple[Any, str], _KeyQueue] = {}


def _running_loop() -> Any:
    return asyncio.get_running_loop()


async def serialize(key: str, operation: Callable[[], Awaitable[Result]]) -> Result:
    """Run an operation when all that was asked for before under its key is done, well or badly."""
    loop = _running_loop()
    queue = _queues.setdefault((loop, key), _KeyQueue())
    if queue.busy:
        waiter: asyncio.Future[None] = loop.create_future()
        queue.waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in queue.waiting:
                queue.waiting.remove(waiter)
            elif not waiter.cancelled():
                _wake_next(loop, key, queue)  # it was our turn already
            raise
    queue.busy = True
    try:
        return await operation()
    finally:
        _wake_next(loop, key, queue)


def _wake_next(loop: Any, key: str, queue: _KeyQueue) -> None:
    while queue.waiting:
        waiter = queue.waiting.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
    queue.busy = False
    _queues.pop((loop, key), None)


def is_processing(key: str) -> bool:
    """Whether an operation of that key runs now."""
    return (_running_loop(), key) in _queues


def queue_length(key: str) -> int:
    """How many wait; the one that runs does not count."""
    queue = _queues.get((_running_loop(), key))
    return len(queue.waiting) if queue is not None else 0


def active_keys() -> tuple[str, ...]:
    """Every key with an operation that runs or waits."""
    loop = _running_loop()
    return tuple(key for owner, key in _queues if owner is loop)


async def wait_for_key(key: str) -> None:
    """Until all that was asked for under a key so far is done."""
    if is_processing(key):
        await serialize(key, _do_nothing)


async def wait_for_all() -> None:
    """Until all that was asked for so far is done."""
    await asyncio.gather(*(wait_for_key(key) for key in active_keys()))


async def _do_nothing() -> None:
    return None


def present_skills(place: Place, besides: str = "") -> tuple[tuple[str, str], ...]:
    """Names and descriptions of the skills that are here already, besides those of one folder."""
    try:
        library = open_at(place, OpenRequest(use_index=False))
    except (MetierError, OSError):
        return ()
    others = [skill for skill in library.skills if not besides or not paths.is_inside(skill.path, besides)]
    return tuple((skill.name, skill.description) for skill in others)


def find_scanner(place: Place) -> FolderScanner | None:
    """`skill-scanner`, where it is installed; it runs in the sandbox."""
    from ..host import process, sandbox
    from .rules import SCANNER_PROGRAM, make_scanner

    program = process.find_program(SCANNER_PROGRAM, place.env.get("PATH", ""), place.cwd)
    if not program:
        return None
    return make_scanner(program, place.env, sandbox.run_sandboxed)


def trust_placed_skills(place: Place, install_root: InstallRoot, keys: Sequence[str]) -> None:
    """What a person approved in a project is trusted there, and nothing else of it."""
    if not install_root.shared:
        return
    library = open_at(place, OpenRequest(use_index=False))
    folders = {f"{install_root.root}/{key}" for key in keys}
    mine = [
        skill for skill in library.skills if skill.directory in folders and paths.is_inside(skill.path, place.project)
    ]
    trust_skills(place.state, place.project, make_trust_record(place.project, mine, library.limits.file_bytes))


def install_means(library: Library, skill: Skill) -> InstallEnvironment:
    """What this machine has to install with."""
    place = library.place
    programs = {*NODE_MANAGERS, "brew", "uv", "go", *relevant_programs(skill.install)}
    configured = library.settings.at("skills.install")
    preferences = configured if isinstance(configured, Mapping) else {}
    brew, node = preferences.get("preferBrew"), preferences.get("nodeManager")
    return InstallEnvironment(
        place.platform,
        frozenset(name for name in programs if has_binary(name, place.env.get("PATH", ""))),
        f"{place.state}/tools",
        is_superuser(),
        brew if isinstance(brew, bool) else None,
        node if isinstance(node, str) else "npm",
    )


def perform_plan(
    library: Library,
    plan: InstallPlan,
    skill: Skill,
    seconds: float,
    progress: Progress | None = None,
    insecure: bool = False,
) -> InstallResult:
    """Carry out a plan; every snapshot is out of date afterwards."""
    from ..host import sandbox

    place = library.place
    binaries = tuple(dict.fromkeys((*plan.binaries, *skill.requires.binaries, *skill.requires.any_binary)))
    kit = FetchOptions(place.env, place.cwd, place.home, insecure, seconds=seconds, progress=progress)
    tools = f"{place.state}/tools"
    make_folder(place.state)
    result = tools_perform(
        replace(plan, binaries=binaries), tools, kit, sandbox.run_sandboxed, program_prefix(plan, place.env, tools)
    )
    if result.ok:
        bump_everywhere(library.database)
    return result


async def add(place: Place, spec: str, *, name: str = "", skills: Sequence[str] = (), force: bool = False) -> list[str]:
    """Add skills that the caller has approved; waits its turn.  What is placed, by its place in the root."""
    install_root = install_root_for(place, f"{place.state}/skills")
    kit = FetchOptions(place.env, place.cwd, place.home)
    request = AddRequest(
        spec, install_root, DIALECTS["standard"], place.state, tuple(skills), name, force, present_skills(place)
    )

    def work() -> list[str]:
        with install_add.open_offer(request, kit) as offer:
            if offer.dangers:
                raise Refused(f"{offer.wish.spec} has grave findings: {offer.dangers[0].message}", "read them first")
            return [key for change in install_add.accept_offer(offer) for key in change.skills]

    requested_name = name or install_add.resolve_reference(spec, kit).repo
    return await serialize(OperationKeys.skill_add(requested_name), lambda: asyncio.to_thread(work))


async def remove(place: Place, name: str) -> str:
    """Put a skill into the trash; waits its turn.  Where it was in the root."""
    install_root = install_root_for(place, f"{place.state}/skills")
    removal = await serialize(
        OperationKeys.skill_remove(name), lambda: asyncio.to_thread(install_remove.remove_skill, install_root, name)
    )
    return removal.target


async def install(library: Library, name: str, id: str, seconds: float = INSTALL_SECONDS[1]) -> InstallResult:
    """Carry out a recipe of a skill that the caller has approved; waits its turn."""
    skill = library.find(name).skill
    chosen = next(
        (
            option
            for option in list_options(skill.install, install_means(library, skill), skill.settings_key)
            if option.recipe.id == id
        ),
        None,
    )
    if chosen is None or chosen.plan is None:
        why = chosen.refusal if chosen is not None else "there is no such recipe"
        raise Refused(f"`{id}` of {name} is refused: {why}", "choose another recipe")
    plan = chosen.plan
    return await serialize(
        OperationKeys.skill_install(name), lambda: asyncio.to_thread(perform_plan, library, plan, skill, seconds)
    )
