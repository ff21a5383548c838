"""metier trust."""

from __future__ import annotations

import click

from ...host import paths
from ...host.place import here
from ...runtime import Library
from ...runtime import open as open_library
from ...sources.trusted import read_book, record_of, what_runs, write_record
from ...types.skill import Skill
from .app import Context
from .printing import clean, clean_path, columns, say, say_json


@click.command("trust")
@click.argument("directory", required=False, type=click.Path())
@click.option("--list", "listing", is_flag=True, help="The projects you trust.")
@click.option("--remove", is_flag=True, help="Take the trust back.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def trust(context: Context, directory: str | None, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust the skills of a project as they are now.

    The trust is kept outside the project and is bound to its path and to what its skills can run.  Prose may
    change later; new or changed commands, scripts and grants ask again.
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
    library = open_library(directory, profile=context.profile)
    write_record(place.state, project, _record(library, project))
    library = open_library(directory, profile=context.profile)  # the configuration counts now, and may add roots
    write_record(place.state, project, _record(library, project))
    theirs = _theirs(library)
    report = [(skill.name, what_runs(skill, library.limits.file_bytes)) for skill in theirs]
    if as_json:
        say_json({"project": project, "skills": [{"name": name, "runs": list(runs)} for name, runs in report]})
        return
    say(f"Trusted: {clean_path(project)}")
    rows = [(clean(name), ", ".join(clean(one) for one in runs) or "nothing in it runs") for name, runs in report]
    for line in columns(rows, indent=2):
        say("  " + line)
    if not report:
        say("  It has no skills yet; those added later will ask again.")


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
