"""metier init."""

from __future__ import annotations

import click

from ...host.place import here
from ...sources.bundled import Copied, copy_bundled
from ...types.place import Place
from .printing import clean, say, say_json, warn


@click.command("init")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def init(as_json: bool) -> None:
    """Copy the bundled skills to where you may edit or delete them; nothing of yours is overwritten."""
    place = here(".")
    done = copy_bundled(place.state)
    remember(place, done)
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


def remember(place: Place, done: Copied) -> None:
    """Keep the copies in the history, as they are before anybody edits them."""
    from ...runtime.changing import written

    for act, names in (("add", done.added), ("update", done.updated)):
        written(place, f"{place.state}/skills", names, act, "it ships with metier", lambda text: warn(f"note: {text}"))
