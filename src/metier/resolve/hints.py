"""How to get what is missing, in words that can be typed."""

from __future__ import annotations

from collections.abc import Sequence

from ..types.skill import Recipe

_COMMANDS = {
    "brew": "brew install {}",
    "npm": "npm install -g {}",
    "uv": "uv tool install {}",
    "go": "go install {}",
    "download": "download {}",
}


TOOLS = {"brew": ("brew",), "npm": ("npm", "pnpm", "yarn"), "uv": ("uv",), "go": ("go",)}
"""The program that each kind of recipe runs; any one will do."""


_PLATFORMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}


def runs_on(platforms: Sequence[str], platform: str) -> bool:
    """Whether one of the names means this platform, in Node's words or in everybody's."""
    return any(_PLATFORMS.get(name.strip().lower(), name.strip().lower()) == platform for name in platforms)


def recipe_note(recipe: Recipe, present: frozenset[str], platform: str) -> str:
    """Whether a recipe can be followed here, in words."""
    if not recipe_fits(recipe, platform):
        return "not for " + platform
    tools = TOOLS.get(recipe.kind)
    if tools is None or any(tool in present for tool in tools):
        return "available"
    return f"needs {tools[0]}"


def install_command(recipe: Recipe) -> str:
    """The command a recipe stands for.  `cask` names the cask, or says that the package is one."""
    if recipe.kind == "brew" and recipe.cask:
        return f"brew install --cask {recipe.package}"
    return _COMMANDS.get(recipe.kind, recipe.kind + " {}").replace("{}", recipe.package).strip()


def recipe_fits(recipe: Recipe, platform: str) -> bool:
    return not recipe.platforms or runs_on(recipe.platforms, platform)


def binary_hint(binaries: Sequence[str], recipes: Sequence[Recipe], platform: str) -> str:
    """The author's own recipe where there is one, else the usual package managers."""
    fitting = [recipe for recipe in recipes if recipe_fits(recipe, platform) and recipe.package]
    if fitting:
        bringing = [recipe for recipe in fitting if not recipe.binaries or set(recipe.binaries) & set(binaries)]
        return " OR ".join(dict.fromkeys(install_command(recipe) for recipe in bringing or fitting))
    names = " ".join(binaries)
    if platform == "darwin":
        return f"brew install {names}"
    return f"brew install {names} OR apt install {names}"
