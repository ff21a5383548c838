"""Configuration: TOML text becomes Settings, and every key that is not a setting is named."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args

from ..types.dialect import ImprovementMode, LibraryLimits, ListingPolicy
from ..types.problem import Finding
from ..types.sandbox import SandboxNeed
from ..types.settings import ConfiguredRoot, Settings

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
    "model",
    "models",
    "agent",
    "mcp",
    "sandbox",
    "record",
    "improve",
    "config",
)
USER_ONLY_KEYS = ("sandbox", "model", "models", "agent", "mcp", "record", "improve")
"""What only the user's own file may say: who is asked, what may be done, what is started."""
AGENT_KEYS = ("allow", "ask", "deny", "network", "turns", "tokens", "seconds", "cost")
MODEL_KEYS = ("provider", "model", "url", "key", "window", "reply", "input_price", "output_price")
SERVER_KEYS = ("command", "args", "env", "url", "headers")
LIMIT_KEYS = LibraryLimits._fields
_SKILLS_KEYS = ("entries", "allowBundled", "shell", "install")
_ENTRY_KINDS = {
    "enabled": (bool, "true or false"),
    "apiKey": (str, "a text"),
    "env": (dict, "a table"),
    "config": (dict, "a table"),
    "permissions": (dict, "a table"),
}
_PERMISSIONS = {"network": bool, "hosts": list, "read": list, "write": list, "env": list}
_ENTRY_KEYS = tuple(_ENTRY_KINDS)
_ROOT_KEYS = ("path", "dialect", "label")
CATALOG_KEYS = ("policy", "pinned")
SEARCH_KEYS = ("dense",)
IMPROVE_KEYS = ("mode",)
RECORD_KEYS = ("days", "runs")
_TABLES = ("skills", "limits", "catalog", "search", "sandbox", "agents", "dialects", "config", "models", "agent", "mcp")
_KINDS = {**dict.fromkeys((*_TABLES, "record", "improve"), dict), "dialect": str, "model": str}
_at_line = re.compile(r"\(at line (\d+), column \d+\)").search


def parse_settings(text: str, marks: list[Finding]) -> Settings:
    """What one file says; what it says wrongly is marked and passed over."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long to read is a ValueError and nothing more
        line = _line_of(str(error), text)
        marks.append(Finding("config-syntax", line, (str(error) or "it is nested too deeply",), fatal=True))
        return Settings()
    _mark_unknown_keys("", tree, TOP_LEVEL_KEYS, marks)
    for key in [key for key, kind in _KINDS.items() if key in tree and not isinstance(tree[key], kind)]:
        marks.append(Finding("config-type", 0, (key, "a table" if _KINDS[key] is dict else "a text")))
        del tree[key]
    not_tables = [name for name, table in tree.get("dialects", {}).items() if not isinstance(table, dict)]
    marks += [Finding("config-type", 0, (f"dialects.{name}", "a table")) for name in not_tables]
    skills = tree.get("skills", {})
    _check_skills(skills, marks)
    _check_sandbox(tree.get("sandbox", {}), marks)
    _check_improve(tree.get("improve", {}), marks)
    _check_acting(tree, marks)
    _check_record(tree.get("record", {}), marks)
    return Settings(
        tree=tree,
        roots=_parse_roots(tree.get("roots", []), marks),
        plugins=_text_list("plugins", tree.get("plugins", []), marks),
        limits=_parse_limits(tree.get("limits", {}), marks),
        agents=_parse_agents(tree.get("agents", {}), marks),
        allow_bundled=_text_list("skills.allowBundled", skills.get("allowBundled", []), marks),
        policy=_listing_policy(tree.get("catalog", {}), marks),
        pinned=_text_list("catalog.pinned", tree.get("catalog", {}).get("pinned", []), marks),
        dense=_dense_search(tree.get("search", {}), marks),
    )


def _listing_policy(table: Mapping[str, object], marks: list[Finding]) -> ListingPolicy | None:
    _mark_unknown_keys("catalog.", table, CATALOG_KEYS, marks)
    chosen = table.get("policy")
    for policy in get_args(ListingPolicy):
        if chosen == policy:
            return cast("ListingPolicy", policy)
    if chosen is not None:
        marks.append(Finding("config-type", 0, ("catalog.policy", " or ".join(get_args(ListingPolicy)))))
    return None


def _dense_search(table: Mapping[str, object], marks: list[Finding]) -> bool:
    _mark_unknown_keys("search.", table, SEARCH_KEYS, marks)
    dense = table.get("dense", False)
    if not isinstance(dense, bool):
        marks.append(Finding("config-type", 0, ("search.dense", "true or false")))
    return dense is True


def _check_acting(tree: Mapping[str, object], marks: list[Finding]) -> None:
    """What is said of agents, models and MCP servers; what is of the wrong kind is marked and counts as not said."""
    agent = tree.get("agent")
    if isinstance(agent, dict):
        _mark_unknown_keys("agent.", agent, AGENT_KEYS, marks)
        for key, value in list(agent.items()):
            kind, expected = _AGENT_KINDS.get(key, (object, ""))
            if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
                marks.append(Finding("config-type", 0, (f"agent.{key}", expected)))
                del agent[key]
    for name, known_keys in (("models", MODEL_KEYS), ("mcp", SERVER_KEYS)):
        tables = tree.get(name)
        for key, table in list(tables.items()) if isinstance(tables, dict) else ():
            if isinstance(table, dict):
                _mark_unknown_keys(f"{name}.{key}.", table, known_keys, marks)
            elif isinstance(tables, dict):
                marks.append(Finding("config-type", 0, (f"{name}.{key}", "a table")))
                del tables[key]


_NUMBER: tuple[type, ...] = (int, float)
_AGENT_KINDS: Mapping[str, tuple[Any, str]] = {
    "allow": (list, "a list of texts"),
    "ask": (list, "a list of texts"),
    "deny": (list, "a list of texts"),
    "network": (bool, "true or false"),
    "turns": (_NUMBER, "a number"),
    "tokens": (_NUMBER, "a number"),
    "seconds": (_NUMBER, "a number"),
    "cost": (_NUMBER, "a number"),
}


def _line_of(message: str, text: str) -> int:
    """The line a TOML reader complains of; it only says so in words."""
    match = _at_line(message)
    if match is not None:
        return int(match[1])
    return text.rstrip().count("\n") + 1 if "at end of document" in message else 0


def merge_settings(first: Settings, second: Settings) -> Settings:
    """The user's file and the project's as one: the second says more where both speak, but never lifts a bound."""
    tree = _merge_trees(first.tree, second.tree)
    for key in USER_ONLY_KEYS:
        tree.pop(key, None)
        if key in first.tree:
            tree[key] = first.tree[key]
    skills = tree.get("skills")
    if first.shell_off and isinstance(skills, dict):
        skills["shell"] = "off"
    return Settings(
        tree=tree,
        project_tree=second.tree,
        own_tree=first.tree,
        roots=tuple(root._replace(project=True) for root in second.roots) + first.roots,
        plugins=first.plugins,
        project_plugins=second.plugins,
        limits={**first.limits, **second.limits},
        agents={**first.agents, **second.agents},
        allow_bundled=second.allow_bundled or first.allow_bundled,
        policy=second.policy or first.policy,
        pinned=second.pinned or first.pinned,
        dense=first.dense,
    )


def _merge_trees(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, object]:
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        both[key] = _merge_trees(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _mark_unknown_keys(where: str, table: Mapping[str, object], names: Iterable[str], marks: list[Finding]) -> None:
    known_keys = tuple(names)
    for key in table:
        if key not in known_keys:
            near = get_close_matches(key, known_keys, 1, 0.6)
            hint = f"did you mean `{where}{near[0]}`?" if near else "known here: " + ", ".join(known_keys)
            if not where and not near:
                hint += "; settings that skills ask for go under [config]"
            marks.append(Finding("config-unknown-key", 0, (where + key, hint)))


def _table_at(tree: Mapping[str, object], key: str, marks: list[Finding]) -> Mapping[str, object]:
    value = tree.get(key, {})
    if isinstance(value, Mapping):
        return value
    marks.append(Finding("config-type", 0, (key, "a table")))
    return {}


def _text_list(key: str, value: object, marks: list[Finding]) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(item for item in value if isinstance(item, str))
    marks.append(Finding("config-type", 0, (key, "a list of texts")))
    return ()


def _check_skills(skills: Mapping[str, object], marks: list[Finding]) -> None:
    """`skills.<key>` may be any skill; a plain value there is a slip."""
    plain = {key: value for key, value in skills.items() if not isinstance(value, Mapping)}
    _mark_unknown_keys("skills.", plain, _SKILLS_KEYS, marks)
    if plain.get("shell", "on") not in ("on", "off", True, False):
        marks.append(Finding("config-type", 0, ("skills.shell", "on or off")))
    for key, entry in _table_at(skills, "entries", marks).items():
        where = f"skills.entries.{key}"
        if isinstance(entry, Mapping):
            _check_entry(where, entry, marks)
        else:
            marks.append(Finding("config-type", 0, (where, "a table")))
    for key, entry in skills.items():
        if isinstance(entry, Mapping) and key not in _SKILLS_KEYS:
            _check_entry(f"skills.{key}", entry, marks)


def _check_sandbox(sandbox: dict[str, object], marks: list[Finding]) -> None:
    _mark_unknown_keys("sandbox.", sandbox, ("need",), marks)
    if sandbox.get("need", "prefer") not in get_args(SandboxNeed):
        marks.append(Finding("config-type", 0, ("sandbox.need", "one of " + ", ".join(get_args(SandboxNeed)))))
        del sandbox["need"]


def _check_improve(improve: dict[str, object], marks: list[Finding]) -> None:
    _mark_unknown_keys("improve.", improve, IMPROVE_KEYS, marks)
    if "mode" in improve and improve["mode"] not in get_args(ImprovementMode):
        marks.append(Finding("config-type", 0, ("improve.mode", "one of " + ", ".join(get_args(ImprovementMode)))))
        del improve["mode"]


def _check_record(record: dict[str, object], marks: list[Finding]) -> None:
    _mark_unknown_keys("record.", record, RECORD_KEYS, marks)
    for key in RECORD_KEYS:
        value = record.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            marks.append(Finding("config-type", 0, (f"record.{key}", "a number, 0 for no end")))
            del record[key]


def _check_permissions(where: str, table: object, marks: list[Finding]) -> None:
    if not isinstance(table, Mapping):
        return
    _mark_unknown_keys(f"{where}.permissions.", table, _PERMISSIONS, marks)
    for key, kind in _PERMISSIONS.items():
        if key in table and not isinstance(table[key], kind):
            marks.append(
                Finding("config-type", 0, (f"{where}.permissions.{key}", "true or false" if kind is bool else "a list"))
            )


def _check_entry(where: str, entry: Mapping[str, object], marks: list[Finding]) -> None:
    """What the configuration says of one skill; a key of the skill's own goes under `config`."""
    _mark_unknown_keys(where + ".", entry, _ENTRY_KEYS, marks)
    for key, (kind, expected) in _ENTRY_KINDS.items():
        if key in entry and not isinstance(entry[key], kind):
            marks.append(Finding("config-type", 0, (f"{where}.{key}", expected)))
    _check_permissions(where, entry.get("permissions"), marks)
    env = entry.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if not isinstance(value, str | int | float):
            marks.append(Finding("config-type", 0, (f"{where}.env.{name}", "a text")))


def _parse_limits(table: Mapping[str, object], marks: list[Finding]) -> dict[str, int]:
    _mark_unknown_keys("limits.", table, LIMIT_KEYS, marks)
    limits = {}
    for key, value in table.items():
        if key not in LIMIT_KEYS:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            limits[key] = value
        else:
            marks.append(Finding("config-type", 0, (f"limits.{key}", "a whole number")))
    return limits


def _parse_roots(value: object, marks: list[Finding]) -> tuple[ConfiguredRoot, ...]:
    roots = []
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        where = f"roots[{number}]"
        if isinstance(item, str):
            roots.append(ConfiguredRoot(item))
        elif isinstance(item, Mapping) and isinstance(item.get("path"), str):
            _mark_unknown_keys(where + ".", item, _ROOT_KEYS, marks)
            path, dialect, label = (text if isinstance(text := item.get(key), str) else "" for key in _ROOT_KEYS)
            roots.append(ConfiguredRoot(path, dialect, label))
        else:
            marks.append(Finding("config-type", 0, (where, "a path, or a table with `path`")))
    return tuple(roots)


def _parse_agents(table: Mapping[str, object], marks: list[Finding]) -> dict[str, tuple[str, ...] | None]:
    agents: dict[str, tuple[str, ...] | None] = {}
    for name, entry in table.items():
        if not isinstance(entry, Mapping):
            marks.append(Finding("config-type", 0, (f"agents.{name}", "a table")))
            continue
        _mark_unknown_keys(f"agents.{name}.", entry, ("skills",), marks)
        agents[name] = _text_list(f"agents.{name}.skills", entry["skills"], marks) if "skills" in entry else None
    return agents
