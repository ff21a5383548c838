"""A plan carried out: a package installed by its own program, or a download checked, unpacked and linked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..host import archive, paths, swap
from ..types.errors import HostError, Refused
from ..types.running import Box, Permissions, Program, Ran
from . import place
from .outfit import Outfit
from .place import Change, Ground
from .recipes import Plan
from .scanner import Runner, readable

_INHERITED = (
    "PATH", "LANG", "LC_ALL", "TERM", "http_proxy", "https_proxy", "HTTPS_PROXY", "NO_PROXY", "no_proxy",
    "npm_config_registry", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "GOPROXY", "GONOSUMDB", "SSL_CERT_FILE",
)  # fmt: skip


class Done(NamedTuple):
    """How an installation ended."""

    ok: bool
    message: str
    output: str = ""


def perform(plan: Plan, tools: str, outfit: Outfit, run: Runner, prefix: str = "") -> Done:
    """Do what a plan says.  Whoever calls has shown it and was told to go on."""
    swap.make_folders(f"{tools}/bin")
    if plan.kind == "download":
        return _downloaded(plan, tools, outfit)
    own = tools in " ".join((*plan.argv, *plan.env.values()))
    env = {name: outfit.env[name] for name in _INHERITED if name in outfit.env} | dict(plan.env)
    env["HOME"] = f"{tools}/home" if own else outfit.home
    swap.make_folders(env["HOME"])
    reach = Permissions(network=True, read=(prefix,) if prefix else ())
    box = Box("prefer", work=tools, permissions=reach) if own else Box("off")
    ran = run(Program(plan.argv, tools if own else outfit.home, env, outfit.seconds, 200_000, merged=True), box)
    return _told(plan, ran)


def _told(plan: Plan, ran: Ran) -> Done:
    command = " ".join(plan.argv)
    if ran.timed_out:
        return Done(False, f"`{command}` took too long", ran.stdout)
    if ran.status is None:
        return Done(False, f"`{command}` could not start: {ran.note}", ran.stdout)
    if ran.status:
        return Done(False, f"`{command}` ended with {ran.status}", ran.stdout)
    return Done(True, f"{plan.label}: done", ran.stdout)


def _downloaded(plan: Plan, tools: str, outfit: Outfit) -> Done:
    """Fetched to one side, checked, taken apart, and only then put in place."""
    from ..host import http  # slow to start

    ground = Ground(tools)
    name = plan.url.partition("?")[0].rstrip("/").rpartition("/")[2] or "download"
    inside = plan.target[len(tools) + 1 :]
    with place.staging(ground) as staging, place.turn(ground, [inside.partition("/")[0]]):
        file = f"{staging.inner()}/{name}"
        reach = http.Reach(outfit.insecure, outfit.insecure, outfit.bounds.archive, outfit.seconds, env=outfit.env)
        got = http.download(plan.url, file, reach, outfit.progress)
        if plan.sha256 and got.digest != f"sha256:{plan.sha256}":
            raise Refused(f"{plan.url} is not what the recipe says: {got.digest}", "nothing was installed")
        new = staging.inner()
        if plan.archive:
            archive.unpack(file, new, plan.strip, outfit.bounds, outfit.progress)
        else:
            swap.copy_entry(file, f"{new}/{name}")
        place.commit(staging, Change("place", inside), new)
        linked = [one for one in plan.binaries if link(tools, plan.target, one)]
    where = f"{plan.target}/{name}" if not plan.archive else plan.target
    message = f"Downloaded and extracted to {where}" if plan.archive else f"Downloaded to {where} ({got.size} bytes)"
    return Done(True, message + (f"; linked {', '.join(linked)}" if linked else ""))


def link(tools: str, folder: str, binary: str) -> bool:
    """Put a program of a folder on the path of skills; False when the folder has none of that name."""
    if not binary or "/" in binary or binary.startswith("."):
        return False
    every = [path for path, _ in paths.tree_of(folder)]
    found = [path for path in every if path.rpartition("/")[2] == binary] or (every if len(every) == 1 else [])
    if not found:
        return False
    best = min(found, key=lambda path: (path.count("/"), path))
    try:
        swap.make_executable(f"{folder}/{best}")
        swap.replace_link(f"{tools}/bin/{binary}", f"{folder}/{best}")
    except OSError as error:
        raise HostError(f"{tools}/bin/{binary} can't be written: {error.strerror}", "check permissions") from error
    return True


def program_prefix(plan: Plan, env: Mapping[str, str], tools: str) -> str:
    """The folder to be read in the sandbox so that the program of a plan runs: that of `bin`, its libraries beside."""
    for folder in env.get("PATH", "").split(":") if plan.argv else ():
        if folder and paths.exists(f"{folder}/{plan.argv[0]}"):
            return readable(f"{folder}/{plan.argv[0]}", tools)
    return ""
