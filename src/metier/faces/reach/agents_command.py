"""metier agents: which other agents are here, and which skills each would see."""

from __future__ import annotations

import click

from ...dialects.coding_agents import CODING_AGENTS
from ...host.facts import find_place
from ...sources.agent_views import AgentView, SeenSkill, view_agents
from ...types.errors import BadRequest
from ..cli.options import CliContext
from ..cli.output import clean_path, count_of, format_columns, hint_line, paint, printable, say, say_json


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in CODING_AGENTS if name.startswith(incomplete)]


@click.command("agents")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=_complete)
@click.option("--all", "every", is_flag=True, help="Also those that are not on this machine")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def agents(context: CliContext, names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """List the other agents on this machine and how many skills each would see; with NAME, which ones.

    An agent counts as being here if its own folder is in your home, or the project has a folder for it. Only names of
    folders are read.
    """
    unknown = [name for name in names if name not in CODING_AGENTS]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], CODING_AGENTS, 1)
        hint = f"did you mean `{near[0]}`?" if near else "run `metier agents --all` for the list"
        raise BadRequest(f"no agent named `{unknown[0]}` is known", hint)
    views = list(view_agents(find_place(context.directory)))
    shown = [view for view in views if (view.agent.name in names if names else every or view.here)]
    if as_json:
        say_json([_view_dict(view) for view in shown])
        return
    if names:
        for view in shown:
            _say_view(view)
        return
    for line in format_columns([_row(view) for view in shown], last_cut=False):
        say(line)
    if not shown:
        say("No other agents here.")
        say(hint_line("run `metier agents --all` for those that are known"))


def _row(view: AgentView) -> tuple[str, ...]:
    hidden = len(view.skills) - len(view.used)
    seen = count_of(len({skill.name for skill in view.used}), "skill") + (f", {hidden} shadowed" if hidden else "")
    here = "here" if view.here else "not here"
    used_roots = dict.fromkeys(skill.root for skill in view.skills)
    return view.agent.name, view.agent.title, here, seen, ", ".join(clean_path(root) for root in used_roots)


def _say_view(view: AgentView) -> None:
    say(f"{paint(view.agent.title, 'bold')} ({view.agent.name}){'' if view.here else ', not on this machine'}")
    for root in view.roots:
        say(f"  looks in {clean_path(root)}")
    rows = [(printable(skill.name), clean_path(skill.root), _shadow_text(skill)) for skill in view.skills]
    for line in format_columns(rows, last_cut=False):
        say(f"  {line}".rstrip())
    if not rows:
        say("  no skills")


def _shadow_text(skill: SeenSkill) -> str:
    return f"shadowed by the one in {clean_path(skill.shadowed_by)}" if skill.shadowed_by else ""


def _view_dict(view: AgentView) -> dict[str, object]:
    return {
        "name": view.agent.name,
        "title": view.agent.title,
        "here": view.here,
        "roots": list(view.roots),
        "skills": [
            {"name": skill.name, "root": skill.root, "path": skill.real, "shadowed_by": skill.shadowed_by or None}
            for skill in view.skills
        ],
    }
