"""metier improve and metier proposals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...diagnose.texts import render_patch
from ...improve import proposal_store
from ...types.errors import BadRequest, NoModel
from ...types.improvement import Proposal, SkillFault
from . import options
from .options import CliContext, skill_names
from .output import clean_path, format_columns, hint_line, paint, printable, say, say_json, warn

if TYPE_CHECKING:
    from ...improve.improver import ImproveResult
    from ...library.library import Library
    from ...types.model import Model


_STANDING_COLORS = {"accepted": "green", "waiting": "yellow", "refused": "red", "rolled-back": "red"}
_GATE_COLORS = {"yes": "green", "no": "red", "person": "yellow"}


@click.group("proposals", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Include decided proposals")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def proposals(context: click.Context, every: bool, as_json: bool) -> None:
    """List proposed changes that wait for a decision; `show`, `accept`, `reject` or `edit` one."""
    if context.invoked_subcommand is not None:
        return
    _settle_interrupted(context.obj)
    selected = [
        proposal
        for proposal in proposal_store.list_proposals(_state_folder(context.obj))
        if every or proposal.standing == "waiting"
    ]
    if as_json:
        say_json([proposal_dict(proposal) for proposal in selected])
        return
    if not selected:
        say("No pending proposals." if not every else "No proposals.")
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


def _settle_interrupted(context: CliContext) -> None:
    """Finish or undo landings that were killed, and say so."""
    from ...improve.land import LANDING, settle_interrupted

    if any(proposal.note == LANDING for proposal in proposal_store.list_proposals(_state_folder(context))):
        for proposal in settle_interrupted(context.library()):
            warn(f"{proposal.id}: {printable(proposal.note)}")


def _state_folder(context: CliContext) -> str:
    from ...host.facts import find_place

    return find_place(context.directory).state


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
    """A proposal for a person to read: the changes, the reasons, the checks and the patch."""
    standing = paint(proposal.standing, _STANDING_COLORS.get(proposal.standing, "dim"))
    yield f"{paint(printable(proposal.skill), 'bold')}  {proposal.id}  {standing}" + (
        f": {printable(proposal.note)}" if proposal.note else ""
    )
    for change in proposal.what:
        yield f"  {printable(change)}"
    for fault in proposal.because:
        yield from _fault_lines(fault)
    for gate in proposal.gates:
        yield f"  {paint(f'{gate.says:6}', _GATE_COLORS[gate.says])} {gate.name}" + (
            f": {printable(gate.words)}" if gate.words else ""
        )
    for line in render_patch(proposal.before, proposal.after).splitlines():
        yield "  " + paint(clean_path(line), "green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim")


def _fault_lines(fault: SkillFault) -> Iterator[str]:
    """A fault with its evidence: the call, what it answered, and the call that then worked."""
    where = f" (run {printable(fault.run)}, {fault.times}×)" if fault.run else ""
    yield f"  because: {fault.meaning}: {printable(fault.about)}{where}"
    if fault.bridged:
        return  # nothing failed
    if fault.call and fault.call != fault.about:
        yield f"    call:  {printable(fault.call)}"
    answer = [line for line in fault.text.splitlines() if line.strip()]
    for line in answer[-_ERROR_LINES:]:
        yield f"    error: {printable(line)}"
    if fault.worked:
        yield f"    then:  {printable(fault.worked)} worked"
    if fault.party == "unknown":
        yield "    nothing shows whose fault it is; it failed with different inputs on different days"


def _what_accepting_does(proposal: Proposal) -> Iterator[str]:
    if proposal.standing != "waiting":
        return
    files = ", ".join(proposal.after)
    yield f"Accepting writes {clean_path(files)} in {clean_path(proposal.folder)}, as a version of its history;"
    yield f"the next runs are watched, and `metier rollback {printable(proposal.skill)}` undoes it."
    yield hint_line(f"run `metier proposals accept {proposal.id}`, or `reject`, or `edit`")


_ERROR_LINES = 3
"""Lines of an answer that are shown: an error is at its end."""


@proposals.command("show")
@click.argument("id", shell_complete=options.proposals)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def show(context: CliContext, id: str, as_json: bool) -> None:
    """Show a proposal: its reasons, its checks and the patch."""
    _settle_interrupted(context)
    proposal = proposal_store.find_proposal(_state_folder(context), id)
    if as_json:
        say_json(proposal_dict(proposal))
        return
    for line in (*proposal_lines(proposal), *_what_accepting_does(proposal)):
        say(line)


@proposals.command("accept")
@click.argument("id", shell_complete=options.proposals)
@click.pass_obj
def accept(context: CliContext, id: str) -> int:
    """Apply a proposal. It becomes a version in the history and is monitored in the next runs."""
    from ...improve.land import decide_proposal

    return _report_decision(
        decide_proposal(context.library(), proposal_store.find_proposal(_state_folder(context), id), True), "accepted"
    )


@proposals.command("reject")
@click.argument("id", shell_complete=options.proposals)
@click.option("--why", metavar="TEXT", default="", help="Reason, stored with the proposal")
@click.pass_obj
def reject(context: CliContext, id: str, why: str) -> int:
    """Reject a proposal. It is not proposed again until the skill changes."""
    from ...improve.land import decide_proposal

    return _report_decision(
        decide_proposal(context.library(), proposal_store.find_proposal(_state_folder(context), id), False, why),
        "rejected",
    )


def _report_decision(proposal: Proposal, expected: str) -> int:
    say(f"{proposal.id} is {proposal.standing}" + (f": {printable(proposal.note)}" if proposal.note else ""))
    return 0 if proposal.standing == expected else 1


@proposals.command("edit")
@click.argument("id", shell_complete=options.proposals)
@click.option("--path", metavar="PATH", default="", help="File to edit, if the proposal changes several")
@click.option(
    "--from", "source", metavar="FILE", default="", help="Read the new text from FILE, or `-` for standard input"
)
@click.pass_obj
def edit(context: CliContext, id: str, path: str, source: str) -> int:
    """Edit a proposal in your editor before accepting it."""
    from ...improve.improver import edit_proposal

    library, proposal = context.library(), proposal_store.find_proposal(_state_folder(context), id)
    # With one changed file there is nothing to choose.
    chosen = path or (next(iter(proposal.after)) if len(proposal.after) == 1 else "")
    if chosen not in proposal.after:
        raise BadRequest(
            f"the proposal does not change `{path}`" if path else "the proposal changes several files",
            "pass --path with one of: " + ", ".join(proposal.after),
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

    text = paths.read_text_file(paths.absolute_path(source, paths.working_folder(), paths.home_folder()))
    if text is None:
        raise BadRequest(f"{source} does not exist", "pass a file with the new text", source)
    return text


def _in_editor(text: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadRequest("can't open an editor without a terminal", "pass the text with --from FILE")
    changed = click.edit(text, extension=".md")
    if changed is None:
        raise BadRequest("nothing was changed", "save the file in the editor, or pass the text with --from FILE")
    return changed


@click.command("improve")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("--run", "run", metavar="ID", default="", help="Use only this run: its id, a prefix of it, or `last`")
@click.option("--wish", metavar="TEXT", default="", help="Describe what should be better")
@options.model_option("Model to write fixes with")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed without recording it")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
# Started in the background by a run that has ended; not for people.
@click.option("--after", metavar="ID", default="", hidden=True, help="Run the step that follows a finished run")
@click.pass_obj
def improve(context: CliContext, /, name: str | None, **options: Any) -> int:
    """Propose fixes for a skill from the runs in which it failed.

    Unambiguous fixes are made by rule, others by a model, on a copy. Every change is checked, then applied or queued
    in `metier proposals`, depending on `improve.mode`. Exits with 4 if every proposal was refused.
    """
    from ...improve.improver import ImproveOptions, improve_after_run, improve_named

    library = context.library()
    with _opened_model(library, options["model"]) as model:
        terms = ImproveOptions(model, dry=options["dry_run"], wish=options["wish"])
        if options["after"]:
            results = improve_after_run(library, options["after"], terms)
        elif name:
            results = (improve_named(library, name, options["run"], terms),)
        else:
            raise BadRequest("missing NAME", "run `metier improve NAME`")
    if options["as_json"]:
        say_json([_improved_dict(result) for result in results])
    else:
        for result in results:
            _say_improved(result, options["dry_run"])
        if terms.model is not None and any(
            proposal.how == "model" for result in results for proposal in result.proposals
        ):
            from ...improve.budget import budget_line

            say(paint(budget_line(library), "dim"))
    proposals = [proposal for result in results for proposal in result.proposals]
    if options["after"]:
        _notify_waiting(library, proposals)
    # The exit code of a refusal, so that a script can tell it from a failure.
    return 4 if proposals and all(proposal.standing == "refused" for proposal in proposals) else 0


def _notify_waiting(library: Library, proposals: list[Proposal]) -> None:
    """Tell somebody that proposals wait: this runs in the background, and nobody sees what it prints."""
    from ...schedule.notifications import Notice, notify_all

    for proposal in proposals:
        if proposal.standing == "waiting":
            text = f"review it with `metier proposals show {proposal.id}`"
            notify_all(library, Notice(proposal.id, "attention", f"a change of {proposal.skill} waits for you", text))


@contextmanager
def _opened_model(library: Library, name: str) -> Iterator[Model | None]:
    """The model while the block lasts, or None if none is configured: fixes by rule need none."""
    from ...agent.models.registry import open_model

    try:
        model = open_model(name, library)
    except NoModel:
        # A model that was asked for must exist; only a default may be missing.
        if name:
            raise
        yield None
        return
    with closing(model):
        yield model


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
            say(paint("Dry run: nothing was recorded.", "dim"))
    message = improved.words if improved.proposals else improved.words or "nothing to fix"
    if message:
        say(f"{printable(improved.skill)}: {printable(message)}")
