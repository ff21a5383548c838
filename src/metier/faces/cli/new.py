"""metier new."""

from __future__ import annotations

import re

import click

from ...host import paths, state
from ...host.place import here
from ...parse.check import check, name_fault
from ...parse.mend import quoted
from ...runtime import open as open_library
from ...runtime.changing import written
from ...sources.trusted import add_skills, record_of
from ...types.errors import BadRequest
from ...types.place import Place
from .app import Context
from .printing import clean, say, say_json, warn

_BODY = """# {title}

Say in a sentence what this is for.

## Steps

1. Write the first thing to do.
2. Write the next, and what to do when it fails.

## Output

Say what the result looks like, with a short example.
"""


@click.command("new")
@click.argument("name")
@click.argument("description", nargs=-1)
@click.option("--user", is_flag=True, help="For every project of yours (~/.metier/skills).")
@click.option("--dir", "directory", metavar="DIR", help="In this folder of skills.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def new(
    context: Context,
    name: str,
    description: tuple[str, ...],
    user: bool,
    directory: str | None,
    as_json: bool,
) -> None:
    """Write a new skill that passes `metier validate`; into <project>/.metier/skills unless told otherwise."""
    fault = name_fault(name) or ("it has more than 64 characters" if len(name) > 64 else "")
    if fault or not name:
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-")
        raise BadRequest(f"`{name}` can't be a name: {fault}", f"try `{better}`" if better else "try `my-skill`")
    place = here(context.project)
    if directory or context.root:
        root = paths.absolute(directory or context.root or ".", place.cwd, place.home)
    else:
        root = f"{place.state}/skills" if user else f"{place.project}/.metier/skills"
    words = (
        " ".join(description).strip() or f"Does what {name} says. Use when the user asks for {name.replace('-', ' ')}."
    )
    title = name.replace("-", " ").capitalize()
    text = f"---\nname: {name}\ndescription: {quoted(words)}\n---\n\n{_BODY.format(title=title)}"
    wrong = check(text.encode(), name)
    if wrong:
        raise BadRequest(f"the description is not valid: {wrong[0].code}", "write at most 1024 characters on one line")
    path = f"{root}/{name}/SKILL.md"
    _write(place, root, f"{name}/SKILL.md", text)
    _keep_trusted(place, path)
    written(place, root, [name], "add", "by `metier new`", lambda text: warn(f"note: {clean(text)}"))
    if as_json:
        say_json({"path": path})
        return
    say(f"Written: {clean(path)}")
    say("Edit it, then run `metier lint` and `metier why " + name + "`.")


def _write(place: Place, root: str, inner: str, text: str) -> None:
    """Links in a project may be anybody's, so none is followed there; those elsewhere are the user's own."""
    if paths.is_inside(root, place.state):
        state.make_folder(root)
    elif paths.is_inside(root, place.project):
        inner = f"{root}/{inner}"[len(place.project.rstrip("/")) + 1 :]
        root = place.project
    state.write_new(root, inner, text)


def _keep_trusted(place: Place, path: str) -> None:
    """What a person writes with metier is theirs: that one skill is trusted, the project's others are not."""
    if not path.startswith(place.project + "/") or path.startswith(place.state + "/"):
        return
    library = open_library(place.cwd, index=False)
    mine = [skill for skill in library.skills if skill.path == path]
    add_skills(place.state, place.project, record_of(place.project, mine, library.limits.file_bytes))
