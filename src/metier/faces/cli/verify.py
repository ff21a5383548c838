"""metier verify, freeze, approve and sync."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...host import paths
from ...install import add, remove, transaction
from ...install import sync as install_sync
from ...install import verify as install_verify
from ...install.operations import find_scanner, present_skills, taken_names, trust_placed_skills
from ...install.sync import SyncResult
from ...library import lockfile
from ...library.library import Library
from ...library.lockfile import BadLock, InstallRoot, foreign_digest, read_foreign
from ...sources.roots import PACKAGE_TIER
from ...types.errors import BadRequest, MetierError, NotInstalled, Refused, UnknownSkill
from ...types.installed import Lockfile
from ...types.problem import Problem
from ...types.skill import Skill
from ..skill_review import approve_content, approve_own_skill, names_taken_over, review_folder, review_locked
from .approval import (
    ask_confirmation,
    can_ask,
    confirm_taken_names,
    power_lines,
    refuse_dangers,
    require_approval,
    show_findings,
    show_target,
    warn_waiting,
)
from .options import CliContext, skill_names
from .output import ProgressBar, clean_path, count_of, hint_line, paint, printable, say, say_json, warn_failure
from .scopes import (
    InstallScope,
    add_request,
    fetch_options,
    install_scope,
    install_scopes,
    is_scope_named,
    scope_options,
)


@click.command("verify")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_context
def verify(
    context: click.Context, names: tuple[str, ...], as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Compare every file of the locked skills with the lock file.

    Exits with 1 if a file differs, or if the root you name (--project, --user) has skills but no lock file.
    """
    differences: list[tuple[InstallRoot, install_verify.LockDifference]] = []
    count, unknown = 0, list(names)
    scopes = install_scopes(context.obj, user, in_project, profile, lockless=True)
    unlocked = {} if names else _without_lock(scopes)
    for scope in scopes:
        lock = lockfile.read_lock(scope.install_root)
        matching = [name for name in names if _lock_has(lock, name)]
        unknown = [name for name in unknown if name not in matching]
        if names and not matching:
            continue
        count += len(lock.skills)
        differences += [
            (scope.install_root, difference)
            for difference in install_verify.verify_lock(scope.install_root, lock, matching)
        ]
    if unknown:
        raise NotInstalled(unknown[0])
    accepted = _accepted_changes(context.obj, differences)
    unexplained = [pair for pair in differences if _place_of(*pair) not in accepted]
    # Skills that were never installed have no lock, so a missing one is a fault only in a root that was named, or in
    # one that something was installed into.
    lost = any(_had_lock(scope.install_root) for scope in scopes if scope.install_root.root in unlocked)
    failed = bool(unexplained) or (bool(unlocked) and (lost or is_scope_named(context.obj, user, in_project, profile)))
    if as_json:
        rows = [
            {
                "root": install_root.root,
                "skill": difference.skill,
                "path": difference.path,
                "how": difference.how,
                "proposal": accepted.get(_place_of(install_root, difference), ""),
            }
            for install_root, difference in differences
        ]
        say_json({"ok": not failed, "differences": rows, "without_lock": list(unlocked)})
    else:
        for install_root, difference in differences:
            path = _place_of(install_root, difference)
            how = paint(difference.how, "yellow" if path in accepted else "red")
            say(f"{clean_path(path)}: {how}" + (f" by proposal {accepted[path]}" if path in accepted else ""))
        for root, skills in unlocked.items():
            say(f"{clean_path(root)}: no lock file; {count_of(skills, 'skill')} could not be checked")
            say(
                "  "
                + hint_line(
                    "restore the lock file from git or a backup, or lock the current content with `metier freeze`"
                )
            )
        known = f", {len(accepted)} of them by accepted proposals" if accepted else ""
        say(f"{count_of(count, 'skill')} locked, {count_of(len(differences), 'file')} changed{known}")
    context.exit(1 if failed else 0)


def _place_of(install_root: InstallRoot, difference: install_verify.LockDifference) -> str:
    return f"{install_root.root}/{difference.skill}/{difference.path}"


def _accepted_changes(
    context: CliContext, differences: list[tuple[InstallRoot, install_verify.LockDifference]]
) -> dict[str, str]:
    """The files that differ because somebody accepted a proposal, each with its id: a local change, and known."""
    if not differences:
        return {}
    from ...host.facts import find_place
    from ...improve.proposal_store import accepted_changes

    state = find_place(context.directory).state
    folders = dict.fromkeys(f"{install_root.root}/{difference.skill}" for install_root, difference in differences)
    known = {f"{folder}/{path}": id for folder in folders for path, id in accepted_changes(state, folder).items()}
    return {place: known[place] for pair in differences if (place := _place_of(*pair)) in known}


def _without_lock(scopes: list[InstallScope]) -> dict[str, int]:
    """Roots that have no lock at all, and how many skills lie in each."""
    unlocked = [scope.install_root for scope in scopes if not paths.exists(scope.install_root.lock)]
    counts = {install_root.root: len(remove.list_installed(install_root)) for install_root in unlocked}
    return {root: skills for root, skills in counts.items() if skills}


def _had_lock(install_root: InstallRoot) -> bool:
    if install_root.shared:  # there trust decides, with or without a lock
        return False
    receipts = lockfile.read_receipts(install_root.receipts)
    return bool(receipts.get(paths.real_path(install_root.root)))


def _lock_has(lock: Lockfile, name: str) -> bool:
    try:
        install_verify.find_locked(lock, name)
    except NotInstalled:
        return False
    return True


@click.command("freeze")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=skill_names)
@click.option("--off", is_flag=True, help="Unfreeze them")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def freeze(
    context: CliContext, names: tuple[str, ...], off: bool, as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Lock skills at their current content; a skill whose files differ later is refused."""
    scopes = install_scopes(context, user, in_project, profile, lockless=True)
    names_by_scope: dict[InstallScope, list[str]] = {}
    documents: list[dict[str, object]] = []
    for name in names:
        scope = next(
            (candidate for candidate in scopes if install_verify.find_places(candidate.install_root, name)), scopes[0]
        )
        names_by_scope.setdefault(scope, []).append(name)
    for scope, chosen in (names_by_scope or {scopes[0]: []}).items():
        # An interrupted change is finished or undone first: half of one must not be frozen.
        transaction.recover_root(scope.install_root)
        frozen_keys = install_verify.freeze_skills(scope.install_root, chosen, scope.dialect, not off)
        differences = [
            difference
            for difference in install_verify.verify_lock(scope.install_root, lockfile.read_lock(scope.install_root))
            if difference.skill in frozen_keys
        ]
        # What changed while it was frozen, or was never approved, has to be approved first.
        entries = lockfile.read_lock(scope.install_root).skills
        held = {difference.skill for difference in differences}
        held |= {key for key in frozen_keys if key in entries and entries[key].approval is None}
        trust_placed_skills(scope.place, scope.install_root, [key for key in frozen_keys if key not in held])
        changed = [
            {"skill": difference.skill, "path": difference.path, "how": difference.how} for difference in differences
        ]
        documents.append(
            {"root": scope.install_root.root, "frozen": not off, "skills": list(frozen_keys), "changed": changed}
        )
        if not as_json:
            say(f"{'No longer frozen' if off else 'Frozen'}: {', '.join(map(printable, frozen_keys)) or 'no skills'}")
            for difference in differences:
                say(
                    f"  {clean_path(f'{difference.skill}/{difference.path}')}: "
                    f"{paint(difference.how, 'red')} while it was frozen"
                )
            for key in dict.fromkeys(difference.skill for difference in differences):
                say("  " + hint_line(f"not approved; to approve it, run `metier approve {printable(key)}`"))
    if as_json:
        say_json(documents[0] if len(documents) == 1 else documents)


@click.command("approve")
@click.argument("name", shell_complete=skill_names)
@click.option("--yes", is_flag=True, help="Approve without asking; serious findings still need confirmation")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def approve(
    context: CliContext, name: str, yes: bool, as_json: bool, user: bool, in_project: bool, profile: str
) -> None:
    """Approve a skill at its current content.

    An installed skill needs it after `add --unapproved` or after a change. A skill of your own needs it before it gets
    what its frontmatter asks for: the network, folders, variables.
    """
    scopes = install_scopes(context, user, in_project, profile)
    scope = next(
        (candidate for candidate in scopes if _lock_has(lockfile.read_lock(candidate.install_root), name)),
        None,
    )
    if scope is None:
        _approve_own(context, name, yes, as_json)
        return
    lock = lockfile.read_lock(scope.install_root)
    keys = install_verify.find_locked(lock, name)
    reviewed = review_locked(scope.install_root, lock, keys, scope.dialect)
    for item in reviewed if not as_json else ():
        say(paint(printable(item.key), "bold"))
        for file_path, difference in item.differences:
            say(f"  {clean_path(file_path)}: {difference}")
        for line in power_lines(item.inspected.powers):
            say(f"  {line}")
        show_findings(item.inspected.findings)
    confirm_taken_names(names_taken_over(scope.place, scope.install_root, lock, keys))
    dangers = [danger for item in reviewed for danger in item.inspected.dangers]
    _ask_approval(name, dangers, yes, as_json)
    seen = {item.key: item.digest for item in reviewed}
    install_verify.approve_skills(scope.install_root, keys, scope.dialect, seen)
    trust_placed_skills(scope.place, scope.install_root, keys)
    if as_json:
        say_json({"root": scope.install_root.root, "approved": keys})
        return
    say(f"Approved: {', '.join(map(printable, keys))}")


def _ask_approval(name: str, dangers: Sequence[Problem], yes: bool, quiet: bool) -> None:
    if not dangers:
        require_approval(f"Approve {name}?", yes, quiet)
        return
    # Not even with --yes: the name has to be typed by someone who has seen the findings.
    if not can_ask():
        raise Refused(
            f"`{name}` has serious findings: {dangers[0].message}",
            "run this in a terminal and type the skill's name to confirm",
        )
    if not ask_confirmation(f"{count_of(len(dangers), 'serious finding')}.", name):
        raise Refused(
            f"not approved: the answer was not `{name}`", "nothing was changed; run the command again to approve it"
        )


def _approve_own(context: CliContext, name: str, yes: bool, as_json: bool) -> None:
    """Approve a skill that metier did not install, in a root of the user's or of a package."""
    library = context.library()
    if packaged := _packaged_skills(library, name):
        _approve_packaged(library, name, packaged, yes, as_json)
        return
    try:
        skill = library.find(name).skill
    except UnknownSkill as error:
        raise NotInstalled(name, error.nearest) from error
    if skill.origin.source == "project":
        raise NotInstalled(name)  # such a skill is trusted with its project
    own = review_folder(skill.directory, skill.id, skill.origin.dialect, None)
    inspected = own.inspected
    if inspected.powers.nothing:
        raise BadRequest(f"`{name}` needs no approval", "nothing in it runs, and it asks for nothing")
    if not as_json:
        say(f"{paint(printable(skill.name), 'bold')}  {clean_path(skill.directory)}")
        for line in power_lines(inspected.powers):
            say(f"  {line}")
        show_findings(inspected.findings)
    _ask_approval(name, inspected.dangers, yes, as_json)
    approve_own_skill(library, name, own.digest)
    if as_json:
        say_json({"root": skill.origin.path, "approved": [skill.id]})
        return
    say(f"Approved: {printable(skill.name)}")


def _packaged_skills(library: Library, name: str) -> list[Skill]:
    """The skills of packages that a name means: all of a package, or one that is used or withheld under it."""
    packaged = [skill for skill in library.skills if skill.origin.tier == PACKAGE_TIER]
    of_package = [skill for skill in packaged if skill.origin.root == name]
    # A skill of the user's own goes first under a plain name; `name@package` means the package's.
    own = {skill.name for skill in library.skills if skill.origin.tier != PACKAGE_TIER}
    return of_package or [
        skill for skill in packaged if name == skill.qualified or (name == skill.name and name not in own)
    ]


def _approve_packaged(library: Library, name: str, skills: list[Skill], yes: bool, as_json: bool) -> None:
    """Approve skills of an installed package at their content; an upgrade that changes it asks again."""
    reviewed = [review_folder(skill.directory, skill.id, skill.origin.dialect, None) for skill in skills]
    if not as_json:
        for skill, review in zip(skills, reviewed, strict=True):
            say(f"{paint(printable(skill.name), 'bold')}  {clean_path(skill.directory)}")
            for line in power_lines(review.inspected.powers):
                say(f"  {line}")
            show_findings(review.inspected.findings)
    _ask_approval(name, [danger for review in reviewed for danger in review.inspected.dangers], yes, as_json)
    for skill, review in zip(skills, reviewed, strict=True):
        approve_content(library, skill, review.digest)
    if as_json:
        say_json({"root": skills[0].origin.path, "approved": [skill.qualified for skill in skills]})
        return
    say(f"Approved: {', '.join(printable(skill.qualified) for skill in skills)}")


@click.command("sync")
@click.option("--from", "source", metavar="FILE", help="Install the skills of an `npx skills` lock file")
@click.option("--force", is_flag=True, help="Replace edited skills; they go to the trash")
@click.option("--yes", is_flag=True, help="Approve skills from --from without asking")
@click.option("--allow-insecure", is_flag=True, help="Also allow http, git and file URLs")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
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
    """Make installed skills match the lock file exactly, for teams and CI.

    Edited skills are kept unless you pass --force. A skill that can't be fetched does not stop the others.
    """
    results: list[tuple[str, SyncResult]] = []
    if source is not None:
        scope = install_scope(context.obj, user, in_project, profile)
        results = [
            (scope.install_root.root, result) for result in _sync_foreign(scope, source, yes, allow_insecure, as_json)
        ]
    else:
        for scope in install_scopes(context.obj, user, in_project, profile):
            with ProgressBar("sync") as bar:
                request = add_request("", scope, force=force)
                synced = install_sync.sync_root(request, fetch_options(scope.place, bar, allow_insecure), warn_waiting)
                results += [(scope.install_root.root, result) for result in synced]
    if as_json:
        say_json([{"root": root} | _synced_dict(result) for root, result in results])
    else:
        for _, result in results:
            _say_synced(result)
        if not results:
            say("The lock file lists no skills to install.")
    context.exit(next((result.fault.exit_code for _, result in results if result.fault), 0))


def _synced_dict(result: SyncResult) -> dict[str, object]:
    document: dict[str, object] = {"folder": result.folder, "state": result.state}
    if result.fault:
        document |= {"error": result.fault.message, "hint": result.fault.hint}
    return document | ({"without": list(result.without)} if result.without else {})


def _say_synced(result: SyncResult) -> None:
    if result.fault:
        warn_failure(result.folder, result.fault)
        return
    say(f"{printable(result.folder)}: {result.state}")
    if result.without:
        files = ", ".join(map(clean_path, result.without[:5]))
        say(
            "  "
            + hint_line(
                f"{files}: using the upstream version, as the edited text is not available; updated the lock file"
            )
        )


def _sync_foreign(scope: InstallScope, source: str, yes: bool, insecure: bool, quiet: bool) -> list[SyncResult]:
    """Install what another program's lock names, and check its hash where it gives one."""
    file = paths.absolute_path(source, scope.place.cwd, scope.place.home)
    text = paths.read_text_file(file, 16_777_216)
    if text is None:
        raise BadRequest(f"{source} does not exist", "pass a skills-lock.json or .skill-lock.json")
    try:
        named = read_foreign(text)
    except BadLock as error:
        raise BadRequest(f"{source} can't be read: {error}", "pass a lock file of `npx skills`") from error
    neighbors = present_skills(scope.place)
    results = []
    for entry in named:
        if paths.exists(f"{scope.install_root.root}/{entry.name}"):
            results.append(SyncResult(entry.name, "unchanged"))
            continue
        base = fetch_options(scope.place, None, insecure)
        request = add_request(entry.spec, scope, find_scanner(scope.place), skills=(entry.name,), nearby=neighbors)
        try:
            with add.open_offer(request, base) as offer:
                for target in offer.targets:
                    _check_hash(entry.digest, target)
                    if not quiet:
                        show_target(target, scope.install_root.root)
                # Another tool's lock approves nothing here: each skill is inspected and asked about like a new one.
                refuse_dangers(offer.dangers, entry.name)
                confirm_taken_names(taken_names(scope.place, scope.install_root, offer.names))
                require_approval(f"Add {entry.name}?", yes, quiet)
                changes = add.accept_offer(offer, True, warn_waiting)
        except MetierError as error:
            # The same class, as it decides the exit code.
            raise type(error)(f"{entry.name}: {error.message}", error.hint) from error
        trust_placed_skills(scope.place, scope.install_root, [key for change in changes for key in change.skills])
        results.append(SyncResult(entry.name, "placed"))
    return results


def _check_hash(expected: str, target: add.InstallTarget) -> None:
    from ...host.trees import read_first_bytes

    if expected:
        contents = {path: read_first_bytes(f"{target.path}/{path}", 1 << 30) for path in target.files}
        if foreign_digest(contents) != expected:
            raise Refused(
                f"`{target.folder}` does not match the lock file", "upstream has changed; nothing was installed"
            )
