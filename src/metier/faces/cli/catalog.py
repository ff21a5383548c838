"""metier catalog, metier commands and metier roots."""

from __future__ import annotations

from collections import Counter

from ...host import paths
from ...light_typing import cast, get_args
from ...types.catalog import Catalog, CatalogEntry
from ...types.dialect import ListingFormat, ListingPolicy
from . import commands as cli
from .commands import JSON, Argument, Flag, Option
from .options import CliContext
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


@cli.command(
    "catalog",
    Option("format_", ("--format",), "Listing format [default: the dialect's]", choices=get_args(ListingFormat)),
    Option(
        "max_chars",
        ("--max-chars",),
        "Limit the listing to N characters, plus the note on what was left out",
        "N",
        minimum=0,
    ),
    Option("max_skills", ("--max-skills",), "Limit the listing to N skills", "N", minimum=0),
    Option(
        "policy",
        ("--policy",),
        "What to drop if the listing is too long: the skills least relevant to the request (`ranked`), or the last ones"
        " (`prefix`)",
        choices=get_args(ListingPolicy),
    ),
    Option("request", ("--for",), "Rank the skills for this request if the listing is cut", "REQUEST", default=""),
    Option("dialect", ("--dialect",), "The same as the global --dialect", "NAME"),
    Flag("as_json", ("--json",), "Print the entries, the skills left out, and counts as JSON"),
)
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
    """Print the listing a model gets in its system prompt; what was left out is reported on standard error.

    With --for, and if the listing was cut, the skills ranked for that request follow after a blank line: the text a
    model gets at the end of the conversation.
    """
    library = context._replace(dialect=dialect or context.dialect).library(shows_problems=True)
    listing = library.catalog(
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
    """Report on standard error what is listed, what is not, and why."""
    counts = (count_of(len(listing.entries), "skill"), count_of(listing.characters, "character"))
    warn(f"{', '.join(counts)}, about {count_of(listing.tokens, 'token')}")
    if listing.suggested:
        warn(
            f"{count_of(len(listing.suggested), 'skill')} for the request, {count_of(len(listing.ranked), 'character')}"
        )
    cut = [omitted for omitted in listing.left_out if omitted.reason in _LIMIT_OPTIONS]
    if cut:
        # Only a listing that was cut at the end, and says so in its first line, has a point from which skills are
        # missing.
        begin = f", from `{printable(cut[0].name)}` on" if "truncated" in listing.text[:40] else ""
        warn(f"{len(cut)} left out{begin}")
        warn(f"  → raise {_LIMIT_OPTIONS[cut[0].reason]}, or remove unused skills")
    if not listing.text and not listing.left_out:
        warn("  → run `metier status` to see why no skill is listed")


_LIMIT_OPTIONS = {
    "limit-listed": "--max-skills or limits.listed",
    "limit-characters": "--max-chars or limits.characters",
}


@cli.command("commands", Argument("prefix", required=False), JSON)
def commands(context: CliContext, prefix: str | None, as_json: bool) -> None:
    """List the slash commands; with PREFIX, those that start with it."""
    prefix = prefix or ""
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
        say("No slash commands.")
        say(hint_line("run `metier status` to see why no skill can be called"))
    elif not table:
        say(f"No command starts with `{printable(prefix)}`.")
    lines = format_columns(
        [(f"/{printable(command.name)} {command.hint}".strip(), printable(command.description)) for command in table]
    )
    for command, line in zip(table, lines, strict=True):
        say(paint(line, "magenta") if command.scheduled else line)


@cli.command("roots", Flag("everything", ("--all",), "Include folders that do not exist"), JSON)
def roots(context: CliContext, everything: bool, as_json: bool) -> None:
    """List the folders searched for skills; a skill in an earlier one shadows its namesakes in later ones."""
    library = context.library(shows_problems=True)
    counts = Counter(skill.origin.root for skill in library.skills)
    withheld = Counter(skill.origin.root for skill in library.skills if skill.path in library.untrusted)
    rows = []
    for origin in (root.origin for root in library.roots):
        label, exists = origin.root, paths.is_folder(origin.path)
        # Trust is per skill: a root is trusted if none of its skills is withheld.
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
        say("None of the folders that metier searches exists.")
        say(hint_line("run `metier roots --all` to list them, or `metier new NAME` to create a skill"))
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
        say(paint(f"{hidden} more do not exist (--all lists them)", "dim"))
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
