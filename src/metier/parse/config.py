"""Configuration: TOML text becomes Settings, and every key that is not a setting is reported.

A wrong key or value costs itself and nothing else: it is reported, removed from the tree and counts as not set, so
that no later stage has to check types again.  Where not set would allow more than what was meant, it denies instead,
or the finding is fatal and commands that act stop at it.  A project's file is merged over the user's, but never widens
what the user allows (`USER_ONLY_KEYS`, `skills.shell`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args

from ..types.dialect import ImprovementMode, LibraryLimits, ListingPolicy
from ..types.problem import Finding
from ..types.sandbox import SandboxNeed, SandboxTier, is_pinned_image
from ..types.settings import ConfiguredRoot, Settings, match_rule

TOP_LEVEL_KEYS = (
    "skills",
    "limits",
    "catalog",
    "search",
    "roots",
    "plugins",
    "dialects",
    "dialect",
    "agents",
    "kits",
    "model",
    "models",
    "agent",
    "mcp",
    "sandbox",
    "record",
    "improve",
    "registries",
    "sources",
    "instructions",
    "notify",
    "config",
)
_OWN_TABLES = ("sandbox", "model", "models", "agent", "mcp", "record", "improve", "notify")
USER_ONLY_KEYS = (*_OWN_TABLES, "registries", "instructions")
"""Only the user's own file may set these: a cloned project must not choose models, permissions or servers."""
REGISTRY_KEYS = ("name", "kind", "url", "path", "git")
SOURCE_KEYS = ("allow", "deny")
AGENT_KEYS = ("allow", "ask", "deny", "network", "git", "env", "turns", "tokens", "seconds", "cost")
MODEL_KEYS = (
    "provider",
    "model",
    "url",
    "key",
    "window",
    "reply",
    "input_price",
    "output_price",
    "connect_seconds",
    "first_seconds",
    "between_seconds",
)
SERVER_KEYS = ("command", "args", "env", "url", "headers")
LIMIT_KEYS = LibraryLimits._fields
_SKILLS_KEYS = ("entries", "allowBundled", "shell", "install", "packages")
_ENTRY_KINDS = {
    "enabled": (bool, "true or false"),
    "apiKey": (str, "a string"),
    "env": (dict, "a table"),
    "config": (dict, "a table"),
    "permissions": (dict, "a table"),
}
_PERMISSIONS = {"network": bool, "hosts": list, "read": list, "write": list, "env": list}
_ENTRY_KEYS = tuple(_ENTRY_KINDS)
_ROOT_KEYS = ("path", "dialect", "label")
CATALOG_KEYS = ("policy", "pinned")
SANDBOX_KEYS = ("need", "tier", "image", "allow")
SEARCH_KEYS = ("dense",)
IMPROVE_KEYS = ("mode", "budget")
BUDGET_KEYS = ("requests", "tokens", "cost")
RECORD_KEYS = ("days", "runs")
NOTIFY_KEYS = ("to", "level", "schedules", "secret", "user", "sender", "recipient", "local")
_TABLES = (
    "skills",
    "limits",
    "catalog",
    "search",
    "sandbox",
    "agents",
    "kits",
    "dialects",
    "config",
    "models",
    "agent",
    "mcp",
)
_KINDS = {**dict.fromkeys((*_TABLES, "record", "improve", "sources", "notify"), dict), "dialect": str, "model": str}
_BOUNDING_KEYS = ("agent", "agents", "kits", "sandbox", "skills", "registries", "sources")
"""Tables that forbid and limit: what is lost of them must not go unnoticed by a command that acts."""
_is_file_name = re.compile(r"[\w-][\w.-]*").fullmatch
_at_line = re.compile(r"\(at line (\d+), column \d+\)").search


def parse_settings(text: str, findings: list[Finding]) -> Settings:
    """The settings of one file; what is wrong in it is reported and ignored."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an overlong number is a plain ValueError
        line = _line_of(str(error), text)
        findings.append(Finding("config-syntax", line, (str(error) or "it is nested too deeply",), fatal=True))
        return Settings()
    first = len(findings)
    _mark_unknown_keys("", tree, TOP_LEVEL_KEYS, findings)
    # Removed, not only reported: no later stage has to ask again whether a table is one.
    for key in [key for key, kind in _KINDS.items() if key in tree and not isinstance(tree[key], kind)]:
        findings.append(Finding("config-type", 0, (key, "a table" if _KINDS[key] is dict else "a string")))
        del tree[key]
    not_tables = [name for name, table in tree.get("dialects", {}).items() if not isinstance(table, dict)]
    findings += [Finding("config-type", 0, (f"dialects.{name}", "a table")) for name in not_tables]
    skills = tree.get("skills", {})
    _check_skills(skills, findings)
    _check_sandbox(tree.get("sandbox", {}), findings)
    _check_improve(tree.get("improve", {}), findings)
    _check_acting(tree, findings)
    _check_record(tree.get("record", {}), findings)
    _check_sources(tree, findings)
    _check_instructions(tree, findings)
    for name, table in tree.get("notify", {}).items():
        _mark_unknown_keys(f"notify.{name}.", table if isinstance(table, dict) else {}, NOTIFY_KEYS, findings)
    settings = Settings(
        tree=tree,
        roots=_parse_roots(tree.get("roots", []), findings),
        plugins=_text_list("plugins", tree.get("plugins", []), findings),
        limits=_parse_limits(tree.get("limits", {}), findings),
        agents=_parse_agents(tree.get("agents", {}), findings),
        kits={name: skills or () for name, skills in _parse_agents(tree.get("kits", {}), findings, "kits").items()},
        allow_bundled=_text_list("skills.allowBundled", skills.get("allowBundled", []), findings),
        policy=_listing_policy(tree.get("catalog", {}), findings),
        pinned=_text_list("catalog.pinned", tree.get("catalog", {}).get("pinned", []), findings),
        dense=_dense_search(tree.get("search", {}), findings),
    )
    findings[first:] = [
        finding._replace(line=_line_of_key(finding.details[0], text), fatal=_loses_a_bound(finding))
        for finding in findings[first:]
    ]
    return settings


def _check_sources(tree: dict[str, Any], findings: list[Finding]) -> None:
    """Check registries and source rules.  What can't be read denies: no registry is asked, no source is allowed."""
    registries = tree.get("registries", [])
    tables = registries if isinstance(registries, list) else [None]
    if not all(isinstance(item, str | dict) for item in tables):
        findings.append(Finding("config-type", 0, ("registries", "a list of names and tables")))
        tree["registries"] = []
    for table in tables:
        if isinstance(table, dict):
            _mark_unknown_keys("registries.", table, REGISTRY_KEYS, findings)
    sources = tree.get("sources", {})
    _mark_unknown_keys("sources.", sources, SOURCE_KEYS, findings)
    for key in SOURCE_KEYS:
        value = sources.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            findings.append(Finding("config-type", 0, (f"sources.{key}", "a list of patterns")))
            sources[key] = [] if key == "allow" else ["*"]


def _loses_a_bound(finding: Finding) -> bool:
    """Whether a rule, a limit or a sandbox may be lost with what this finding is about."""
    key = finding.details[0]
    table, _, rest = key.partition(".")
    if finding.code == "config-type":
        return re.split(r"[.[]", key, maxsplit=1)[0] in _BOUNDING_KEYS
    if rest:
        return table in ("agent", "agents", "kits", "sandbox", "sources") or ".permissions." in key
    # `[agnet]` holds rules that nobody will read.
    return bool(get_close_matches(key, _BOUNDING_KEYS, 1, 0.75))


def _line_of_key(key: str, text: str) -> int:
    """The line that sets a key, as far as a look at each line tells; 0 if none does."""
    key, table = re.sub(r"\[\d+\]", "", key), ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\]]+)\]", line):
            table = re.sub(r"[\s'\"]", "", header[1])
            if table == key:
                return number
        elif assigned := re.match(r"\s*([^=\[#]+?)\s*=", line):
            name = re.sub(r"[\s'\"]", "", assigned[1])
            if key in (name, f"{table}.{name}") and (not table or key != name):
                return number
    return 0


def _listing_policy(table: Mapping[str, object], findings: list[Finding]) -> ListingPolicy | None:
    _mark_unknown_keys("catalog.", table, CATALOG_KEYS, findings)
    chosen = table.get("policy")
    for policy in get_args(ListingPolicy):
        if chosen == policy:
            return cast("ListingPolicy", policy)
    if chosen is not None:
        findings.append(Finding("config-type", 0, ("catalog.policy", " or ".join(get_args(ListingPolicy)))))
    return None


def _dense_search(table: Mapping[str, object], findings: list[Finding]) -> bool:
    _mark_unknown_keys("search.", table, SEARCH_KEYS, findings)
    dense = table.get("dense", False)
    if not isinstance(dense, bool):
        findings.append(Finding("config-type", 0, ("search.dense", "true or false")))
    return dense is True


def _check_acting(tree: Mapping[str, object], findings: list[Finding]) -> None:
    """Check agents, models and MCP servers; a value of the wrong type is reported and removed."""
    agent = tree.get("agent")
    if isinstance(agent, dict):
        _mark_unknown_keys("agent.", agent, AGENT_KEYS, findings)
        for key, value in list(agent.items()):
            kind, expected = _AGENT_KINDS.get(key, (object, ""))
            if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
                findings.append(Finding("config-type", 0, (f"agent.{key}", expected)))
                del agent[key]
            elif isinstance(value, list) and key != "env":
                # A rule that can't be read matches nothing: one that denies would be gone.
                bad = [item for item in value if not isinstance(item, str) or match_rule(item.strip()) is None]
                where = f"agent.{key}[{value.index(bad[0])}]" if bad else ""
                findings += [Finding("config-type", 0, (where, "a tool's name, or name(pattern)"))] if bad else []
                agent[key] = [item for item in value if item not in bad]
    for name, known_keys in (("models", MODEL_KEYS), ("mcp", SERVER_KEYS)):
        tables = tree.get(name)
        for key, table in list(tables.items()) if isinstance(tables, dict) else ():
            if isinstance(table, dict):
                _mark_unknown_keys(f"{name}.{key}.", table, known_keys, findings)
            elif isinstance(tables, dict):
                findings.append(Finding("config-type", 0, (f"{name}.{key}", "a table")))
                del tables[key]


_NUMBER: tuple[type, ...] = (int, float)
_AGENT_KINDS: Mapping[str, tuple[Any, str]] = {
    "allow": (list, "a list of strings"),
    "ask": (list, "a list of strings"),
    "deny": (list, "a list of strings"),
    "network": (bool, "true or false"),
    "git": (bool, "true or false"),
    "env": (list, "a list of strings"),
    "turns": (_NUMBER, "a number"),
    "tokens": (_NUMBER, "a number"),
    "seconds": (_NUMBER, "a number"),
    "cost": (_NUMBER, "a number"),
}


def _line_of(message: str, text: str) -> int:
    """The line of a syntax error; `tomllib` gives it only in its message."""
    match = _at_line(message)
    if match is not None:
        return int(match[1])
    return text.rstrip().count("\n") + 1 if "at end of document" in message else 0


def merge_settings(first: Settings, second: Settings) -> Settings:
    """The user's file and the project's as one: the project's wins where both set a key, but never lifts a bound."""
    tree = merge_trees(first.tree, second.tree)
    for key in USER_ONLY_KEYS:
        tree.pop(key, None)
        if key in first.tree:
            tree[key] = first.tree[key]
    skills = tree.get("skills")
    if first.shell_off and isinstance(skills, dict):  # a project can't switch commands back on
        skills["shell"] = "off"
    return Settings(
        tree=tree,
        project_tree=second.tree,
        own_tree=first.tree,
        roots=tuple(root._replace(project=True) for root in second.roots) + first.roots,
        plugins=first.plugins,  # kept apart from the project's, which must lie in the project
        project_plugins=second.plugins,
        limits={**first.limits, **second.limits},
        agents={**second.agents, **first.agents},  # which skills an agent of the user's may use, the user says
        kits={**second.kits, **first.kits},
        # A project may leave out some of those that the user allows, and adds none.
        allow_bundled=tuple(
            name for name in second.allow_bundled if name in first.allow_bundled or not first.allow_bundled
        )
        or first.allow_bundled,
        policy=second.policy or first.policy,
        pinned=second.pinned or first.pinned,
        dense=first.dense,
    )


def merge_trees(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, object]:
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        both[key] = merge_trees(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _mark_unknown_keys(where: str, table: Mapping[str, object], names: Iterable[str], findings: list[Finding]) -> None:
    known_keys = tuple(names)
    for key in table:
        if key not in known_keys:
            near = get_close_matches(key, known_keys, 1, 0.6)
            hint = f"did you mean `{where}{near[0]}`?" if near else "known here: " + ", ".join(known_keys)
            if not where and not near:
                hint += "; settings that skills ask for go under [config]"
            findings.append(Finding("config-unknown-key", 0, (where + key, hint)))


def _table_at(tree: Mapping[str, object], key: str, findings: list[Finding]) -> Mapping[str, object]:
    value = tree.get(key, {})
    if isinstance(value, Mapping):
        return value
    findings.append(Finding("config-type", 0, (key, "a table")))
    return {}


def _text_list(key: str, value: object, findings: list[Finding]) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(item for item in value if isinstance(item, str))
    findings.append(Finding("config-type", 0, (key, "a list of strings")))
    return ()


def _check_skills(skills: Mapping[str, object], findings: list[Finding]) -> None:
    """`skills.KEY` may be any skill's table; a plain value there is a mistake."""
    plain = {key: value for key, value in skills.items() if not isinstance(value, Mapping)}
    _mark_unknown_keys("skills.", plain, _SKILLS_KEYS, findings)
    if plain.get("shell", "on") not in ("on", "off", True, False):
        findings.append(Finding("config-type", 0, ("skills.shell", "on or off")))
    for key, entry in _table_at(skills, "entries", findings).items():
        where = f"skills.entries.{key}"
        if isinstance(entry, Mapping):
            _check_entry(where, entry, findings)
        else:
            findings.append(Finding("config-type", 0, (where, "a table")))
    for key, entry in skills.items():
        if isinstance(entry, Mapping) and key not in _SKILLS_KEYS:
            _check_entry(f"skills.{key}", entry, findings)


def _check_sandbox(sandbox: dict[str, object], findings: list[Finding]) -> None:
    _mark_unknown_keys("sandbox.", sandbox, SANDBOX_KEYS, findings)
    # `none` is no tier to choose: whoever wants no sandbox says so with `need`.
    tiers = ("auto", *(tier for tier in get_args(SandboxTier) if tier != "none"))
    for key, known in (("need", get_args(SandboxNeed)), ("tier", tiers)):
        if key in sandbox and sandbox[key] not in known:
            findings.append(Finding("config-type", 0, (f"sandbox.{key}", "one of " + ", ".join(known))))
            del sandbox[key]
    image = sandbox.get("image")
    if image is not None and not (isinstance(image, str) and is_pinned_image(image)):
        findings.append(Finding("config-type", 0, ("sandbox.image", "an image with its digest, NAME@sha256:…")))
        del sandbox["image"]
    allow = sandbox.get("allow")
    if allow is not None and not (isinstance(allow, list) and all(isinstance(name, str) for name in allow)):
        findings.append(Finding("config-type", 0, ("sandbox.allow", "a list of names")))
        del sandbox["allow"]


def _check_improve(improve: dict[str, object], findings: list[Finding]) -> None:
    _mark_unknown_keys("improve.", improve, IMPROVE_KEYS, findings)
    if "mode" in improve and improve["mode"] not in get_args(ImprovementMode):
        findings.append(Finding("config-type", 0, ("improve.mode", "one of " + ", ".join(get_args(ImprovementMode)))))
        del improve["mode"]
    budget = improve.get("budget", {})
    if not isinstance(budget, dict):
        findings.append(Finding("config-type", 0, ("improve.budget", "a table")))
        del improve["budget"]
        return
    _mark_unknown_keys("improve.budget.", budget, BUDGET_KEYS, findings)
    for key in BUDGET_KEYS:
        value = budget.get(key, 0)
        whole = isinstance(value, int) or (key == "cost" and isinstance(value, float))
        if isinstance(value, bool) or not whole or value < 0:
            findings.append(Finding("config-type", 0, (f"improve.budget.{key}", "a number from 0 up")))
            del budget[key]


def _check_record(record: dict[str, object], findings: list[Finding]) -> None:
    _mark_unknown_keys("record.", record, RECORD_KEYS, findings)
    for key in RECORD_KEYS:
        value = record.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            findings.append(Finding("config-type", 0, (f"record.{key}", "a whole number, 0 for no limit")))
            del record[key]


def _check_instructions(tree: dict[str, Any], findings: list[Finding]) -> None:
    """Names of files, without a folder: a path could lead out of the project."""
    names = tree.get("instructions", [])
    if not isinstance(names, list) or any(not isinstance(name, str) or not _is_file_name(name) for name in names):
        findings.append(Finding("config-type", 0, ("instructions", "a list of file names")))
        # Nothing rather than the default: whoever wrote this wanted something else.
        tree["instructions"] = []


def _check_permissions(where: str, table: object, findings: list[Finding]) -> None:
    if not isinstance(table, Mapping):
        return
    _mark_unknown_keys(f"{where}.permissions.", table, _PERMISSIONS, findings)
    for key, kind in _PERMISSIONS.items():
        if key in table and not isinstance(table[key], kind):
            findings.append(
                Finding("config-type", 0, (f"{where}.permissions.{key}", "true or false" if kind is bool else "a list"))
            )


def _check_entry(where: str, entry: Mapping[str, object], findings: list[Finding]) -> None:
    """Check the settings of one skill; keys that the skill itself defines go under `config`."""
    _mark_unknown_keys(where + ".", entry, _ENTRY_KEYS, findings)
    for key, (kind, expected) in _ENTRY_KINDS.items():
        if key in entry and not isinstance(entry[key], kind):
            findings.append(Finding("config-type", 0, (f"{where}.{key}", expected)))
    _check_permissions(where, entry.get("permissions"), findings)
    env = entry.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if not isinstance(value, str | int | float):
            findings.append(Finding("config-type", 0, (f"{where}.env.{name}", "a string")))


def _parse_limits(table: Mapping[str, object], findings: list[Finding]) -> dict[str, int]:
    _mark_unknown_keys("limits.", table, LIMIT_KEYS, findings)
    limits = {}
    for key, value in table.items():
        if key not in LIMIT_KEYS:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            limits[key] = value
        else:
            findings.append(Finding("config-type", 0, (f"limits.{key}", "a whole number, 0 or more")))
    return limits


def _parse_roots(value: object, findings: list[Finding]) -> tuple[ConfiguredRoot, ...]:
    roots = []
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        where = f"roots[{number}]"
        # An empty path would be the working folder: whatever is there would count as the user's own.
        if isinstance(item, str) and item:
            roots.append(ConfiguredRoot(item))
        elif isinstance(item, Mapping) and isinstance(item.get("path"), str) and item["path"]:
            _mark_unknown_keys(where + ".", item, _ROOT_KEYS, findings)
            path, dialect, label = (text if isinstance(text := item.get(key), str) else "" for key in _ROOT_KEYS)
            roots.append(ConfiguredRoot(path, dialect, label))
        else:
            findings.append(Finding("config-type", 0, (where, "a path, or a table with `path`")))
    return tuple(roots)


def _parse_agents(
    table: Mapping[str, object], findings: list[Finding], where: str = "agents"
) -> dict[str, tuple[str, ...] | None]:
    """Agents, or kits, which are written in the same way: tables with a list of `skills`."""
    agents: dict[str, tuple[str, ...] | None] = {}
    for name, entry in table.items():
        if not isinstance(entry, Mapping):
            findings.append(Finding("config-type", 0, (f"{where}.{name}", "a table")))
            agents[name] = ()
            continue
        _mark_unknown_keys(f"{where}.{name}.", entry, ("skills",), findings)
        if "skills" in entry:
            agents[name] = _text_list(f"{where}.{name}.skills", entry["skills"], findings)
        else:
            # Without a list an agent may use everything; with a list under a misspelt key it may use nothing.
            agents[name] = () if entry else None
    return agents
