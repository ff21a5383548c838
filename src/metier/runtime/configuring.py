"""What the user and a trusted project configured for a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..dialects import ALL
from ..host import paths
from ..resolve.trust import Capabilities, Trusted
from ..types.dialect import Dialect
from ..types.errors import HostError
from ..types.place import Place
from ..types.problem import Mark, Problem, problem
from ..types.settings import Settings

CONFIG = "config.toml"


def settings_of_place(place: Place, problems: list[Problem]) -> tuple[Settings, Trusted | None]:
    """The user's configuration, then that of the project if it is trusted and still says what it said."""
    own = f"{place.state}/{CONFIG}"
    settings = _read(own, _text(own, problems), problems)
    record = trusted_record(place)
    path = f"{place.project}/.metier/{CONFIG}"
    if record is None or not record.whole or path == own:
        return settings, record
    if not agents_trusted(place, record):
        problems.append(problem(Mark("changed-since-trust", 0, (place.project, "the project's agents")), place.project))
    text = _text(path, problems)
    if text is None:
        return settings, record
    from ..sources.trusted import config_digest

    if record.configuration != config_digest(text):
        problems.append(problem(Mark("changed-since-trust", 0, (place.project, "the project's configuration")), path))
        return settings, record
    from ..parse.config import merged

    theirs = _read(path, text, problems)
    if "sandbox" in theirs.tree:
        own_only = "the boundary is set in your own configuration alone"
        problems.append(problem(Mark("config-unknown-key", 0, ("sandbox", own_only)), path))
    return merged(settings, theirs), record


def _text(path: str, problems: list[Problem]) -> str | None:
    """A configuration file; one that can't be read is a finding, and the rest goes on without it."""
    try:
        return paths.read_text_file(path)
    except HostError as error:
        problems.append(problem(Mark("config-syntax", 0, (error.message,), fatal=True), path))
        return None


def _read(path: str, text: str | None, problems: list[Problem]) -> Settings:
    if text is None:
        return Settings()
    from ..parse.config import settings_of  # no configuration, no need for a TOML reader

    marks: list[Mark] = []
    settings = settings_of(text, marks)
    problems += [problem(mark, path) for mark in marks]
    return settings


def trusted_record(place: Place) -> Trusted | None:
    """What the user trusted this project with, if they did."""
    if not paths.exists(f"{place.state}/trust.json"):
        return None
    from ..sources.trusted import read_book

    entry = read_book(place.state).get(paths.real_path(place.project))
    if entry is None:
        return None
    skills = entry.get("skills")
    return Trusted(
        {
            str(name): Capabilities(frozenset(map(str, runs)))
            for name, runs in (skills.items() if isinstance(skills, dict) else ())
            if isinstance(runs, list)
        },
        str(entry.get("configuration", "")),
        str(entry.get("agents", "")),
        entry.get("whole") is True,
    )


def agents_trusted(place: Place, record: Trusted | None) -> bool:
    """Whether the project's agents are those that were trusted with it."""
    from ..sources.trusted import agents_digest

    return record is not None and record.whole and record.agents == agents_digest(place.project)


def all_dialects(settings: Settings, problems: list[Problem]) -> Mapping[str, Dialect]:
    tables = settings.tree.get("dialects")
    if not isinstance(tables, Mapping) or not tables:
        return ALL
    from ..dialects.custom import custom

    found = dict(ALL)
    for name, table in tables.items():
        marks: list[Mark] = []
        made = custom(str(name), table, ALL, marks) if isinstance(table, Mapping) else None
        problems += [problem(mark) for mark in marks]
        if made is not None:
            found[made.name] = made
    return found


def known_dialects(settings: Settings, dialects: Mapping[str, Dialect], path: str, problems: list[Problem]) -> Settings:
    """A dialect that the configuration names and nobody knows is passed over, with a word about it."""
    wanted = "one of " + ", ".join(dialects)
    named = settings.tree.get("dialect")
    if named is not None and named not in dialects:
        problems.append(problem(Mark("config-type", 0, ("dialect", wanted)), path))
        settings = replace(settings, tree={key: value for key, value in settings.tree.items() if key != "dialect"})
    if all(not root.dialect or root.dialect in dialects for root in settings.roots):
        return settings
    kept = []
    for number, root in enumerate(settings.roots):
        if root.dialect and root.dialect not in dialects:
            problems.append(problem(Mark("config-type", 0, (f"roots[{number}].dialect", wanted)), path))
            root = replace(root, dialect="")
        kept.append(root)
    return replace(settings, roots=tuple(kept))


def own_roots(settings: Settings, place: Place, problems: list[Problem]) -> Settings:
    """A project may configure roots inside itself; one that lies elsewhere is passed over, with a word about it."""
    kept = []
    for root in settings.roots:
        path = paths.absolute(root.path, place.project, place.home)
        if root.project and not paths.is_inside(path, place.project):
            problems.append(problem(Mark("link-outside", 0, (root.path, place.project)), path))
        else:
            kept.append(root)
    return replace(settings, roots=tuple(kept)) if len(kept) < len(settings.roots) else settings
