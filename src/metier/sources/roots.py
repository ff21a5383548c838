"""Which folders to look in: the dialect's templates, filled in for a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..host import paths
from ..types.dialect import Dialect, RootSpec
from ..types.errors import BadRequest
from ..types.place import Place, Root
from ..types.settings import ConfiguredRoot, Settings
from ..types.skill import Origin
from .plugins import Plugin

_STATE = "~/.metier/"
"""Templates that begin so lie in metier's own folder, wherever METIER_HOME has put it."""


class Wanted(NamedTuple):
    """Who serves the skills, and what else was asked for."""

    serving: Dialect
    dialects: Mapping[str, Dialect]
    settings: Settings
    plugins: tuple[Plugin, ...] = ()
    project_trusted: bool = False


class _Draft(NamedTuple):
    spec: RootSpec
    path: str
    label: str
    named: bool = False
    namespace: str = ""


def roots(place: Place, wanted: Wanted) -> tuple[Root, ...]:
    """Every root, the one that shadows all others first."""
    drafts = list(_in_order(place, wanted))
    own = {draft.path for draft in drafts if draft.spec.source == "user"}
    kept: dict[str, _Draft] = {}
    for draft in drafts:
        # Standing in the home folder, `.agents/skills` of the project is the user's own.
        if draft.spec.source == "project" and draft.path in own:
            continue
        kept.setdefault(draft.path, draft)
    rank = len(kept)
    labels: dict[str, int] = {}
    found = []
    for number, draft in enumerate(kept.values()):
        spec = draft.spec
        base = place.project if spec.source == "project" else ""
        count = labels[draft.label] = labels.get(draft.label, 0) + 1
        if count > 1:
            draft = draft._replace(label=f"{draft.label}-{count}")
        origin = Origin(
            "path" if draft.named and spec.label == "path" else "configured" if draft.named else spec.source,
            rank - number,
            draft.label,
            draft.path,
            wanted.dialects[spec.dialect],
            spec.source != "project" or wanted.project_trusted,
            spec.tier or draft.label,
            draft.namespace,
        )
        found.append(Root(origin, spec.depth, spec.links, spec.nested, spec.itself, spec.skip, draft.named, base))
    return tuple(found)


def _in_order(place: Place, wanted: Wanted) -> Iterator[_Draft]:
    """METIER_PATH, then the project, what was configured, the user, what is bundled, and plugins last."""
    serving = wanted.serving.serving
    for number, path in enumerate(filter(None, place.env.get("METIER_PATH", "").split(":")), 1):
        yield _named(ConfiguredRoot(path, label=f"path-{number}"), "path", place, wanted)
    seen_own = False
    configured = [_named(root, f"configured-{n}", place, wanted) for n, root in enumerate(wanted.settings.roots, 1)]
    for spec in serving.roots:
        if spec.source != "project" and not seen_own:
            seen_own = True
            yield from configured
        yield from _filled(spec, place)
    if not seen_own:
        yield from configured
    if serving.plugins:
        for plugin in wanted.plugins:
            spec = RootSpec(plugin.name, plugin.path, plugin.source, plugin.dialect, depth=1, tier=_tier(plugin))
            yield _Draft(spec, plugin.path, plugin.label, namespace=plugin.namespace)


def _tier(plugin: Plugin) -> str:
    """A project's plugins have a limit of their own: they take no room from the user's."""
    return "extra" if plugin.source == "plugin" else "extra-project"


def _filled(spec: RootSpec, place: Place) -> Iterator[_Draft]:
    template = spec.path
    if "{ancestor}" in template:
        for ancestor in place.ancestors:
            inner = paths.relative(ancestor, place.project)
            label = spec.label if inner == "." else f"{spec.label}:{inner}"
            yield _Draft(spec, template.replace("{ancestor}", ancestor.rstrip("/")), label)
        return
    if "{profile}" in template:
        if not place.profile:
            return
        template = template.replace("{profile}", place.profile)
    if "{bundled}" in template:
        bundled = place.env.get("OPENCLAW_BUNDLED_SKILLS_DIR", "").strip()
        if not bundled:
            return
        template = template.replace("{bundled}", bundled)
    if template.startswith(_STATE):
        template = place.state + template[len(_STATE) - 1 :]
    elif template.startswith("~/"):
        template = place.home.rstrip("/") + template[1:]
    yield _Draft(spec, template.replace("{project}", place.project.rstrip("/")), spec.label)


def _named(root: ConfiguredRoot, label: str, place: Place, wanted: Wanted) -> _Draft:
    path = paths.absolute(root.path, place.project if root.project else place.cwd, place.home)
    dialect = root.dialect or guessed(path, wanted)
    if dialect not in wanted.dialects:
        raise BadRequest(f"`{dialect}` is not a dialect", "one of: " + ", ".join(sorted(wanted.dialects)))
    kind = label.partition("-")[0]
    if root.project:
        spec = RootSpec(kind, path, "project", dialect, links="contain", itself=True)
        return _Draft(spec, path, root.label or label)
    spec = RootSpec(kind, path, "user", dialect, links="follow", itself=True)
    return _Draft(spec, path, root.label or label, named=True)


def guessed(path: str, wanted: Wanted) -> str:
    """The dialect of a folder by where it lies, as the roots metier knows lie."""
    for dialect in wanted.dialects.values():
        for spec in dialect.serving.roots:
            before, profile, tail = spec.path.partition("{profile}")
            known = (before if profile else before.rpartition("}")[2]).removeprefix("~").strip("/")
            if "/" in known and _lies_in(path, known, tail if profile else ""):
                return spec.dialect
    return "standard"


def _lies_in(path: str, known: str, tail: str) -> bool:
    """Whether a path is, or is inside, a folder that ends so; with a tail, any one name stands between."""
    _, found, inner = f"{path}/".rpartition(f"/{known}/")
    return bool(found) and (not tail or inner.partition("/")[2].startswith(tail.strip("/") + "/"))


def named_root(path: str, dialect: str, place: Place, wanted: Wanted) -> Root:
    """Only that root, trusted because the user named it."""
    draft = _named(ConfiguredRoot(path, dialect, "root"), "root", place, wanted)
    if not paths.exists(draft.path):
        raise BadRequest(f"{path} does not exist", "give the folder that holds the skills", path)
    if not paths.is_folder(draft.path):
        raise BadRequest(f"{path} is not a folder", "give the folder that holds the skills", path)
    origin = Origin("path", 1, "root", draft.path, wanted.dialects[draft.spec.dialect], True, "root")
    return Root(origin, 6, "follow", draft.spec.nested, True, frozenset(), True)
