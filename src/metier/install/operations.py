"""Install operations for programs: add, remove and install as coroutines that wait for their turn.

Operations with the same key run one after another in the order they were asked for, others side by side.  The queue is
per event loop and only orders work inside one process; between processes the file locks of `transaction` do that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..dialects import DIALECTS
from ..host import paths
from ..host.archives import Progress
from ..host.facts import has_binary, is_superuser
from ..host.fs import make_folder
from ..library.library import Library
from ..library.lockfile import InstallRoot
from ..library.open import OpenRequest, open_at
from ..library.snapshot import bump_everywhere
from ..library.trust import approve_skills, make_trust_record, trust_skills
from ..sources.skill_files import folder_digest
from ..types.errors import MetierError, Refused
from ..types.place import Place
from ..types.skill import Skill
from . import add as install_add
from . import remove as install_remove
from .add import AddRequest, FolderScanner, NamedFolder
from .fetch_access import FetchOptions
from .fetch_settings import fetch_options_for
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


# --- Turns ---


class OperationKeys:
    """The keys that operations are serialised by.  Everything done to one skill has one key."""

    @staticmethod
    def skill(name: str) -> str:
        return f"skill:{name}"

    skill_add = skill_remove = skill_install = skill

    @staticmethod
    def managed() -> str:
        """For operations on all installed skills."""
        return "skills:managed"

    @staticmethod
    def file(path: str) -> str:
        return f"file:{path}"


@dataclass
class _KeyQueue:
    """The operations that wait for a key, in order."""

    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    busy: bool = False


_queues: dict[tuple[Any, str], _KeyQueue] = {}


def _running_loop() -> Any:
    return asyncio.get_running_loop()


async def serialize(key: str, operation: Callable[[], Awaitable[Result]]) -> Result:
    """Run an operation after all earlier ones with its key have ended, successfully or not."""
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
                _wake_next(loop, key, queue)  # cancelled when it was our turn already: pass the turn on
            raise
    queue.busy = True
    try:
        return await operation()
    finally:
        _wake_next(loop, key, queue)


def _wake_next(loop: Any, key: str, queue: _KeyQueue) -> None:
    while queue.waiting:
        waiter = queue.waiting.popleft()
        # A cancelled waiter is skipped.
        if not waiter.done():
            waiter.set_result(None)
            return
    queue.busy = False
    _queues.pop((loop, key), None)


def is_processing(key: str) -> bool:
    """Whether an operation with that key is running."""
    return (_running_loop(), key) in _queues


def queue_length(key: str) -> int:
    """How many operations wait, not counting the running one."""
    queue = _queues.get((_running_loop(), key))
    return len(queue.waiting) if queue is not None else 0


def active_keys() -> tuple[str, ...]:
    """Every key with a running or waiting operation."""
    loop = _running_loop()
    return tuple(key for owner, key in _queues if owner is loop)


async def wait_for_key(key: str) -> None:
    """Wait until all operations requested so far with this key are done."""
    if is_processing(key):
        await serialize(key, _do_nothing)


async def wait_for_all() -> None:
    """Wait until all operations requested so far are done."""
    await asyncio.gather(*(wait_for_key(key) for key in active_keys()))


async def _do_nothing() -> None:
    return None


# --- What an installation needs to know ---


def present_skills(place: Place, except_folder: str = "") -> tuple[tuple[str, str], ...]:
    """Names and descriptions of the skills of a place, except those in one folder."""
    try:
        library = open_at(place, OpenRequest(use_index=False))
    except (MetierError, OSError):
        return ()
    others = [skill for skill in library.skills if not except_folder or not paths.is_inside(skill.path, except_folder)]
    return tuple((skill.name, skill.description) for skill in others)


def taken_names(place: Place, install_root: InstallRoot, names: Mapping[str, NamedFolder]) -> list[tuple[str, str]]:
    """The skills that would no longer be used if these came: (name, path) of each.

    `names` are the new skills by their place in the root; a copy of the same bytes takes nothing.  Whoever has a name
    is called by it, so a stranger that takes the name of a skill in use gets its work.
    """
    library = open_at(place, OpenRequest(use_index=False))
    rank = next((root.origin.rank for root in library.roots if root.origin.path == install_root.root), None)
    if rank is None:  # a root of its own: who names it sees nothing else
        library = open_at(place, OpenRequest(root=install_root.root, use_index=False))
        rank = library.roots[0].origin.rank
    taken = []
    for verdict in library.verdicts:
        skill = verdict.skill
        inside = skill.directory.removeprefix(install_root.root + "/")
        for key, (name, folder) in names.items():
            if name != skill.name or not verdict.usable or key == inside or skill.origin.rank > rank:
                continue
            if folder_digest(folder) == folder_digest(skill.directory):
                continue
            # Within the root the folder that is called so wins, then the first.
            mine, theirs = ((place.rpartition("/")[2] != name, place.split("/")) for place in (key, inside))
            if skill.origin.rank < rank or mine < theirs:
                taken.append((name, skill.path))
    return taken


def find_scanner(place: Place) -> FolderScanner | None:
    """`skill-scanner` if it is installed; it runs in the sandbox."""
    from .. import sandbox
    from ..host import process
    from .rules import SCANNER_PROGRAM, make_scanner

    program = process.find_program(SCANNER_PROGRAM, place.env.get("PATH", ""), place.cwd)
    if not program:
        return None
    return make_scanner(program, place.env, sandbox.run_sandboxed)


def trust_placed_skills(place: Place, install_root: InstallRoot, keys: Sequence[str]) -> None:
    """Record outside the root which skills a person approved there; of a project, nothing else is trusted."""
    if not keys or paths.is_inside(install_root.lock, place.state):
        return  # that lock is metier's own: nobody else can have written it
    folders = {f"{install_root.root}/{key}" for key in keys}
    # Reopened: what was just placed is not in the library that the command began with.
    alone = open_at(place, OpenRequest(root=install_root.root, use_index=False))
    placed = [skill for skill in alone.skills if skill.directory in folders]
    approve_skills(place.state, placed, alone.limits.file_bytes)
    if not install_root.shared:
        return
    library = open_at(place, OpenRequest(use_index=False))
    approved = [
        skill for skill in library.skills if skill.directory in folders and paths.is_inside(skill.path, place.project)
    ]
    trust_skills(place.state, place.project, make_trust_record(place.project, approved, library.limits.file_bytes))


def install_means(library: Library, skill: Skill) -> InstallEnvironment:
    """What this machine can install with."""
    place = library.place
    programs = {*NODE_MANAGERS, "brew", "uv", "go", *relevant_programs(skill.install)}
    configured = library.settings.own("skills.install")
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
    """Carry out a plan.  Afterwards every snapshot is out of date: a new program makes skills usable."""
    from .. import sandbox

    place = library.place
    binaries = tuple(dict.fromkeys((*plan.binaries, *skill.requires.binaries, *skill.requires.any_binary)))
    options = FetchOptions(place.env, place.cwd, place.home, insecure, seconds=seconds, progress=progress)
    tools = f"{place.state}/tools"
    make_folder(place.state)
    result = tools_perform(
        replace(plan, binaries=binaries), tools, options, sandbox.run_sandboxed, program_prefix(plan, place.env, tools)
    )
    if result.ok:
        bump_everywhere(library.database)
    return result


# --- Operations ---


async def add(place: Place, spec: str, *, name: str = "", skills: Sequence[str] = (), force: bool = False) -> list[str]:
    """Add skills that the caller has approved, in turn.  Returns the paths of the skills in the root."""
    install_root = install_root_for(place, f"{place.state}/skills")
    options = fetch_options_for(place)
    request = AddRequest(
        spec, install_root, DIALECTS["standard"], place.state, tuple(skills), name, force, present_skills(place)
    )

    def work() -> list[str]:
        with install_add.open_offer(request, options) as offer:
            if offer.dangers:
                raise Refused(
                    f"{offer.request.spec} has serious findings: {offer.dangers[0].message}",
                    "review them with `metier add` first",
                )
            if taken := taken_names(place, install_root, offer.names):
                raise Refused(
                    f"`{taken[0][0]}` would be used in place of {taken[0][1]}",
                    "add it with `metier add`",
                )
            return [key for change in install_add.accept_offer(offer) for key in change.skills]

    requested_name = name or install_add.resolve_reference(spec, options).repo
    return await serialize(OperationKeys.skill_add(requested_name), lambda: asyncio.to_thread(work))


async def remove(place: Place, name: str) -> str:
    """Move a skill to the trash, in turn.  Returns its path in the root."""
    install_root = install_root_for(place, f"{place.state}/skills")
    removal = await serialize(
        OperationKeys.skill_remove(name), lambda: asyncio.to_thread(install_remove.remove_skill, install_root, name)
    )
    return removal.target


async def install(library: Library, name: str, id: str, seconds: float = INSTALL_SECONDS[1]) -> InstallResult:
    """Carry out an install recipe that the caller has approved, in turn."""
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
