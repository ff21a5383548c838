"""What the user and a trusted project configured for a place.

A project's configuration counts only if the project is trusted as a whole and the file is still the one that was
trusted: it can add roots, agents and dialects, and so decide what a model reads.  Faults are problems to show: a typo
in a configuration must not take all skills away.  But it must not take a rule away either, so what acts asks
`require_whole_settings` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dialects import DIALECTS
from ..host import paths
from ..light_typing import TYPE_CHECKING
from ..types.dialect import Dialect
from ..types.errors import BadRequest, HostError
from ..types.place import Place
from ..types.problem import Finding, Problem, problem_from
from ..types.settings import ConfiguredRoot, Settings

if TYPE_CHECKING:
    from ..resolve.capabilities import TrustRecord

CONFIG_FILE = "config.toml"


def load_settings(place: Place, problems: list[Problem]) -> tuple[Settings, TrustRecord | None]:
    """The user's configuration, merged with the project's if that is trusted and unchanged since."""
    own_path = f"{place.state}/{CONFIG_FILE}"
    settings = _parse_settings(own_path, _read_config_text(own_path, problems), problems)
    record = read_trust_record(place)
    path = f"{place.project}/.metier/{CONFIG_FILE}"
    # In the home folder the project's file is the user's own, which is loaded already.
    if record is None or not record.whole or path == own_path:
        return settings, record
    if not agents_trusted(place, record):
        problems.append(
            problem_from(Finding("changed-since-trust", 0, (place.project, "the project's agents")), place.project)
        )
    text = _read_config_text(path, problems)
    if text is None:
        return settings, record
    from .trust import config_digest

    if record.configuration != config_digest(text):
        problems.append(
            problem_from(Finding("changed-since-trust", 0, (place.project, "the project's configuration")), path)
        )
        return settings, record
    from ..parse.config import merge_settings

    project_settings = _parse_settings(path, text, problems)
    # A project must not switch off the sandbox that protects from it.
    if "sandbox" in project_settings.tree:
        own_only = "the sandbox is configured only in your own configuration"
        problems.append(problem_from(Finding("config-unknown-key", 0, ("sandbox", own_only)), path))
    return merge_settings(settings, project_settings), record


SWITCHES_FILE = "switches.json"
"""What `metier off` switched off, under the project's real path, and under nothing for all projects."""


def with_switches(settings: Settings, place: Place, problems: list[Problem]) -> Settings:
    """The settings with what was switched off for this project or for all of them."""
    path = f"{place.state}/{SWITCHES_FILE}"
    if not paths.exists(path):
        return settings
    try:
        switches = read_switches(place.state)
    except HostError as error:
        # What is off may be on without it, so commands that act stop at this.
        problems.append(problem_from(Finding("config-syntax", 0, (error.message,), fatal=True), path))
        return settings
    off = {*switches.get("", ()), *switches.get(paths.real_path(place.project), ())}
    if not off:
        return settings
    from ..parse.config import merge_trees

    switched = {"skills": {"entries": {key: {"enabled": False} for key in off}}}
    return settings._replace(
        tree=merge_trees(settings.tree, switched),
        own_tree=merge_trees(settings.own_tree, switched) if settings.project_tree else settings.own_tree,
        switched_off=frozenset(off),
    )


def read_switches(state: str) -> dict[str, list[str]]:
    """What is switched off, by project."""
    path = f"{state}/{SWITCHES_FILE}"
    text = paths.read_text_file(path)
    if text is None:
        return {}
    from json import loads

    try:
        off = loads(text)["off"]
        return {str(project): list(map(str, names)) for project, names in off.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HostError(f"{path} is damaged", "move it away, then run `metier off` again", path) from error


def settings_faults(problems: Iterable[Problem]) -> list[Problem]:
    """The faults of a configuration that may have cost a rule or a limit."""
    return [problem for problem in problems if problem.code.startswith("config-") and problem.severity == "error"]


def require_whole_settings(problems: Iterable[Problem]) -> None:
    """Refuse to act under a configuration that can't be read in full: a rule that denies may be missing."""
    for problem in settings_faults(problems):
        what = problem.message.removesuffix("; it is ignored")
        raise BadRequest(f"{problem.place}: {what}", problem.hint, problem.path)


def _read_config_text(path: str, problems: list[Problem]) -> str | None:
    """A configuration file; if it can't be read, that is a problem and loading continues without it."""
    try:
        return paths.read_text_file(path)
    except HostError as error:
        # The problem names the path itself, and says that it can't be read.
        reason = error.message.removeprefix(f"{path} can't be read: ").replace(f"{path} ", "it ", 1)
        problems.append(problem_from(Finding("config-syntax", 0, (reason,), fatal=True), path))
        return None


def _parse_settings(path: str, text: str | None, problems: list[Problem]) -> Settings:
    if text is None:
        return Settings()
    from ..parse.config import parse_settings  # without a configuration no TOML parser is loaded

    findings: list[Finding] = []
    settings = parse_settings(text, findings)
    problems += [problem_from(finding, path) for finding in findings]
    return settings


def read_trust_record(place: Place) -> TrustRecord | None:
    """What the user trusted in this project; None if nothing."""
    if not paths.exists(f"{place.state}/trust.json"):
        return None
    from ..resolve.capabilities import SkillCapabilities, TrustRecord
    from .trust import project_record

    entry = project_record(place.state, place.project)
    if entry is None:
        return None
    skills = entry.get("skills")
    return TrustRecord(
        {
            str(name): SkillCapabilities(frozenset(map(str, runs)))
            for name, runs in (skills.items() if isinstance(skills, dict) else ())
            if isinstance(runs, list)
        },
        str(entry.get("configuration", "")),
        str(entry.get("agents", "")),
        entry.get("whole") is True,
    )


def agents_trusted(place: Place, record: TrustRecord | None) -> bool:
    """Whether the project's agent files are the ones that were trusted."""
    from .trust import agents_digest

    return record is not None and record.whole and record.agents == agents_digest(place.project)


def is_project_trusted(place: Place) -> bool:
    """Whether a person trusts the project as a whole, and not only some skills of it."""
    record = read_trust_record(place)
    return record is not None and record.whole


def all_dialects(settings: Settings, problems: list[Problem]) -> Mapping[str, Dialect]:
    """The built-in dialects, and those that the configuration defines."""
    tables = settings.tree.get("dialects")
    if not isinstance(tables, Mapping) or not tables:
        return DIALECTS
    from ..dialects.custom import custom_dialect

    dialects = dict(DIALECTS)
    for name, table in tables.items():
        findings: list[Finding] = []
        dialect = custom_dialect(str(name), table, DIALECTS, findings) if isinstance(table, Mapping) else None
        problems += [problem_from(finding) for finding in findings]
        if dialect is not None:
            dialects[dialect.name] = dialect
    return dialects


def drop_unknown_dialects(
    settings: Settings, dialects: Mapping[str, Dialect], path: str, problems: list[Problem]
) -> Settings:
    """Ignore unknown dialects that the configuration names, and report each as a problem."""
    expected = "one of " + ", ".join(dialects)
    named = settings.tree.get("dialect")
    if named is not None and named not in dialects:
        problems.append(problem_from(Finding("config-type", 0, ("dialect", expected)), path))
        settings = settings._replace(tree={key: value for key, value in settings.tree.items() if key != "dialect"})
    if all(not root.dialect or root.dialect in dialects for root in settings.roots):
        return settings
    roots = []
    for number, root in enumerate(settings.roots):
        if root.dialect and root.dialect not in dialects:
            problems.append(problem_from(Finding("config-type", 0, (f"roots[{number}].dialect", expected)), path))
            root = root._replace(dialect="")
        roots.append(root)
    return settings._replace(roots=tuple(roots))


def drop_outside_roots(settings: Settings, place: Place, problems: list[Problem]) -> Settings:
    """Ignore roots of a project's configuration that lie outside the project, and report each as a problem."""
    roots = []
    for root in settings.roots:
        path = paths.absolute_path(root.path, place.project, place.home)
        if root.project and not paths.is_inside(path, place.project):
            problems.append(problem_from(Finding("link-outside", 0, (root.path, place.project)), path))
        else:
            roots.append(root)
    return settings._replace(roots=tuple(roots)) if len(roots) < len(settings.roots) else settings


# --- A product's own settings file ---


def with_product_settings(settings: Settings, serving: Dialect, place: Place, problems: list[Problem]) -> Settings:
    """The settings with those of the product's own file below them: the user's configuration wins key by key."""
    product = serving.serving.settings
    if product is None:
        return settings
    named = place.env.get(product.variable, "").strip() if product.variable else ""
    path = paths.absolute_path(named or product.path, place.cwd, place.home)
    text = _read_config_text(path, problems)
    if text is None:
        return settings
    tree = _read_json_settings(text)
    if tree is None:
        problems.append(problem_from(Finding("config-syntax", 0, ("it is no JSON object",), fatal=True), path))
        return settings
    from ..parse.config import merge_trees

    skills = tree.get("skills")
    skills = skills if isinstance(skills, Mapping) else {}
    # Everything else of the file is what skills require by a path: that is looked up under `config`.
    kept = {key: skills[key] for key in ("entries", "allowBundled") if key in skills}
    below = {"skills": kept, "config": {key: value for key, value in tree.items() if key != "skills"}}
    folders: object = tree
    for key in product.roots_at:
        folders = folders.get(key) if isinstance(folders, Mapping) else None
    roots = [ConfiguredRoot(folder, serving.name) for folder in _texts(folders)]
    return settings._replace(
        tree=merge_trees(below, settings.tree),
        own_tree=merge_trees(below, settings.own_tree) if settings.project_tree else settings.own_tree,
        roots=(*settings.roots, *roots),
        allow_bundled=settings.allow_bundled or tuple(_texts(skills.get("allowBundled"))),
    )


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []


def _read_json_settings(text: str) -> Mapping[str, object] | None:
    """A file of JSON or JSON5; None for anything but an object."""
    from json import loads

    try:
        tree = loads(text)
    except (ValueError, RecursionError):
        from ..parse.jsonc import read_json5

        loose = read_json5(text.strip())
        tree = None if loose is None else _typed(loose)
    return tree if isinstance(tree, Mapping) else None


def _typed(value: object) -> object:
    """A value of JSON5, which is read as text, with what stands for true, false and null as such."""
    if isinstance(value, Mapping):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return {"true": True, "false": False, "null": None}.get(value, value) if isinstance(value, str) else value
