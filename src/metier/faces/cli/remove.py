"""metier remove and metier restore."""

from __future__ import annotations

import sys

import click

from ...install import place, removing
from ...sources.bundled import bundled_paths
from ...types.errors import UnknownSkill
from . import naming
from .app import Context, skill_names
from .grounds import Field, fields, scoped, where
from .printing import arrow, clean, clean_path, columns, say, say_json


@click.command("remove")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def remove(context: Context, names: tuple[str, ...], as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Remove installed skills, or list what is installed.  They go to the trash: `metier restore NAME`."""
    here = fields(context, user, in_project, profile)
    if not names:
        _list(here, as_json)
        return
    meant = [(_having(here, name), name) for name in dict.fromkeys(names)]  # all of them, before the first goes
    done = [(at, removing.remove(at.ground, name)) for at, name in meant]
    if as_json:
        found = [{"removed": gone.target, "root": at.ground.root} for at, gone in done]
        say_json(found[0] if len(found) == 1 else found)
        return
    for at, gone in done:
        if gone.trashed:
            say(f"Removed skill '{clean(gone.target)}'")
            say(arrow(f"bring it back with `{scoped(f'restore {clean(gone.target)}', at)}`"))
        else:
            say(f"'{clean(gone.target)}' was gone already; it is out of the lock now")


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
    rows = [("PLACE", "SKILL", "STATE", "FROM")] if found else []
    for at, one in found:
        own = "metier" if f"{at.ground.root}/{one.place}/SKILL.md" in bundled_paths(at.place.state) else "yours"
        state = "" if one.approved else "unapproved"
        state = "missing" if one.missing else "frozen" if one.frozen and not state else state
        source = f"{one.source}{'@' + one.commit[:12] if one.commit else ''}" if one.source else own
        rows.append((clean_path(one.place), clean(one.name), state, clean_path(source)))
    for line in columns(rows, last_cut=sys.stdout.isatty()):
        say(line)
    if not rows:
        say("Nothing is installed.")


@click.command("restore")
@click.argument("name", required=False, shell_complete=naming.trash)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def restore(context: Context, name: str | None, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Bring a removed skill back from the trash, or list what is in it.

    NAME is what was removed, the latest of that name, or the ID that the list gives it.
    """
    here = fields(context, user, in_project, profile)
    if name is None:
        found = [(at, *one) for at in here for one in place.trash(at.ground)]
        if as_json:
            say_json([{"id": id, "target": what, "at": when, "root": at.ground.root} for at, id, what, when in found])
            return
        rows = [(clean_path(what), when, id, clean_path(at.ground.root)) for at, id, what, when in found]
        for line in columns([("NAME", "REMOVED", "ID", "FROM"), *rows] if rows else [], sys.stdout.isatty()):
            say(line)
        if not found:
            say("The trash is empty.")
        return
    at = next((at for at in here if removing.in_trash(at.ground, name)), here[0])
    what = removing.restore(at.ground, name)
    if as_json:
        say_json({"restored": what, "root": at.ground.root})
        return
    say(f"Restored '{clean(what)}' to {clean_path(at.ground.root)}/{clean_path(what)}")
