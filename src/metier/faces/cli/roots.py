"""metier roots."""

from __future__ import annotations

from collections import Counter

import click

from ...host import paths
from .app import Context
from .printing import arrow, clean, clean_path, columns, counted, paint, problem_lines, say, say_json


@click.command("roots")
@click.option("--all", "everything", is_flag=True, help="Also the places that do not exist.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def roots(context: Context, everything: bool, as_json: bool) -> None:
    """Show where metier looks, in order of precedence: an earlier root shadows a later one."""
    library = context.library()
    counts = Counter(skill.origin.root for skill in library.skills)
    withheld = Counter(skill.origin.root for skill in library.skills if skill.path in library.untrusted)
    rows = []
    for origin in (root.origin for root in library.roots):
        label, there = origin.root, paths.is_folder(origin.path)
        trusted = not withheld[label] if counts[label] else origin.trusted
        rows.append(
            {"rank": origin.rank, "label": label, "source": origin.source, "dialect": origin.dialect.name,
             "path": origin.path, "exists": there, "skills": counts[label], "withheld": withheld[label],
             "trusted": trusted}
        )  # fmt: skip
    if as_json:
        say_json(rows)
        return
    shown = [row for row in rows if everything or row["exists"]]
    if not shown:
        say("None of the places metier looks in exists yet.")
        say(arrow("`metier roots --all` names them; `metier new NAME` makes the first skill"))
    table = [
        (
            f"{row['rank']:>2}",
            clean(str(row["label"])),
            clean(str(row["dialect"])),
            _note(row),
            clean_path(str(row["path"])),
        )
        for row in shown
    ]
    for line in columns(table, last_cut=False):
        say(line)
    hidden = len(rows) - len(shown)
    if hidden and shown:
        say(paint(f"and {hidden} more that do not exist (--all)", "dim"))
    for problem in library.problems:
        for line in problem_lines(problem):
            say(line)


def _note(row: dict[str, object]) -> str:
    if not row["exists"]:
        return "missing"
    told = counted(int(str(row["skills"])), "skill")
    if row["trusted"]:
        return told
    return f"{told}, {row['withheld']} untrusted" if row["skills"] != row["withheld"] else f"{told}, untrusted"
