"""May a skill run on this machine: seven gates, in the documented order."""

from __future__ import annotations

from collections.abc import Sequence

from ..types.problem import Finding
from ..types.settings import Settings, SkillSettings, is_truthy
from ..types.skill import NOTHING_REQUIRED, InstallRecipe, Skill
from ..types.verdict import Facts, RequirementCheck

_INSTALL_COMMANDS = {
    "brew": "brew install {}",
    "npm": "npm install -g {}",
    "uv": "uv tool install {}",
    "go": "go install {}",
    "download": "download {}",
}

RECIPE_TOOLS = {"brew": ("brew",), "npm": ("npm", "pnpm", "yarn"), "uv": ("uv",), "go": ("go",)}
"""The program that each kind of recipe runs; any one will do."""

_PLATFORM_ALIASES = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}


def runs_on(platforms: Sequence[str], platform: str) -> bool:
    """Whether one of the names means this platform: Node's name (`darwin`) or the common one (`macos`)."""
    return any(_PLATFORM_ALIASES.get(name.strip().lower(), name.strip().lower()) == platform for name in platforms)


def recipe_note(recipe: InstallRecipe, present: frozenset[str], platform: str) -> str:
    """Whether a recipe can run on this machine, for display."""
    if not recipe_fits(recipe, platform):
        return "not for " + platform
    tools = RECIPE_TOOLS.get(recipe.kind)
    if tools is None or any(tool in present for tool in tools):
        return "available"
    return f"needs {tools[0]}"


def install_command(recipe: InstallRecipe) -> str:
    """The command a recipe stands for.  `cask` names the cask, or says that the package is one."""
    if recipe.kind == "brew" and recipe.cask:
        return f"brew install --cask {recipe.package}"
    return _INSTALL_COMMANDS.get(recipe.kind, recipe.kind + " {}").replace("{}", recipe.package).strip()


def recipe_fits(recipe: InstallRecipe, platform: str) -> bool:
    return not recipe.platforms or runs_on(recipe.platforms, platform)


def binary_hint(binaries: Sequence[str], recipes: Sequence[InstallRecipe], platform: str) -> str:
    """The author's own recipe where there is one, else the usual package managers."""
    fitting = [recipe for recipe in recipes if recipe_fits(recipe, platform) and recipe.package]
    if fitting:
        bringing = [recipe for recipe in fitting if not recipe.binaries or set(recipe.binaries) & set(binaries)]
        return " OR ".join(dict.fromkeys(install_command(recipe) for recipe in bringing or fitting))
    names = " ".join(binaries)
    if platform == "darwin":
        return f"brew install {names}"
    return f"brew install {names} OR apt install {names}"


def check_eligibility(skill: Skill, facts: Facts, settings: Settings, bundled: bool) -> tuple[Finding, ...]:
    """Every reason why not.  The first three end the check; the last four add up."""
    # A project's configuration may switch any skill off, but gives variables and keys to its own skills only.
    entry = _entry_of(skill, settings)
    if not skill.enabled or not entry.enabled:
        return (Finding("disabled", 0, (_how_to_enable(skill, entry, settings),)),)
    if bundled and settings.allow_bundled and not _in_allowlist(skill, settings.allow_bundled):
        return (Finding("not_in_allowlist", 0, (skill.settings_key,)),)
    needs = skill.requires
    if needs is NOTHING_REQUIRED:
        return ()
    if needs.platforms and not runs_on(needs.platforms, facts.platform):
        return (Finding("platform", 0, (facts.platform, ", ".join(needs.platforms))),)
    if needs.always:  # after the platform: `always` waives what can be installed or set, not the machine
        return ()
    return _missing_requirements(skill, facts, settings, entry)


def _entry_of(skill: Skill, settings: Settings) -> SkillSettings:
    return settings.entry_for(skill.settings_key, skill.path if skill.origin.source == "project" else "")


def _missing_requirements(skill: Skill, facts: Facts, settings: Settings, entry: SkillSettings) -> tuple[Finding, ...]:
    needs = skill.requires
    findings = []
    binaries = [name for name in needs.binaries if name not in facts.binaries]
    if binaries:
        findings.append(
            Finding("binary", 0, (", ".join(binaries), binary_hint(binaries, skill.install, facts.platform)))
        )
    if needs.any_binary and not any(name in facts.binaries for name in needs.any_binary):
        findings.append(Finding("any_binary", 0, (", ".join(needs.any_binary),)))
    names = [name for name in needs.env if not is_variable_set(name, skill, facts, entry)]
    if names:
        findings.append(Finding("env", 0, (", ".join(names), "; ".join(f"export {name}=..." for name in names))))
    paths = [path for path in needs.config if not is_configured(path, skill, settings)]
    if paths:
        findings.append(Finding("config", 0, (", ".join(paths),)))
    return tuple(findings)


def _how_to_enable(skill: Skill, entry: SkillSettings, settings: Settings) -> str:
    if skill.settings_key in settings.switched_off:
        return f"run `metier on {skill.settings_key}`"
    if not entry.enabled:
        return f"Enable via skills.{skill.settings_key}.enabled: true"
    if not skill.user_may_invoke and not skill.model_may_invoke:
        return "set `user-invocable: true` or `disable-model-invocation: false` in its frontmatter"
    return "set `config.enabled: true` in its frontmatter"


def _in_allowlist(skill: Skill, allowed: tuple[str, ...]) -> bool:
    return skill.settings_key in allowed or skill.id in allowed or skill.name in allowed


def is_variable_set(name: str, skill: Skill, facts: Facts, entry: SkillSettings) -> bool:
    """Whether a variable has a value here, or will have one from the skill's settings."""
    if name in facts.env or (skill.origin.dialect.authoring.empty_env_counts and name in facts.empty_env):
        return True
    return bool(entry.env.get(name)) or bool(entry.api_key.strip() and skill.requires.primary_env == name)


def is_configured(path: str, skill: Skill, settings: Settings) -> bool:
    value = settings.at(path)
    if value is None:
        return path in skill.origin.dialect.authoring.config_defaults and not settings.says(path)
    return is_truthy(value)


def requirement_checks(skill: Skill, facts: Facts, settings: Settings) -> tuple[RequirementCheck, ...]:
    """Every requirement of a skill, met or not."""
    needs = skill.requires
    entry = _entry_of(skill, settings)
    checks = []
    if needs.platforms:
        checks.append(
            RequirementCheck("platform", ", ".join(needs.platforms), runs_on(needs.platforms, facts.platform))
        )
    checks += [RequirementCheck("binary", name, name in facts.binaries) for name in needs.binaries]
    checks += [RequirementCheck("any_binary", name, name in facts.binaries) for name in needs.any_binary]
    checks += [RequirementCheck("env", name, is_variable_set(name, skill, facts, entry)) for name in needs.env]
    checks += [RequirementCheck("config", path, is_configured(path, skill, settings)) for path in needs.config]
    return tuple(checks)
