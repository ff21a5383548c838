"""metier update and metier outdated."""

from __future__ import annotations

import sys

import click

from ...install import cleaning, news, place, updating
from ...install.edits import left_out
from ...install.place import Change
from ...install.updating import Proposal
from ...runtime.preparing import nearby, scanner, trust_placed
from ...types.errors import BadRequest, HostError, MetierError, Refused, UnknownSkill
from .app import Context, skill_names
from .approval import can_ask, power_lines, refuse_dangers, settle, show_findings, skill_dict
from .grounds import Field, fields, outfit, where, wish
from .printing import arrow, clean, clean_path, columns, counted, paint, say, say_json, warn
from .progress import Bar


@click.command("update")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--force", is_flag=True, help="Take upstream's where both changed a line; go back where it did.")
@click.option(
    "--yes", is_flag=True, help="Approve without being asked; what could do more or runs other code is refused."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--allow-insecure", is_flag=True, help="Also http, git and file addresses.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
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
    """Bring installed skills up to date: shows what changed, keeps what you edited, asks before anything widens."""
    found: list[dict[str, object]] = []
    failed = 0
    for at, folder in _wanted(context.obj, names, user, in_project, profile):
        if not names and _is_frozen(at, folder):
            found.append({"folder": folder, "updated": False, "frozen": True})
            if not as_json:
                say(f"{clean(folder)} is frozen, and left as it is")
            continue
        with Bar(folder) as bar:
            asked = wish(
                folder, at, scanner(at.place), force=force, nearby=nearby(at.place, f"{at.ground.root}/{folder}")
            )
            try:
                with updating.proposed(asked, folder, outfit(at.place, bar, allow_insecure)) as (staging, one):
                    bar.clear()
                    if one is not None and not as_json:
                        _show(one)
                    done = None
                    if one is not None and not dry_run:
                        _settle(one, yes, as_json)
                        done = updating.accept(asked, staging, one)
                found.append(_document(folder, one, done))
                if done is not None:
                    cleaning.empty_trash(at.ground)
                    trust_placed(at.place, at.ground, list(done.skills))
                if not as_json:
                    _report(folder, one, done)
            except MetierError as error:
                bar.clear()
                failed = failed or error.exit_code
                found.append({"folder": folder, "updated": False, "error": error.message, "hint": error.hint})
                warn(f"error: {clean(folder)}: {clean(error.message)}")
                if error.hint:
                    warn(f"hint: {clean(error.hint)}")
    if as_json:
        say_json(found)
    elif not found:
        say("Nothing that came from elsewhere is installed.")
    context.exit(failed)


def _wanted(
    context: Context, names: tuple[str, ...], user: bool, in_project: bool, profile: str
) -> list[tuple[Field, str]]:
    """The installed folders that are meant, each with its root."""
    found: list[tuple[Field, str]] = []
    left = dict.fromkeys(names)
    near: tuple[str, ...] = ()
    for at in fields(context, user, in_project, profile):
        lock = place.read_lock(at.ground)
        for name in names or ("",):
            try:
                folders = updating.folders(lock, [name] if name else [])
            except UnknownSkill as unknown:
                near += unknown.nearest if name in left else ()
                continue
            found += [(at, folder) for folder in folders]
            left.pop(name, None)
    if left:
        hint = f"did you mean `{near[0]}`?" if near else "run `metier list` to see what there is"
        raise BadRequest(f"`{next(iter(left))}` is not installed from anywhere", hint)
    return list(dict.fromkeys(found))


def _is_frozen(at: Field, folder: str) -> bool:
    return any(one.frozen for one in place.read_lock(at.ground).skills.values() if one.folder == folder)


def _settle(one: Proposal, yes: bool, quiet: bool) -> None:
    refuse_dangers([danger for danger in one.target.dangers if danger.code not in _known(one)], one.folder)
    if one.wider and (yes or quiet or not can_ask()):
        more = "; ".join(f"{key}: {', '.join(power_lines(powers, '+ '))}" for key, powers in one.wider.items())
        raise Refused(f"`{one.folder}` could do more than before: {more}", "run `metier update` at a terminal and look")
    settle(f"Update {one.folder}?", yes, quiet)


def _known(one: Proposal) -> set[str]:
    """Grave findings that were there, and accepted, before."""
    return {code for entry in one.old.values() if entry.approval is not None for code in entry.findings}


def _show(one: Proposal) -> None:
    say(paint(clean(one.folder), "bold"))
    for line in one.text:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        shown = "".join(character if character.isprintable() or character == "\t" else "\ufffd" for character in line)
        say("  " + (paint(shown, style) if style else shown))
    for key, powers in one.wider.items():
        for line in power_lines(powers, "+ "):
            say(paint(f"  {clean(key)}: {line}", "yellow"))
    for path in one.kept:
        say(f"  your own {clean_path(path)} is kept")
    show_findings([finding for skill in one.target.skills for finding in skill.findings])


def _report(folder: str, one: Proposal | None, done: Change | None) -> None:
    if one is None:
        say(f"{clean(folder)} is up to date")
    elif done is not None:
        commit = one.target.provenance.commit
        say(f"Updated {clean(folder)}" + (f" to {commit[:12]}" if commit else ""))
        alone = [path for skill in done.skills.values() for path in left_out(skill)]
        alone += [path for rest in done.folders.values() for path in left_out(rest)]
        if alone:
            files = ", ".join(map(clean_path, alone[:5]))
            say("  " + arrow(f"the lock can't hold your {files}: whoever shares the lock has to share that file too"))


def _document(folder: str, one: Proposal | None, done: Change | None) -> dict[str, object]:
    if one is None:
        return {"folder": folder, "updated": False, "current": True}
    return {
        "folder": folder,
        "updated": done is not None,
        "commit": one.target.provenance.commit,
        "diff": list(one.text),
        "wider": {key: {kind: list(all) for kind, all in powers.named().items()} for key, powers in one.wider.items()},
        "kept": list(one.kept),
        "skills": [skill_dict(skill) for skill in one.target.skills],
    }


@click.command("outdated")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--allow-insecure", is_flag=True, help="Also http, git and file addresses.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
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
    """List installed skills that have something else upstream.

    Exit code 1 if there are any, 5 if there are none but some could not be looked up.
    """
    found: list[news.News] = []
    wanted = _wanted(context.obj, names, user, in_project, profile)
    for at in dict.fromkeys(at for at, _ in wanted):
        with Bar("looking up") as bar:
            mine = [folder for one, folder in wanted if one == at]
            found += news.outdated(at.ground, mine, outfit(at.place, bar, allow_insecure))
    faults = sum(bool(one.fault) for one in found)
    if as_json:
        say_json([one._asdict() | {"outdated": one.outdated} for one in found])
    else:
        _say_news(found)
        lost = f"; {faults} could not be looked up" if faults else ""
        say(f"{counted(sum(one.outdated for one in found), 'folder')} outdated, of {len(found)}{lost}")
    context.exit(1 if any(one.outdated for one in found) else HostError.exit_code if faults else 0)


def _say_news(found: list[news.News]) -> None:
    rows = [("FOLDER", "HERE", "UPSTREAM", "FROM")] if found else []
    for one in found:
        latest = "unknown" if one.fault else _short(one.latest) if one.outdated else "current"
        rows.append((clean(one.folder), _short(one.commit), latest, clean_path(one.source)))
    for line in columns(rows, last_cut=sys.stdout.isatty()):
        say(line)
    for one in found:
        if one.fault:
            warn(f"error: {clean(one.folder)}: {clean(one.fault)}")


def _short(commit: str) -> str:
    return commit.removeprefix("sha256:")[:12]
