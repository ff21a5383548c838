"""What a skill needs installed: each recipe becomes an exact plan, or a refusal that says why."""

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
from .fetch import FetchOptions
from .rules import SandboxRunner, readable_prefix
from .transaction import FolderChange

RECIPE_KINDS = ("brew", "npm", "uv", "go", "download")
NODE_MANAGERS = ("npm", "pnpm", "yarn", "bun")
INSTALL_SECONDS = (1.0, 300.0, 900.0)
"""The least, the usual and the most that one installation may take."""
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
class InstallPlan:
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


class InstallOption(NamedTuple):
    """A recipe, and its plan or the reason why there is none."""

    recipe: InstallRecipe
    plan: InstallPlan | None
    refusal: str = ""


def list_options(recipes: Sequence[InstallRecipe], means: InstallEnvironment, key: str) -> tuple[InstallOption, ...]:
    """Every recipe of a skill, in its author's order."""
    listed = []
    for recipe in recipes:
        plan = plan_recipe(recipe, means, key)
        listed.append(
            InstallOption(recipe, plan) if isinstance(plan, InstallPlan) else InstallOption(recipe, None, plan)
        )
    return tuple(listed)


def preferred_option(options: Sequence[InstallOption], means: InstallEnvironment) -> InstallOption | None:
    """The option to recommend: Homebrew where it is wished for, then uv, npm, Homebrew, Go, a download."""
    usable = [option for option in options if option.plan is not None]
    brew = means.prefer_brew if means.prefer_brew is not None else "brew" in means.programs
    order = ["brew"] * brew + ["uv", "npm", "brew", "go", "download"]
    return min(usable, key=lambda option: order.index(option.recipe.kind), default=None)


def relevant_programs(recipes: Sequence[InstallRecipe]) -> frozenset[str]:
    """The programs whose being here decides about a recipe: those of its `when`, and those that it brings."""
    conditions = (
        condition.partition(":") for recipe in recipes for condition in _split_words(recipe.options.text("when"))
    )
    named = {program for name, _, program in conditions if name in ("has", "lacks")}
    return frozenset(named.union(*(recipe.binaries for recipe in recipes)) - {""})


def plan_recipe(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    """The plan, or why not."""
    if recipe.kind not in RECIPE_KINDS:
        return f"`{recipe.kind}` is not a kind of recipe; " + ", ".join(RECIPE_KINDS) + " are"
    fault = _platform_fault(recipe, means) or _condition_fault(recipe.options.text("when"), means, recipe.binaries)
    if fault:
        return fault
    if not recipe.package:
        return "it names no package"
    return {"brew": _plan_brew, "npm": _plan_node, "uv": _plan_uv, "go": _plan_go, "download": _plan_download}[
        recipe.kind
    ](recipe, means, key)


def _platform_fault(recipe: InstallRecipe, means: InstallEnvironment) -> str:
    platforms = [_PLATFORMS.get(name.lower(), name.lower()) for name in recipe.platforms]
    return (
        f"it is for {', '.join(recipe.platforms)}; this is {means.platform}"
        if platforms and means.platform not in platforms
        else ""
    )


def _condition_fault(text: str, means: InstallEnvironment, binaries: Sequence[str]) -> str:
    """`always`, `missing`, a platform, `has:PROGRAM` or `lacks:PROGRAM`; all that is said must hold."""
    for condition in _split_words(text):
        name, colon, program = condition.partition(":")
        plain = _PLATFORMS.get(condition.lower(), condition.lower())
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
            return f"it is for {condition}; this is {means.platform}"
        else:
            return f"`when: {condition[:40]}` is not understood"
    return ""


def _split_words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip())


def _missing_program(program: str, means: InstallEnvironment, hint: str) -> str:
    return "" if program in means.programs else f"{program} is not installed; {hint}"


def _build_plan(recipe: InstallRecipe, argv: tuple[str, ...], env: Mapping[str, str], note: str = "") -> InstallPlan:
    label = recipe.label or f"Install {recipe.package} ({argv[0]})"
    return InstallPlan(recipe.id, recipe.kind, label, argv, dict(env), binaries=recipe.binaries, note=note)


def _plan_brew(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _brew(recipe.package) or ".." in recipe.package:
        return f"`{recipe.package}` is not the name of a formula or cask"
    lacking = _missing_program("brew", means, "see https://brew.sh")
    if lacking:
        return lacking
    if means.superuser:
        return "Homebrew does not work for root"
    argv = ("brew", "install", *(("--cask",) if recipe.cask else ()), "--", recipe.package)
    return _build_plan(recipe, argv, {"HOMEBREW_NO_AUTO_UPDATE": "1", "HOMEBREW_NO_ASK": "1"})


def _plan_node(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _npm(recipe.package):
        return f"`{recipe.package}` is not a package of the npm registry, with or without a version"
    manager = means.node if means.node in NODE_MANAGERS else "npm"
    lacking = _missing_program(manager, means, "install Node.js, or set `skills.install.nodeManager`")
    if lacking:
        return lacking
    tools, package = means.tools, recipe.package
    everywhere = _is_true(recipe.options, "global") and not means.superuser
    note = (
        "root installs into metier's own folder only" if _is_true(recipe.options, "global") and means.superuser else ""
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


def _plan_uv(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _uv(recipe.package):
        return f"`{recipe.package}` is not a package of the Python index, with or without a version"
    lacking = _missing_program("uv", means, "run `pip install uv` or see https://docs.astral.sh/uv")
    env = {"UV_TOOL_DIR": f"{means.tools}/uv", "UV_TOOL_BIN_DIR": f"{means.tools}/bin", "UV_NO_CONFIG": "1"}
    return lacking or _build_plan(recipe, ("uv", "tool", "install", "--", recipe.package), env)


def _plan_go(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    if not _go(recipe.package) or ".." in recipe.package:
        return f"`{recipe.package}` is not the path of a Go program"
    lacking = _missing_program("go", means, "see https://go.dev/doc/install")
    package = recipe.package if "@" in recipe.package else recipe.package + "@latest"
    env = {
        "GOBIN": f"{means.tools}/bin",
        "GOPATH": f"{means.tools}/go",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
    }
    return lacking or _build_plan(recipe, ("go", "install", "--", package), env)


def _plan_download(recipe: InstallRecipe, means: InstallEnvironment, key: str) -> InstallPlan | str:
    settings, url = recipe.options, recipe.package
    fault = _url_fault(url)
    if fault:
        return fault
    digest = settings.text("sha256").strip() or settings.text("checksum").strip()
    checksum = _sha256(digest) if digest else None
    if digest and checksum is None:
        return "its sha256 is not one"
    archive = _archive_kind(settings, url)
    if archive is None:
        return f"`{settings.text('archiveType') or settings.text('archive')}` is not an archive type that metier reads"
    strip = settings.text("stripComponents").strip() or "0"
    if not strip.isdecimal() or int(strip) > 20:
        return f"`stripComponents: {strip[:20]}` is not a small number"
    target = _download_target(settings, means, key)
    if not target:
        return "it wants to be put outside metier's own folder for tools"
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
        "" if checksum else "no sha256 is given: nobody can say that it is right",
    )


def _url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        invalid = re.search(r"[\s\x00-\x1f\x7f\\]", url) or not parts.hostname or parts.username is not None
    except ValueError:
        return f"`{url}` is not a URL"
    if invalid:
        return f"`{url}` is not a URL"
    return "" if parts.scheme == "https" else f"`{url}` is not https"


def _archive_kind(settings: TextTree, url: str) -> str | None:
    """`zip`, `tar` or nothing to take apart; None for a type that is not known."""
    declared = (settings.text("archiveType") or settings.text("archive")).strip().lower().lstrip(".")
    if declared:
        return _ARCHIVE_KINDS.get(declared)
    if settings.text("extract").strip().lower() in ("false", "no", "off", "0"):
        return ""
    path = urlsplit(url).path.lower()
    return next((kind for ending, kind in _ARCHIVE_KINDS.items() if path.endswith("." + ending)), "")


def _download_target(settings: TextTree, means: InstallEnvironment, key: str) -> str:
    """`tools/KEY`, or a folder inside it; nothing for one that lies outside."""
    from hashlib import sha256

    plain = key if _safe_key(key) else re.sub(r"[^\w.-]+", "-", key).strip("-.")[:40] or "skill"
    if plain != key:
        plain = f"{plain}-{sha256(key.encode()).hexdigest()[:10]}"
    folder = f"{means.tools}/{plain}"
    inner = settings.text("targetDir").strip()
    if inner.startswith(folder + "/"):
        inner = inner[len(folder) + 1 :]
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    if inner.startswith(("/", "~")) or ".." in parts or "\\" in inner or "\0" in inner:
        return ""
    return "/".join([folder, *parts])


def _is_true(settings: TextTree, key: str) -> bool:
    return settings.text(key).strip().lower() in ("true", "yes", "on", "1")


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
    """Do what a plan says.  Whoever calls has shown it and was told to go on."""
    trees.make_folders(f"{tools}/bin")
    if plan.kind == "download":
        return _install_download(plan, tools, options)
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
        return InstallResult(False, f"`{command}` took too long", result.stdout)
    if result.status is None:
        return InstallResult(False, f"`{command}` could not start: {result.note}", result.stdout)
    if result.status:
        return InstallResult(False, f"`{command}` ended with {result.status}", result.stdout)
    return InstallResult(True, f"{plan.label}: done", result.stdout)


def _install_download(plan: InstallPlan, tools: str, options: FetchOptions) -> InstallResult:
    """Fetched to one side, checked, taken apart, and only then put in place."""
    from ..host import http  # slow to start

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
            raise Refused(f"{plan.url} is not what the recipe says: {download.digest}", "nothing was installed")
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
    """Put a program of a folder on the path of skills; False when the folder has none of that name."""
    if not binary or "/" in binary or binary.startswith("."):
        return False
    every = [path for path, _ in paths.tree_of(folder)]
    matches = [path for path in every if path.rpartition("/")[2] == binary] or (every if len(every) == 1 else [])
    if not matches:
        return False
    best = min(matches, key=lambda path: (path.count("/"), path))
    try:
        trees.make_executable(f"{folder}/{best}")
        trees.replace_link(f"{tools}/bin/{binary}", f"{folder}/{best}")
    except OSError as error:
        raise HostError(f"{tools}/bin/{binary} can't be written: {error.strerror}", "check permissions") from error
    return True


def program_prefix(plan: InstallPlan, env: Mapping[str, str], tools: str) -> str:
    """The folder to be read in the sandbox so that the program of a plan runs: that of `bin`, its libraries beside."""
    for folder in env.get("PATH", "").split(":") if plan.argv else ():
        if folder and paths.exists(f"{folder}/{plan.argv[0]}"):
            return readable_prefix(f"{folder}/{plan.argv[0]}", tools)
    return ""
