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


def recipe_note(recipe: Recipe, present: frozenset[str], platform: str) -> str:
    """Whether a recipe can be followed here, in words."""
    if not recipe_fits(recipe, platform):
        return "not for " + platform
    tools = TOOLS.get(recipe.kind)
    if tools is None or any(tool in present for tool in tools):
        return "available"
    return f"needs {tools[0]}"


def install_command(recipe: Recipe) -> str:
    """The command a recipe stands for; `cask` is Homebrew's own word."""
    if recipe.kind == "brew" and recipe.options.text("cask") and recipe.package == recipe.options.text("cask"):
        return f"brew install --cask {recipe.package}"
    return _COMMANDS.get(recipe.kind, recipe.kind + " {}").format(recipe.package)


def recipe_fits(recipe: Recipe, platform: str) -> bool:
    return not recipe.platforms or platform in recipe.platforms


def binary_hint(binaries: Sequence[str], recipes: Sequence[Recipe], platform: str) -> str:
    """The author's own recipe where there is one, else the usual package managers."""
    fitting = [recipe for recipe in recipes if recipe_fits(recipe, platform) and recipe.package]
    if fitting:
        return " OR ".join(dict.fromkeys(install_command(recipe) for recipe in fitting))
    names = " ".join(binaries)
    if platform == "darwin":
        return f"brew install {names}"
    return f"brew install {names} OR apt install {names}"
