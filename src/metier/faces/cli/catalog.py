"""metier catalog and metier commands."""

from __future__ import annotations

from collections import Counter
from typing import cast, get_args

import click

from ...host import paths
from ...types.catalog import Catalog, CatalogEntry
from ...types.dialect import ListingFormat, ListingPolicy
from .app import CliContext
from .output import (
    clean_path,
    count_of,
    format_columns,
    hint_line,
    paint,
    printable,
    problem_dict,
    problem_lines,
    say,
    say_json,
    warn,
)


@click.command("catalog")
@click.option(
    "--format", "format_", type=click.Choice(get_args(ListingFormat)), help="Another listing than the dialect's."
)
@click.option(
    "--max-chars",
    type=click.IntRange(min=0),
    help="At most this many characters; the note of what was left out comes on top.",
)
@click.option("--max-skills", type=click.IntRange(min=0), help="At most this many skills.")
@click.option(
    "--policy",
    type=click.Choice(get_args(ListingPolicy)),
    help="What does not fit: `ranked` by the request, or cut from the end (`prefix`).",
)
@click.option("--for", "request", metavar="REQUEST", default="", help="Rank what does not fit for this request.")
@click.option("--dialect", metavar="NAME", help="Serve as this dialect (as before the command).")
@click.option("--json", "as_json", is_flag=True, help="Entries, what was left out, and counts.")
@click.pass_obj
def catalog(
    context: CliContext,
    format_: str | None,
    max_chars: int | None,
    max_skills: int | None,
    policy: str | None,
    request: str,
    dialect: str | None,
    as_json: bool,
) -> None:
    """Print the listing that goes into a system prompt, exactly; what was left out is said on standard error.

    With --for, what a model is told of that request follows behind a blank line, where the listing had to be cut:
    it goes to the end of a conversation.
    """
    context.dialect = dialect or context.dialect
    library = context.library()
    listing: Catalog = library.catalog(
        format=cast("ListingFormat | None", format_),
        max_skills=max_skills,
        max_chars=max_chars,
        policy=cast("ListingPolicy | None", policy),
        request=request,
    )
    if as_json:
        say_json(
            {
                "text": listing.text,
                "characters": listing.characters,
                "tokens": listing.tokens,
                "entries": [_entry_dict(entry) for entry in listing.entries],
                "ranked": listing.ranked,
                "suggested": [_entry_dict(entry) for entry in listing.suggested],
                "problems": [problem_dict(issue) for issue in (*library.problems, *listing.problems)],
                "left_out": [omitted._asdict() for omitted in listing.left_out],
            }
        )
        return
    if listing.text:
        say(listing.text)
    if request and listing.ranked:
        say()
        say(listing.ranked)
    _say_counts(listing)
    for problem in (*library.problems, *listing.problems):
        for line in problem_lines(problem):
            warn(line)


def _entry_dict(entry: CatalogEntry) -> dict[str, str]:
    return {"name": entry.name, "description": entry.description, "location": entry.location}


def _say_counts(listing: Catalog) -> None:
    """What is listed, and what is not and why, on standard error."""
    counts = (count_of(len(listing.entries), "skill"), count_of(listing.characters, "character"))
    warn(f"{', '.join(counts)}, about {count_of(listing.tokens, 'token')}")
    if listing.suggested:
        warn(
            f"{count_of(len(listing.suggested), 'skill')} for the request, {count_of(len(listing.ranked), 'character')}"
        )
    cut = [omitted for omitted in listing.left_out if omitted.reason in _LIMIT_OPTIONS]
    if cut:
        begin = f", from `{printable(cut[0].name)}` on" if "truncated" in listing.text[:40] else ""
        warn(f"{len(cut)} left out{begin}")
        warn(f"  → raise {_LIMIT_OPTIONS[cut[0].reason]}, or remove skills you do not use")
    if not listing.text and not listing.left_out:
        warn("  → `metier status` says what there is, and why none of it is listed")


_LIMIT_OPTIONS = {
    "limit-listed": "--max-skills or limits.listed",
    "limit-characters": "--max-chars or limits.characters",
}


@click.command("commands")
@click.argument("prefix", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def commands(context: CliContext, prefix: str, as_json: bool) -> None:
    """List what a person may type after `/`; with PREFIX, the commands that begin with it."""
    table = context.library().commands(prefix)
    if as_json:
        say_json(
            [
                {
                    "command": command.name,
                    "skill": command.skill.name if command.skill else None,
                    "hint": command.hint,
                    "description": command.description,
                    "aliases": list(command.aliases),
                    "scheduled": command.scheduled,
                }
                for command in table
            ]
        )
        return
    if not table and not prefix:
        say("No commands here.")
        say(hint_line("`metier status` says what there is, and why none of it can be called"))
    elif not table:
        say(f"No command begins with `{printable(prefix)}`.")
    lines = format_columns(
        [(f"/{printable(command.name)} {command.hint}".strip(), printable(command.description)) for command in table]
    )
    for command, line in zip(table, lines, strict=True):
        say(paint(line, "magenta") if command.scheduled else line)


@click.command("roots")
@click.option("--all", "everything", is_flag=True, help="Also the places that do not exist.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def roots(context: CliContext, everything: bool, as_json: bool) -> None:
    """Show where metier looks, in order of precedence: an earlier root shadows a later one."""
    library = context.library()
    counts = Counter(skill.origin.root for skill in library.skills)
    withheld = Counter(skill.origin.root for skill in library.skills if skill.path in library.untrusted)
    rows = []
    for origin in (root.origin for root in library.roots):
        label, exists = origin.root, paths.is_folder(origin.path)
        trusted = not withheld[label] if counts[label] else origin.trusted
        rows.append(
            {
                "rank": origin.rank,
                "label": label,
                "source": origin.source,
                "dialect": origin.dialect.name,
                "path": origin.path,
                "exists": exists,
                "skills": counts[label],
                "withheld": withheld[label],
                "trusted": trusted,
            }
        )
    if as_json:
        say_json(rows)
        return
    visible = [row for row in rows if everything or row["exists"]]
    if not visible:
        say("None of the places metier looks in exists yet.")
        say(hint_line("`metier roots --all` names them; `metier new NAME` makes the first skill"))
    table = [
        (
            f"{row['rank']:>2}",
            printable(str(row["label"])),
            printable(str(row["dialect"])),
            _skills_note(row),
            clean_path(str(row["path"])),
        )
        for row in visible
    ]
    for line in format_columns(table, last_cut=False):
        say(line)
    hidden = len(rows) - len(visible)
    if hidden and visible:
        say(paint(f"and {hidden} more that do not exist (--all)", "dim"))
    for problem in library.problems:
        for line in problem_lines(problem):
            say(line)


def _skills_note(row: dict[str, object]) -> str:
    if not row["exists"]:
        return "missing"
    note = count_of(int(str(row["skills"])), "skill")
    if row["trusted"]:
        return note
    return f"{note}, {row['withheld']} untrusted" if row["skills"] != row["withheld"] else f"{note}, untrusted"
