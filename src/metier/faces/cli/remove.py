"""metier remove and metier restore."""

from __future__ import annotations

import click

from ...install import place, removing
from ...types.errors import UnknownSkill
from .app import Context
from .grounds import Field, fields, where
from .printing import arrow, clean, clean_path, columns, say, say_json


@click.command("remove")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def remove(context: Context, name: str | None, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Remove an installed skill, or list what is installed.  It goes to the trash: `metier restore NAME`."""
    here = fields(context, user, in_project, profile)
    if name is None:
        _list(here, as_json)
        return
    at = _having(here, name)
    target = removing.remove(at.ground, name)
    if as_json:
        say_json({"removed": target, "root": at.ground.root})
        return
    say(f"Removed skill '{clean(target)}'")
    say(arrow(f"bring it back with `metier restore {clean(target)}`"))


def _having(here: list[Field], name: str) -> Field:
    """The first root that has it; what the last one says is said where none does."""
    for number, at in enumerate(here, 1):
        try:
            removing.removable(at.ground, name)
            return at
        except UnknownSkill:
            if number == len(here):
                raise
    raise UnknownSkill(name)


def _list(here: list[Field], as_json: bool) -> None:
    found = [(at, one) for at in here for one in removing.installed(at.ground)]
    if as_json:
        say_json([one._asdict() | {"root": at.ground.root} for at, one in found])
        return
    rows = []
    for _, one in found:
        state = "" if one.approved else "unapproved"
        state = "frozen" if one.frozen and not state else state
        source = f"{one.source}{'@' + one.commit[:12] if one.commit else ''}" if one.source else "yours"
        rows.append((clean_path(one.place), clean(one.name), state, clean_path(source)))
    for line in columns(rows):
        say(line)
    if not rows:
        say("Nothing is installed.")


@click.command("restore")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def restore(context: Context, name: str | None, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Bring a removed skill back from the trash, or list what is in it."""
    here = fields(context, user, in_project, profile)
    if name is None:
        found = [(at, *one) for at in here for one in place.trash(at.ground)]
        if as_json:
            say_json([{"id": id, "target": what, "at": when, "root": at.ground.root} for at, id, what, when in found])
            return
        for line in columns([(clean_path(what), when, id) for _, id, what, when in found]):
            say(line)
        if not found:
            say("The trash is empty.")
        return
    at = next((at for at in here if any(name in one[:2] for one in place.trash(at.ground))), here[0])
    what = removing.restore(at.ground, name)
    if as_json:
        say_json({"restored": what, "root": at.ground.root})
        return
    say(f"Restored '{clean(what)}' to {clean_path(at.ground.root)}/{clean_path(what)}")
