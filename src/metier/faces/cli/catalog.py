"""metier catalog and metier commands."""

from __future__ import annotations

from typing import cast, get_args

import click

from ...types.dialect import Format
from .app import Context
from .printing import arrow, clean, columns, counted, paint, problem_lines, say, say_json, warn


@click.command("catalog")
@click.option("--format", "format_", type=click.Choice(get_args(Format)), help="Another listing than the dialect's.")
@click.option(
    "--max-chars",
    type=click.IntRange(min=0),
    help="At most this many characters; the note of what was left out comes on top.",
)
@click.option("--max-skills", type=click.IntRange(min=0), help="At most this many skills.")
@click.option("--dialect", metavar="NAME", help="Serve as this dialect (as before the command).")
@click.option("--json", "as_json", is_flag=True, help="Entries, what was left out, and counts.")
@click.pass_obj
def catalog(
    context: Context,
    format_: str | None,
    max_chars: int | None,
    max_skills: int | None,
    dialect: str | None,
    as_json: bool,
) -> None:
    """Print the listing that goes into a system prompt, exactly; what was left out is said on standard error."""
    context.dialect = dialect or context.dialect
    library = context.library()
    found = library.catalog(format=cast("Format | None", format_), max_skills=max_skills, max_chars=max_chars)
    if as_json:
        say_json(
            {
                "text": found.text,
                "characters": found.characters,
                "tokens": found.tokens,
                "entries": [
                    {"name": e.name, "description": e.description, "location": e.location} for e in found.entries
                ],
                "left_out": [one._asdict() for one in found.left_out],
            }
        )
        return
    if found.text:
        say(found.text)
    cut = [one for one in found.left_out if one.reason != "hidden-from-model"]
    counts = (counted(len(found.entries), "skill"), counted(found.characters, "character"))
    warn(f"{', '.join(counts)}, about {counted(found.tokens, 'token')}")
    if cut:
        limit = {
            "limit-listed": "--max-skills or limits.listed",
            "limit-characters": "--max-chars or limits.characters",
        }
        warn(f"{len(cut)} left out, from `{clean(cut[0].name)}` on")
        warn(f"  → raise {limit[cut[0].reason]}, or remove skills you do not use")
    if not found.text and not found.left_out:
        warn("  → `metier status` says what there is, and why none of it is listed")
    for problem in library.problems:
        for line in problem_lines(problem):
            warn(line)


@click.command("commands")
@click.argument("prefix", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def commands(context: Context, prefix: str, as_json: bool) -> None:
    """List what a person may type after `/`; with PREFIX, the commands that begin with it."""
    table = context.library().commands(prefix)
    if as_json:
        say_json(
            [
                {"command": one.name, "skill": one.skill.name if one.skill else None, "hint": one.hint,
                 "description": one.description, "aliases": list(one.aliases), "scheduled": one.scheduled}
                for one in table
            ]
        )  # fmt: skip
        return
    if not table and not prefix:
        say("No commands here.")
        say(arrow("`metier status` says what there is, and why none of it can be called"))
    elif not table:
        say(f"No command begins with `{clean(prefix)}`.")
    lines = columns([(f"/{clean(one.name)} {one.hint}".strip(), clean(one.description)) for one in table])
    for one, line in zip(table, lines, strict=True):
        say(paint(line, "magenta") if one.scheduled else line)
