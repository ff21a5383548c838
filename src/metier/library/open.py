"""open(): gather settings, trust and roots for a place, scan them, and return a Library.

The order matters.  Settings come first, because they choose the dialect, the limits and the roots; a project's settings
count only once it is trusted.  Skills are scanned next, and only then withheld by trust and locks: what is withheld is
still listed, with the reason.  Trust and lock code is imported only where a project has skills or a root has a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..dialects.common import BUNDLED
from ..host import paths
from ..host.facts import find_place
from ..host.sqlite import IndexDatabase, open_database
from ..light_typing import TYPE_CHECKING, NamedTuple
from ..sources import index, scan
from ..sources.bundled import bundled_paths
from ..sources.plugins import find_plugins
from ..sources.roots import PACKAGE_TIER, RootOptions, any_lock, find_roots, named_root
from ..sources.scan import ScanResult, SkillReader
from ..types.catalog import UsageHabits
from ..types.dialect import Dialect
from ..types.errors import BadRequest
from ..types.place import Place, SkillRoot
from ..types.problem import Finding, Problem
from ..types.skill import BrokenSkill, Found, Origin, Skill, StatKey
from .settings import (
    CONFIG_FILE,
    agents_trusted,
    all_dialects,
    drop_outside_roots,
    drop_unknown_dialects,
    load_settings,
    read_trust_record,
    with_product_settings,
    with_switches,
)

if TYPE_CHECKING:
    from typing import TypeVar

    from ..resolve.capabilities import TrustRecord
    from ..resolve.resolver import AllowedSkills
    from ..types.dialect import LibraryLimits
    from ..types.settings import Settings
    from .library import Library

    AnySkill = TypeVar("AnySkill", Skill, BrokenSkill)

INDEX_FILE = "index.db"


class OpenRequest(NamedTuple):
    """The arguments of open()."""

    dialect: str | None = None
    agent: str | Sequence[str] | None = None
    root: str | None = None
    use_index: bool = True
    habits: UsageHabits = UsageHabits()
    """Of the conversation that this library serves."""
    kit: str = ""
    """A kit of the configuration: nothing outside it may be used."""
    room: int | None = None
    """Characters that a listing without a limit of its own may take: a share of the model's window."""


def open(
    path: str = ".",
    *,
    dialect: str | None = None,
    agent: str | Sequence[str] | None = None,
    profile: str = "",
    root: str | None = None,
    index: bool = True,
) -> Library:
    """Open the skills of a place.  Nothing in them runs.

    `dialect` chooses the roots, the listing and the commands.  `agent` is the name or file of an agent, or the list of
    skills it may use.  `root` opens that one folder only.  `index=False` reads every file again and stores nothing.
    """
    return open_at(
        find_place(str(path), profile), OpenRequest(dialect, agent, None if root is None else str(root), index)
    )


class DiscoveredSkills(NamedTuple):
    """What is found in a place before anything is withheld."""

    options: RootOptions
    """The serving dialect, the dialects there are, and the settings."""
    record: TrustRecord | None
    limits: LibraryLimits
    roots: tuple[SkillRoot, ...]
    database: IndexDatabase | None
    scan: scan.ScanResult
    bundled: frozenset[str]
    """Paths of the skills that ship with metier."""
    problems: tuple[Problem, ...]


def discover(place: Place, dialect: str | None, root: str | None, use_index: bool) -> DiscoveredSkills:
    """Scan a place. Completing a name needs no more, and imports no more: see `open_at`."""
    problems: list[Problem] = []
    settings, record = load_settings(place, problems)
    settings = with_switches(settings, place, problems)
    dialects = all_dialects(settings, problems)
    settings = drop_unknown_dialects(settings, dialects, f"{place.state}/{CONFIG_FILE}", problems)
    settings = drop_outside_roots(settings, place, problems)
    serving = _serving_dialect(dialect or str(settings.tree.get("dialect") or "standard"), dialects)
    settings = with_product_settings(settings, serving, place, problems)
    limits = serving.serving.limits._replace(**settings.limits)
    root_options = RootOptions(serving, dialects, settings, project_trusted=record is not None and record.whole)
    if root is not None:
        roots: tuple[SkillRoot, ...] = (named_root(root, dialect or "", place, root_options),)
    else:
        plugins = find_plugins(place, settings, problems) if serving.serving.plugins else ()
        root_options = root_options._replace(plugins=plugins)
        roots = find_roots(place, root_options)
    # Without a usable index everything works, only slower: a fault of it is a problem, not an error.
    database = _open_index(place, problems) if use_index else None
    bundled = bundled_paths(place.state) if root is None else frozenset()
    scan_result = _only_bundled(scan.scan_roots(roots, limits, database, _make_reader(dialects)), roots, bundled)
    return DiscoveredSkills(root_options, record, limits, roots, database, scan_result, bundled, tuple(problems))


def open_at(place: Place, request: OpenRequest) -> Library:
    """Open a place that is given as a value, instead of the one the process runs in."""
    # Here, not above: `discover` alone answers a shell, at every press of Tab.
    from .library import Library

    found = discover(place, request.dialect, request.root, request.use_index)
    library_roots, database, scan_result, problems = found.roots, found.database, found.scan, list(found.problems)
    skills: Sequence[Skill] = scan_result.skills
    shared_roots = [root.origin.path for root in library_roots if root.companions and paths.exists(root.origin.path)]
    if shared_roots:
        from ..sources.companion_files import with_companions  # only where other agents keep skills too

        skills = with_companions(skills, shared_roots)
    settings = found.options.settings
    withheld: dict[str, Finding] = {}
    in_project = any(root.origin.source == "project" for root in library_roots)
    if in_project and any(skill.origin.source == "project" for skill in skills):
        from .trust import lent_settings, mark_trusted_skills, trust_findings  # only where a project has skills

        withheld = dict(trust_findings(skills, place, found.record, found.limits))
        skills = mark_trusted_skills(skills, withheld, found.record)
        settings = settings._replace(lent=lent_settings(skills, place, found.record))
    if any(root.origin.tier == PACKAGE_TIER for root in library_roots):
        withheld, skills = _judge_packages(skills, withheld, place)
    root_locks = None
    if any_lock([root.origin.path for root in library_roots], place):
        from .locks import lock_findings, locks_beside_roots  # only where something was installed
        from .trust import is_skill_approved

        root_locks = locks_beside_roots(library_roots, place)
    if root_locks is not None:
        # An untrusted project is the stronger reason: it stays where both apply.
        is_approved = partial(is_skill_approved, place.state, limit=found.limits.file_bytes)
        withheld = {**lock_findings(scan_result.skills, root_locks, database, is_approved), **withheld}
    if database is not None and database.silent:
        problems.append(index.index_problem(database.silent, database.path))
    return Library(
        place=place,
        request=request,
        dialect=found.options.serving,
        limits=found.limits,
        roots=library_roots,
        skills=skills,
        broken=scan_result.broken,
        problems=(*problems, *scan_result.problems),
        dialects=found.options.dialects,
        settings=settings,
        allowed=_allowed_skills(request, place, found.options),
        bundled=found.bundled,
        untrusted=withheld,
        guards=scan_result.guards,
        database=database,
        reopen=open_at,
    )


def _judge_packages(
    skills: Sequence[Skill], withheld: dict[str, Finding], place: Place
) -> tuple[dict[str, Finding], Sequence[Skill]]:
    """Withhold the skills of packages whose content nobody approved, and trust the others."""
    from .trust import package_findings

    found = package_findings((skill for skill in skills if skill.origin.tier == PACKAGE_TIER), place.state)
    marked = [
        skill._replace(origin=skill.origin._replace(trusted=True))
        if skill.origin.tier == PACKAGE_TIER and skill.path not in found
        else skill
        for skill in skills
    ]
    return {**withheld, **found}, marked


def _only_bundled(scanned: ScanResult, roots: Sequence[SkillRoot], bundled: frozenset[str]) -> ScanResult:
    """The scan, with only the bundled skills of a root that is for those."""
    if all(root.origin.tier != BUNDLED.tier for root in roots):
        return scanned
    return scanned._replace(
        skills=_without_others(scanned.skills, bundled), broken=_without_others(scanned.broken, bundled)
    )


def _without_others(items: Sequence[AnySkill], bundled: frozenset[str]) -> tuple[AnySkill, ...]:
    """Without what lies beside the bundled skills in a root that is for those alone."""
    return tuple(item for item in items if item.origin.tier != BUNDLED.tier or item.path in bundled)


def _make_reader(dialects: Mapping[str, Dialect]) -> SkillReader:
    """What parses the files that the index does not know; with a warm index the parser is not even imported."""
    short: Callable[[Origin, str, str, StatKey, bytes], Skill | None] | None = None

    def read_short(origin: Origin, id: str, path: str, key: StatKey, head: bytes) -> Skill | None:
        nonlocal short
        if short is None:
            from ..parse.fastpath import SimpleSkillReader

            short = SimpleSkillReader().read
        return short(origin, id, path, key, head)

    def read_long(candidate: Found) -> Skill | BrokenSkill:
        from ..parse.reader import parse_any

        return parse_any(candidate, dialects)

    return SkillReader(read_short, read_long)


def _serving_dialect(name: str, dialects: Mapping[str, Dialect]) -> Dialect:
    if name not in dialects:
        from difflib import get_close_matches

        near = get_close_matches(name, dialects, 1)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(dialects)
        raise BadRequest(f"`{name}` is not a dialect", hint)
    return dialects[name]


def _open_index(place: Place, problems: list[Problem]) -> IndexDatabase | None:
    path = f"{place.state}/{INDEX_FILE}"
    database, status = open_database(path, index.SCHEMA, index.READER_VERSION)
    if status not in ("ok", "new"):
        problems.append(index.index_problem(status, path))
    return database


def _allowed_skills(request: OpenRequest, place: Place, root_options: RootOptions) -> AllowedSkills:
    """The skills that the agent may use, as far as the kit has them too."""
    from ..resolve.resolver import AllowedSkills

    settings = root_options.settings
    allowed = _agents_skills(request.agent, place, root_options)
    names = None if allowed.names is None else settings.without_kits(allowed.names)
    if request.kit:
        kit = _kit_skills(request.kit, settings)
        names = kit if names is None else tuple(name for name in names if name in kit)
    return AllowedSkills(names)


def _kit_skills(name: str, settings: Settings) -> tuple[str, ...]:
    if name in settings.kits:
        return settings.without_kits(settings.kits[name])
    from difflib import get_close_matches

    near = get_close_matches(name, settings.kits, 1)
    there = "there are: " + ", ".join(settings.kits) if settings.kits else f"add [kits.{name}] to config.toml"
    raise BadRequest(f"no kit named `{name}`", f"did you mean `{near[0]}`?" if near else there)


def _agents_skills(agent: str | Sequence[str] | None, place: Place, root_options: RootOptions) -> AllowedSkills:
    """The skills an agent may use: as a list, from the configuration, from its own file, or all."""
    from ..resolve.resolver import AllowedSkills

    if agent is None:
        return AllowedSkills()
    if not isinstance(agent, str):
        return AllowedSkills(tuple(agent))
    agents = root_options.settings.agents
    if agent in agents:
        names = agents[agent]
    else:
        names = _skills_of_agent(agent, place, agents_trusted(place, read_trust_record(place)))
    # Some products give an agent without a list no skills, others all.
    if names is None and root_options.serving.serving.unlisted_agent == "none":
        return AllowedSkills(())
    return AllowedSkills(names)


def _skills_of_agent(agent: str, place: Place, trusted: bool) -> tuple[str, ...] | None:
    """The `skills:` of an agent's own file.  A project's agents are read only once it is trusted."""
    from .trust import AGENT_FOLDERS

    project_files: list[str] = []
    if "/" in agent or agent.endswith(".md"):
        candidates = [paths.absolute_path(agent, place.cwd, place.home)]
    else:
        project_files = [f"{place.project}/{folder}/{agent}.md" for folder in AGENT_FOLDERS]
        candidates = [*(project_files if trusted else ()), f"{place.state}/agents/{agent}.md"]
    for path in candidates:
        text = paths.read_text_file(path)
        if text is None:
            continue
        from ..parse.reader import agent_skills

        has_frontmatter, names = agent_skills(text)
        if not has_frontmatter:
            raise BadRequest(f"{path} has no frontmatter", "start it with `---`, a name and `skills:`", path)
        return names
    if not trusted and any(paths.exists(path) for path in project_files):
        raise BadRequest(
            f"the agent `{agent}` belongs to a project that is not trusted, or whose agents changed since",
            f"run `metier trust {place.project}`",
        )
    folders = [*(f"{place.project}/{relative}" for relative in AGENT_FOLDERS if trusted), f"{place.state}/agents"]
    file_names = [
        file_name for folder in folders if paths.is_folder(folder) for file_name in paths.list_names(folder).files
    ]
    from difflib import get_close_matches

    near = get_close_matches(
        agent, [file_name.removesuffix(".md") for file_name in file_names if file_name.endswith(".md")], 1
    )
    hint = "pass the path of its file, put it into .metier/agents, or add it to [agents]"
    raise BadRequest(f"no agent named `{agent}`", f"did you mean `{near[0]}`?" if near else hint)
