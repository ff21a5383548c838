"""metier update and metier outdated."""

from __future__ import annotations

import sys

import click

from ...install import remove
from ...install import update as install_update
from ...install.merge import edits_left_out
from ...install.operations import find_scanner, present_skills, taken_names, trust_placed_skills
from ...install.transaction import FolderChange
from ...install.update import UpdateProposal
from ...library import lockfile
from ...types.errors import HostError, MetierError, NotInstalled, Refused
from .approval import (
    can_ask,
    confirm_taken_names,
    power_lines,
    refuse_dangers,
    require_approval,
    show_findings,
    skill_dict,
)
from .options import CliContext, skill_names
from .output import (
    ProgressBar,
    clean_path,
    count_of,
    format_columns,
    hint_line,
    paint,
    printable,
    say,
    say_json,
    warn,
    warn_failure,
)
from .scopes import InstallScope, add_request, fetch_options, install_scopes, scope_options


@click.command("update")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--force", is_flag=True, help="On conflicts take the upstream version; also accept a downgrade")
@click.option(
    "--yes",
    is_flag=True,
    help="Approve without asking; updates that widen permissions or change code are still refused",
)
@click.option("--dry-run", is_flag=True, help="Show what would change without changing it")
@click.option("--allow-insecure", is_flag=True, help="Also allow http, git and file URLs")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_context
def update(
    context: click.Context,
    names: tuple[str, ...],
    force: bool,
    yes: bool,
    dry_run: bool,
    allow_insecure: bool,
    as_json: bool,
    user: bool,
    in_project: bool,
    profile: str,
) -> None:
    """Update installed skills: show the changes, keep your edits, and ask before a skill can do more than before."""
    results: list[dict[str, object]] = []
    failed = 0
    for scope, folder in _select_folders(context.obj, names, user, in_project, profile):
        # Updating everything leaves frozen skills alone; naming one is a decision about it.
        if not names and _is_frozen(scope, folder):
            results.append({"folder": folder, "updated": False, "frozen": True})
            if not as_json:
                say(f"{printable(folder)} is frozen; skipped")
            continue
        with ProgressBar(folder) as bar:
            request = add_request(
                folder,
                scope,
                find_scanner(scope.place),
                force=force,
                nearby=present_skills(scope.place, f"{scope.install_root.root}/{folder}"),
            )
            try:
                with install_update.open_proposal(request, folder, fetch_options(scope.place, bar, allow_insecure)) as (
                    staging,
                    proposal,
                ):
                    bar.clear()
                    if proposal is not None and not as_json:
                        _show_update(proposal)
                    change = None
                    if proposal is not None and not dry_run:
                        _approve_update(proposal, scope, yes, as_json)
                        change = install_update.accept_update(request, staging, proposal)
                results.append(_update_dict(folder, proposal, change))
                if change is not None:
                    remove.empty_trash(scope.install_root)
                    trust_placed_skills(scope.place, scope.install_root, list(change.skills))
                if not as_json:
                    _report_update(folder, proposal, change)
            # One source that fails does not stop the others; the first failure decides the exit code.
            except MetierError as error:
                bar.clear()
                failed = failed or error.exit_code
                results.append({"folder": folder, "updated": False, "error": error.message, "hint": error.hint})
                warn_failure(folder, error)
    if as_json:
        say_json(results)
    elif not results:
        say("No installed skills to update.")
    context.exit(failed)


def _select_folders(
    context: CliContext, names: tuple[str, ...], user: bool, in_project: bool, profile: str
) -> list[tuple[InstallScope, str]]:
    """The installed folders that are meant, each with its root."""
    selected: list[tuple[InstallScope, str]] = []
    unmatched = dict.fromkeys(names)
    near: tuple[str, ...] = ()
    for scope in install_scopes(context, user, in_project, profile):
        lock = lockfile.read_lock(scope.install_root)
        for name in names or ("",):
            try:
                folders = install_update.installed_folders(lock, [name] if name else [])
            except NotInstalled as unknown:
                near += unknown.nearest if name in unmatched else ()
                continue
            selected += [(scope, folder) for folder in folders]
            unmatched.pop(name, None)
    if unmatched:
        raise NotInstalled(next(iter(unmatched)), near[:1])
    return list(dict.fromkeys(selected))


def _is_frozen(scope: InstallScope, folder: str) -> bool:
    return any(
        entry.frozen for entry in lockfile.read_lock(scope.install_root).skills.values() if entry.folder == folder
    )


def _approve_update(proposal: UpdateProposal, scope: InstallScope, yes: bool, quiet: bool) -> None:
    refuse_dangers(
        [danger for danger in proposal.target.dangers if danger.code not in _accepted_codes(proposal)], proposal.folder
    )
    # --yes was given before anyone knew what more the update can do: only a person at a terminal may accept that.
    if proposal.wider and (yes or quiet or not can_ask()):
        widened = "; ".join(f"{key}: {', '.join(power_lines(powers, '+ '))}" for key, powers in proposal.wider.items())
        raise Refused(
            f"`{proposal.folder}` can do more than before: {widened}", "run `metier update` in a terminal to review it"
        )
    confirm_taken_names(taken_names(scope.place, scope.install_root, proposal.new_names))
    require_approval(f"Update {proposal.folder}?", yes, quiet)


def _accepted_codes(proposal: UpdateProposal) -> set[str]:
    """Serious findings that were accepted before."""
    return {code for entry in proposal.old.values() if entry.approval is not None for code in entry.findings}


def _show_update(proposal: UpdateProposal) -> None:
    say(paint(printable(proposal.folder), "bold"))
    for line in proposal.text:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        visible = "".join(character if character.isprintable() or character == "\t" else "\ufffd" for character in line)
        say("  " + (paint(visible, style) if style else visible))
    for key, powers in proposal.wider.items():
        for line in power_lines(powers, "+ "):
            say(paint(f"  {printable(key)}: {line}", "yellow"))
    for path in proposal.kept:
        say(f"  keeping your {clean_path(path)}")
    show_findings([finding for skill in proposal.target.skills for finding in skill.findings])


def _report_update(folder: str, proposal: UpdateProposal | None, change: FolderChange | None) -> None:
    if proposal is None:
        say(f"{printable(folder)} is up to date")
    elif change is not None:
        commit = proposal.target.provenance.commit
        say(f"Updated {printable(folder)}" + (f" to {commit[:12]}" if commit else ""))
        # Too large for the lock file: `metier sync` on another machine can't restore these edits.
        edited_files = [path for skill in change.skills.values() for path in edits_left_out(skill)]
        edited_files += [path for entry in change.folders.values() for path in edits_left_out(entry)]
        if edited_files:
            files = ", ".join(map(clean_path, edited_files[:5]))
            say("  " + hint_line(f"the lock file can't store your {files}; share them along with it"))


def _update_dict(folder: str, proposal: UpdateProposal | None, change: FolderChange | None) -> dict[str, object]:
    if proposal is None:
        return {"folder": folder, "updated": False, "current": True}
    return {
        "folder": folder,
        "updated": change is not None,
        "commit": proposal.target.provenance.commit,
        "diff": list(proposal.text),
        "wider": {
            key: {kind: list(values) for kind, values in powers.named().items()}
            for key, powers in proposal.wider.items()
        },
        "kept": list(proposal.kept),
        "skills": [skill_dict(skill) for skill in proposal.target.skills],
    }


@click.command("outdated")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--allow-insecure", is_flag=True, help="Also allow http, git and file URLs")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_context
def outdated(
    context: click.Context,
    names: tuple[str, ...],
    allow_insecure: bool,
    as_json: bool,
    user: bool,
    in_project: bool,
    profile: str,
) -> None:
    """List installed skills that differ from their upstream.

    Exits with 1 if there are any, with 5 if there are none but some could not be checked.
    """
    entries: list[install_update.UpstreamStatus] = []
    selected = _select_folders(context.obj, names, user, in_project, profile)
    for scope in dict.fromkeys(scope for scope, _ in selected):
        with ProgressBar("checking") as bar:
            folders = [folder for owner, folder in selected if owner == scope]
            entries += install_update.check_outdated(
                scope.install_root, folders, fetch_options(scope.place, bar, allow_insecure)
            )
    faults = sum(bool(entry.fault) for entry in entries)
    if as_json:
        say_json([entry._asdict() | {"outdated": entry.outdated} for entry in entries])
    else:
        _print_outdated(entries)
        unchecked = f"; {faults} could not be checked" if faults else ""
        say(f"{sum(entry.outdated for entry in entries)} of {count_of(len(entries), 'folder')} outdated{unchecked}")
    context.exit(1 if any(entry.outdated for entry in entries) else HostError.exit_code if faults else 0)


def _print_outdated(entries: list[install_update.UpstreamStatus]) -> None:
    rows = [("FOLDER", "HERE", "UPSTREAM", "FROM")] if entries else []
    for entry in entries:
        latest = "unknown" if entry.fault else _short_commit(entry.latest) if entry.outdated else "current"
        rows.append((printable(entry.folder), _short_commit(entry.commit), latest, clean_path(entry.source)))
    for line in format_columns(rows, last_cut=sys.stdout.isatty()):
        say(line)
    for entry in entries:
        if entry.fault:
            warn(f"error: {printable(entry.folder)}: {printable(entry.fault)}")


def _short_commit(commit: str) -> str:
    return commit.removeprefix("sha256:")[:12]
