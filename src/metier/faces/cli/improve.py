"""metier improve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...types.errors import BadRequest, NoModel
from . import naming
from .app import Context, skill_names
from .printing import clean, paint, say, say_json
from .proposals import as_dict, lines_of

if TYPE_CHECKING:
    from ...runtime.improving import Improved


@click.command("improve")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("--run", "run", metavar="ID", default="", help="Only from this run: its id, the beginning of it, `last`.")
@click.option("--wish", metavar="TEXT", default="", help="What you would like to be better.")
@naming.model_option("The model that writes, where writing is needed.")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed; write nothing down, change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--after", metavar="ID", default="", hidden=True, help="Do what follows a run that ended.")
@click.pass_obj
def improve(context: Context, /, name: str | None, **given: Any) -> int:
    """Improve a skill from the runs in which it failed.

    What has one clear cure is mended by rule; the rest is written by a model, in a copy.  Every change is checked.
    It lands, or waits in `metier proposals`, as `improve.mode` says.  Exit code 4 if all that was proposed was refused.
    """
    from ...runtime.improving import after_run, improve_named
    from ...runtime.judging import Terms

    library = context.library()
    terms = Terms(_model(library, given["model"]), dry=given["dry_run"], wish=given["wish"])
    if given["after"]:
        found = after_run(library, given["after"], terms)
    elif name:
        found = (improve_named(library, name, given["run"], terms),)
    else:
        raise BadRequest("no skill is named", "say which: metier improve NAME")
    if given["as_json"]:
        say_json([_dict(one) for one in found])
    else:
        for one in found:
            _say(one, given["dry_run"])
    made = [proposal for one in found for proposal in one.proposals]
    return 4 if made and all(proposal.standing == "refused" for proposal in made) else 0


def _model(library: Any, name: str) -> Any:
    """The model, or none where there is none: what has a rule is mended without one."""
    from ...runtime.models import open_model

    try:
        return open_model(name, library)
    except NoModel:
        if name:
            raise
        return None


def _dict(one: Improved) -> dict[str, object]:
    return {"skill": one.skill, "words": one.words, "proposals": [as_dict(proposal) for proposal in one.proposals]}


def _say(one: Improved, dry: bool) -> None:
    for proposal in one.proposals:
        for line in lines_of(proposal):
            say(line)
        if dry:
            say(paint("Nothing was written: this was a dry run.", "dim"))
    words = one.words if one.proposals else one.words or "there is nothing to put right"
    if words:
        say(f"{clean(one.skill)}: {clean(words)}")
