"""metier read and metier script."""

from __future__ import annotations

import sys

import click

from ...types.errors import BadRequest
from ...types.text import seen
from .app import Context, skill_names
from .printing import clean, say, say_json, warn


@click.command("read")
@click.argument("name", shell_complete=skill_names)
@click.argument("path")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Begin at this byte.")
@click.option("--json", "as_json", is_flag=True, help="The text, the file's size, and where to go on.")
@click.pass_obj
def read(context: Context, name: str, path: str, offset: int, as_json: bool) -> None:
    """Read a file of a skill, as the tool `skill_read_file` gives it to a model."""
    library = context.library()
    page = library.desk(by="user").page(library.find(name).skill, path, offset)
    if as_json:
        say_json({"text": page.text, "size": page.size, "next": page.next})
        return
    text = seen(page.text) if sys.stdout.isatty() else page.text
    click.echo(text, nl=bool(text) and not text.endswith("\n"))
    if page.next is not None:
        warn(f"{page.size - page.next} of {page.size} bytes left: go on with --offset {page.next}")


@click.command("script")
@click.argument("name", shell_complete=skill_names)
@click.argument("script")
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option("--write", multiple=True, metavar="DIR", help="A folder that the script may write in; more than one may.")
@click.option("--json", "as_json", is_flag=True, help="Output, exit status, and how it was kept apart.")
@click.pass_obj
def script(
    context: Context, name: str, script: str, arguments: tuple[str, ...], write: tuple[str, ...], as_json: bool
) -> None:
    """Run a script of a skill, as the tool `skill_run_script` does; exits as the script does."""
    from ...act.tools.scripts import answer, script_of, words_of
    from ...host import paths

    library = context.library()
    folders = [paths.absolute(one, paths.cwd(), paths.home()) for one in write]
    for one in folders:
        if not paths.is_folder(one):
            raise BadRequest(f"{one} is not a folder", "make it first, or leave --write out")
    desk = library.desk(by="user", write=folders)
    skill = desk.skill(library.find(name).skill.qualified)
    chosen = script_of(desk, skill, script)
    ran = desk.run(skill, chosen, words_of(arguments))
    found = answer(chosen, ran)
    if as_json:
        say_json({"script": chosen, "stdout": ran.stdout, "stderr": ran.stderr, "status": ran.status,
                  "timed_out": ran.timed_out, "tier": ran.tier, "note": ran.note})  # fmt: skip
    else:
        say(found.text)
    if found.note:
        warn(clean(found.note))
    raise click.exceptions.Exit(found.status if found.status is not None else 1)
