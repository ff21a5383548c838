"""metier catalog and metier commands."""

from __future__ import annotations

from typing import cast, get_args

import click

from ...types.catalog import Catalog, Entry
from ...types.dialect import Format, Policy
from .app import Context
from .printing import arrow, clean, columns, counted, paint, problem_dict, problem_lines, say, say_json, warn


@click.command("catalog")
@click.option("--format", "format_", type=click.Choice(get_args(Format)), help="Another listing than the dialect's.")
@click.option(
    "--max-chars",
    type=click.IntRange(min=0),
    help="At most this many characters; the note of what was left out comes on top.",
)
@click.option("--max-skills", type=click.IntRange(min=0), help="At most this many skills.")
@click.option(
    "--policy",
    type=click.Choice(get_args(Policy)),
    help="What does not fit: `ranked` by the request, or cut from the end (`prefix`).",
)
@click.option("--for", "request", metavar="REQUEST", default="", help="Rank what does not fit for this request.")
@click.option("--dialect", metavar="NAME", help="Serve as this dialect (as before the command).")
@click.option("--json", "as_json", is_flag=True, help="Entries, what was left out, and counts.")
@click.pass_obj
def catalog(
    context: Context,
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
    found: Catalog = library.catalog(
        format=cast("Format | None", format_),
        max_skills=max_skills,
        max_chars=max_chars,
        policy=cast("Policy | None", policy),
        request=request,
    )
    if as_json:
        say_json(
            {
                "text": found.text,
                "characters": found.characters,
                "tokens": found.tokens,
                "entries": [_entry(entry) for entry in found.entries],
                "ranked": found.ranked,
                "suggested": [_entry(entry) for entry in found.suggested],
                "problems": [problem_dict(one) for one in (*library.problems, *found.problems)],
                "left_out": [one._asdict() for one in found.left_out],
            }
        )
        return
    if found.text:
        say(found.text)
    if request and found.ranked:
        say()
        say(found.ranked)
    _say_counts(found)
    for problem in (*library.problems, *found.problems):
        for line in problem_lines(problem):
            warn(line)


def _entry(entry: Entry) -> dict[str, str]:
    return {"name": entry.name, "description": entry.description, "location": entry.location}


def _say_counts(found: Catalog) -> None:
    """What is listed, and what is not and why, on standard error."""
    counts = (counted(len(found.entries), "skill"), counted(found.characters, "character"))
    warn(f"{', '.join(counts)}, about {counted(found.tokens, 'token')}")
    if found.suggested:
        warn(f"{counted(len(found.suggested), 'skill')} for the request, {counted(len(found.ranked), 'character')}")
    cut = [one for one in found.left_out if one.reason in _LIMITS]
    if cut:
        begin = f", from `{clean(cut[0].name)}` on" if "truncated" in found.text[:40] else ""
        warn(f"{len(cut)} left out{begin}")
        warn(f"  → raise {_LIMITS[cut[0].reason]}, or remove skills you do not use")
    if not found.text and not found.left_out:
        warn("  → `metier status` says what there is, and why none of it is listed")


_LIMITS = {
    "limit-listed": "--max-skills or limits.listed",
    "limit-characters": "--max-chars or limits.characters",
}


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
