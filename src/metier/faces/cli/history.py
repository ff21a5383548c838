"""metier history, diff, rollback and blame: what skills were."""

from __future__ import annotations

import click

from ...install import managed
from ...install.operations import trust_placed_skills
from ...record import history as record_history
from ...record.history import BlameLine, SkillVersion
from ...types.errors import BadRequest
from ...types.text import visible_text
from .options import CliContext, skill_names
from .output import clean_path, format_columns, hint_line, paint, printable, say, say_json, warn

_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON")
# As long as the commits that `add` and `update` show.
_REV_LENGTH = 12


def _warn_note(text: str) -> None:
    warn(f"note: {printable(text)}")


@click.command("history")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the newest N changes")
@_JSON_OPTION
@click.pass_obj
def history(context: CliContext, name: str | None, limit: int, as_json: bool) -> None:
    """Show the changes to a skill, or to all skills: what changed, when, and which run caused it.

    Manual edits made since the last change are recorded first.
    """
    library = context.library()
    versions: list[tuple[str, SkillVersion]] = []
    if name is not None:
        managed_skill = managed.find_managed(library, name, _warn_note)
        # First, so that an edit made by hand has a version of its own and is not attributed to the next change.
        managed.record_hand_edits(managed_skill.install_root, managed_skill.key)
        versions = [
            (managed_skill.install_root.root, version)
            for version in record_history.list_versions(managed_skill.repository, managed_skill.key, limit)
        ]
    else:
        for install_root in managed.roots_with_history(library, _warn_note):
            managed.record_hand_edits(install_root)
            versions += [
                (install_root.root, version)
                for version in record_history.list_versions(install_root.history, "", limit)
            ]
        versions = sorted(versions, key=lambda pair: pair[1].at, reverse=True)[:limit]
    if as_json:
        say_json([_version_dict(version, root) for root, version in versions])
        return
    rows = [
        (
            version.rev[:_REV_LENGTH],
            version.at.replace("T", " ").removesuffix("Z"),
            printable(version.act),
            printable(version.name),
            printable(version.run or version.evidence),
        )
        for _, version in versions
    ]
    for line in format_columns(rows):
        say(line)
    if not rows:
        say("No changes recorded.")


def _version_dict(version: SkillVersion, root: str) -> dict[str, object]:
    return {**version._asdict(), "root": root}


@click.command("diff")
@click.argument("name", shell_complete=skill_names)
@click.argument("rev")
@click.argument("to", required=False)
@_JSON_OPTION
@click.pass_obj
def diff(context: CliContext, name: str, rev: str, to: str | None, as_json: bool) -> None:
    """Show what changed in a skill since a version, or between two versions."""
    managed_skill = managed.find_managed(context.library(), name, _warn_note)
    managed.record_hand_edits(managed_skill.install_root, managed_skill.key)
    text = record_history.diff_versions(managed_skill.repository, managed_skill.key, rev, to or "")
    if as_json:
        say_json(
            {
                "name": managed_skill.key,
                "root": managed_skill.install_root.root,
                "from": rev,
                "to": to or "",
                "diff": text,
            }
        )
        return
    for line in visible_text(text).splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        say(paint(line, style) if style else line)
    if not text:
        say(f"Nothing changed in {printable(managed_skill.key)}.")


@click.command("rollback")
@click.argument("name", shell_complete=skill_names)
@click.argument("rev", required=False)
@_JSON_OPTION
@click.pass_obj
def rollback(context: CliContext, name: str, rev: str | None, as_json: bool) -> None:
    """Restore an earlier version of a skill: its files, their modes and its lock entry; without REV the one before.

    This is recorded as a change itself, after any manual edits, so nothing is lost.
    """
    library = context.library()
    managed_skill = managed.find_managed(library, name, _warn_note)
    rev = rev or managed.version_before(managed_skill)[:_REV_LENGTH]
    new_version = managed.rollback_skill(managed_skill, rev)
    if new_version is not None:
        # An approved version is trusted in a shared project too, as after `metier approve`.
        trust_placed_skills(library.place, managed_skill.install_root, managed.approved_keys(managed_skill))
    if as_json:
        say_json(
            {
                "name": managed_skill.key,
                "root": managed_skill.install_root.root,
                "to": rev,
                "changed": new_version is not None,
                "rev": new_version.rev if new_version else "",
            }
        )
        return
    if new_version is None:
        say(f"{printable(managed_skill.key)} is already at {printable(rev)}.")
        return
    say(f"Rolled back {clean_path(managed_skill.folder)} to {printable(rev)}")
    before = record_history.list_versions(managed_skill.repository, managed_skill.key, 2)[-1]
    # A rollback that brought the skill back from the trash is undone by removing it again.
    undo = (
        f"remove {managed_skill.key}"
        if before.act == "trash"
        else f"rollback {managed_skill.key} {before.rev[:_REV_LENGTH]}"
    )
    say(hint_line(f"to undo, run `metier {printable(undo)}`"))


@click.command("blame")
@click.argument("name", shell_complete=skill_names)
@click.argument("path", default="SKILL.md")
@_JSON_OPTION
@click.pass_obj
def blame(context: CliContext, name: str, path: str, as_json: bool) -> None:
    """Show which change last touched each line of a skill's file, and which run caused it."""
    managed_skill = managed.find_managed(context.library(), name, _warn_note)
    managed.record_hand_edits(managed_skill.install_root, managed_skill.key)
    lines = record_history.blame_file(managed_skill.repository, managed_skill.key, path)
    if not lines:
        raise BadRequest(
            f"`{managed_skill.key}` has no file `{path}`, or it is empty", f"run `metier show {managed_skill.key}`"
        )
    if as_json:
        say_json([_blame_dict(number, line) for number, line in enumerate(lines, 1)])
        return
    label_width = max(len(_change_label(line)) for line in lines)
    for line in lines:
        version = line.version
        about = f"{version.rev[:8]}  {version.at[:10]}  {_change_label(line):{label_width}}"
        say(f"{paint(about, 'dim')}  {visible_text(line.text)}")


def _change_label(line: BlameLine) -> str:
    return printable(f"{line.version.act} {line.version.run}".strip())


def _blame_dict(number: int, line: BlameLine) -> dict[str, object]:
    version = line.version
    return {
        "line": number,
        "text": line.text,
        "rev": version.rev,
        "act": version.act,
        "run": version.run,
        "at": version.at,
    }
