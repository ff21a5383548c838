"""Install the programs that a skill needs: each recipe becomes an exact plan, or a refusal with a reason.

A recipe is untrusted text.  It is never run: it names a package, and metier builds the command line from it.  Every
name must match the grammar of its package manager in full, and comes after `--`, so that it can't be an option, a URL
or a path.  Packages go into metier's own `tools` folder, with install scripts off where the manager can do that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from ..host import archives, paths, trees
from ..library.lockfile import InstallRoot
from ..types.errors import HostError, Refused
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec
from ..types.skill import InstallRecipe
from ..types.tree import TextTree
from . import transaction
from .fetch_access import FetchOptions
from .rules import SandboxRunner, readable_prefix
from .transaction import FolderChange

RECIPE_KINDS = ("brew", "npm", "uv", "go", "download")
NODE_MANAGERS = ("npm", "pnpm", "yarn", "bun")
INSTALL_SECONDS = (1.0, 300.0, 900.0)
"""Minimum, default and maximum time for one installation."""
_PLATFORMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
_ARCHIVE_KINDS = {
    "tar.gz": "tar",
    "tgz": "tar",
    "tar.bz2": "tar",
    "tbz2": "tar",
    "tar.xz": "tar",
    "tar": "tar",
    "zip": "zip",
}
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
class InstallEnvironment:
    """What this machine can install with."""

    platform: str
    programs: frozenset[str] = frozenset()
    """The package managers, and programs that recipes ask about, that are installed."""
    tools: str = ""
    """metier's own folder for programs; its `bin` is on the PATH of every skill."""
    superuser: bool = False
    prefer_brew: bool | None = None
    node: str = "npm"


@dataclass(frozen=True)
class InstallPlan:
    """Exactly what would be done, shown before it is done."""

    id: str
    kind: str
    label: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    sha256: str = ""
    target: str = ""
    """The folder for a download."""
    archive: str = ""
    """`zip` or `tar`; empty for a file that is not extracted."""
    strip: int = 0
    binaries: tuple[str, ...] = ()
    note: str = ""


class InstallOption(NamedTuple):
    """A recipe, and its plan or why there is none."""

    recipe: InstallRecipe
    plan: InstallPlan | None
    refusal: str = ""


def list_options(
    recipes: Sequence[InstallRecipe], environment: InstallEnvironment, key: str
) -> tuple[InstallOption, ...]:
    """Every recipe of a skill, in the author's order."""
    listed = []
    for recipe in recipes:
        plan = plan_recipe(recipe, environment, key)
        listed.append(
            InstallOption(recipe, plan) if isinstance(plan, InstallPlan) else InstallOption(recipe, None, plan)
        )
    return tuple(listed)


def preferred_option(options: Sequence[InstallOption], environment: InstallEnvironment) -> InstallOption | None:
    """The option to recommend: Homebrew if preferred, then uv, npm, Homebrew, Go, a download."""
    usable = [option for option in options if option.plan is not None]
    brew = environment.prefer_brew if environment.prefer_brew is not None else "brew" in environment.programs
    order = ["brew"] * brew + ["uv", "npm", "brew", "go", "download"]
    return min(usable, key=lambda option: order.index(option.recipe.kind), default=None)


def relevant_programs(recipes: Sequence[InstallRecipe]) -> frozenset[str]:
    """The programs that decide about a recipe: those in its `when`, and those it installs."""
    conditions = (
        condition.partition(":") for recipe in recipes for condition in _split_words(recipe.options.text("when"))
    )
    named = {program for name, _, program in conditions if name in ("has", "lacks")}
    return frozenset(named.union(*(recipe.binaries for recipe in recipes)) - {""})


class InvalidRecipe(str):
    """Why a recipe can't be right on any machine: a name, a URL or a digest in it is none."""

    __slots__ = ()


class OtherMachine(str):
    """Why a recipe says nothing about this machine: it is for another one."""

    __slots__ = ()


def plan_recipe(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    """The plan, or why there is none."""
    if recipe.kind not in RECIPE_KINDS:
        return InvalidRecipe(f"`{recipe.kind}` is not a recipe kind; use one of " + ", ".join(RECIPE_KINDS))
    fault = _platform_fault(recipe, environment) or _condition_fault(
        recipe.options.text("when"), environment, recipe.binaries
    )
    if fault:
        return fault
    if not recipe.package:
        return "it names no package"
    return {"brew": _plan_brew, "npm": _plan_node, "uv": _plan_uv, "go": _plan_go, "download": _plan_download}[
        recipe.kind
    ](recipe, environment, key)


def _platform_fault(recipe: InstallRecipe, environment: InstallEnvironment) -> str:
    platforms = [_PLATFORMS.get(name.lower(), name.lower()) for name in recipe.platforms]
    return (
        OtherMachine(f"it is for {', '.join(recipe.platforms)}; this is {environment.platform}")
        if platforms and environment.platform not in platforms
        else ""
    )


def _condition_fault(text: str, environment: InstallEnvironment, binaries: Sequence[str]) -> str:
    """Check `when`: `always`, `missing`, a platform, `has:PROGRAM` or `lacks:PROGRAM`; all must hold."""
    for condition in _split_words(text):
        name, colon, program = condition.partition(":")
        plain = _PLATFORMS.get(condition.lower(), condition.lower())
        if plain in ("", "always", environment.platform):
            continue
        if plain == "missing":
            if binaries and environment.programs.issuperset(binaries):
                return f"{', '.join(binaries)} is already installed"
            continue
        if colon and name in ("has", "lacks"):
            if (program in environment.programs) != (name == "has"):
                return OtherMachine(f"it is for machines {'with' if name == 'has' else 'without'} {program}")
        elif plain in ("darwin", "linux", "win32"):
            return OtherMachine(f"it is for {condition}; this is {environment.platform}")
        else:
            return InvalidRecipe(f"`when: {condition[:40]}` is not a known condition")
    return ""


def _split_words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip())


def _missing_program(program: str, environment: InstallEnvironment, hint: str) -> str:
    return "" if program in environment.programs else f"{program} is not installed; {hint}"


def _build_plan(recipe: InstallRecipe, argv: tuple[str, ...], env: Mapping[str, str], note: str = "") -> InstallPlan:
    label = recipe.label or f"Install {recipe.package} ({argv[0]})"
    return InstallPlan(recipe.id, recipe.kind, label, argv, dict(env), binaries=recipe.binaries, note=note)


def _plan_brew(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _brew(recipe.package) or ".." in recipe.package:
        return InvalidRecipe(f"`{recipe.package}` is not the name of a formula or cask")
    missing = _missing_program("brew", environment, "see https://brew.sh")
    if missing:
        return missing
    if environment.superuser:
        return "Homebrew refuses to run as root"
    argv = ("brew", "install", *(("--cask",) if recipe.cask else ()), "--", recipe.package)
    return _build_plan(recipe, argv, {"HOMEBREW_NO_AUTO_UPDATE": "1", "HOMEBREW_NO_ASK": "1"})


def _plan_node(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _npm(recipe.package):
        return InvalidRecipe(f"`{recipe.package}` is not a package of the npm registry, with or without a version")
    manager = environment.node if environment.node in NODE_MANAGERS else "npm"
    missing = _missing_program(manager, environment, "install Node.js, or set `skills.install.nodeManager`")
    if missing:
        return missing
    tools, package = environment.tools, recipe.package
    # Root never installs for the whole machine: a skill must not change what other users run.
    wants_global = _is_true(recipe.options, "global")
    everywhere = wants_global and not environment.superuser
    note = (
        "root installs into metier's own folder only"
        if _is_true(recipe.options, "global") and environment.superuser
        else ""
    )
    private_args: tuple[str, ...] = {
        "npm": ("--prefix", tools),
        "pnpm": ("--global-dir", f"{tools}/pnpm", "--global-bin-dir", f"{tools}/bin"),
        "yarn": ("--prefix", tools, "--global-folder", f"{tools}/yarn"),
        "bun": (),
    }[manager]
    location_args = () if everywhere else private_args
    argv = {
        "npm": (
            "npm",
            "install",
            "--global",
            *location_args,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--",
            package,
        ),
        "pnpm": ("pnpm", "add", "--global", *location_args, "--ignore-scripts", "--", package),
        "yarn": ("yarn", "global", "add", *location_args, "--ignore-scripts", "--non-interactive", package),
        "bun": ("bun", "add", "--global", "--ignore-scripts", package),
    }[manager]
    env = (
        {"BUN_INSTALL": f"{tools}/bun", "BUN_INSTALL_BIN": f"{tools}/bin"}
        if manager == "bun" and not everywhere
        else {}
    )
    return _build_plan(recipe, argv, env, note)


def _plan_uv(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _uv(recipe.package):
        return InvalidRecipe(f"`{recipe.package}` is not a package of the Python index, with or without a version")
    missing = _missing_program("uv", environment, "run `pip install uv` or see https://docs.astral.sh/uv")
    env = {"UV_TOOL_DIR": f"{environment.tools}/uv", "UV_TOOL_BIN_DIR": f"{environment.tools}/bin", "UV_NO_CONFIG": "1"}
    return missing or _build_plan(recipe, ("uv", "tool", "install", "--", recipe.package), env)


def _plan_go(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _go(recipe.package) or ".." in recipe.package:
        return InvalidRecipe(f"`{recipe.package}` is not the path of a Go program")
    missing = _missing_program("go", environment, "see https://go.dev/doc/install")
    package = recipe.package if "@" in recipe.package else recipe.package + "@latest"
    env = {
        "GOBIN": f"{environment.tools}/bin",
        "GOPATH": f"{environment.tools}/go",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
    }
    return missing or _build_plan(recipe, ("go", "install", "--", package), env)


def _plan_download(recipe: InstallRecipe, environment: InstallEnvironment, key: str) -> InstallPlan | str:
    settings, url = recipe.options, recipe.package
    fault = _url_fault(url)
    if fault:
        return fault
    digest = settings.text("sha256").strip() or settings.text("checksum").strip()
    checksum = _sha256(digest) if digest else None
    if digest and checksum is None:
        return InvalidRecipe("its sha256 is not valid")
    archive = _archive_kind(settings, url)
    if archive is None:
        return InvalidRecipe(
            f"`{settings.text('archiveType') or settings.text('archive')}` is not a supported archive type"
        )
    strip = settings.text("stripComponents").strip() or "0"
    # `int()` would accept signs, blanks and underscores.
    if not strip.isdecimal() or int(strip) > 20:
        return InvalidRecipe(f"`stripComponents: {strip[:20]}` is not a number up to 20")
    target = _download_target(settings, environment, key)
    if not target:
        return "its targetDir is outside metier's folder for tools"
    name = urlsplit(url).path.rpartition("/")[2]
    label = recipe.label or f"Download {name}"
    return InstallPlan(
        recipe.id,
        "download",
        label,
        (),
        {},
        url,
        checksum[1].lower() if checksum else "",
        target,
        archive,
        int(strip),
        recipe.binaries,
        "" if checksum else "it has no sha256, so the download can't be verified",
    )


def _url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        # A user name in a URL can disguise its host: https://github.com@evil.example.
        invalid = re.search(r"[\s\x00-\x1f\x7f\\]", url) or not parts.hostname or parts.username is not None
    except ValueError:
        return InvalidRecipe(f"`{url}` is not a URL")
    if invalid:
        return InvalidRecipe(f"`{url}` is not a URL")
    return "" if parts.scheme == "https" else InvalidRecipe(f"`{url}` is not https")


def _archive_kind(settings: TextTree, url: str) -> str | None:
    """`zip`, `tar`, or empty if nothing is extracted; None for an unknown type."""
    declared = (settings.text("archiveType") or settings.text("archive")).strip().lower().lstrip(".")
    if declared:
        return _ARCHIVE_KINDS.get(declared)
    if settings.text("extract").strip().lower() in ("false", "no", "off", "0"):
        return ""
    path = urlsplit(url).path.lower()
    return next((kind for ending, kind in _ARCHIVE_KINDS.items() if path.endswith("." + ending)), "")


_TOOL_FOLDERS = frozenset({"bin", "lib", "share", "home", "uv", "go", "pnpm", "yarn", "bun", "node_modules"})
"""Folders in `tools` that belong to no one skill."""


def _download_target(settings: TextTree, environment: InstallEnvironment, key: str) -> str:
    """`tools/KEY` or a folder inside it; empty for one that lies outside."""
    from hashlib import sha256

    # A key that is no safe folder name is shortened, and made unique again by a digest.
    plain = key if _safe_key(key) else re.sub(r"[^\w.-]+", "-", key).strip("-.")[:40] or "skill"
    if plain != key or plain.lower() in _TOOL_FOLDERS:  # a skill called `bin` must not replace everybody's programs
        plain = f"{plain}-{sha256(key.encode()).hexdigest()[:10]}"
    folder = f"{environment.tools}/{plain}"
    inner = settings.text("targetDir").strip()
    if inner.startswith(folder + "/"):
        inner = inner[len(folder) + 1 :]
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    if inner.startswith(("/", "~")) or ".." in parts or "\\" in inner or "\0" in inner:
        return ""
    return "/".join([folder, *parts])


def _is_true(settings: TextTree, key: str) -> bool:
    return settings.text(key).strip().lower() in ("true", "yes", "on", "1")


# --- Carrying out a plan ---

_INHERITED_ENV = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TERM",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "NO_PROXY",
    "no_proxy",
    "npm_config_registry",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "GOPROXY",
    "GONOSUMDB",
    "SSL_CERT_FILE",
)


class InstallResult(NamedTuple):
    """How an installation ended."""

    ok: bool
    message: str
    output: str = ""


def perform_plan(
    plan: InstallPlan, tools: str, options: FetchOptions, run: SandboxRunner, prefix: str = ""
) -> InstallResult:
    """Carry out a plan that the caller has shown and a person has approved."""
    trees.make_folders(f"{tools}/bin")
    if plan.kind == "download":
        return _install_download(plan, tools, options)
    # A command that installs into metier's folder runs in the sandbox with a home of its own;
    # one for the whole machine (Homebrew, `global`) can't.
    private = tools in " ".join((*plan.argv, *plan.env.values()))
    env = {name: options.env[name] for name in _INHERITED_ENV if name in options.env} | dict(plan.env)
    env["HOME"] = f"{tools}/home" if private else options.home
    trees.make_folders(env["HOME"])
    permissions = SandboxPermissions(network=True, read=(prefix,) if prefix else ())
    sandbox = SandboxSpec("prefer", work=tools, permissions=permissions) if private else SandboxSpec("off")
    result = run(
        ProgramSpec(plan.argv, tools if private else options.home, env, options.seconds, 200_000, merged=True), sandbox
    )
    return _result_of_process(plan, result)


def _result_of_process(plan: InstallPlan, result: ProcessResult) -> InstallResult:
    command = " ".join(plan.argv)
    if result.timed_out:
        return InstallResult(False, f"`{command}` timed out", result.stdout)
    if result.status is None:
        return InstallResult(False, f"`{command}` could not start: {result.note}", result.stdout)
    if result.status:
        return InstallResult(False, f"`{command}` failed with exit code {result.status}", result.stdout)
    return InstallResult(True, f"{plan.label}: done", result.stdout)


def _install_download(plan: InstallPlan, tools: str, options: FetchOptions) -> InstallResult:
    """Download to a staging folder, verify, extract, and only then put in place."""
    from ..host import http  # slow to import

    install_root = InstallRoot(tools)
    name = plan.url.partition("?")[0].rstrip("/").rpartition("/")[2] or "download"
    inside = plan.target[len(tools) + 1 :]
    with (
        transaction.open_staging(install_root) as staging,
        transaction.hold_folders(install_root, [inside.partition("/")[0]]),
    ):
        file = f"{staging.inner()}/{name}"
        limits = http.FetchLimits(
            options.insecure, options.insecure, options.bounds.archive, options.seconds, env=options.env
        )
        download = http.download_file(plan.url, file, limits, options.progress)
        if plan.sha256 and download.digest != f"sha256:{plan.sha256}":
            raise Refused(f"digest mismatch for {plan.url}: got {download.digest}", "nothing was installed")
        new = staging.inner()
        if plan.archive:
            archives.unpack_archive(file, new, plan.strip, options.bounds, options.progress)
        else:
            trees.copy_entry(file, f"{new}/{name}")
        transaction.commit_change(staging, FolderChange("place", inside), new)
        linked = [binary for binary in plan.binaries if link_binary(tools, plan.target, binary)]
    where = f"{plan.target}/{name}" if not plan.archive else plan.target
    message = (
        f"Downloaded and extracted to {where}" if plan.archive else f"Downloaded to {where} ({download.size} bytes)"
    )
    return InstallResult(True, message + (f"; linked {', '.join(linked)}" if linked else ""))


def link_binary(tools: str, folder: str, binary: str) -> bool:
    """Link a program of a folder into `tools/bin`; False if the folder has none with that name."""
    if not binary or "/" in binary or binary.startswith("."):
        return False
    file_paths = [path for path, _ in paths.tree_of(folder)]
    # A download that is a single file is that program, whatever it is called (`jq-linux-amd64`).
    only = file_paths if len(file_paths) == 1 else []
    matches = [path for path in file_paths if path.rpartition("/")[2] == binary] or only
    if not matches:
        return False
    # The one nearest to the top: `bin/tool` rather than `share/completions/tool`.
    best = min(matches, key=lambda path: (path.count("/"), path))
    try:
        trees.make_executable(f"{folder}/{best}")
        trees.replace_link(f"{tools}/bin/{binary}", f"{folder}/{best}")
    except OSError as error:
        raise HostError(f"{tools}/bin/{binary} can't be written: {error.strerror}", "check permissions") from error
    return True


def program_prefix(plan: InstallPlan, env: Mapping[str, str], tools: str) -> str:
    """The folder that the sandbox must show for the program of a plan to run: the parent of its `bin`."""
    for folder in env.get("PATH", "").split(":") if plan.argv else ():
        if folder and paths.exists(f"{folder}/{plan.argv[0]}"):
            return readable_prefix(f"{folder}/{plan.argv[0]}", tools)
    return ""
