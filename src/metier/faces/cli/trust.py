"""metier trust."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...host import paths
from ...host.facts import find_place
from ...library.open import open as open_library
from ...library.trust import RunnableItem, project_record, read_trust_book, revoke_trust
from ...types.errors import Refused
from ...types.text import escaped_line
from ..trust_review import (
    TrustReport,
    agent_lines,
    build_report,
    changed_since_shown,
    config_lines,
    review_trust,
    trust_project,
    trust_reviewed,
)
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
        library = trust_project(open_library(directory, profile=context.profile))
        skills = build_report(library, None)
        extra_lines = {"configuration": list(config_lines(project)), "agents": list(agent_lines(project))}
        say_json({"project": project, "skills": [_skill_runs_dict(name, runs) for name, runs in skills], **extra_lines})
        return
    trust_directory(directory, context.profile, yes)


def trust_directory(directory: str, profile: str, yes: bool = False) -> None:
    """Show what the skills of a project can run, ask, and trust them as they are."""
    review = review_trust(open_library(directory, profile=profile))
    project = review.project
    _ask_trust(review.report, project, yes, review.lines)
    # Read again: what is trusted must be what was shown, however long the answer took.
    second = trust_reviewed(open_library(directory, profile=profile), (review.digest, ""))
    # The project's configuration counts once it is trusted, and may add roots. Their skills were not shown yet, and
    # nothing is trusted so far: ask about them too.
    if second is not None and second.digest == review.digest:
        _ask_trust(second.report[len(review.report) :], project, yes)
        second = trust_reviewed(open_library(directory, profile=profile), (second.digest, second.added))
    if second is not None:
        raise changed_since_shown(project)
    say(f"Trusted: {clean_path(project)}")


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


def _skill_runs_dict(name: str, runs: Sequence[RunnableItem]) -> dict[str, object]:
    return {"name": name, "runs": [item.label for item in runs]}


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
