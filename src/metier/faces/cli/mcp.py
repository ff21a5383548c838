"""metier mcp."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches, unified_diff
from importlib import import_module
from typing import Any, NoReturn

import click

from ...host import paths
from ...host.memo import which
from ...host.place import here
from ...host.state import make_folder, write_text
from ...runtime.library import Library
from ...types.errors import BadRequest, HostError, MissingExtra, Refused
from ...types.text import one_line
from . import naming
from .app import Context
from .printing import clean_path, paint, say, warn

TOKEN = "mcp-token"
_CARRIED = ("root", "dialect", "agent", "profile")
"""Options of the command line that a client's configuration keeps."""


@click.group("mcp", invoke_without_command=True)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", metavar="HOST", show_default=True, help="Listen on this address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    metavar="PORT",
    show_default=True,
    help="Listen on this port; 0 for a free one.",
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Another name that clients may call the server by.")
@click.option("--token-file", metavar="FILE", help="Where the token is; by default mcp-token in metier's own folder.")
@click.option("--write", multiple=True, metavar="DIR", help="A folder that scripts may write in; more than one may.")
@click.pass_context
def mcp(
    context: click.Context,
    http: bool,
    host: str,
    port: int,
    allow_host: tuple[str, ...],
    token_file: str | None,
    write: tuple[str, ...],
) -> None:
    """Serve the skills of this place to an MCP client: tools, a prompt for every slash command, files as resources.

    Without --http the client starts this command itself and speaks over standard input and output.
    """
    if context.invoked_subcommand is not None:
        return
    given: Context = context.obj
    serving = _face("serving")
    folders = tuple(paths.absolute(one, paths.cwd(), paths.home()) for one in write)
    library = given.library()
    _tell_what_is_missing(library)
    server = serving.server_for(library, write=folders)
    if not http:
        if sys.stdin.isatty():
            warn("waiting for a client on standard input; to let yours start this itself: metier mcp install CLIENT")
        serving.serve_stdio(server)
        _leave()
    face = _face("http")
    address = face.Address(host, port, tuple(name.lower() for name in allow_host))
    if host in ("0.0.0.0", "::") and not allow_host:
        raise BadRequest(f"on {host} nobody knows the server's name", "say it with --allow-host NAME:PORT")
    path, token = _token(token_file)

    def ready(at: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        warn(f"listening on http://{shown}:{at}{face.PATH}; the token is in {clean_path(path)}")

    if not face.serve_http(server, address, token, ready):
        raise HostError(f"can't listen on {host}:{port}", "another program may have the port: choose one with --port")


def _tell_what_is_missing(library: Library) -> None:
    """On standard error, which clients keep in their logs: a server without skills looks broken otherwise."""
    usable = [verdict.usable for verdict in library.in_order()]
    held = len(usable) - sum(usable)
    if held:
        which = "some" if any(usable) else "all"
        warn(f"{which} skills here are not served: {held} of {len(usable)}; `metier status` says why")
    elif not usable:
        warn("there are no skills here yet; they are served as soon as there are: `metier roots` says where")


def _leave() -> NoReturn:
    """The client has hung up: a script that still runs for it ends with us, not we with it."""
    sys.stderr.flush()
    os._exit(0)


def _face(module: str) -> Any:
    """The other face, by name: one face does not import another."""
    try:
        return import_module(f"metier.faces.mcp.{module}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("mcp", "mcp_types", "anyio", "starlette", "uvicorn"):
            raise MissingExtra("the MCP server", "mcp") from error
        raise


def _token(file: str | None) -> tuple[str, str]:
    """The token and where it is kept; it is made the first time."""
    from secrets import token_urlsafe

    state = here(".").state
    path = paths.absolute(file, paths.cwd(), paths.home()) if file else f"{state}/{TOKEN}"
    kept = (paths.read_text_file(path) or "").strip()
    if kept:
        if len(kept) < 16 or not kept.isascii() or any(letter.isspace() for letter in kept):
            raise BadRequest(f"{path} holds no token", "one line of 16 letters and digits or more; or delete the file")
        return path, kept
    if file is None:
        make_folder(state)
    token = token_urlsafe(32)
    write_text(path, token + "\n")
    return path, token


@mcp.command("install")
@click.argument("client", shell_complete=naming.clients)
@click.option("--remove", is_flag=True, help="Take it out again.")
@click.option("--scope", type=click.Choice(["user", "project"]), default="user", show_default=True,
              help="Whose configuration: yours, or that of this project.")  # fmt: skip
@click.option("--name", default="metier", show_default=True, help="What the client calls the server.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.pass_context
def install(context: click.Context, client: str, remove: bool, scope: str, name: str, yes: bool) -> None:
    """Add this server to a client's configuration: what would change is shown first.

    CLIENT is one of: claude-code claude-desktop codex cursor gemini vscode windsurf zed.
    Options before `mcp`, such as --root and --dialect, are kept for the client's use.
    """
    clients = import_module("metier.faces.mcp.clients")
    chosen = clients.CLIENTS.get(client)
    if chosen is None:
        near = get_close_matches(client, clients.CLIENTS, 1)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(clients.CLIENTS)
        raise BadRequest(f"`{client}` is not a client", hint)
    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise BadRequest(f"`{name}` is no name for a server", "use letters, digits, `-` and `_`")
    given: Context = context.obj
    place = here(given.project)
    path = paths.real_path(clients.file_of(chosen, scope, place.home, place.project, place.platform))
    before = paths.read_text_file(path, 16_777_216) or ""
    try:
        start = ["metier"] if scope == "project" else _started(place.env.get("PATH", ""))
        command = [*start, *_options(given), "mcp"]
        after = clients.removed(chosen, before, name) if remove else clients.installed(chosen, before, name, command)
    except BadRequest as error:
        raise BadRequest(f"{path}, {error.message}", error.hint, path) from error
    _write(path, before, after, yes, 0o644 if scope == "project" else 0o600)


def _started(search: str) -> list[str]:
    """By a path, because clients have a PATH of their own; a file that a project shares has the bare name."""
    found = which("metier", search)
    return [found] if found else [sys.executable, "-P", "-m", "metier.faces.cli.door"]


def _options(given: Context) -> list[str]:
    values = {key: getattr(given, key) for key in _CARRIED}
    if values["root"]:
        values["root"] = paths.absolute(values["root"], paths.cwd(), paths.home())
    options = [word for key, value in values.items() if value for word in (f"--{key}", value)]
    if given.project != ".":
        options += ["--project", paths.absolute(given.project, paths.cwd(), paths.home())]
    return options


def _write(path: str, before: str, after: str, yes: bool, mode: int) -> None:
    if before == after:
        say(f"{clean_path(path)}: nothing to change")
        return
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm=""):
        say(paint(one_line(line), styles[line[0]]) if line[:1] in styles else one_line(line))
    if not yes:
        if not sys.stdin.isatty():
            raise Refused("nothing was written", "add --yes to write it without being asked")
        if not click.confirm("Write it?"):
            raise Refused("nothing was written", "run it again when you have read it")
    folder = path.rpartition("/")[0]
    if not paths.is_folder(folder):
        make_folder(folder)
    write_text(path, after, paths.mode_of(path) or mode)
    say(f"{paint('written', 'green')}  {clean_path(path)}")
