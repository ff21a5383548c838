"""metier history, diff, rollback and blame: what skills were."""

from __future__ import annotations

import click

from ...record import history as kept
from ...record.history import Line, Version
from ...runtime import changing
from ...runtime.preparing import trust_placed
from ...types.errors import BadRequest
from ...types.text import seen
from .app import Context, skill_names
from .printing import arrow, clean, clean_path, columns, paint, say, say_json, warn

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
_SHORT = 12


def _note(text: str) -> None:
    warn(f"note: {clean(text)}")


@click.command("history")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many, the newest first.")
@_JSON
@click.pass_obj
def history(context: Context, name: str | None, limit: int, as_json: bool) -> None:
    """List the changes of a skill, or of all of them: what was done, when, by which run, and why.

    What was edited by hand since is kept first, as a change of its own.
    """
    library = context.library()
    found: list[tuple[str, Version]] = []
    if name is not None:
        one = changing.find(library, name, _note)
        changing.look(one.ground, one.key)
        found = [(one.ground.root, version) for version in kept.versions(one.repository, one.key, limit)]
    else:
        for ground in changing.grounds(library, _note):
            changing.look(ground)
            found += [(ground.root, version) for version in kept.versions(ground.history, "", limit)]
        found = sorted(found, key=lambda one: one[1].at, reverse=True)[:limit]
    if as_json:
        say_json([_document(version, root) for root, version in found])
        return
    rows = [(version.rev[:_SHORT], version.at.replace("T", " ").removesuffix("Z"), clean(version.act),
             clean(version.name), clean(version.run or version.evidence)) for _, version in found]  # fmt: skip
    for line in columns(rows):
        say(line)
    if not rows:
        say("No skill was changed yet.")


def _document(version: Version, root: str) -> dict[str, object]:
    return {**version._asdict(), "root": root}


@click.command("diff")
@click.argument("name", shell_complete=skill_names)
@click.argument("rev")
@click.argument("to", required=False)
@_JSON
@click.pass_obj
def diff(context: Context, name: str, rev: str, to: str | None, as_json: bool) -> None:
    """Show what changed in a skill since a version, up to now or up to another one."""
    one = changing.find(context.library(), name, _note)
    changing.look(one.ground, one.key)
    text = kept.difference(one.repository, one.key, rev, to or "")
    if as_json:
        say_json({"name": one.key, "root": one.ground.root, "from": rev, "to": to or "", "diff": text})
        return
    for line in seen(text).splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        say(paint(line, style) if style else line)
    if not text:
        say(f"Nothing changed in {clean(one.key)}.")


@click.command("rollback")
@click.argument("name", shell_complete=skill_names)
@click.argument("rev", required=False)
@_JSON
@click.pass_obj
def rollback(context: Context, name: str, rev: str | None, as_json: bool) -> None:
    """Make a skill what it was in a version: its bytes, its modes and its entry in the lock.

    That is a change itself, so nothing is lost; what was edited by hand is kept first.
    """
    library = context.library()
    one = changing.find(library, name, _note)
    if rev is None:
        last = [version.rev[:_SHORT] for version in kept.versions(one.repository, one.key, 4)]
        raise BadRequest(
            f"to which version of `{one.key}`?", f"one of {', '.join(last)}; `metier history {one.key}` says more"
        )
    made = changing.rollback(one, rev)
    if made is not None:
        trust_placed(library.place, one.ground, changing.approved(one))
    if as_json:
        say_json({"name": one.key, "root": one.ground.root, "to": rev, "changed": made is not None,
                  "rev": made.rev if made else ""})  # fmt: skip
        return
    if made is None:
        say(f"{clean(one.key)} is already what it was in {clean(rev)}.")
        return
    say(f"Rolled back {clean_path(one.folder)} to {clean(rev)}")
    before = kept.versions(one.repository, one.key, 2)[-1]
    undo = f"remove {one.key}" if before.act == "trash" else f"rollback {one.key} {before.rev[:_SHORT]}"
    say(arrow(f"undo it with `metier {clean(undo)}`"))


@click.command("blame")
@click.argument("name", shell_complete=skill_names)
@click.argument("path", default="SKILL.md")
@_JSON
@click.pass_obj
def blame(context: Context, name: str, path: str, as_json: bool) -> None:
    """Say which change each line of a skill's file came from, and which run led to it."""
    one = changing.find(context.library(), name, _note)
    changing.look(one.ground, one.key)
    lines = kept.blame(one.repository, one.key, path)
    if not lines:
        raise BadRequest(f"`{one.key}` has no file `{path}`, or it is empty", f"run `metier show {one.key}`")
    if as_json:
        say_json([_line_document(number, line) for number, line in enumerate(lines, 1)])
        return
    wide = max(len(_who(line)) for line in lines)
    for line in lines:
        version = line.version
        about = f"{version.rev[:8]}  {version.at[:10]}  {_who(line):{wide}}"
        say(f"{paint(about, 'dim')}  {seen(line.text)}")


def _who(line: Line) -> str:
    return clean(f"{line.version.act} {line.version.run}".strip())


def _line_document(number: int, line: Line) -> dict[str, object]:
    version = line.version
    return {"line": number, "text": line.text, "rev": version.rev, "act": version.act, "run": version.run,
            "at": version.at}  # fmt: skip
