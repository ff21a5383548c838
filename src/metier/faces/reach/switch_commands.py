"""metier off and metier on."""

from __future__ import annotations

import click

from ...install.switches import switch_off, switch_on
from ...library.library import Library
from ...library.settings import read_switches
from ...types.errors import BadRequest, UnknownSkill
from ..cli.options import CliContext, skill_names
from ..cli.output import clean_path, printable, say, say_json

_project_option = click.option("--project", "in_project", is_flag=True, help="Only in this project")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON")
_names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=skill_names)


@click.command("off")
@_names_argument
@_project_option
@_json_option
@click.pass_obj
def off(context: CliContext, names: tuple[str, ...], in_project: bool, as_json: bool) -> None:
    """Switch skills off: no model gets them, and they have no command.

    The skills stay where they are. `metier on NAME` takes it back.
    """
    library = context.library()
    keys = [_settings_key(library, name) for name in names]  # a wrong name changes nothing
    place, project = library.place, library.place.project if in_project else ""
    done = {key: switch_off(place.state, key, project) for key in keys}
    if as_json:
        say_json({"off": list(done), "project": project or None})
        return
    where = f" in {clean_path(project)}" if project else ""
    for key, changed in done.items():
        say(f"{printable(key)} is off{where}" if changed else f"{printable(key)} was off already{where}")


@click.command("on")
@_names_argument
@_project_option
@_json_option
@click.pass_obj
def on(context: CliContext, names: tuple[str, ...], in_project: bool, as_json: bool) -> None:
    """Switch skills on again, everywhere and in this project; with --project, in this project only."""
    library = context.library()
    place = library.place
    switches = read_switches(place.state)
    known = {key for listed in switches.values() for key in listed}
    keys = [name if name in known else _settings_key(library, name) for name in names]
    scopes = (place.project,) if in_project else ("", place.project)
    # All scopes, not only the first that has it.
    done = {key: sum(switch_on(place.state, key, scope) for scope in scopes) > 0 for key in keys}
    still = context.library().settings
    faults = {key: _still_off(still.entry(key).enabled, key in still.switched_off) for key in keys}
    if as_json:
        on_now = [key for key in keys if not faults[key]]
        say_json({"on": on_now, "off": {key: why for key, why in faults.items() if why}})
    for key, why in faults.items():
        if why:
            raise BadRequest(f"`{printable(key)}` is still off: {why}", _next_step(why, key))
        if not as_json:
            say(f"{printable(key)} is on" if done[key] else f"{printable(key)} was on already")


def _still_off(enabled: bool, switched: bool) -> str:
    if enabled:
        return ""
    return "it is off in all projects" if switched else "a configuration says so"


def _next_step(why: str, key: str) -> str:
    if why == "a configuration says so":
        return f"remove `enabled = false` of skills.entries.{key} from config.toml"
    return f"run `metier on {key}` without --project"


def _settings_key(library: Library, name: str) -> str:
    try:
        return library.find(name).skill.settings_key
    except UnknownSkill:
        broken = next((item for item in library.broken if name in (item.id, item.name)), None)
        if broken is None:
            raise
        return broken.id
