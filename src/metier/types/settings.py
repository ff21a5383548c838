"""What the user configured: the settings tree, and the settings of one skill.

The tree keeps everything, because skills require config paths that metier does not know; what metier itself uses is
checked by `parse.config` and held in fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..light_typing import TYPE_CHECKING, NamedTuple, TypeAlias
from .dialect import Dialect, ListingPolicy

if TYPE_CHECKING:
    import re

Setting: TypeAlias = object
"""A value as TOML or JSON has it."""


def match_rule(text: str) -> re.Match[str] | None:
    """Match a permission rule: a tool's name, or name(pattern)."""
    import re  # here, since listing skills imports this module and needs no expressions

    return re.fullmatch(r"([^\s()]+)(?:\((.*)\))?", text, re.DOTALL)


class ConfiguredRoot(NamedTuple):
    path: str
    dialect: str = ""
    label: str = ""
    project: bool = False
    """The project's own configuration names it: it must lie in the project, and is trusted as the project is."""


class SkillSettings(NamedTuple):
    """What the configuration says of one skill."""

    enabled: bool = True
    api_key: str = ""
    env: Mapping[str, str] = {}
    permissions: Mapping[str, Setting] = {}

    @property
    def hands_out(self) -> bool:
        """Whether it gives the skill anything: a key, variables, permissions."""
        return bool(self.api_key or self.env or self.permissions)

    def __repr__(self) -> str:
        """Without the key and the environment: they are secrets."""
        return f"SkillSettings(enabled={self.enabled}, permissions={self.permissions})"


class Settings(NamedTuple):
    tree: Mapping[str, Setting] = {}
    project_tree: Mapping[str, Setting] = {}
    """What of the tree the project's own configuration says."""
    own_tree: Mapping[str, Setting] = {}
    """What the user's configuration says, where a project's has been put on top of it."""
    roots: tuple[ConfiguredRoot, ...] = ()
    plugins: tuple[str, ...] = ()
    project_plugins: tuple[str, ...] = ()
    """Those that the project's own configuration names."""
    dialects: Mapping[str, Dialect] = {}
    limits: Mapping[str, int] = {}
    agents: Mapping[str, tuple[str, ...] | None] = {}
    kits: Mapping[str, tuple[str, ...]] = {}
    """Named sets of skills: `kit:NAME` in a list of skills stands for its members."""
    switched_off: frozenset[str] = frozenset()
    """The skills that `metier off` switched off here, by the key of their settings."""
    allow_bundled: tuple[str, ...] = ()
    policy: ListingPolicy | None = None
    """What becomes of a catalog that does not fit, whatever the dialect says."""
    pinned: tuple[str, ...] = ()
    """Skills that are listed even if the catalog has to leave some out."""
    dense: bool = False
    """Whether searches go by meaning too, with the extra `dense`."""
    lent: frozenset[str] = frozenset()
    """The project's skills, by path, that a person lent the user's own settings of the same name to."""

    def __repr__(self) -> str:
        """Without the trees: they may hold keys."""
        return f"Settings(roots={self.roots}, plugins={self.plugins}, limits={self.limits}, agents={self.agents})"

    def at(self, path: str) -> Setting:
        """The value at a dotted path, in the whole tree or under `config`; None where there is none."""
        # Skills name a path as their own product has it: from the top, under `config`, or short for an entry.
        value = _value_at(self.tree, path)
        if value is None:
            value = _value_at(self.tree, "config." + path)
        if value is None and path.startswith("skills.") and not path.startswith("skills.entries."):
            value = _value_at(self.tree, "skills.entries." + path.removeprefix("skills."))
        return value

    def own(self, path: str) -> Setting:
        """One of metier's own settings, at a dotted path; None if it is not set.

        Not `at`, which answers what a skill requires: it also looks under `config`, where a project may write anything.
        Here only the user's own `config` counts.
        """
        value = _value_at(self.tree, path)
        user_tree = self.own_tree if self.project_tree else self.tree
        return _value_at(user_tree, "config." + path) if value is None else value

    def says(self, path: str) -> bool:
        """Whether the tree holds that path at all, if only to say `null`."""
        above, _, last = path.rpartition(".")
        table = _value_at(self.tree, above) if above else self.tree
        return isinstance(table, Mapping) and last in table

    def entry(self, key: str) -> SkillSettings:
        skills = self.tree.get("skills")
        if not isinstance(skills, Mapping):
            return DEFAULT_SKILL_SETTINGS
        entries = skills.get("entries")
        entry = entries.get(key) if isinstance(entries, Mapping) else None
        # `[skills.NAME]` is short for `[skills.entries.NAME]`, except for the two keys that mean something else.
        short = skills.get(key) if key not in ("entries", "allowBundled") else None
        if not isinstance(entry, Mapping) and not isinstance(short, Mapping):
            return DEFAULT_SKILL_SETTINGS
        entry = entry if isinstance(entry, Mapping) else {}
        short = short if isinstance(short, Mapping) else {}
        env = entry.get("env", short.get("env"))
        key_text = entry.get("apiKey", short.get("apiKey"))
        permissions = entry.get("permissions", short.get("permissions"))
        return SkillSettings(
            enabled=entry.get("enabled") is not False and short.get("enabled") is not False,
            api_key=key_text if isinstance(key_text, str) else "",
            env={name: _as_text(value) for name, value in env.items()} if isinstance(env, Mapping) else {},
            permissions=permissions if isinstance(permissions, Mapping) else {},
        )

    def user_entry(self, key: str) -> SkillSettings:
        """What the user's own configuration says of a skill."""
        return Settings(self.own_tree if self.project_tree else self.tree).entry(key)

    def entry_for(self, key: str, project_skill: str = "") -> SkillSettings:
        """The settings of a skill; `project_skill` is the path of one that belongs to the project.

        A project's configuration grants nothing to skills outside the project, and the user's own grants nothing to a
        project's skill that merely has the name, unless a person lent it (`lent`).
        """
        if project_skill and project_skill not in self.lent:
            return self._strangers_entry(key)
        # A project may switch a user's skill off, but only the user may give it variables, keys or folders.
        entry = self.entry(key)
        if not self.project_tree:
            return entry
        user_entry = self.user_entry(key)
        # What the user switched off, or set for a skill of that name, stands: a project never lifts it.
        entry = entry._replace(
            enabled=entry.enabled and user_entry.enabled, permissions={**entry.permissions, **user_entry.permissions}
        )
        if project_skill:
            return entry
        return entry._replace(api_key=user_entry.api_key, env=user_entry.env, permissions=user_entry.permissions)

    def _strangers_entry(self, key: str) -> SkillSettings:
        """What the project says of its own skill; of what the user says of that name, only what forbids counts."""
        theirs, users = Settings(self.project_tree).entry(key), self.user_entry(key)
        permissions = dict(theirs.permissions)
        for name, allowed in users.permissions.items():
            if not allowed:
                permissions[name] = allowed
            elif isinstance(asked := permissions.get(name), list) and isinstance(allowed, list):
                permissions[name] = [item for item in asked if item in allowed]
        return theirs._replace(enabled=theirs.enabled and users.enabled, permissions=permissions)

    def without_kits(self, names: Sequence[str]) -> tuple[str, ...]:
        """A list of skills with each `kit:NAME` replaced by its members; an unknown kit stands for nothing."""
        members: dict[str, None] = {}
        seen: set[str] = set()
        rest = list(names)
        while rest:
            name = rest.pop(0)
            kit = name.removeprefix("kit:")
            if kit == name or kit not in self.kits:
                members[name] = None
            elif kit not in seen:  # kits may name each other
                seen.add(kit)
                rest[:0] = self.kits[kit]
        return tuple(members)

    @property
    def shell_off(self) -> bool:
        """Commands in bodies are switched off."""
        return self.own("skills.shell") in ("off", False)

    @property
    def mentions_skills(self) -> bool:
        return bool(self.tree.get("skills"))


DEFAULT_SKILL_SETTINGS = SkillSettings()


def _as_text(value: Setting) -> str:
    """A value as an environment holds it; what is false or null is no value."""
    if value is True:
        return "true"
    return "" if value is None or value is False else str(value)


def _value_at(tree: Mapping[str, Setting], path: str) -> Setting:
    value: Setting = tree
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def is_truthy(value: Setting) -> bool:
    """Absent, false, zero and blank are not; a table is."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, Mapping | list | tuple):
        return True
    return bool(value)
