"""metier trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from typing import TypeAlias

import click

from ...host import paths
from ...host.place import here
from ...parse.agent import agent_of
from ...parse.config import OWN
from ...runtime import Library
from ...runtime import open as open_library
from ...sources.trusted import CONFIG, Running, agent_paths, read_book, record_of, what_runs, write_record
from ...types.errors import Refused
from ...types.skill import Skill
from ...types.text import exact
from .app import Context
from .approval import ask, can_ask
from .printing import clean, clean_path, paint, say, say_json


@click.command("trust")
@click.argument("directory", required=False, type=click.Path())
@click.option("--list", "listing", is_flag=True, help="The projects you trust.")
@click.option("--remove", is_flag=True, help="Take the trust back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; nothing is asked.")
@click.pass_obj
def trust(context: Context, directory: str | None, listing: bool, remove: bool, yes: bool, as_json: bool) -> None:
    """Trust the skills of a project as they are now.

    What they can run and are granted is shown first, and on a terminal you are asked.  The trust is kept outside the
    project and is bound to its path and to what its skills can run.  Prose may change later; new or changed commands,
    scripts and grants ask again.
    """
    directory = directory or context.project
    place = here(directory)
    if listing:
        _list(place.state, as_json)
        return
    project = place.project
    if remove:
        known = paths.real_path(project) in read_book(place.state)
        write_record(place.state, project, None)
        say(f"{clean_path(project)} is no longer trusted" if known else f"{clean_path(project)} was not trusted")
        return
    before = read_book(place.state).get(paths.real_path(project))
    library = open_library(directory, profile=context.profile)
    if as_json:
        library = _trusted(context, library, directory)
        skills = _report(library, None)
        besides = {"configuration": list(_configured(project)), "agents": list(_agents(project))}
        say_json({"project": project, "skills": [_as_dict(name, runs) for name, runs in skills], **besides})
        return
    _agree(_report(library, before), project, yes, [*_configured(project), *_agents(project)])
    again = _trusted(context, library, directory)
    more = [one for one in _theirs(again) if one.path not in {skill.path for skill in library.skills}]
    if more:  # the configuration counts now, and adds roots
        write_record(place.state, project, before)
        _agree(_report(again, before, more), project, yes)
        _trusted(context, library, directory)
    say(f"Trusted: {clean_path(project)}")


def _trusted(context: Context, library: Library, directory: str) -> Library:
    """The library with its project trusted as it is, roots that its configuration adds included."""
    place = library.place
    write_record(place.state, place.project, _record(library, place.project))
    library = open_library(directory, profile=context.profile)
    write_record(place.state, place.project, _record(library, place.project))
    return library


Report: TypeAlias = list[tuple[str, tuple[Running, ...]]]


def _report(library: Library, before: Mapping[str, object] | None, among: Sequence[Skill] | None = None) -> Report:
    """What each skill can run, held against what was trusted before."""
    said = before.get("skills") if before else None
    known = said if isinstance(said, dict) else {}
    found: Report = []
    for skill in _theirs(library) if among is None else among:
        digests = known.get(skill.directory.removeprefix(library.place.project + "/"))
        runs = what_runs(skill, library.limits.file_bytes, digests if isinstance(digests, list) else ())
        found.append((skill.name, runs if before else tuple(one._replace(new=False) for one in runs)))
    return found


def _agree(report: Report, project: str, yes: bool, besides: Sequence[str] = ()) -> None:
    """Show all of it to the last character, and have a yes: what is left out here would run unseen."""
    for name, runs in report:
        say(f"{paint(clean(name), 'bold')}" + ("" if runs else "  nothing in it runs"))
        for one in runs:
            first, *rest = one.label.split("\n")
            mark = paint("new", "yellow") + " " if one.new else ""
            say(f"  {mark}{exact(first)}")
            for line in rest:
                say(f"    {exact(line)}")
            if exact(one.label.replace("\n", "")) != one.label.replace("\n", ""):
                say(paint("    it has characters that can't be seen; they are written as \\u….", "red"))
    if not report:
        say("It has no skills yet; those added later will ask again.")
    for line in besides:
        say(exact(line))
    if not yes and can_ask() and not ask(f"Trust {clean_path(project)} with this?"):
        raise Refused("nothing was trusted", "run `metier trust` again when you have read it", project)


def _configured(project: str) -> Iterator[str]:
    """What the project's configuration says, a value to a line; it counts from then on."""
    text = paths.read_text_file(f"{project}/{CONFIG}")
    if text is None:
        return
    from ...parse.config import settings_of

    tree = {key: value for key, value in settings_of(text, []).tree.items() if key not in OWN}
    yield from (f"{CONFIG}: {line}" for line in _leaves(tree))


def _leaves(tree: Mapping[str, object], before: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key} = {dumps(value, ensure_ascii=False, default=str)}"


def _agents(project: str) -> Iterator[str]:
    """The agents that its files describe, and what they may call."""
    for path in agent_paths(project):
        made = agent_of(paths.read_text_file(f"{project}/{path}") or "", path)
        if made is not None:
            tools = "every tool" if made.tools is None else ", ".join(made.tools) or "no tool"
            yield f"{path}: the agent {made.name} may call {tools}"


def _as_dict(name: str, runs: Sequence[Running]) -> dict[str, object]:
    return {"name": name, "runs": [one.label for one in runs]}


def _theirs(library: Library) -> list[Skill]:
    return [skill for skill in library.skills if skill.origin.source == "project"]


def _record(library: Library, project: str) -> dict[str, object]:
    return record_of(project, _theirs(library), library.limits.file_bytes, whole=True)


def _list(state: str, as_json: bool) -> None:
    book = read_book(state)
    if as_json:
        say_json({path: {"skills": len(record.get("skills", {}))} for path, record in book.items()})  # type: ignore[arg-type]
        return
    if not book:
        say("You trust no project yet.")
    for path in sorted(book):
        say(clean_path(path) + ("" if paths.is_folder(path) else "  (gone)"))
