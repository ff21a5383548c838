"""metier improve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ...improve import store
from ...improve.texts import render_patch
from ...types.errors import BadRequest, NoModel
from ...types.improvement import Proposal
from . import options
from .app import CliContext, skill_names
from .output import clean_path, format_columns, paint, printable, say, say_json

if TYPE_CHECKING:
    from ...improve.improver import ImproveResult


_STANDING_COLORS = {"accepted": "green", "waiting": "yellow", "refused": "red", "rolled-back": "red"}
_GATE_COLORS = {"yes": "green", "no": "red", "person": "yellow"}


@click.group("proposals", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Also those that are decided.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def proposals(context: click.Context, every: bool, as_json: bool) -> None:
    """List the proposed changes that wait for you; `show`, `accept`, `reject` or `edit` one."""
    if context.invoked_subcommand is not None:
        return
    selected = [
        proposal
        for proposal in store.list_proposals(_state_folder(context.obj))
        if every or proposal.standing == "waiting"
    ]
    if as_json:
        say_json([proposal_dict(proposal) for proposal in selected])
        return
    if not selected:
        say("No proposal waits for you." if not every else "Nothing was proposed yet.")
    rows = [
        (
            proposal.id,
            f"{proposal.standing:11}",
            printable(proposal.skill),
            printable("; ".join(proposal.what) or proposal.note),
        )
        for proposal in selected
    ]
    for line in format_columns(rows):
        say(line)


def _state_folder(context: CliContext) -> str:
    from ...host.facts import find_place

    return find_place(context.project).state


def proposal_dict(proposal: Proposal) -> dict[str, object]:
    return {
        "id": proposal.id,
        "skill": proposal.skill,
        "folder": proposal.folder,
        "standing": proposal.standing,
        "note": proposal.note,
        "at": proposal.at,
        "how": proposal.how,
        "what": list(proposal.what),
        "because": [{**fault._asdict(), "meaning": fault.meaning} for fault in proposal.because],
        "checks": [gate._asdict() for gate in proposal.gates],
        "patch": render_patch(proposal.before, proposal.after),
        "rev": proposal.rev,
        "run": proposal.by,
        "watched": None if proposal.watched is None else list(proposal.watched),
    }


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    """A proposal for a person to read: what, why, what was checked, and the change itself."""
    standing = paint(proposal.standing, _STANDING_COLORS.get(proposal.standing, "dim"))
    yield f"{paint(printable(proposal.skill), 'bold')}  {proposal.id}  {standing}" + (
        f": {printable(proposal.note)}" if proposal.note else ""
    )
    for change in proposal.what:
        yield f"  {printable(change)}"
    for fault in proposal.because:
        where = f" (run {printable(fault.run)}, {fault.times}×)" if fault.run else ""
        yield f"  because: {fault.meaning}: {printable(fault.about)}{where}"
    for gate in proposal.gates:
        yield f"  {paint(f'{gate.says:6}', _GATE_COLORS[gate.says])} {gate.name}" + (
            f": {printable(gate.words)}" if gate.words else ""
        )
    for line in render_patch(proposal.before, proposal.after).splitlines():
        yield "  " + paint(clean_path(line), "green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim")


@proposals.command("show")
@click.argument("id", shell_complete=options.proposals)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def show(context: CliContext, id: str, as_json: bool) -> None:
    """Show one proposal: what led to it, what was checked, and the change."""
    proposal = store.find_proposal(_state_folder(context), id)
    if as_json:
        say_json(proposal_dict(proposal))
        return
    for line in proposal_lines(proposal):
        say(line)


@proposals.command("accept")
@click.argument("id", shell_complete=options.proposals)
@click.pass_obj
def accept(context: CliContext, id: str) -> int:
    """Put a proposal in place.  It is a version in the history, and is watched for its next runs."""
    from ...improve.land import decide_proposal

    return _report_decision(
        decide_proposal(context.library(), store.find_proposal(_state_folder(context), id), True), "accepted"
    )


@proposals.command("reject")
@click.argument("id", shell_complete=options.proposals)
@click.option("--why", metavar="TEXT", default="", help="What was wrong with it; kept with it.")
@click.pass_obj
def reject(context: CliContext, id: str, why: str) -> int:
    """Say no.  The same is not proposed again as long as the skill stays as it is."""
    from ...improve.land import decide_proposal

    return _report_decision(
        decide_proposal(context.library(), store.find_proposal(_state_folder(context), id), False, why), "rejected"
    )


def _report_decision(proposal: Proposal, expected: str) -> int:
    say(f"{proposal.id} is {proposal.standing}" + (f": {printable(proposal.note)}" if proposal.note else ""))
    return 0 if proposal.standing == expected else 1


@proposals.command("edit")
@click.argument("id", shell_complete=options.proposals)
@click.option("--path", metavar="PATH", default="", help="Which of its files; the only one where it is left out.")
@click.option("--from", "source", metavar="FILE", default="", help="Take the text from a file, `-` is standard input.")
@click.pass_obj
def edit(context: CliContext, id: str, path: str, source: str) -> int:
    """Change a proposal before you accept it, in your editor."""
    from ...improve.improver import edit_proposal

    library, proposal = context.library(), store.find_proposal(_state_folder(context), id)
    chosen = path or (next(iter(proposal.after)) if len(proposal.after) == 1 else "")
    if chosen not in proposal.after:
        raise BadRequest(
            f"`{path}` is not changed by it" if path else "it changes several files",
            "--path one of: " + ", ".join(proposal.after),
        )
    text = _read_source(source) if source else _in_editor(proposal.after[chosen])
    edited_proposal = edit_proposal(library, proposal, {**proposal.after, chosen: text})
    for line in proposal_lines(edited_proposal):
        say(line)
    return 0


def _read_source(source: str) -> str:
    if source == "-":
        return sys.stdin.read() if sys.stdin is not None else ""
    from ...host import paths

    text: Any = paths.read_text_file(paths.absolute_path(source, paths.working_folder(), paths.home_folder()))
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


@click.command("improve")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("--run", "run", metavar="ID", default="", help="Only from this run: its id, the beginning of it, `last`.")
@click.option("--wish", metavar="TEXT", default="", help="What you would like to be better.")
@options.model_option("The model that writes, where writing is needed.")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed; write nothing down, change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--after", metavar="ID", default="", hidden=True, help="Do what follows a run that ended.")
@click.pass_obj
def improve(context: CliContext, /, name: str | None, **options: Any) -> int:
    """Improve a skill from the runs in which it failed.

    What has one clear cure is mended by rule; the rest is written by a model, in a copy.  Every change is checked.
    It lands, or waits in `metier proposals`, as `improve.mode` says.  Exit code 4 if all that was proposed was refused.
    """
    from ...improve.improver import ImproveOptions, improve_after_run, improve_named

    library = context.library()
    terms = ImproveOptions(_open_model(library, options["model"]), dry=options["dry_run"], wish=options["wish"])
    if options["after"]:
        results = improve_after_run(library, options["after"], terms)
    elif name:
        results = (improve_named(library, name, options["run"], terms),)
    else:
        raise BadRequest("no skill is named", "say which: metier improve NAME")
    if options["as_json"]:
        say_json([_improved_dict(result) for result in results])
    else:
        for result in results:
            _say_improved(result, options["dry_run"])
    proposals = [proposal for result in results for proposal in result.proposals]
    return 4 if proposals and all(proposal.standing == "refused" for proposal in proposals) else 0


def _open_model(library: Any, name: str) -> Any:
    """The model, or none where there is none: what has a rule is mended without one."""
    from ...agent.models.registry import open_model

    try:
        return open_model(name, library)
    except NoModel:
        if name:
            raise
        return None


def _improved_dict(improved: ImproveResult) -> dict[str, object]:
    return {
        "skill": improved.skill,
        "words": improved.words,
        "proposals": [proposal_dict(proposal) for proposal in improved.proposals],
    }


def _say_improved(improved: ImproveResult, dry: bool) -> None:
    for proposal in improved.proposals:
        for line in proposal_lines(proposal):
            say(line)
        if dry:
            say(paint("Nothing was written: this was a dry run.", "dim"))
    message = improved.words if improved.proposals else improved.words or "there is nothing to put right"
    if message:
        say(f"{printable(improved.skill)}: {printable(message)}")
