"""metier acp."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from difflib import get_close_matches, unified_diff
from importlib import import_module
from typing import Any, NoReturn

import click

from ...host import paths
from ...host.facts import find_place, which
from ...host.fs import make_folder, write_text
from ...library.library import Library
from ...types.errors import BadRequest, HostError, MissingExtra, Refused
from ...types.text import one_line
from . import options
from .app import CliContext
from .output import clean_path, paint, say, warn


@click.command("acp")
@options.model_option()
@click.pass_obj
def acp(context: CliContext, model: str) -> None:
    """Be the agent of an editor that speaks the Agent Client Protocol, such as Zed.

    The editor starts this command itself.  Skills are its slash commands, and it asks you before anything is done that
    needs your word.
    """
    try:
        serving = import_module("metier.faces.acp.server")
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("acp", "pydantic"):
            raise MissingExtra("the agent for editors", "acp") from error
        raise
    if not all(map(_is_wire, (0, 1))):
        raise BadRequest(
            "standard input and output are not those of an editor", "name `metier acp` as an agent in its configuration"
        )
    if sys.stdin.isatty():
        warn("waiting for an editor on standard input: name `metier acp` as an agent in its configuration")

    def opened(cwd: str) -> Any:
        from ..agents import open_agent

        return open_agent(replace(context, project=cwd).library(), model, context.agent)

    serving.serve(opened)
    sys.stderr.flush()
    os._exit(0)  # the editor has hung up: what still runs for it ends with us


def _is_wire(number: int) -> bool:
    """Whether somebody can be at the other end: a pipe, a socket or a terminal."""
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)


TOKEN_FILE = "mcp-token"
_CARRIED_OPTIONS = ("root", "dialect", "agent", "profile")
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
    settings: CliContext = context.obj
    serving = _import_face("run")
    folders = tuple(paths.absolute_path(folder, paths.working_folder(), paths.home_folder()) for folder in write)
    library = settings.library()
    _warn_unserved(library)
    server = serving.server_for(library, write=folders)
    if not http:
        if sys.stdin.isatty():
            warn("waiting for a client on standard input; to let yours start this itself: metier mcp install CLIENT")
        serving.serve_stdio(server)
        _exit_now()
    face = _import_face("http")
    address = face.ListenAddress(host, port, tuple(name.lower() for name in allow_host))
    if host in ("0.0.0.0", "::") and not allow_host:
        raise BadRequest(f"on {host} nobody knows the server's name", "say it with --allow-host NAME:PORT")
    path, token = _read_token(token_file)

    def ready(at: int) -> None:
        host_text = f"[{host}]" if ":" in host else host
        warn(f"listening on http://{host_text}:{at}{face.PATH}; the token is in {clean_path(path)}")

    if not face.serve_http(server, address, token, ready):
        raise HostError(f"can't listen on {host}:{port}", "another program may have the port: choose one with --port")


def _warn_unserved(library: Library) -> None:
    """On standard error, which clients keep in their logs: a server without skills looks broken otherwise."""
    usable = [verdict.usable for verdict in library.in_order()]
    unserved = len(usable) - sum(usable)
    if unserved:
        quantity = "some" if any(usable) else "all"
        warn(f"{quantity} skills here are not served: {unserved} of {len(usable)}; `metier status` says why")
    elif not usable:
        warn("there are no skills here yet; they are served as soon as there are: `metier roots` says where")


def _exit_now() -> NoReturn:
    """The client has hung up: a script that still runs for it ends with us, not we with it."""
    sys.stderr.flush()
    os._exit(0)


def _import_face(module: str) -> Any:
    """The other face, by name: one face does not import another."""
    try:
        return import_module(f"metier.faces.mcp.{module}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("mcp", "mcp_types", "anyio", "starlette", "uvicorn"):
            raise MissingExtra("the MCP server", "mcp") from error
        raise


def _read_token(file: str | None) -> tuple[str, str]:
    """The token and where it is kept; it is made the first time."""
    from secrets import token_urlsafe

    state = find_place(".").state
    path = paths.absolute_path(file, paths.working_folder(), paths.home_folder()) if file else f"{state}/{TOKEN_FILE}"
    stored = (paths.read_text_file(path) or "").strip()
    if stored:
        if len(stored) < 16 or not stored.isascii() or any(letter.isspace() for letter in stored):
            raise BadRequest(f"{path} holds no token", "one line of 16 letters and digits or more; or delete the file")
        return path, stored
    if file is None:
        make_folder(state)
    token = token_urlsafe(32)
    write_text(path, token + "\n")
    return path, token


@mcp.command("install")
@click.argument("client", shell_complete=options.clients)
@click.option("--remove", is_flag=True, help="Take it out again.")
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Whose configuration: yours, or that of this project.",
)
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
    settings: CliContext = context.obj
    place = find_place(settings.project)
    path = paths.real_path(clients.config_path_of(chosen, scope, place.home, place.project, place.platform))
    before = paths.read_text_file(path, 16_777_216) or ""
    try:
        start = ["metier"] if scope == "project" else _start_command(place.env.get("PATH", ""))
        command = [*start, *_carried_options(settings), "mcp"]
        after = (
            clients.remove_server_entry(chosen, before, name)
            if remove
            else clients.add_server_entry(chosen, before, name, command)
        )
    except BadRequest as error:
        raise BadRequest(f"{path}, {error.message}", error.hint, path) from error
    _write_config(path, before, after, yes, 0o644 if scope == "project" else 0o600)


def _start_command(search: str) -> list[str]:
    """By a path, because clients have a PATH of their own; a file that a project shares has the bare name."""
    program = which("metier", search)
    return [program] if program else [sys.executable, "-P", "-m", "metier.faces.cli.fastlist"]


def _carried_options(settings: CliContext) -> list[str]:
    values = {key: getattr(settings, key) for key in _CARRIED_OPTIONS}
    if values["root"]:
        values["root"] = paths.absolute_path(values["root"], paths.working_folder(), paths.home_folder())
    options = [word for key, value in values.items() if value for word in (f"--{key}", value)]
    if settings.project != ".":
        options += ["--project", paths.absolute_path(settings.project, paths.working_folder(), paths.home_folder())]
    return options


def _write_config(path: str, before: str, after: str, yes: bool, mode: int) -> None:
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
