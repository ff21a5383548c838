"""metier verify, freeze, approve and sync."""

from __future__ import annotations

import click

from ...host import paths
from ...install import adding, compare, keeping, place, removing, syncing
from ...install.inspect import inspect
from ...install.lockfile import BadLock, foreign_digest, read_foreign
from ...install.place import Ground
from ...install.syncing import Synced
from ...runtime.preparing import nearby, scanner, trust_placed
from ...types.errors import BadRequest, MetierError, Refused, UnknownSkill
from ...types.installed import Lock
from ...types.problem import Problem
from .app import Context, skill_names
from .approval import ask, can_ask, power_lines, refuse_dangers, settle, show_findings, show_target, waiting
from .grounds import Field, field, fields, is_named, outfit, where, wish
from .printing import arrow, clean, clean_path, counted, paint, say, say_json, warn
from .progress import Bar


@click.command("verify")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_context
def verify(
    context: click.Context, names: tuple[str, ...], as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Compare every file of the locked skills with the lock.

    Exit code 1 if one differs, or if the root that you name (--project, --user) has skills and no lock.
    """
    found: list[tuple[Ground, keeping.Difference]] = []
    count, unknown = 0, list(names)
    here = fields(context.obj, user, in_project, profile, lockless=True)
    bare = {} if names else _without_lock(here)
    for at in here:
        lock = place.read_lock(at.ground)
        mine = [name for name in names if _has(lock, name)]
        unknown = [name for name in unknown if name not in mine]
        if names and not mine:
            continue
        count += len(lock.skills)
        found += [(at.ground, one) for one in keeping.verify(at.ground, lock, mine)]
    if unknown:
        raise UnknownSkill(unknown[0])
    failed = bool(found) or (bool(bare) and is_named(context.obj, user, in_project, profile))
    if as_json:
        rows = [{"root": ground.root, "skill": one.skill, "path": one.path, "how": one.how} for ground, one in found]
        say_json({"ok": not failed, "differences": rows, "without_lock": list(bare)})
    else:
        for ground, one in found:
            say(f"{clean_path(f'{ground.root}/{one.skill}/{one.path}')}: {paint(one.how, 'red')}")
        for root, skills in bare.items():
            say(f"{clean_path(root)}: no lock is there, and {counted(skills, 'skill')} could not be checked")
            say("  " + arrow("bring the lock back from git or a backup; `metier freeze` locks what is there now"))
        say(f"{counted(count, 'skill')} in the lock, {counted(len(found), 'file')} not as it says")
    context.exit(1 if failed else 0)


def _without_lock(here: list[Field]) -> dict[str, int]:
    """Roots that have no lock at all, and how many skills lie in each."""
    bare = [at.ground for at in here if not paths.exists(at.ground.lock)]
    counts = {ground.root: len(removing.installed(ground)) for ground in bare}
    return {root: skills for root, skills in counts.items() if skills}


def _has(lock: Lock, name: str) -> bool:
    try:
        keeping.find(lock, name)
    except UnknownSkill:
        return False
    return True


@click.command("freeze")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--off", is_flag=True, help="Let them change again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def freeze(
    context: Context, names: tuple[str, ...], off: bool, as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Lock what is there now: a file that differs later is refused, and named, wherever the skill is used."""
    here = fields(context, user, in_project, profile, lockless=True)
    meant: dict[Field, list[str]] = {}
    found: list[dict[str, object]] = []
    for name in names:
        at = next((one for one in here if keeping.places_of(one.ground, name)), here[0])
        meant.setdefault(at, []).append(name)
    for at, wanted in (meant or {here[0]: []}).items():
        place.recover(at.ground)
        done = keeping.freeze(at.ground, wanted, at.dialect, not off)
        odd = [one for one in keeping.verify(at.ground, place.read_lock(at.ground)) if one.skill in done]
        trust_placed(at.place, at.ground, [key for key in done if key not in {one.skill for one in odd}])
        changed = [{"skill": one.skill, "path": one.path, "how": one.how} for one in odd]
        found.append({"root": at.ground.root, "frozen": not off, "skills": list(done), "changed": changed})
        if not as_json:
            say(f"{'No longer frozen' if off else 'Frozen'}: {', '.join(map(clean, done)) or 'nothing is there'}")
            for one in odd:
                say(f"  {clean_path(f'{one.skill}/{one.path}')}: {paint(one.how, 'red')} while it was frozen")
            for key in dict.fromkeys(one.skill for one in odd):
                say("  " + arrow(f"nobody has agreed to that: `metier approve {clean(key)}` does"))
    if as_json:
        say_json(found[0] if len(found) == 1 else found)


@click.command("approve")
@click.argument("name", shell_complete=skill_names)
@click.option("--yes", is_flag=True, help="Approve without being asked; grave findings still ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def approve(context: Context, name: str, yes: bool, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Approve an installed skill as it is now: after `add --unapproved`, or after a change."""
    at = next(
        (one for one in fields(context, user, in_project, profile) if _has(place.read_lock(one.ground), name)), None
    )
    if at is None:
        raise UnknownSkill(name)
    lock = place.read_lock(at.ground)
    keys = keeping.find(lock, name)
    dangers: list[Problem] = []
    for key in keys:
        old = lock.skills[key]
        path = f"{at.ground.root}/{key}"
        now = compare.marks_at(path)
        seen = inspect(adding.folder_at(path, "", key.rpartition("/")[2], now), at.dialect, ())
        dangers += seen.dangers
        if not as_json:
            say(paint(clean(key), "bold"))
            for one, how in compare.differences(old.files, now, at.ground.shared):
                say(f"  {clean_path(one)}: {how}")
            for line in power_lines(seen.powers):
                say(f"  {line}")
            show_findings(seen.findings)
    if dangers:
        if not can_ask():
            raise Refused(f"`{name}` has grave findings: {dangers[0].message}", "approve it at a terminal, by its name")
        if not ask(f"{counted(len(dangers), 'grave finding')}.", name):
            raise Refused(f"not approved: that was not `{name}`", "nothing was changed; run it again if you mean it")
    else:
        settle(f"Approve {name}?", yes, as_json)
    keeping.approve(at.ground, keys, at.dialect)
    trust_placed(at.place, at.ground, keys)
    if as_json:
        say_json({"root": at.ground.root, "approved": keys})
        return
    say(f"Approved: {', '.join(map(clean, keys))}")


@click.command("sync")
@click.option("--from", "source", metavar="FILE", help="A lock of `npx skills`, to install what it names.")
@click.option("--force", is_flag=True, help="Replace what was edited here; it goes to the trash.")
@click.option("--yes", is_flag=True, help="Approve what --from brings without being asked.")
@click.option("--allow-insecure", is_flag=True, help="Also http, git and file addresses.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_context
def sync(
    context: click.Context,
    source: str | None,
    force: bool,
    yes: bool,
    allow_insecure: bool,
    as_json: bool,
    user: bool,
    in_project: bool,
    profile: str,
) -> None:
    """Make skills what the lock says, to the commit and the byte; for teams and for CI.

    What you edited here is not replaced unless you say --force.  A skill that can't be had stops none of the others.
    """
    done: list[tuple[str, Synced]] = []
    if source is not None:
        at = field(context.obj, user, in_project, profile)
        done = [(at.ground.root, one) for one in _foreign(at, source, yes, allow_insecure, as_json)]
    else:
        for at in fields(context.obj, user, in_project, profile):
            with Bar("sync") as bar:
                asked = wish("", at, force=force)
                found = syncing.synchronise(asked, outfit(at.place, bar, allow_insecure), waiting)
                done += [(at.ground.root, one) for one in found]
    if as_json:
        say_json([{"root": root} | _synced_dict(one) for root, one in done])
    else:
        for _, one in done:
            _say_synced(one)
        if not done:
            say("The lock names nothing that came from elsewhere.")
    context.exit(next((one.fault.exit_code for _, one in done if one.fault), 0))


def _synced_dict(one: Synced) -> dict[str, object]:
    found: dict[str, object] = {"folder": one.folder, "state": one.state}
    if one.fault:
        found |= {"error": one.fault.message, "hint": one.fault.hint}
    return found | ({"without": list(one.without)} if one.without else {})


def _say_synced(one: Synced) -> None:
    if one.fault:
        warn(f"error: {clean(one.folder)}: {clean(one.fault.message)}")
        if one.fault.hint:
            warn(f"hint: {clean(one.fault.hint)}")
        return
    say(f"{clean(one.folder)}: {one.state}")
    if one.without:
        files = ", ".join(map(clean_path, one.without[:5]))
        say("  " + arrow(f"{files} is upstream's: the edited text is not here; the lock says so now"))


def _foreign(at: Field, source: str, yes: bool, insecure: bool, quiet: bool) -> list[Synced]:
    """Install what another program's lock names, and check its hash where it gives one."""
    file = paths.absolute(source, at.place.cwd, at.place.home)
    text = paths.read_text_file(file, 16_777_216)
    if text is None:
        raise BadRequest(f"{source} does not exist", "give a skills-lock.json or .skill-lock.json")
    try:
        named = read_foreign(text)
    except BadLock as error:
        raise BadRequest(f"{source} can't be read: {error}", "give a lock of `npx skills`") from error
    known = nearby(at.place)
    done = []
    for one in named:
        if paths.exists(f"{at.ground.root}/{one.name}"):
            done.append(Synced(one.name, "unchanged"))
            continue
        base = outfit(at.place, None, insecure)
        asked = wish(one.spec, at, scanner(at.place), skills=(one.name,), nearby=known)
        try:
            with adding.offered(asked, base) as offer:
                for target in offer.targets:
                    _check_hash(one.digest, target)
                    if not quiet:
                        show_target(target, at.ground.root)
                refuse_dangers(offer.dangers, one.name)
                settle(f"Add {one.name}?", yes, quiet)
                changes = adding.accept(offer, True, waiting)
        except MetierError as error:
            raise type(error)(f"{one.name}: {error.message}", error.hint) from error
        trust_placed(at.place, at.ground, [key for change in changes for key in change.skills])
        done.append(Synced(one.name, "placed"))
    return done


def _check_hash(wanted: str, target: adding.Target) -> None:
    from ...host.writing import head_of

    if wanted:
        contents = {path: head_of(f"{target.path}/{path}", 1 << 30) for path in target.files}
        if foreign_digest(contents) != wanted:
            raise Refused(f"`{target.folder}` is not what the lock says", "upstream has changed; nothing was placed")
