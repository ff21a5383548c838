"""The root a command installs into, and the options that choose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...dialects import DIALECTS
from ...host import paths
from ...host.facts import find_place
from ...install.add import AddRequest, FolderScanner
from ...install.fetch_access import FetchOptions
from ...install.fetch_settings import fetch_options_for
from ...install.managed import install_root_for
from ...library.lockfile import InstallRoot
from ...sources.roots import RootOptions, guess_dialect
from ...types.dialect import Dialect
from ...types.errors import BadRequest
from ...types.place import Place
from ...types.settings import Settings
from .options import CliContext
from .output import ProgressBar, printable, warn

if TYPE_CHECKING:
    from .options import Command


class InstallScope(NamedTuple):
    """A root to install into, and how its skills are read."""

    install_root: InstallRoot
    dialect: Dialect
    place: Place


def scope_options(command: Command) -> Command:
    """The options that choose a root."""
    for option in (
        click.option("--user", is_flag=True, help="Use your own skills (~/.metier/skills)"),
        click.option("--project", "in_project", is_flag=True, help="Use this project's skills (.metier/skills)"),
        click.option("--profile", "profile", metavar="ID", default="", help="Use the skills of this agent profile"),
    ):
        command = option(command)
    return command


def install_scope(context: CliContext, user: bool, in_project: bool, profile: str) -> InstallScope:
    """The root that the options choose; the user's own by default."""
    profile = profile or context.profile
    if sum((user, in_project, bool(profile), context.root is not None)) > 1:
        raise BadRequest("--user, --project, --profile and --root are mutually exclusive", "pass one of them")
    place = find_place(context.directory, profile)
    if in_project:
        return InstallScope(_install_root(place, f"{place.project}/.metier/skills", True), DIALECTS["standard"], place)
    if profile:
        spec = next(spec for spec in DIALECTS["standard"].serving.roots if "{profile}" in spec.path)
        root = paths.absolute_path(spec.path.replace("{profile}", profile), place.cwd, place.home)
        return InstallScope(_install_root(place, root), DIALECTS[spec.dialect], place)
    if context.root is not None:
        root = paths.absolute_path(context.root, place.cwd, place.home)
        dialect = context.dialect or guess_dialect(root, RootOptions(DIALECTS["standard"], DIALECTS, Settings()))
        # A root inside a project is shared through its repository. A home under version control is no project.
        shared = paths.is_inside(root, place.project) and not paths.is_inside(root, place.state)
        return InstallScope(
            _install_root(place, root, shared and place.project != place.home), DIALECTS[dialect], place
        )
    return _user_scope(context.dialect or "standard", place)


def _install_root(place: Place, root: str, shared: bool = False) -> InstallRoot:
    return install_root_for(place, root, shared, lambda text: warn(f"note: {printable(text)}"))


def plugins_scope(place: Place) -> InstallScope:
    return InstallScope(_install_root(place, f"{place.state}/plugins"), DIALECTS["standard"], place)


def _user_scope(name: str, place: Place) -> InstallScope:
    """The user's own root in a dialect."""
    if name not in DIALECTS:
        raise BadRequest(f"can't install for unknown dialect `{name}`", "choose one of: " + ", ".join(DIALECTS))
    for spec in DIALECTS[name].serving.roots:
        if spec.source == "user" and "{" not in spec.path:
            # METIER_HOME moves metier's own folder, and the skills in it.
            root = spec.path.replace("~/.metier", place.state, 1) if spec.path.startswith("~/.metier/") else spec.path
            return InstallScope(
                _install_root(place, paths.absolute_path(root, place.cwd, place.home)), DIALECTS[spec.dialect], place
            )
    return InstallScope(_install_root(place, f"{place.state}/skills"), DIALECTS["standard"], place)


def is_scope_named(context: CliContext, user: bool, in_project: bool, profile: str) -> bool:
    """Whether an option names the root."""
    chosen = context.root is not None or bool(context.profile or context.dialect)
    return user or in_project or bool(profile) or chosen


def install_scopes(
    context: CliContext, user: bool, in_project: bool, profile: str, lockless: bool = False
) -> list[InstallScope]:
    """The root that an option names, or else all of them that have a lock (or just exist, if `lockless`)."""
    if is_scope_named(context, user, in_project, profile):
        return [install_scope(context, user, in_project, profile)]
    user_scope, project_scope = install_scope(context, True, False, ""), install_scope(context, False, True, "")
    plugins = plugins_scope(user_scope.place)
    # Without a lock there is nothing installed to update, sync or remove.
    others = [
        scope
        for scope in (project_scope, plugins)
        if paths.exists(scope.install_root.root if lockless else scope.install_root.lock)
    ]
    return [user_scope, *(scope for scope in others if scope.install_root.root != user_scope.install_root.root)]


def scoped_command(command: str, scope: InstallScope) -> str:
    """A command line that means that root."""
    root, place = scope.install_root.root, scope.place
    if root == f"{place.state}/skills":
        return f"metier {command}"
    if root == f"{place.project}/.metier/skills":
        return f"metier {command} --project"
    return f"metier --root {printable(root)} {command}"


def fetch_options(place: Place, bar: ProgressBar | None = None, insecure: bool = False) -> FetchOptions:
    return fetch_options_for(place, insecure, bar)


def add_request(spec: str, scope: InstallScope, scan: FolderScanner | None = None, **options: Any) -> AddRequest:
    return AddRequest(spec, scope.install_root, scope.dialect, scope.place.state, scan=scan, **options)
