"""metier trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from typing import TypeAlias

import click

from ...host import paths
from ...host.facts import find_place
from ...library.library import Library
from ...library.open import open as open_library
from ...library.trust import (
    CONFIG_FILE,
    RunnableItem,
    agent_paths,
    make_trust_record,
    project_record,
    read_trust_book,
    revoke_trust,
    runnable_items,
    settings_digest,
    write_trust_record,
)
from ...parse.agent import parse_agent_file
from ...parse.config import USER_ONLY_KEYS
from ...sources.project_instructions import instruction_names, read_instructions
from ...types.errors import Refused
from ...types.skill import Skill
from ...types.text import escaped_line
from .approval import ask_confirmation, can_ask
from .options import CliContext
from .output import clean_path, paint, printable, say, say_json


@click.command("trust")
@click.argument("directory", required=False, type=click.Path())
@click.option("--list", "listing", is_flag=True, help="List the projects you trust")
@click.option("--remove", is_flag=True, help="Stop trusting the project")
@click.option("--yes", is_flag=True, help="Trust without asking")
@click.option("--json", "as_json", is_flag=True, help="Trust without asking and print JSON")
@click.pass_obj
def trust(context: CliContext, directory: str | None, listing: bool, remove: bool, yes: bool, as_json: bool) -> None:
    """Trust the skills of a project at their current content.

    Shows what they can run and what they are granted, and asks for confirmation on a terminal. Trust is stored outside
    the project and bound to its path and to what its skills can run: prose may change later, but new or changed
    commands, scripts and grants need to be trusted again.
    """
    directory = directory or context.directory
    place = find_place(directory)
    if listing:
        _list_trusted(place.state, as_json)
        return
    project = place.project
    if remove:
        was_trusted = project_record(place.state, project) is not None
        revoke_trust(place.state, project)
        say(f"{clean_path(project)} is no longer trusted" if was_trusted else f"{clean_path(project)} was not trusted")
        return
    if as_json:
        # --json is --yes: a program can't be asked.
        library = _trust_project(context.profile, open_library(directory, profile=context.profile), directory)
        skills = _build_report(library, None)
        extra_lines = {"configuration": list(_config_lines(project)), "agents": list(_agent_lines(project))}
        say_json({"project": project, "skills": [_skill_runs_dict(name, runs) for name, runs in skills], **extra_lines})
        return
    trust_directory(directory, context.profile, yes)


def trust_directory(directory: str, profile: str, yes: bool = False) -> None:
    """Show what the skills of a project can run, ask, and trust them as they are."""
    place = find_place(directory)
    project = place.project
    before = project_record(place.state, project)
    library = open_library(directory, profile=profile)
    extra_lines = [*_config_lines(project), *_agent_lines(project), *_instruction_lines(library)]
    _ask_trust(_build_report(library, before), project, yes, extra_lines)
    reopened = _trust_project(profile, library, directory)
    added = [
        candidate
        for candidate in _project_skills(reopened)
        if candidate.path not in {skill.path for skill in library.skills}
    ]
    # The project's configuration counts once it is trusted, and may add roots. Their skills were not shown yet: take
    # the trust back, ask about them too, and trust again.
    if added:
        write_trust_record(place.state, project, before)
        _ask_trust(_build_report(reopened, before, added), project, yes)
        _trust_project(profile, library, directory)
    say(f"Trusted: {clean_path(project)}")


def _trust_project(profile: str, library: Library, directory: str) -> Library:
    """The library with its project trusted as it is, roots that its configuration adds included."""
    place = library.place
    # Twice: the first record makes the configuration count, the second covers the skills of roots that it adds.
    write_trust_record(place.state, place.project, _trust_record(library, place.project))
    library = open_library(directory, profile=profile)
    write_trust_record(place.state, place.project, _trust_record(library, place.project))
    return library


TrustReport: TypeAlias = list[tuple[str, tuple[RunnableItem, ...]]]


def _build_report(
    library: Library, before: Mapping[str, object] | None, skills: Sequence[Skill] | None = None
) -> TrustReport:
    """What each skill can run, compared with what was trusted before."""
    recorded = before.get("skills") if before else None
    known_digests = recorded if isinstance(recorded, dict) else {}
    report: TrustReport = []
    for skill in _project_skills(library) if skills is None else skills:
        digests = known_digests.get(skill.directory.removeprefix(library.place.project + "/"))
        known = digests if isinstance(digests, list) else ()
        runs = (*runnable_items(skill, library.limits.file_bytes, known), *_lent_items(library, skill, known))
        report.append((skill.name, runs if before else tuple(item._replace(new=False) for item in runs)))
    return report


def _lent_items(library: Library, skill: Skill, known: Sequence[str]) -> Iterator[RunnableItem]:
    """The user's own settings that the skill would be lent, because it has the name that they are kept under."""
    key = skill.settings_key
    entry = library.settings.user_entry(key)
    parts = [*(["your API key"] if entry.api_key else []), *sorted(entry.env), *sorted(entry.permissions)]
    if parts:
        yield RunnableItem(f"your settings for {key}: {', '.join(parts)}", settings_digest(key) not in known)


def _ask_trust(report: TrustReport, project: str, yes: bool, extra_lines: Sequence[str] = ()) -> None:
    """Show everything, to the last character, and ask: what is not shown would run unseen."""
    for name, runs in report:
        say(f"{paint(printable(name), 'bold')}" + ("" if runs else "  nothing in it runs"))
        for item in runs:
            first, *rest = item.label.split("\n")
            mark = paint("new", "yellow") + " " if item.new else ""
            say(f"  {mark}{escaped_line(first)}")
            for line in rest:
                say(f"    {escaped_line(line)}")
            if escaped_line(item.label.replace("\n", "")) != item.label.replace("\n", ""):
                say(paint("    contains invisible characters, shown as \\u…", "red"))
    if not report:
        say("It has no skills yet; skills added later need to be trusted again.")
    for line in extra_lines:
        say(escaped_line(line))
    if not yes and can_ask() and not ask_confirmation(f"Trust {clean_path(project)}?"):
        raise Refused("nothing was trusted", "run `metier trust` again to trust it", project)


def _config_lines(project: str) -> Iterator[str]:
    """What the project's configuration says, a value to a line; it counts from then on."""
    text = paths.read_text_file(f"{project}/{CONFIG_FILE}")
    if text is None:
        return
    from ...parse.config import parse_settings

    tree = {key: value for key, value in parse_settings(text, []).tree.items() if key not in USER_ONLY_KEYS}
    yield from (f"{CONFIG_FILE}: {line}" for line in _leaf_lines(tree))


def _leaf_lines(tree: Mapping[str, object], before: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaf_lines(value, f"{before}{key}.")
        else:
            yield f"{before}{key} = {dumps(value, ensure_ascii=False, default=str)}"


def _agent_lines(project: str) -> Iterator[str]:
    """The agents that its files describe, and what they may call."""
    for path in agent_paths(project):
        agent = parse_agent_file(paths.read_text_file(f"{project}/{path}") or "", path)
        if agent is not None:
            tools = "every tool" if agent.tools is None else ", ".join(agent.tools) or "no tool"
            yield f"{path}: the agent {agent.name} may call {tools}"


def _instruction_lines(library: Library) -> Iterator[str]:
    """The files that every model which works here is told to follow."""
    for found in read_instructions(library.place, instruction_names(library.settings)):
        imports = f", with {', '.join(found.imports)}" if found.imports else ""
        yield f"{found.path}: a model that works here is told to follow its {len(found.text):,} characters{imports}"


def _skill_runs_dict(name: str, runs: Sequence[RunnableItem]) -> dict[str, object]:
    return {"name": name, "runs": [item.label for item in runs]}


def _project_skills(library: Library) -> list[Skill]:
    return [skill for skill in library.skills if skill.origin.source == "project"]


def _trust_record(library: Library, project: str) -> dict[str, object]:
    skills, limit = _project_skills(library), library.limits.file_bytes
    return make_trust_record(project, skills, limit, whole=True, settings=library.settings)


def _list_trusted(state: str, as_json: bool) -> None:
    book = {
        path: record for path, record in read_trust_book(state).items() if record.get("whole") or record.get("skills")
    }
    if as_json:
        say_json({path: {"skills": len(record.get("skills", {}))} for path, record in book.items()})  # type: ignore[arg-type]
        return
    if not book:
        say("No trusted projects.")
    for path in sorted(book):
        say(clean_path(path) + ("" if paths.is_folder(path) else "  (missing)"))
