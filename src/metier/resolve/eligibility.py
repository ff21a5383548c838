"""May a skill run on this machine: seven gates, in the documented order."""

from __future__ import annotations

from ..types.problem import Mark
from ..types.settings import Settings, SkillSettings, truthy
from ..types.skill import NOTHING_REQUIRED, Skill
from ..types.verdict import Check, Facts
from .hints import binary_hint, runs_on


def judge(skill: Skill, facts: Facts, settings: Settings, bundled: bool) -> tuple[Mark, ...]:
    """Every reason why not.  The first three end the check; the last four add up."""
    entry = settings.entry_for(skill.settings_key, skill.origin.source == "project")
    if not skill.enabled or not entry.enabled:
        return (Mark("disabled", 0, (_how_to_enable(skill, entry),)),)
    if bundled and settings.allow_bundled and not _listed(skill, settings.allow_bundled):
        return (Mark("not_in_allowlist", 0, (skill.settings_key,)),)
    needs = skill.requires
    if needs is NOTHING_REQUIRED:
        return ()
    if needs.platforms and not runs_on(needs.platforms, facts.platform):
        return (Mark("platform", 0, (facts.platform, ", ".join(needs.platforms))),)
    if needs.always:
        return ()
    return _missing(skill, facts, settings, entry)


def _missing(skill: Skill, facts: Facts, settings: Settings, entry: SkillSettings) -> tuple[Mark, ...]:
    needs = skill.requires
    marks = []
    binaries = [name for name in needs.binaries if name not in facts.binaries]
    if binaries:
        marks.append(Mark("binary", 0, (", ".join(binaries), binary_hint(binaries, skill.install, facts.platform))))
    if needs.any_binary and not any(name in facts.binaries for name in needs.any_binary):
        marks.append(Mark("any_binary", 0, (", ".join(needs.any_binary),)))
    names = [name for name in needs.env if not is_set(name, skill, facts, entry)]
    if names:
        marks.append(Mark("env", 0, (", ".join(names), "; ".join(f"export {name}=..." for name in names))))
    paths = [path for path in needs.config if not is_configured(path, skill, settings)]
    if paths:
        marks.append(Mark("config", 0, (", ".join(paths),)))
    return tuple(marks)


def _how_to_enable(skill: Skill, entry: SkillSettings) -> str:
    if not entry.enabled:
        return f"Enable via skills.{skill.settings_key}.enabled: true"
    if not skill.user_may_invoke and not skill.model_may_invoke:
        return "set `user-invocable: true` or `disable-model-invocation: false` in its frontmatter"
    return "set `config.enabled: true` in its frontmatter"


def _listed(skill: Skill, allowed: tuple[str, ...]) -> bool:
    return skill.settings_key in allowed or skill.id in allowed or skill.name in allowed


def is_set(name: str, skill: Skill, facts: Facts, entry: SkillSettings) -> bool:
    """Whether a variable has a value here, or will have one from the skill's settings."""
    if name in facts.env or (skill.origin.dialect.authoring.empty_env_counts and name in facts.empty_env):
        return True
    return bool(entry.env.get(name)) or bool(entry.api_key.strip() and skill.requires.primary_env == name)


def is_configured(path: str, skill: Skill, settings: Settings) -> bool:
    value = settings.at(path)
    if value is None:
        return path in skill.origin.dialect.authoring.config_defaults and not settings.says(path)
    return truthy(value)


def checklist(skill: Skill, facts: Facts, settings: Settings) -> tuple[Check, ...]:
    """Every requirement of a skill, met or not."""
    needs = skill.requires
    entry = settings.entry_for(skill.settings_key, skill.origin.source == "project")
    checks = []
    if needs.platforms:
        checks.append(Check("platform", ", ".join(needs.platforms), runs_on(needs.platforms, facts.platform)))
    checks += [Check("binary", name, name in facts.binaries) for name in needs.binaries]
    checks += [Check("any_binary", name, name in facts.binaries) for name in needs.any_binary]
    checks += [Check("env", name, is_set(name, skill, facts, entry)) for name in needs.env]
    checks += [Check("config", path, is_configured(path, skill, settings)) for path in needs.config]
    return tuple(checks)
