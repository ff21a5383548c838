"""metier plugins."""

from __future__ import annotations

import click

from ...host.place import here
from ...install import adding
from ...runtime.preparing import nearby, scanner
from ...sources.plugins import plugins as plugins_of
from ...sources.plugins import read_plugin
from ...types.errors import BadRequest
from ...types.problem import Problem
from .app import Context
from .approval import refuse_dangers, settle, show_target, target_dict, waiting
from .grounds import outfit, plugins_field, wish
from .printing import clean, clean_path, columns, problem_dict, problem_lines, say, say_json, warn
from .progress import Bar


@click.command("plugins")
@click.argument("action", type=click.Choice(["list", "install"]), default="list")
@click.argument("source", required=False)
@click.option("--name", default="", help="What to call the folder.")
@click.option("--force", is_flag=True, help="Replace what is there; it goes to the trash.")
@click.option("--yes", is_flag=True, help="Approve without being asked; never overrides a refusal.")
@click.option("--allow-insecure", is_flag=True, help="Also http, git and file addresses.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def plugins(
    context: Context,
    action: str,
    source: str | None,
    name: str,
    force: bool,
    yes: bool,
    allow_insecure: bool,
    as_json: bool,
) -> None:
    """List plugins, or install one: a folder with a manifest (plugin.json, .claude-plugin/plugin.json) and skills.

    A plugin comes from wherever skills come from, and is updated, verified and removed like them.
    """
    if action == "list":
        _list(context, as_json)
        return
    if not source:
        raise BadRequest("there is nothing to install", "metier plugins install SOURCE")
    place = here(context.project)
    at = plugins_field(place)
    with Bar(source) as bar:
        asked = wish(source, at, scanner(place), name=name, force=force, nearby=nearby(place))
        with adding.offered(asked, outfit(place, bar, allow_insecure)) as offer:
            bar.clear()
            for target in offer.targets:
                _check_manifest(target.path, source)
                if not as_json:
                    show_target(target, at.ground.root)
            refuse_dangers(offer.dangers, source)
            settle(f"Install {source}?", yes, as_json)
            done = adding.accept(offer, True, waiting)
            if as_json:
                say_json([target_dict(target, at.ground.root) for target in offer.targets])
    if not as_json:
        for change in done:
            say(f"Installed plugin '{clean(change.target)}' to {clean_path(at.ground.root)}/{clean(change.target)}")


def _check_manifest(path: str, source: str) -> None:
    problems: list[Problem] = []
    if not read_plugin(path, "plugin", problems, named=True):
        why = problems[0].message if problems else "it brings no skills"
        raise BadRequest(f"{source} is not a plugin: {why}", f"to have its skills, run `metier add {source}`")


def _list(context: Context, as_json: bool) -> None:
    library = context.library()
    problems: list[Problem] = []
    found = plugins_of(library.place, library.settings, problems)
    if as_json:
        rows = [{"name": one.name, "path": one.path, "dialect": one.dialect, "source": one.source} for one in found]
        say_json({"plugins": rows, "problems": [problem_dict(one) for one in problems]})
        return
    for line in columns([(clean(one.name), one.dialect, clean_path(one.path)) for one in found], last_cut=False):
        say(line)
    if not found:
        say("No plugins.")
    for one in problems:
        for line in problem_lines(one):
            warn(line)
