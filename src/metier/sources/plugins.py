"""Skills that plugins bring, found by their manifests.

A manifest is data: nothing of a plugin is imported or run to find its skills, not even a Python package that registers
an entry point.  A folder that a manifest names must lie inside the plugin, links resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dialects import DIALECTS
from ..host import paths
from ..light_typing import Literal, NamedTuple
from ..types.dialect import PluginManifest
from ..types.errors import HostError
from ..types.place import Place
from ..types.problem import Finding, Problem, problem_from
from ..types.settings import Settings

_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
_PLUGIN_NAME = r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_MANIFEST_KEYS = frozenset(
    {
        "$schema",
        "name",
        "version",
        "description",
        "author",
        "homepage",
        "repository",
        "license",
        "keywords",
        "extensions",
    }
)
_MAX_NAME_LENGTH = 64
ENVIRONMENT_FOLDERS = (".venv", "venv")
"""Where a project keeps its Python environment."""


def is_plugin_name(name: str) -> bool:
    """Whether a plugin may be called that."""
    import re  # here, since most libraries have no plugins

    return len(name) <= _MAX_NAME_LENGTH and re.fullmatch(_PLUGIN_NAME, name) is not None


class PluginRoot(NamedTuple):
    """One folder of skills that a plugin brings."""

    name: str
    path: str
    dialect: str
    label: str
    source: Literal["plugin", "project"]
    namespace: str = ""
    package: str = ""
    """Set for skills that an installed package brings: its name and version."""


_STANDARD_FILE = "plugin.json"
_MANIFESTS = tuple((dialect.name, dialect.manifest) for dialect in DIALECTS.values() if dialect.manifest is not None)
"""The manifests that are looked for, in order, each with the dialect its skills are read in."""
MANIFEST_FILES = tuple(manifest.file for _, manifest in _MANIFESTS)


def find_plugins(place: Place, settings: Settings, problems: list[Problem]) -> tuple[PluginRoot, ...]:
    """The plugins of a place: the project itself, those in its and the user's plugin folders, and configured ones."""
    plugin_roots: list[PluginRoot] = []
    plugin_roots += read_plugin(place.project, "project", problems)
    holders: list[tuple[str, Literal["plugin", "project"]]] = [
        (place.project + "/.metier/plugins", "project"),
        (place.state + "/plugins", "plugin"),
    ]
    if holders[0][0] == holders[1][0]:
        del holders[0]  # in the home folder, the project's plugins are the user's own
    for holder, source in holders:
        for name in _plugin_folders(holder):
            plugin_roots += read_plugin(f"{holder}/{name}", source, problems)
    for path in settings.plugins:
        plugin_roots += read_plugin(paths.absolute_path(path, place.state, place.home), "plugin", problems, named=True)
    for path in settings.project_plugins:
        inside = paths.absolute_path(path, place.project, place.home)
        if paths.is_inside(paths.real_path(inside), paths.real_path(place.project)):
            plugin_roots += read_plugin(inside, "project", problems, named=True)
        else:
            problems.append(problem_from(Finding("link-outside", 0, (path, place.project)), inside))
    plugin_roots += _entry_points(problems)
    plugin_roots += _package_roots(place, settings)
    return tuple(_unique_labels(plugin_roots))


def _plugin_folders(holder: str) -> list[str]:
    try:
        listed = paths.list_names(holder)
    except OSError:
        return []
    return sorted([*listed.folders, *listed.links])


def _unique_labels(plugin_roots: Iterable[PluginRoot]) -> Iterable[PluginRoot]:
    labels: dict[str, int] = {}
    for plugin in plugin_roots:
        number = labels[plugin.label] = labels.get(plugin.label, 0) + 1
        yield plugin if number == 1 else plugin._replace(label=f"{plugin.label}-{number}")


def read_plugin(
    path: str, source: Literal["plugin", "project"], problems: list[Problem], named: bool = False
) -> list[PluginRoot]:
    """The skill folders of one plugin.  A manifest that breaks its rules is a problem, and the plugin is left out."""
    for dialect, manifest in _MANIFESTS:
        file = f"{path}/{manifest.file}"
        try:
            text = paths.read_text_file(file)
        except HostError as error:
            problems.append(problem_from(Finding("plugin-invalid", 0, (error.message,)), file))
            return []
        if text is None:
            continue
        tree = _parse_object(text)
        if manifest.file == _STANDARD_FILE and tree is not None and tree.get("$schema") != _SCHEMA and not named:
            continue  # a plugin.json of some other tool
        reason = "not a JSON object" if tree is None else _manifest_error(tree)
        if reason or tree is None:
            problems.append(problem_from(Finding("plugin-invalid", 0, (reason,)), file))
            return []
        return _skill_folders(path, tree, (dialect, manifest), source, problems)
    if named:
        problems.append(problem_from(Finding("plugin-invalid", 0, ("no manifest found",)), path))
    return []


def _parse_object(text: str) -> Mapping[str, object] | None:
    from json import loads

    try:
        tree = loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _manifest_error(tree: Mapping[str, object]) -> str:
    name = tree.get("name") or tree.get("id")
    if not isinstance(name, str) or not name:
        return "`name` is missing"
    if not is_plugin_name(name):
        return f"`{name[:80]}` is not a valid name"
    return ""


def _skill_folders(
    path: str,
    tree: Mapping[str, object],
    read_as: tuple[str, PluginManifest],
    source: Literal["plugin", "project"],
    problems: list[Problem],
) -> list[PluginRoot]:
    dialect, manifest = read_as
    name = str(tree.get("name") or tree.get("id"))
    unknown = [key for key in tree if key not in _MANIFEST_KEYS] if manifest.file == _STANDARD_FILE else []
    if unknown:
        problems.append(
            problem_from(
                Finding("plugin-invalid", 0, (f"unknown keys: {', '.join(unknown)[:200]}",)), f"{path}/plugin.json"
            )
        )
    listed = tree.get("skills") if manifest.file != _STANDARD_FILE else None
    named = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    extra = [item for item in named if isinstance(item, str) and paths.can_be_path(item)]
    if len(extra) < len(named):
        problems.append(
            problem_from(
                Finding("plugin-invalid", 0, ("`skills` must be a path or a list of paths",)), f"{path}/{manifest.file}"
            )
        )
    # Most products add the listed folders to `skills`; a list that replaces it may leave `skills` out on purpose.
    default_folders = [] if manifest.replaces_default and extra else ["skills"]
    real = paths.real_path(path)
    plugin_roots = []
    for relative in dict.fromkeys([*default_folders, *(item.removeprefix("./").rstrip("/") for item in extra)]):
        folder = f"{path}/{relative}" if relative else path
        # Resolved on both sides: a manifest must not turn a folder of the user's into skills.
        if not paths.is_inside(paths.real_path(folder), real):
            problems.append(problem_from(Finding("link-outside", 0, (relative, path)), folder))
            continue
        if not paths.is_folder(folder):
            if relative != "skills":
                problems.append(problem_from(Finding("not-found"), folder))
            continue
        plugin_roots.append(PluginRoot(name, folder, dialect, name, source, name if manifest.namespaced else ""))
    return plugin_roots


def _package_roots(place: Place, settings: Settings) -> list[PluginRoot]:
    """The `.agents/skills` of packages in the project's environments; nobody chose those skills, so none is trusted."""
    named = place.env.get("VIRTUAL_ENV", "").strip().rstrip("/")
    folders = [named, *(f"{place.project}/{name}" for name in ENVIRONMENT_FOLDERS)]
    environments = [folder for folder in dict.fromkeys(folders) if folder.startswith("/") and paths.is_folder(folder)]
    modules = [folder for folder in (f"{place.project}/node_modules",) if paths.is_folder(folder)]
    if (not environments and not modules) or settings.own("skills.packages") in ("off", False):
        return []
    from ..host.site_packages import packages_with_skills  # only where a project has an environment

    found = packages_with_skills(environments, modules, f"{place.state}/packages.txt")
    return [
        PluginRoot(
            skills.package,
            skills.folder,
            "standard",
            skills.package.replace("/", "-").lstrip("@"),
            "plugin",
            package=f"{skills.package} {skills.version}".rstrip(),
        )
        for skills in found
    ]


def _entry_points(problems: list[Problem]) -> list[PluginRoot]:
    """Installed Python packages that name a package of skills under `metier.skills`; none of them is imported."""
    plugin_roots = []
    for name, module, site in paths.entry_points("metier.skills"):
        folder = paths.module_folder(module, site)
        if folder is None:
            problems.append(
                problem_from(Finding("plugin-invalid", 0, (f"{module} is not a folder",)), f"{site} ({name})")
            )
        else:
            plugin_roots.append(PluginRoot(name, folder, "standard", name, "plugin"))
    return plugin_roots
