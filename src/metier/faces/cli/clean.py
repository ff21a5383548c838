"""metier clean."""

from __future__ import annotations

import click

from ...install import cleaning, place
from .app import Context
from .grounds import fields, where
from .printing import clean_path, columns, counted, say, say_json


@click.command("clean")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=float(cleaning.DAYS),
    show_default=True,
    help="What has lain there for so long; 0 for all of it.",
)
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def clean(
    context: Context, days: float, dry_run: bool, as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Empty the trash of removed and replaced skills.

    Texts that were kept to merge updates with go too, when no lock here has named them for a year.
    `metier add` and `metier update` take out by themselves what has lain in the trash for 30 days.
    """
    here = fields(context, user, in_project, profile)
    grounds = [at.ground for at in here]
    trash = [
        one for ground in grounds for one in (cleaning.old_trash if dry_run else cleaning.empty_trash)(ground, days)
    ]
    every = [at.ground for at in fields(context, False, False, "")]  # whichever root is meant, all may need a text
    texts = cleaning.old_texts(here[0].place.state, [place.read_lock(ground) for ground in (*grounds, *every)])
    if not dry_run:
        cleaning.forget(texts)
    freed = sum(one.bytes for one in (*trash, *texts))
    if as_json:
        say_json(
            {
                "removed": not dry_run,
                "trash": [one._asdict() for one in trash],
                "texts": [one._asdict() for one in texts],
                "bytes": freed,
            }
        )
        return
    for line in columns([(clean_path(one.what), f"{one.days:.0f} days", f"{one.bytes:,} bytes") for one in trash]):
        say(line)
    what = f"{counted(len(trash), 'removed folder')} and {counted(len(texts), 'kept text')}"
    say(f"{'Would free' if dry_run else 'Freed'} {freed:,} bytes: {what}")
