"""What a skill needs installed: each recipe becomes an exact plan, or a refusal that says why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from ..types.skill import Recipe
from ..types.tree import Tree

KINDS = ("brew", "npm", "uv", "go", "download")
MANAGERS = ("npm", "pnpm", "yarn", "bun")
SECONDS = (1.0, 300.0, 900.0)
"""The least, the usual and the most that one installation may take."""
_PLATFORMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
_ARCHIVES = {
    "tar.gz": "tar", "tgz": "tar", "tar.bz2": "tar", "tbz2": "tar", "tar.xz": "tar", "tar": "tar", "zip": "zip",
}  # fmt: skip
_brew = re.compile(r"(?:[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][A-Za-z0-9@+._-]*").fullmatch
_npm = re.compile(
    r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(?:@[A-Za-z0-9^~*][A-Za-z0-9^~*.+-]*)?"
).fullmatch
_uv = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9][A-Za-z0-9._,-]*\])?"
    r"(?:(?:==|>=|<=|~=|!=|<|>|@)[A-Za-z0-9][A-Za-z0-9.*+!_-]*(?:,(?:==|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!_-]+)*)?"
).fullmatch
_go = re.compile(
    r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+(?:/[A-Za-z0-9_~][A-Za-z0-9._~+-]*)+(?:@[A-Za-z0-9][\w.+-]*)?"
).fullmatch
_sha256 = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})").fullmatch
_safe_key = re.compile(r"[A-Za-z0-9][\w.-]{0,59}").fullmatch


@dataclass(frozen=True)
class Means:
    """What this machine has to install with."""

    platform: str
    programs: frozenset[str] = frozenset()
    """Which of the programs that install, or that a recipe asks about, are here."""
    tools: str = ""
    """metier's own folder for them; its `bin` is on the path of every skill."""
    superuser: bool = False
    prefer_brew: bool | None = None
    node: str = "npm"


@dataclass(frozen=True)
class Plan:
    """Exactly what would be done."""

    id: str
    kind: str
    label: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    sha256: str = ""
    target: str = ""
    """The folder that a download goes to."""
    archive: str = ""
    """`zip` or `tar`, or nothing for a file that is not taken apart."""
    strip: int = 0
    binaries: tuple[str, ...] = ()
    note: str = ""


class Option(NamedTuple):
    """A recipe, and its plan or the reason why there is none."""

    recipe: Recipe
    plan: Plan | None
    refusal: str = ""


def options(recipes: Sequence[Recipe], means: Means, key: str) -> tuple[Option, ...]:
    """Every recipe of a skill, in its author's order."""
    found = []
    for recipe in recipes:
        plan = planned(recipe, means, key)
        found.append(Option(recipe, plan) if isinstance(plan, Plan) else Option(recipe, None, plan))
    return tuple(found)


def preferred(found: Sequence[Option], means: Means) -> Option | None:
    """The option to recommend: Homebrew where it is wished for, then uv, npm, Homebrew, Go, a download."""
    usable = [option for option in found if option.plan is not None]
    brew = means.prefer_brew if means.prefer_brew is not None else "brew" in means.programs
    order = ["brew"] * brew + ["uv", "npm", "brew", "go", "download"]
    return min(usable, key=lambda option: order.index(option.recipe.kind), default=None)


def asked_about(recipes: Sequence[Recipe]) -> frozenset[str]:
    """The programs whose being here decides about a recipe: those of its `when`, and those that it brings."""
    words = (word.partition(":") for recipe in recipes for word in _words(recipe.options.text("when")))
    named = {program for name, _, program in words if name in ("has", "lacks")}
    return frozenset(named.union(*(recipe.binaries for recipe in recipes)) - {""})


def planned(recipe: Recipe, means: Means, key: str) -> Plan | str:
    """The plan, or why not."""
    if recipe.kind not in KINDS:
        return f"`{recipe.kind}` is not a kind of recipe; " + ", ".join(KINDS) + " are"
    fault = _elsewhere(recipe, means) or _when(recipe.options.text("when"), means, recipe.binaries)
    if fault:
        return fault
    if not recipe.package:
        return "it names no package"
    return {"brew": _with_brew, "npm": _with_node, "uv": _with_uv, "go": _with_go, "download": _by_download}[
        recipe.kind
    ](recipe, means, key)


def _elsewhere(recipe: Recipe, means: Means) -> str:
    wanted = [_PLATFORMS.get(name.lower(), name.lower()) for name in recipe.platforms]
    return (
        f"it is for {', '.join(recipe.platforms)}; this is {means.platform}"
        if wanted and means.platform not in wanted
        else ""
    )


def _when(text: str, means: Means, binaries: Sequence[str]) -> str:
    """`always`, `missing`, a platform, `has:PROGRAM` or `lacks:PROGRAM`; all that is said must hold."""
    for word in _words(text):
        name, colon, program = word.partition(":")
        plain = _PLATFORMS.get(word.lower(), word.lower())
        if plain in ("", "always", means.platform):
            continue
        if plain == "missing":
            if binaries and means.programs.issuperset(binaries):
                return f"{', '.join(binaries)} is here already"
            continue
        if colon and name in ("has", "lacks"):
            if (program in means.programs) != (name == "has"):
                return f"it is for machines {'with' if name == 'has' else 'without'} {program}"
        elif plain in ("darwin", "linux", "win32"):
            return f"it is for {word}; this is {means.platform}"
        else:
            return f"`when: {word[:40]}` is not understood"
    return ""


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip())


def _lacking(program: str, means: Means, hint: str) -> str:
    return "" if program in means.programs else f"{program} is not installed; {hint}"


def _plan(recipe: Recipe, argv: tuple[str, ...], env: Mapping[str, str], note: str = "") -> Plan:
    label = recipe.label or f"Install {recipe.package} ({argv[0]})"
    return Plan(recipe.id, recipe.kind, label, argv, dict(env), binaries=recipe.binaries, note=note)


def _with_brew(recipe: Recipe, means: Means, key: str) -> Plan | str:
    if not _brew(recipe.package) or ".." in recipe.package:
        return f"`{recipe.package}` is not the name of a formula or cask"
    lacking = _lacking("brew", means, "see https://brew.sh")
    if lacking:
        return lacking
    if means.superuser:
        return "Homebrew does not work for root"
    argv = ("brew", "install", *(("--cask",) if recipe.cask else ()), "--", recipe.package)
    return _plan(recipe, argv, {"HOMEBREW_NO_AUTO_UPDATE": "1", "HOMEBREW_NO_ASK": "1"})


def _with_node(recipe: Recipe, means: Means, key: str) -> Plan | str:
    if not _npm(recipe.package):
        return f"`{recipe.package}` is not a package of the npm registry, with or without a version"
    manager = means.node if means.node in MANAGERS else "npm"
    lacking = _lacking(manager, means, "install Node.js, or set `skills.install.nodeManager`")
    if lacking:
        return lacking
    tools, package = means.tools, recipe.package
    everywhere = _yes(recipe.options, "global") and not means.superuser
    note = "root installs into metier's own folder only" if _yes(recipe.options, "global") and means.superuser else ""
    own: tuple[str, ...] = {
        "npm": ("--prefix", tools),
        "pnpm": ("--global-dir", f"{tools}/pnpm", "--global-bin-dir", f"{tools}/bin"),
        "yarn": ("--prefix", tools, "--global-folder", f"{tools}/yarn"),
        "bun": (),
    }[manager]
    where = () if everywhere else own
    argv = {
        "npm": ("npm", "install", "--global", *where, "--ignore-scripts", "--no-audit", "--no-fund", "--", package),
        "pnpm": ("pnpm", "add", "--global", *where, "--ignore-scripts", "--", package),
        "yarn": ("yarn", "global", "add", *where, "--ignore-scripts", "--non-interactive", package),
        "bun": ("bun", "add", "--global", "--ignore-scripts", package),
    }[manager]
    env = (
        {"BUN_INSTALL": f"{tools}/bun", "BUN_INSTALL_BIN": f"{tools}/bin"}
        if manager == "bun" and not everywhere
        else {}
    )
    return _plan(recipe, argv, env, note)


def _with_uv(recipe: Recipe, means: Means, key: str) -> Plan | str:
    if not _uv(recipe.package):
        return f"`{recipe.package}` is not a package of the Python index, with or without a version"
    lacking = _lacking("uv", means, "run `pip install uv` or see https://docs.astral.sh/uv")
    env = {"UV_TOOL_DIR": f"{means.tools}/uv", "UV_TOOL_BIN_DIR": f"{means.tools}/bin", "UV_NO_CONFIG": "1"}
    return lacking or _plan(recipe, ("uv", "tool", "install", "--", recipe.package), env)


def _with_go(recipe: Recipe, means: Means, key: str) -> Plan | str:
    if not _go(recipe.package) or ".." in recipe.package:
        return f"`{recipe.package}` is not the path of a Go program"
    lacking = _lacking("go", means, "see https://go.dev/doc/install")
    package = recipe.package if "@" in recipe.package else recipe.package + "@latest"
    env = {
        "GOBIN": f"{means.tools}/bin",
        "GOPATH": f"{means.tools}/go",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
    }
    return lacking or _plan(recipe, ("go", "install", "--", package), env)


def _by_download(recipe: Recipe, means: Means, key: str) -> Plan | str:
    written, url = recipe.options, recipe.package
    fault = _url_fault(url)
    if fault:
        return fault
    digest = written.text("sha256").strip() or written.text("checksum").strip()
    found = _sha256(digest) if digest else None
    if digest and found is None:
        return "its sha256 is not one"
    archive = _archive(written, url)
    if archive is None:
        return f"`{written.text('archiveType') or written.text('archive')}` is not an archive type that metier reads"
    strip = written.text("stripComponents").strip() or "0"
    if not strip.isdecimal() or int(strip) > 20:
        return f"`stripComponents: {strip[:20]}` is not a small number"
    target = _target(written, means, key)
    if not target:
        return "it wants to be put outside metier's own folder for tools"
    name = urlsplit(url).path.rpartition("/")[2]
    label = recipe.label or f"Download {name}"
    return Plan(
        recipe.id, "download", label, (), {}, url, found[1].lower() if found else "", target,
        archive, int(strip), recipe.binaries, "" if found else "no sha256 is given: nobody can say that it is right",
    )  # fmt: skip


def _url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        odd = re.search(r"[\s\x00-\x1f\x7f\\]", url) or not parts.hostname or parts.username is not None
    except ValueError:
        return f"`{url}` is not a URL"
    if odd:
        return f"`{url}` is not a URL"
    return "" if parts.scheme == "https" else f"`{url}` is not https"


def _archive(written: Tree, url: str) -> str | None:
    """`zip`, `tar` or nothing to take apart; None for a type that is not known."""
    said = (written.text("archiveType") or written.text("archive")).strip().lower().lstrip(".")
    if said:
        return _ARCHIVES.get(said)
    if written.text("extract").strip().lower() in ("false", "no", "off", "0"):
        return ""
    path = urlsplit(url).path.lower()
    return next((kind for ending, kind in _ARCHIVES.items() if path.endswith("." + ending)), "")


def _target(written: Tree, means: Means, key: str) -> str:
    """`tools/KEY`, or a folder inside it; nothing for one that lies outside."""
    from hashlib import sha256

    plain = key if _safe_key(key) else re.sub(r"[^\w.-]+", "-", key).strip("-.")[:40] or "skill"
    if plain != key:
        plain = f"{plain}-{sha256(key.encode()).hexdigest()[:10]}"
    own = f"{means.tools}/{plain}"
    inner = written.text("targetDir").strip()
    if inner.startswith(own + "/"):
        inner = inner[len(own) + 1 :]
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    if inner.startswith(("/", "~")) or ".." in parts or "\\" in inner or "\0" in inner:
        return ""
    return "/".join([own, *parts])


def _yes(written: Tree, key: str) -> bool:
    return written.text(key).strip().lower() in ("true", "yes", "on", "1")
