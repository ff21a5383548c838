"""open(): gather settings, trust and roots for a place, look, and hand over a Library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..host import paths
from ..host.database import Database, open_database
from ..host.place import here
from ..parse import Simple, parse_any
from ..resolve import Allowed
from ..resolve.trust import Capabilities, Trusted, untrusted
from ..sources import Reader, index, look
from ..sources.bundled import bundled_paths
from ..sources.plugins import MANIFESTS, plugins
from ..sources.roots import Wanted, named_root, roots
from ..types.catalog import Habits
from ..types.dialect import Dialect, Limits
from ..types.errors import BadRequest
from ..types.place import Place, Root
from ..types.problem import Mark, Problem
from ..types.settings import Settings
from ..types.skill import Skill
from .configuring import (
    CONFIG,
    agents_trusted,
    all_dialects,
    known_dialects,
    own_roots,
    settings_of_place,
    trusted_record,
)
from .library import Library
from .locking import locks

if TYPE_CHECKING:
    from .installed import Locked

INDEX = "index.db"


@dataclass(frozen=True)
class Request:
    """What a caller of open() asked for."""

    dialect: str | None = None
    agent: str | Sequence[str] | None = None
    root: str | None = None
    index: bool = True
    habits: Habits = field(default_factory=Habits)
    """Of the conversation that the library is for."""


def open(
    path: str = ".",
    *,
    dialect: str | None = None,
    agent: str | Sequence[str] | None = None,
    profile: str = "",
    root: str | None = None,
    index: bool = True,
) -> Library:
    """Look at the skills of a place.  Nothing of theirs runs.

    `dialect` chooses who serves them: its roots, its listing, its commands.  `agent` is the name or file of an
    agent, or the list of skills it may use.  `root` looks at that one folder alone.  `index=False` reads every
    file anew and remembers nothing.
    """
    return open_at(here(str(path), profile), Request(dialect, agent, None if root is None else str(root), index))


def open_at(place: Place, request: Request) -> Library:
    """The same, for a place that was described rather than found."""
    problems: list[Problem] = []
    settings, record = settings_of_place(place, problems)
    dialects = all_dialects(settings, problems)
    settings = known_dialects(settings, dialects, f"{place.state}/{CONFIG}", problems)
    settings = own_roots(settings, place, problems)
    serving = _serving(request.dialect or str(settings.tree.get("dialect") or "standard"), dialects)
    limits = replace(serving.serving.limits, **settings.limits)
    wanted = Wanted(serving, dialects, settings, project_trusted=record is not None and record.whole)
    if request.root is not None:
        found: tuple[Root, ...] = (named_root(request.root, request.dialect or "", place, wanted),)
    else:
        wanted = wanted._replace(plugins=plugins(place, settings, problems) if serving.serving.plugins else ())
        found = roots(place, wanted)
    database = _database(place, problems) if request.index else None
    reader = Reader(Simple().read, lambda item: parse_any(item, dialects))
    seen = look(found, limits, database, reader)
    theirs = any(root.origin.source == "project" for root in found)
    withheld = dict(untrusted_of(seen.skills if theirs else (), place, record, limits))
    skills = singly_trusted(seen.skills, withheld, record) if theirs else seen.skills
    held = locks(found, place)
    if held is not None:
        from .installed import marks_of  # only where something was installed

        withheld = {**marks_of(seen.skills, held, database), **withheld}
    if database is not None and database.silent:
        problems.append(index.fault(database.silent, database.path))
    return Library(
        place=place,
        request=request,
        dialect=serving,
        limits=limits,
        roots=found,
        skills=skills,
        broken=seen.broken,
        problems=(*problems, *seen.problems),
        dialects=dialects,
        settings=settings,
        allowed=_allowed(request.agent, place, wanted),
        bundled=bundled_paths(place.state) if request.root is None else frozenset(),
        untrusted=withheld,
        guards=seen.guards,
        leaned_on=(*_leaned_on(place, settings, record, seen.skills), *_beside_roots(found, held)),
        database=database,
    )


def _beside_roots(found: Sequence[Root], held: Locked | None) -> Iterator[str]:
    """The locks that are there or may come, and every file of what they lock."""
    yield from (f"{root.origin.path}-lock.json" for root in found)
    if held is not None:
        yield from held.leaned_on
        for directory in held.entries:
            yield directory
            yield from (f"{directory}/{path}" for path in paths.tree_paths(directory))


def _leaned_on(place: Place, settings: Settings, record: Trusted | None, skills: Sequence[Skill]) -> Iterator[str]:
    """Every path beside the roots that this look depended on, there or not."""
    yield from (f"{place.state}/{name}" for name in (CONFIG, "trust.json", "bundled.json", "plugins"))
    yield from (f"{ancestor}/.git" for ancestor in place.ancestors)
    for folder in (
        place.project,
        *(paths.absolute(path, place.cwd, place.home) for path in settings.plugins),
    ):
        yield from (f"{folder}/{name}" for name in (".metier/" + CONFIG, ".metier/plugins", *MANIFESTS, "skills"))
    yield from paths.site_folders()
    if record is not None:
        for skill in skills:
            if skill.origin.source == "project":
                yield skill.directory
                yield from (f"{skill.directory}/{path}" for path in paths.tree_paths(skill.directory))


def untrusted_of(skills: Sequence[Skill], place: Place, record: Trusted | None, limits: Limits) -> Mapping[str, Mark]:
    theirs = [skill for skill in skills if skill.origin.source == "project"]
    if not theirs:
        return {}
    if record is None:
        return untrusted(((skill, "", Capabilities()) for skill in theirs), None, place.project)
    from ..sources.trusted import runs_of

    now = (
        (
            skill,
            skill.directory.removeprefix(place.project + "/"),
            Capabilities(runs_of(skill, limits.file_bytes)),
        )
        for skill in theirs
    )
    return untrusted(now, record, place.project)


def singly_trusted(skills: Sequence[Skill], withheld: Mapping[str, Mark], record: Trusted | None) -> tuple[Skill, ...]:
    """In a project of which only some skills were trusted, written or installed, each of those says so itself."""
    if record is None or record.whole:
        return tuple(skills)
    return tuple(
        skill._replace(origin=replace(skill.origin, trusted=True))
        if skill.origin.source == "project" and skill.path not in withheld
        else skill
        for skill in skills
    )


def _serving(name: str, dialects: Mapping[str, Dialect]) -> Dialect:
    if name not in dialects:
        near = get_close_matches(name, dialects, 1)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(dialects)
        raise BadRequest(f"`{name}` is not a dialect", hint)
    return dialects[name]


def _database(place: Place, problems: list[Problem]) -> Database | None:
    path = f"{place.state}/{INDEX}"
    database, how = open_database(path, index.SCHEMA, index.READER)
    if how not in ("ok", "new"):
        problems.append(index.fault(how, path))
    return database


def _allowed(agent: str | Sequence[str] | None, place: Place, wanted: Wanted) -> Allowed:
    """The skills an agent may use: a list, what its configuration or its own file says, or everything."""
    if agent is None:
        return Allowed()
    if not isinstance(agent, str):
        return Allowed(tuple(agent))
    agents = wanted.settings.agents
    if agent in agents:
        names = agents[agent]
    else:
        names = _agent_file(agent, place, agents_trusted(place, trusted_record(place)))
    if names is None and wanted.serving.serving.unlisted_agent == "none":
        return Allowed(())
    return Allowed(names)


def _agent_file(agent: str, place: Place, trusted: bool) -> tuple[str, ...] | None:
    """The `skills:` of an agent's own file; the project's agents are looked at only once it is trusted."""
    from ..sources.trusted import AGENTS

    theirs: list[str] = []
    if "/" in agent or agent.endswith(".md"):
        candidates = [paths.absolute(agent, place.cwd, place.home)]
    else:
        theirs = [f"{place.project}/{folder}/{agent}.md" for folder in AGENTS]
        candidates = [*(theirs if trusted else ()), f"{place.state}/agents/{agent}.md"]
    for path in candidates:
        text = paths.read_text_file(path)
        if text is None:
            continue
        from ..parse.body import agent_skills

        found, names = agent_skills(text)
        if not found:
            raise BadRequest(f"{path} has no frontmatter", "begin it with `---`, a name and `skills:`", path)
        return names
    if not trusted and any(paths.exists(path) for path in theirs):
        raise BadRequest(
            f"the agent `{agent}` belongs to a project that is not trusted, or not with its agents as they are now",
            f"run `metier trust {place.project}`",
        )
    folders = [*(f"{place.project}/{one}" for one in AGENTS if trusted), f"{place.state}/agents"]
    there = [one for folder in folders if paths.is_folder(folder) for one in paths.list_names(folder).files]
    near = get_close_matches(agent, [one.removesuffix(".md") for one in there if one.endswith(".md")], 1)
    hint = "give the path of its file, put it into .metier/agents, or name it in [agents]"
    raise BadRequest(f"no agent is called `{agent}`", f"did you mean `{near[0]}`?" if near else hint)
