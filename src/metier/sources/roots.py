"""Which folders to look in: the dialect's templates, filled in for a place.

The order of the result is the precedence of its skills, and a path appears once, under the first template that names
it.  A project's root that is also the user's (working in the home folder) counts as the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..host import paths
from ..light_typing import NamedTuple
from ..types.dialect import Dialect, RootSpec
from ..types.errors import BadRequest
from ..types.place import Place, SkillRoot
from ..types.settings import ConfiguredRoot, Settings
from ..types.skill import Origin, Skill
from .plugins import PluginRoot

_STATE_PREFIX = "~/.metier/"
"""Templates with this prefix lie in metier's own folder, which METIER_HOME may move."""


PACKAGE_TIER = "packages"
"""The tier of skills that installed packages bring: each is approved by its content before it is used."""


class RootOptions(NamedTuple):
    """Who serves the skills, and what the configuration and plugins add."""

    serving: Dialect
    dialects: Mapping[str, Dialect]
    settings: Settings
    plugins: tuple[PluginRoot, ...] = ()
    project_trusted: bool = False


class _RootDraft(NamedTuple):
    spec: RootSpec
    path: str
    label: str
    named: bool = False
    namespace: str = ""


def find_roots(place: Place, options: RootOptions) -> tuple[SkillRoot, ...]:
    """Every root, the one that shadows all others first."""
    drafts = list(_drafts_in_order(place, options))
    user_paths = {draft.path for draft in drafts if draft.spec.source == "user"}
    by_path: dict[str, _RootDraft] = {}
    for draft in drafts:
        # In the home folder, `.agents/skills` of the project is the user's own, and trusted as such.
        if draft.spec.source == "project" and draft.path in user_paths:
            continue
        by_path.setdefault(draft.path, draft)
    rank = len(by_path)
    # `name@label` must find one skill, so a label that is taken gets a number.
    labels: dict[str, int] = {}
    resolved = []
    for number, draft in enumerate(by_path.values()):
        spec = draft.spec
        # A project's root must lie in the project, links on the way included; the user's may lie anywhere.
        base = place.project if spec.source == "project" else ""
        count = labels[draft.label] = labels.get(draft.label, 0) + 1
        if count > 1:
            draft = draft._replace(label=f"{draft.label}-{count}")
        origin = Origin(
            # What the user named, in METIER_PATH or the configuration, is neither the project's nor a default root.
            "path" if draft.named and spec.label == "path" else "configured" if draft.named else spec.source,
            rank - number,
            draft.label,
            draft.path,
            options.dialects[spec.dialect],
            (spec.source != "project" or options.project_trusted) and spec.tier != PACKAGE_TIER,
            spec.tier or draft.label,
            draft.namespace,
        )
        resolved.append(
            SkillRoot(
                origin, spec.depth, spec.links, spec.nested, spec.itself, spec.skip, draft.named, base, spec.companions
            )
        )
    return tuple(resolved)


def _drafts_in_order(place: Place, options: RootOptions) -> Iterator[_RootDraft]:
    """METIER_PATH, then the project, what was configured, the user, what is bundled, and plugins last."""
    serving = options.serving.serving
    for number, path in enumerate(filter(None, place.env.get("METIER_PATH", "").split(":")), 1):
        yield _draft_configured(ConfiguredRoot(path, label=f"path-{number}"), "path", place, options)
    seen_own = False
    configured = [
        _draft_configured(root, f"configured-{n}", place, options) for n, root in enumerate(options.settings.roots, 1)
    ]
    for spec in serving.roots:
        if spec.source != "project" and not seen_own:
            seen_own = True
            yield from configured
        yield from _expand_template(spec, place)
    if not seen_own:
        yield from configured
    if serving.plugins:
        for plugin in options.plugins:
            spec = RootSpec(plugin.name, plugin.path, plugin.source, plugin.dialect, depth=1, tier=_plugin_tier(plugin))
            yield _RootDraft(spec, plugin.path, plugin.label, namespace=plugin.namespace)


def _plugin_tier(plugin: PluginRoot) -> str:
    """A project's plugins have a limit of their own, and so have packages: they can't crowd out the user's."""
    if plugin.package:
        return PACKAGE_TIER
    return "extra" if plugin.source == "plugin" else "extra-project"


def _expand_template(spec: RootSpec, place: Place) -> Iterator[_RootDraft]:
    template = spec.path
    if "{ancestor}" in template:
        for ancestor in place.ancestors:
            inner = paths.relative_path(ancestor, place.project)
            label = spec.label if inner == "." else f"{spec.label}:{inner}"
            yield _RootDraft(spec, template.replace("{ancestor}", ancestor.rstrip("/")), label)
        return
    if "{profile}" in template:
        if not place.profile:
            return
        template = template.replace("{profile}", place.profile)
    if template.startswith("$"):
        variable, slash, inner = template[1:].partition("/")
        folder = place.env.get(variable, "").strip()
        if not folder:
            return
        template = f"{folder}{slash}{inner}"
    if template.startswith(_STATE_PREFIX):
        template = place.state + template[len(_STATE_PREFIX) - 1 :]
    elif template.startswith("~/"):
        template = place.home.rstrip("/") + template[1:]
    yield _RootDraft(spec, template.replace("{project}", place.project.rstrip("/")), spec.label)


def _draft_configured(root: ConfiguredRoot, label: str, place: Place, options: RootOptions) -> _RootDraft:
    kind = label.partition("-")[0]
    # What was typed for this call starts at the working folder.  A configuration's own paths must not: `skills` in it
    # would be a folder of whatever repository one happens to stand in, and count as the user's.
    base = place.project if root.project else place.state if kind == "configured" else place.cwd
    path = paths.absolute_path(root.path, base, place.home)
    dialect = root.dialect or guess_dialect(path, options)
    if dialect not in options.dialects:
        raise BadRequest(f"`{dialect}` is not a dialect", "one of: " + ", ".join(sorted(options.dialects)))
    if root.project:
        spec = RootSpec(kind, path, "project", dialect, links="contain", itself=True)
        return _RootDraft(spec, path, root.label or label)
    spec = RootSpec(kind, path, "user", dialect, links="follow", itself=True)
    return _RootDraft(spec, path, root.label or label, named=True)


def guess_dialect(path: str, options: RootOptions) -> str:
    """The dialect of a folder, guessed from the known root that its path ends with."""
    for dialect in options.dialects.values():
        for spec in dialect.serving.roots:
            before, profile, tail = spec.path.partition("{profile}")
            location = (before if profile else before.rpartition("}")[2]).removeprefix("~").strip("/")
            # A single segment such as `skills` says nothing: any project may have a folder of that name.
            if "/" in location and _lies_in(path, location, tail if profile else ""):
                return spec.dialect
    return "standard"


def _lies_in(path: str, location: str, tail: str) -> bool:
    """Whether a path is, or is inside, a folder that ends so; with a tail, any one name stands between."""
    _, separator, inner = f"{path}/".rpartition(f"/{location}/")
    return bool(separator) and (not tail or inner.partition("/")[2].startswith(tail.strip("/") + "/"))


def named_root(path: str, dialect: str, place: Place, options: RootOptions) -> SkillRoot:
    """Only this root, trusted because the user named it."""
    draft = _draft_configured(ConfiguredRoot(path, dialect, "root"), "root", place, options)
    if not paths.exists(draft.path):
        raise BadRequest(f"{path} does not exist", "pass the folder that contains the skills", path)
    if not paths.is_folder(draft.path):
        raise BadRequest(f"{path} is not a folder", "pass the folder that contains the skills", path)
    origin = Origin("path", 1, "root", draft.path, options.dialects[draft.spec.dialect], True, "root")
    return SkillRoot(origin, 6, "follow", draft.spec.nested, True, frozenset(), True)


# --- Locks ---
# Whether something was installed is one look for a file beside a root.  The question is asked on every start, so it is
# answered here, without loading what reads a lock.


def any_lock(folders: Iterable[str], place: Place) -> bool:
    """Whether there is a lock beside any of these roots, or for the plugins, or one should be somewhere."""
    return paths.exists(receipts_path(place)) or any(map(_has_lock, (*folders, _plugins_folder(place))))


def receipts_path(place: Place) -> str:
    """Where metier remembers what it installed, whatever becomes of the locks."""
    return f"{place.state}/installed.json"


def roots_with_lock(skill: Skill, place: Place) -> tuple[str, ...]:
    """The roots around a skill that have a lock."""
    root, plugins = skill.origin.path, _plugins_folder(place)
    folders = (root, plugins) if paths.is_inside(root, plugins) else (root,)
    return tuple(filter(_has_lock, folders))


def _has_lock(root: str) -> bool:
    return paths.exists(f"{root}-lock.json")


def _plugins_folder(place: Place) -> str:
    return f"{place.state}/plugins"
