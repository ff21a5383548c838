"""metier export."""

from __future__ import annotations

from difflib import get_close_matches

import click

from ...host import paths
from ...types.errors import BadRequest, Refused
from .app import Context, skill_names
from .printing import clean, clean_path, counted, paint, say, say_json

_PACKINGS = ("skill", "well-known", "plugin")


@click.command("export")
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=skill_names)
@click.option("--as", "form", default="skill", show_default=True, metavar="FORM",
              help="skill, well-known, plugin, or a dialect.")  # fmt: skip
@click.option("--out", default=".", metavar="DIR", show_default=True, help="Write beneath this folder.")
@click.option("--all", "everything", is_flag=True, help="Every skill that may be used here.")
@click.option("--name", default="", metavar="NAME", help="What the plugin is called.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def export(
    context: Context,
    names: tuple[str, ...],
    form: str,
    out: str,
    everything: bool,
    name: str,
    force: bool,
    as_json: bool,
) -> None:
    """Write skills for elsewhere, and say what is lost on the way.

    FORM is `skill` (one NAME.skill file each), `well-known` (an index and archives for a web site), `plugin` (an Agent
    Plugin), or a dialect: then each skill is a folder whose placeholders are written as that product reads them.
    """
    from ...host.pack import write_all
    from ...runtime.exporting import exported, rejected

    library = context.library()
    forms = [*_PACKINGS, *library.dialects]
    if form not in forms:
        near = get_close_matches(form, forms, 1)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(forms)
        raise BadRequest(f"`{form}` is not a form", hint)
    if bool(names) == everything:
        raise BadRequest("there is nothing to export", "name skills, or give --all")
    chosen = (
        [verdict.skill for verdict in library.verdicts if verdict.usable]
        if everything
        else [library.find(one).skill for one in dict.fromkeys(names)]
    )
    left = rejected(library, chosen) if form == "well-known" else {}
    if left and (names or len(left) == len(chosen)):
        bad, why = next(iter(left.items()))
        raise Refused(f"`{bad}` is not valid by the open standard: {why}", f"`metier validate {bad}` says what to mend")
    chosen = [skill for skill in chosen if skill.name not in left]
    done = exported(library, chosen, form, name)
    folder = paths.absolute(out, paths.cwd(), paths.home())
    write_all(folder, done.files, force)
    written = sorted(done.files)
    if as_json:
        losses = [{"skill": skill, "loss": loss} for skill, loss in done.losses]
        out_of_it = [{"skill": skill, "reason": why} for skill, why in left.items()]
        say_json({"form": form, "folder": folder, "files": written, "losses": losses, "left_out": out_of_it})
        return
    for path in written if len(written) <= 20 else (*written[:19], f"… and {len(written) - 19} more"):
        say(clean_path(f"{folder}/{path}") if path in done.files else path)
    for skill, loss in done.losses:
        say(f"{paint('lost', 'yellow')}  {clean(skill)}: {clean(loss)}")
    for skill, why in left.items():
        say(f"{paint('left out', 'yellow')}  {clean(skill)}: {clean(why)}")
    say(f"{counted(len(chosen), 'skill')} written as {form}")
