"""metier add and metier plugins."""

from __future__ import annotations

import click

from ...host import paths
from ...host.facts import find_place
from ...install import add as install_add
from ...install import remove
from ...install.add import InstallOffer
from ...install.operations import find_scanner, present_skills, taken_names, trust_placed_skills
from ...install.transaction import FolderChange
from ...sources.plugins import find_plugins as plugins_of
from ...sources.plugins import read_plugin
from ...types.errors import BadRequest, Refused
from ...types.place import Place
from ...types.problem import Problem
from .approval import (
    confirm_taken_names,
    refuse_dangers,
    require_approval,
    show_target,
    target_dict,
    warn_waiting,
)
from .options import CliContext
from .output import (
    ProgressBar,
    clean_path,
    count_of,
    format_columns,
    hint_line,
    printable,
    problem_dict,
    problem_lines,
    say,
    say_json,
    warn,
)
from .scopes import InstallScope, add_request, fetch_options, install_scope, plugins_scope, scope_options


@click.command("add")
@click.argument("source")
@click.option("--skill", "skills", metavar="NAME", multiple=True, help="Install only this skill; may be repeated")
@click.option("--name", default="", help="Name of the folder to create")
@click.option("--force", is_flag=True, help="Replace existing folders; they go to the trash")
@click.option("--yes", is_flag=True, help="Approve without asking; does not override a refusal")
@click.option("--unapproved", is_flag=True, help="Install without enabling; `metier approve` enables it later")
@click.option("--allow-insecure", is_flag=True, help="Also allow http, git and file URLs")
@click.option("--dry-run", is_flag=True, help="Fetch and inspect, but install nothing")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_obj
def add(
    context: CliContext,
    source: str,
    skills: tuple[str, ...],
    name: str,
    force: bool,
    yes: bool,
    unapproved: bool,
    allow_insecure: bool,
    dry_run: bool,
    as_json: bool,
    user: bool,
    in_project: bool,
    profile: str,
) -> None:
    """Install skills from owner/repo[/path][@ref], a git or archive URL, a web site, an archive or a folder.

    Everything is fetched to a staging folder, inspected and shown, and installed as a whole once you approve. Nothing
    in it runs.
    """
    scope = install_scope(context, user, in_project, profile)
    # Looked up before anything is placed: afterwards the new skills would clash with themselves.
    neighbors = present_skills(scope.place)
    _warn_local_folder(source, scope, allow_insecure)
    with ProgressBar(source) as bar:
        request = add_request(
            source, scope, find_scanner(scope.place), skills=tuple(skills), name=name, force=force, nearby=neighbors
        )
        with install_add.open_offer(request, fetch_options(scope.place, bar, allow_insecure)) as offer:
            bar.clear()
            if not as_json:
                for target in offer.targets:
                    show_target(target, scope.install_root.root)
            try:
                changes = () if dry_run else _place_offer(offer, scope.place, yes, unapproved, as_json)
            # A program that asked for JSON gets the summary of what was refused too, and then the error.
            except Refused:
                if as_json:
                    say_json(_added_dict(offer, (), scope.install_root.root))
                raise
            if as_json:
                say_json(_added_dict(offer, changes, scope.install_root.root))
    # Only after a change: a dry run and a refusal leave the machine as it was.
    if changes:
        remove.empty_trash(scope.install_root)
    if changes and not unapproved:
        trust_placed_skills(scope.place, scope.install_root, [place for change in changes for place in change.skills])
    if not as_json:
        _report_added(offer, changes, dry_run, unapproved)
        _warn_name_clashes(offer, [name for name, _ in neighbors])


def _place_offer(
    offer: InstallOffer, place: Place, yes: bool, unapproved: bool, quiet: bool
) -> tuple[FolderChange, ...]:
    folders = ", ".join(target.folder for target in offer.targets)
    # Nothing of an unapproved skill can be used, so there is nothing to agree to yet: `metier approve` asks.
    if not unapproved:
        refuse_dangers(offer.dangers, folders)
        confirm_taken_names(taken_names(place, offer.request.install_root, offer.names))
        require_approval(f"Add {folders}?", yes, quiet)
    return install_add.accept_offer(offer, not unapproved, warn_waiting)


def _warn_name_clashes(offer: InstallOffer, nearby_names: list[str]) -> None:
    """`--name` names the folder; the skill keeps the name in its file."""
    # `place` is empty for a skill that is the whole folder, the only one that `--name` seems to rename.
    for target in offer.targets if offer.request.name else ():
        for skill in target.skills:
            if not skill.place and skill.name != target.folder:
                warn(f"note: the folder is `{target.folder}`, but the skill is still named `{printable(skill.name)}`")
                if skill.name in nearby_names:
                    warn(f"note: another skill has that name, and only one is used; see `metier why {target.folder}`")
    duplicates = [
        inspected.name
        for target in offer.targets
        for inspected in target.skills
        if inspected.place and inspected.name in nearby_names
    ]
    if duplicates and not offer.request.force:
        names = ", ".join(f"`{printable(name)}`" for name in duplicates[:10])
        warn(
            f"note: other skills are also named {names}, and only one of each is used;"
            f" see `metier why {printable(duplicates[0])}`"
        )


def _warn_local_folder(source: str, scope: InstallScope, insecure: bool) -> None:
    """`owner/repo` means GitHub, even if a folder of that name exists: say so."""
    reference = install_add.resolve_reference(source, fetch_options(scope.place, insecure=insecure))
    local_path = paths.absolute_path(source, scope.place.cwd, scope.place.home) if paths.can_be_path(source) else ""
    if reference.kind == "github" and "://" not in source and local_path and paths.exists(local_path):
        warn(f"note: fetching {printable(reference.url)}; for the local folder, write ./{clean_path(source)}")


def _added_dict(offer: InstallOffer, changes: tuple[FolderChange, ...], root: str) -> dict[str, object]:
    return {
        "root": root,
        "placed": [change.target for change in changes],
        "approved": bool(changes) and all(entry.approval for change in changes for entry in change.skills.values()),
        "targets": [target_dict(target, root) for target in offer.targets],
    }


def _report_added(offer: InstallOffer, changes: tuple[FolderChange, ...], dry_run: bool, unapproved: bool) -> None:
    root = offer.request.install_root.root
    if dry_run:
        say("Dry run: nothing was installed.")
        return
    for change in changes:
        count = len(change.skills)
        place = clean_path(f"{root}/{change.target}")
        if count == 1:
            say(f"Added skill '{change.target}' to {place}")
        else:
            say(f"Added {count_of(count, 'skill')} from {clean_path(offer.request.spec)} to {place}")
    if unapproved:
        say(hint_line(f"not enabled yet; to enable, run `metier approve {offer.targets[0].folder}`"))


@click.command("plugins")
@click.argument("action", type=click.Choice(["list", "install"]), default="list")
@click.argument("source", required=False)
@click.option("--name", default="", help="Name of the folder to create")
@click.option("--force", is_flag=True, help="Replace existing folders; they go to the trash")
@click.option("--yes", is_flag=True, help="Approve without asking; does not override a refusal")
@click.option("--allow-insecure", is_flag=True, help="Also allow http, git and file URLs")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def plugins(
    context: CliContext,
    action: str,
    source: str | None,
    name: str,
    force: bool,
    yes: bool,
    allow_insecure: bool,
    as_json: bool,
) -> None:
    """List plugins, or install one: a folder with a manifest (plugin.json, .claude-plugin/plugin.json) and skills.

    Plugins are installed from the same sources as skills, and updated, verified and removed like them.
    """
    if action == "list":
        _list_plugins(context, as_json)
        return
    if not source:
        raise BadRequest("missing SOURCE", "run `metier plugins install SOURCE`")
    place = find_place(context.directory)
    scope = plugins_scope(place)
    with ProgressBar(source) as bar:
        request = add_request(source, scope, find_scanner(place), name=name, force=force, nearby=present_skills(place))
        with install_add.open_offer(request, fetch_options(place, bar, allow_insecure)) as offer:
            bar.clear()
            # Checked before it is shown: what is placed here is only ever read as a plugin.
            for target in offer.targets:
                _check_manifest(target.path, source)
                if not as_json:
                    show_target(target, scope.install_root.root)
            refuse_dangers(offer.dangers, source)
            require_approval(f"Install {source}?", yes, as_json)
            changes = install_add.accept_offer(offer, True, warn_waiting)
            if as_json:
                say_json([target_dict(target, scope.install_root.root) for target in offer.targets])
    if not as_json:
        for change in changes:
            say(
                f"Installed plugin '{printable(change.target)}' to "
                f"{clean_path(scope.install_root.root)}/{printable(change.target)}"
            )


def _check_manifest(path: str, source: str) -> None:
    problems: list[Problem] = []
    if not read_plugin(path, "plugin", problems, named=True):
        why = problems[0].message if problems else "it has no skills"
        raise BadRequest(f"{source} is not a plugin: {why}", f"to install its skills, run `metier add {source}`")


def _list_plugins(context: CliContext, as_json: bool) -> None:
    library = context.library()
    problems: list[Problem] = []
    installed = plugins_of(library.place, library.settings, problems)
    if as_json:
        rows = [
            {"name": plugin.name, "path": plugin.path, "dialect": plugin.dialect, "source": plugin.source}
            for plugin in installed
        ]
        say_json({"plugins": rows, "problems": [problem_dict(problem) for problem in problems]})
        return
    for line in format_columns(
        [(printable(plugin.name), plugin.dialect, clean_path(plugin.path)) for plugin in installed], last_cut=False
    ):
        say(line)
    if not installed:
        say("No plugins.")
    for problem in problems:
        for line in problem_lines(problem):
            warn(line)
