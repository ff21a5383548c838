"""metier init."""

from __future__ import annotations

import click

from ...host.place import here
from ...sources.bundled import copy_bundled
from .printing import clean, say, say_json


@click.command("init")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def init(as_json: bool) -> None:
    """Copy the bundled skills to where you may edit or delete them; nothing of yours is overwritten."""
    place = here(".")
    done = copy_bundled(place.state)
    if as_json:
        say_json(done._asdict())
        return
    words = {
        "added": "copied",
        "updated": "brought up to date",
        "kept": "kept as they are",
        "deleted": "left deleted",
    }
    for key, names in done._asdict().items():
        if names:
            say(f"{words[key]}: {', '.join(names)}")
    say(f"They are in {clean(place.state)}/skills.")
