"""metier proposals: what is proposed for skills, and a person's word on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from ...improve import store
from ...improve.texts import patch_of
from ...types.errors import BadRequest
from ...types.proposal import Proposal
from . import naming
from .app import Context
from .printing import clean, clean_path, columns, paint, say, say_json

_COLOURS = {"accepted": "green", "waiting": "yellow", "refused": "red", "rolled-back": "red"}
_SAYS = {"yes": "green", "no": "red", "person": "yellow"}


@click.group("proposals", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Also those that are decided.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def proposals(context: click.Context, every: bool, as_json: bool) -> None:
    """List the proposed changes that wait for you; `show`, `accept`, `reject` or `edit` one."""
    if context.invoked_subcommand is not None:
        return
    found = [one for one in store.proposals(_home(context.obj)) if every or one.standing == "waiting"]
    if as_json:
        say_json([as_dict(one) for one in found])
        return
    if not found:
        say("No proposal waits for you." if not every else "Nothing was proposed yet.")
    rows = [(one.id, f"{one.standing:11}", clean(one.skill), clean("; ".join(one.what) or one.note)) for one in found]
    for line in columns(rows):
        say(line)


def _home(context: Context) -> str:
    from ...host.place import here

    return here(context.project).state


def as_dict(one: Proposal) -> dict[str, object]:
    return {
        "id": one.id,
        "skill": one.skill,
        "folder": one.folder,
        "standing": one.standing,
        "note": one.note,
        "at": one.at,
        "how": one.how,
        "what": list(one.what),
        "because": [{**fault._asdict(), "meaning": fault.meaning} for fault in one.because],
        "checks": [gate._asdict() for gate in one.gates],
        "patch": patch_of(one.before, one.after),
        "rev": one.rev,
        "run": one.by,
        "watched": None if one.watched is None else list(one.watched),
    }


def lines_of(one: Proposal) -> Iterator[str]:
    """A proposal for a person to read: what, why, what was checked, and the change itself."""
    standing = paint(one.standing, _COLOURS.get(one.standing, "dim"))
    yield f"{paint(clean(one.skill), 'bold')}  {one.id}  {standing}" + (f": {clean(one.note)}" if one.note else "")
    for what in one.what:
        yield f"  {clean(what)}"
    for fault in one.because:
        where = f" (run {clean(fault.run)}, {fault.times}×)" if fault.run else ""
        yield f"  because: {fault.meaning}: {clean(fault.about)}{where}"
    for gate in one.gates:
        yield f"  {paint(f'{gate.says:6}', _SAYS[gate.says])} {gate.name}" + (
            f": {clean(gate.words)}" if gate.words else ""
        )
    for line in patch_of(one.before, one.after).splitlines():
        yield "  " + paint(clean_path(line), "green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim")


@proposals.command("show")
@click.argument("id", shell_complete=naming.proposals)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def show(context: Context, id: str, as_json: bool) -> None:
    """Show one proposal: what led to it, what was checked, and the change."""
    found = store.find(_home(context), id)
    if as_json:
        say_json(as_dict(found))
        return
    for line in lines_of(found):
        say(line)


@proposals.command("accept")
@click.argument("id", shell_complete=naming.proposals)
@click.pass_obj
def accept(context: Context, id: str) -> int:
    """Put a proposal in place.  It is a version in the history, and is watched for its next runs."""
    from ...runtime.landing import decided

    return _told(decided(context.library(), store.find(_home(context), id), True), "accepted")


@proposals.command("reject")
@click.argument("id", shell_complete=naming.proposals)
@click.option("--why", metavar="TEXT", default="", help="What was wrong with it; kept with it.")
@click.pass_obj
def reject(context: Context, id: str, why: str) -> int:
    """Say no.  The same is not proposed again as long as the skill stays as it is."""
    from ...runtime.landing import decided

    return _told(decided(context.library(), store.find(_home(context), id), False, why), "rejected")


def _told(done: Proposal, wanted: str) -> int:
    say(f"{done.id} is {done.standing}" + (f": {clean(done.note)}" if done.note else ""))
    return 0 if done.standing == wanted else 1


@proposals.command("edit")
@click.argument("id", shell_complete=naming.proposals)
@click.option("--path", metavar="PATH", default="", help="Which of its files; the only one where it is left out.")
@click.option("--from", "source", metavar="FILE", default="", help="Take the text from a file, `-` is standard input.")
@click.pass_obj
def edit(context: Context, id: str, path: str, source: str) -> int:
    """Change a proposal before you accept it, in your editor."""
    from ...runtime.judging import edited

    library, found = context.library(), store.find(_home(context), id)
    chosen = path or (next(iter(found.after)) if len(found.after) == 1 else "")
    if chosen not in found.after:
        raise BadRequest(f"`{path}` is not changed by it" if path else "it changes several files",
                         "--path one of: " + ", ".join(found.after))  # fmt: skip
    text = _given(source) if source else _in_editor(found.after[chosen])
    made = edited(library, found, {**found.after, chosen: text})
    for line in lines_of(made):
        say(line)
    return 0


def _given(source: str) -> str:
    if source == "-":
        return sys.stdin.read() if sys.stdin is not None else ""
    from ...host import paths

    text: Any = paths.read_text_file(paths.absolute(source, paths.cwd(), paths.home()))
    if text is None:
        raise BadRequest(f"{source} does not exist", "give the file with the new text", source)
    return str(text)


def _in_editor(text: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadRequest("an editor needs a terminal", "give the text with --from FILE")
    changed = click.edit(text, extension=".md")
    if changed is None:
        raise BadRequest("nothing was changed", "save the file in the editor, or give the text with --from FILE")
    return changed
