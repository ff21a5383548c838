"""metier remove, metier restore and metier clean."""

from __future__ import annotations

import re
import sys

import click

from ...install import remove as install_remove
from ...install import transaction
from ...library import lockfile
from ...sources.bundled import bundled_paths
from ...types.errors import NotInstalled
from . import options
from .options import CliContext, skill_names
from .output import clean_path, count_of, format_columns, hint_line, printable, say, say_json
from .scopes import InstallScope, install_scopes, scope_options, scoped_command


@click.command("clean")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=float(install_remove.TRASH_DAYS),
    show_default=True,
    help="Delete what has been in the trash this long; 0 for everything",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted without deleting it")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def clean(
    context: CliContext, days: float, dry_run: bool, as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Delete removed and replaced skills from the trash.

    Also deletes texts kept for merging updates that no lock file has referenced for a year. `metier add` and
    `metier update` delete what has been in the trash for 30 days.
    """
    scopes = install_scopes(context, user, in_project, profile)
    install_roots = [scope.install_root for scope in scopes]
    trash = [
        item
        for install_root in install_roots
        for item in (install_remove.old_trash if dry_run else install_remove.empty_trash)(install_root, days)
    ]
    # The texts are shared: whichever root is cleaned, a lock file of any of them may still need one.
    all_roots = [scope.install_root for scope in install_scopes(context, False, False, "")]
    texts = install_remove.old_texts(
        scopes[0].place.state, [lockfile.read_lock(install_root) for install_root in (*install_roots, *all_roots)]
    )
    if not dry_run:
        install_remove.remove_texts(texts)
    freed = sum(item.bytes for item in (*trash, *texts))
    if as_json:
        say_json(
            {
                "removed": not dry_run,
                "trash": [item._asdict() for item in trash],
                "texts": [item._asdict() for item in texts],
                "bytes": freed,
            }
        )
        return
    for line in format_columns(
        [(clean_path(item.what), f"{item.days:.0f} days", f"{item.bytes:,} bytes") for item in trash]
    ):
        say(line)
    summary = f"{count_of(len(trash), 'removed folder')} and {count_of(len(texts), 'unused merge text')}"
    say(f"{'Would free' if dry_run else 'Freed'} {freed:,} bytes: {summary}")


@click.command("remove")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def remove(
    context: CliContext, names: tuple[str, ...], as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Remove installed skills, or list them. Removed skills go to the trash; `metier restore NAME` brings one back."""
    # With or without a lock: what `metier new` made in the project can be removed like the user's own skills.
    scopes = install_scopes(context, user, in_project, profile, lockless=True)
    if not names:
        _list_installed(scopes, as_json)
        return
    # All names are looked up before the first skill goes: a typo in the last one removes nothing.
    targets = [(_scope_with(scopes, name), name) for name in dict.fromkeys(names)]
    removed = [(scope, install_remove.remove_skill(scope.install_root, name)) for scope, name in targets]
    if as_json:
        documents = [{"removed": removal.target, "root": scope.install_root.root} for scope, removal in removed]
        say_json(documents[0] if len(documents) == 1 else documents)
        return
    for scope, removal in removed:
        if removal.trashed:
            say(f"Removed skill '{printable(removal.target)}'")
            say(hint_line(f"to undo, run `{scoped_command(f'restore {printable(removal.target)}', scope)}`"))
        else:
            say(f"'{printable(removal.target)}' was already gone; removed it from the lock file")


def _scope_with(scopes: list[InstallScope], name: str) -> InstallScope:
    """The first root that has the skill; if none has it, the error of the last one is raised."""
    for number, scope in enumerate(scopes, 1):
        try:
            install_remove.resolve_removable(scope.install_root, name)
            return scope
        except NotInstalled:
            if number == len(scopes):
                raise
    raise NotInstalled(name)


def _list_installed(scopes: list[InstallScope], as_json: bool) -> None:
    entries = [(scope, entry) for scope in scopes for entry in install_remove.list_installed(scope.install_root)]
    if as_json:
        say_json([entry._asdict() | {"root": scope.install_root.root} for scope, entry in entries])
        return
    rows = [("PLACE", "SKILL", "STATE", "FROM")] if entries else []
    for scope, entry in entries:
        owner = (
            "metier"
            if f"{scope.install_root.root}/{entry.place}/SKILL.md" in bundled_paths(scope.place.state)
            else "yours"
        )
        state = "" if entry.approved else "unapproved"
        state = "missing" if entry.missing else "frozen" if entry.frozen and not state else state
        source = f"{entry.source}{'@' + entry.commit[:12] if entry.commit else ''}" if entry.source else owner
        rows.append((clean_path(entry.place), printable(entry.name), state, clean_path(source)))
    for line in format_columns(rows, last_cut=sys.stdout.isatty()):
        say(line)
    if not rows:
        say("No skills are installed.")


@click.command("restore")
@click.argument("name", required=False, shell_complete=options.trash)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def restore(context: CliContext, name: str | None, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Restore a removed skill from the trash, or list the trash.

    NAME is the skill's name (the latest of that name) or an ID from the list.
    """
    scopes = install_scopes(context, user, in_project, profile, lockless=True)
    if name is None:
        entries = [(scope, *entry) for scope in scopes for entry in transaction.list_trash(scope.install_root)]
        if as_json:
            say_json(
                [
                    {"id": id, "target": folder, "at": when, "root": scope.install_root.root}
                    for scope, id, folder, when in entries
                ]
            )
            return
        rows = [
            (clean_path(folder), _readable_time(when), id, clean_path(scope.install_root.root))
            for scope, id, folder, when in entries
        ]
        for line in format_columns([("NAME", "REMOVED", "ID", "FROM"), *rows] if rows else [], sys.stdout.isatty()):
            say(line)
        if not entries:
            say("The trash is empty.")
        return
    scope = next((scope for scope in scopes if install_remove.find_in_trash(scope.install_root, name)), scopes[0])
    folder = install_remove.restore_skill(scope.install_root, name)
    if as_json:
        say_json({"restored": folder, "root": scope.install_root.root})
        return
    say(f"Restored '{printable(folder)}' to {clean_path(scope.install_root.root)}/{clean_path(folder)}")


def _readable_time(stamp: str) -> str:
    """`20260801T093000.123456Z` as `2026-08-01T09:30:00Z`; anything else stays as it is."""
    return re.sub(r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\.\d+Z$", r"\1-\2-\3T\4:\5:\6Z", printable(stamp))
