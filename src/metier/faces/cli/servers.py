"""metier acp, metier mcp and metier daemon: the commands that serve until they are stopped."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches, unified_diff
from json import loads
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from ...host import daemon as machine
from ...host import paths
from ...host.facts import find_place, which
from ...host.fs import make_folder, write_text
from ...library.library import Library
from ...types.errors import BadRequest, HostError, MissingExtra, Refused
from ...types.place import Place
from ...types.text import one_line
from . import options
from .options import CliContext
from .output import clean_path, count_of, hint_line, paint, printable, say, say_json, warn

if TYPE_CHECKING:
    from ...agent.agent import Agent


# --- metier acp ---


@click.command("acp")
@options.model_option()
@click.pass_obj
def acp(context: CliContext, model: str) -> None:
    """Serve an agent to an editor that supports the Agent Client Protocol, such as Zed.

    The editor starts this command. Skills become its slash commands, and it asks you for approval where one is needed.
    """
    with _extra("the agent for editors", "acp", ("acp", "pydantic")):
        from ..acp.server import serve
    if not all(map(_is_connected, (0, 1))):
        raise BadRequest(
            "standard input and output are not connected to an editor",
            "add `metier acp` as an agent to the editor's configuration",
        )
    if sys.stdin.isatty():
        warn("waiting for an editor on standard input; add `metier acp` as an agent to its configuration")

    def open_in(cwd: str) -> Agent:
        from ..agents import open_agent

        return open_agent(context._replace(directory=cwd).library(), model, context.agent)

    serve(open_in)
    sys.stderr.flush()
    # The editor is gone: do not wait for threads that still run for it.
    _exit_now()


def _is_connected(number: int) -> bool:
    """Whether something can be at the other end: a pipe, a socket or a terminal."""
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)


# --- metier mcp ---

TOKEN_FILE = "mcp-token"
_CARRIED_OPTIONS = ("root", "dialect", "agent", "kit", "profile")
"""Global options that go into a client's configuration."""


@click.group("mcp", invoke_without_command=True)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output")
@click.option("--host", default="127.0.0.1", metavar="HOST", show_default=True, help="Address to listen on")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    metavar="PORT",
    show_default=True,
    help="Port to listen on; 0 for any free one",
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Also accept requests for this host name; may be repeated"
)
@click.option(
    "--token-file", metavar="FILE", help="File with the access token; created if missing [default: ~/.metier/mcp-token]"
)
@click.option("--write", multiple=True, metavar="DIR", help="Folder that scripts may write to; may be repeated")
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
    """Serve skills to an MCP client: as tools, a prompt for each slash command, and files as resources.

    Without --http, the client starts this command and talks to it over standard input and output.
    """
    if context.invoked_subcommand is not None:
        return
    settings: CliContext = context.obj
    with _extra("the MCP server", "mcp", _MCP_PACKAGES):
        from ..mcp.serve import serve_stdio, server_for
    folders = tuple(paths.absolute_path(folder, paths.working_folder(), paths.home_folder()) for folder in write)
    library = settings.library()
    _warn_unserved(library)
    server = server_for(library, write=folders)
    if not http:
        if sys.stdin.isatty():
            warn(
                "waiting for a client on standard input; `metier mcp install CLIENT` configures a client to start this"
            )
        serve_stdio(server)
        _exit_now()
    with _extra("the MCP server", "mcp", _MCP_PACKAGES):
        from ..loopback import ListenAddress
        from ..mcp.http_server import PATH, serve_http
    address = ListenAddress(host, port, tuple(name.lower() for name in allow_host))
    # These addresses name no host, and every request must name one that is allowed (see http_server).
    if host in ("0.0.0.0", "::") and not allow_host:
        raise BadRequest(f"listening on {host} requires the host name that clients use", "pass --allow-host NAME:PORT")
    path, token = _read_token(token_file)

    def ready(at: int) -> None:
        host_text = f"[{host}]" if ":" in host else host
        warn(f"listening on http://{host_text}:{at}{PATH}; the token is in {clean_path(path)}")

    if not serve_http(server, address, token, ready):
        raise HostError(f"can't listen on {host}:{port}", "the port may be in use; choose another with --port")


def _warn_unserved(library: Library) -> None:
    """Report skills that are not served, on standard error, which clients log: an empty server looks broken."""
    usable = [verdict.usable for verdict in library.in_order()]
    unserved = len(usable) - sum(usable)
    if unserved:
        warn(f"not serving {unserved} of {count_of(len(usable), 'skill')}; run `metier status` to see why")
    elif not usable:
        warn("no skills yet; new ones are served as they appear in a folder that `metier roots` lists")


def _exit_now() -> NoReturn:
    """Exit without waiting for scripts that still run for a client that is gone."""
    sys.stderr.flush()
    machine.exit_now(0)


_MCP_PACKAGES = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")


@contextmanager
def _extra(what: str, extra: str, packages: tuple[str, ...]) -> Iterator[None]:
    """Turn a failed import of one of these packages into advice to install the extra that brings them."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] in packages:
            raise MissingExtra(what, extra) from error
        raise


def _read_token(file: str | None) -> tuple[str, str]:
    """The token and the file it is in; created on first use."""
    from secrets import token_urlsafe

    state = find_place(".").state
    path = paths.absolute_path(file, paths.working_folder(), paths.home_folder()) if file else f"{state}/{TOKEN_FILE}"
    stored = (paths.read_text_file(path) or "").strip()
    if stored:
        # Long enough not to be guessed, and nothing that a header could not carry.
        if len(stored) < 16 or not stored.isascii() or any(letter.isspace() for letter in stored):
            raise BadRequest(
                f"{path} does not contain a valid token",
                "write at least 16 ASCII characters to it, or delete it to create a new one",
            )
        if paths.mode_of(path) & 0o077:
            raise Refused(f"others can read {path}", f"run `chmod 600 {path}`, or delete it to create a new one", path)
        return path, stored
    # A folder that the user names is not created: it may be a typo.
    if file is None:
        make_folder(state)
    token = token_urlsafe(32)
    write_text(path, token + "\n")
    return path, token


@mcp.command("install")
@click.argument("client", shell_complete=options.clients)
@click.option("--remove", is_flag=True, help="Remove the server from the configuration")
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Which configuration to change: yours, or the project's",
)
@click.option("--name", default="metier", show_default=True, help="Name of the server in the configuration")
@click.option("--yes", is_flag=True, help="Write without asking")
@click.pass_context
def install(
    context: click.Context, client: str, remove: bool, scope: Literal["user", "project"], name: str, yes: bool
) -> None:
    """Add this server to a client's configuration, after showing the change.

    CLIENT is one of: claude-code, claude-desktop, codex, cursor, gemini, vscode, windsurf, zed.
    Global options such as --root and --dialect are written to the configuration too.
    """
    from ..mcp import clients

    chosen = clients.CLIENTS.get(client)
    if chosen is None:
        near = get_close_matches(client, clients.CLIENTS, 1)
        hint = f"did you mean `{near[0]}`?" if near else "choose one of: " + ", ".join(clients.CLIENTS)
        raise BadRequest(f"unknown client `{client}`", hint)
    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise BadRequest(f"invalid server name `{name}`", "use letters, digits, `-` and `_`")
    settings: CliContext = context.obj
    place = find_place(settings.directory)
    # Dotfiles are often links into a repository: the file is replaced there, and the link stays.
    path = paths.real_path(clients.config_path_of(chosen, scope, place.home, place.project, place.platform))
    before = paths.read_text_file(path, 16_777_216) or ""
    try:
        # A project's file is for every machine that has the project, so it can't hold a path of this one.
        start = ["metier"] if scope == "project" else _start_command(place.env.get("PATH", ""))
        command = [*start, *_carried_options(settings), "mcp"]
        after = (
            clients.remove_server_entry(chosen, before, name)
            if remove
            else clients.add_server_entry(chosen, before, name, command)
        )
    except BadRequest as error:
        raise BadRequest(f"{path}, {error.message}", error.hint, path) from error
    # The user's own file may hold keys of other servers.
    _write_config(path, before, after, yes, 0o644 if scope == "project" else 0o600)


def _start_command(search: str) -> list[str]:
    """How a client starts metier: by path, since its PATH differs from ours."""
    program = which("metier", search)
    return [program] if program else [sys.executable, "-P", "-m", "metier"]


def _carried_options(settings: CliContext) -> list[str]:
    values = {key: getattr(settings, key) for key in _CARRIED_OPTIONS}
    if values["root"]:
        values["root"] = paths.absolute_path(values["root"], paths.working_folder(), paths.home_folder())
    options = [word for key, value in values.items() if value for word in (f"--{key}", value)]
    if settings.directory != ".":
        options += ["--directory", paths.absolute_path(settings.directory, paths.working_folder(), paths.home_folder())]
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
            raise Refused("writing the configuration needs approval, but this session is not interactive", "pass --yes")
        if not click.confirm("Write it?"):
            raise Refused("nothing was written", "run the command again to write it")
    folder = path.rpartition("/")[0]
    if not paths.is_folder(folder):
        make_folder(folder)
    write_text(path, after, paths.mode_of(path) or mode)
    say(f"{paint('written', 'green')}  {clean_path(path)}")


# --- metier daemon ---

# Type=notify and WatchdogSec: the daemon reports that it is ready and alive, and systemd restarts one that hangs.
# KillMode=mixed: the daemon alone gets SIGTERM and ends its runs; TimeoutStopSec is longer than its --grace of 30 s.
# StartLimit…: five crashes in five minutes end the restarts; systemd reads these in [Unit] and ignores them elsewhere.
# ProtectSystem and ReadWritePaths: unattended runs can write nothing but the state folder.
UNIT_TEMPLATE = """\
[Unit]
Description=metier: skills on a schedule
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
ExecStart={command}
Restart=on-failure
RestartSec=2
WatchdogSec=30
KillMode=mixed
TimeoutStopSec=45
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={state}
PrivateTmp=yes
RestrictSUIDSGID=yes
Environment=METIER_HOME={state}
# API keys such as ANTHROPIC_API_KEY=…, one per line; keep the file private (chmod 600).
EnvironmentFile=-{keys}

[Install]
WantedBy=default.target
"""


@click.group("daemon", invoke_without_command=True)
@click.option(
    "--worker", "name", default="daemon", metavar="NAME", help="Worker name, unique among the daemons of one home"
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1_000),
    default=8,
    show_default=True,
    help="Maximum number of runs at a time",
)
@click.option(
    "--grace", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to wait for runs on shutdown"
)
@click.pass_context
def daemon(context: click.Context, name: str, concurrency: int, grace: float) -> None:
    """Run the scheduler in the foreground until SIGTERM or SIGINT; a second signal stops it immediately.

    With METIER_DATABASE_URL=postgresql://…, any number of daemons share the work.
    """
    if "/" in name or name.startswith("."):
        raise BadRequest(f"invalid worker name `{name}`", "use letters and digits")
    context.meta["worker"] = name
    if context.invoked_subcommand is not None:
        return
    from ...schedule.worker import ScheduleWorker, WorkerSettings
    from ..agents import fire, load_models, run_task

    service = ScheduleWorker(
        find_place(context.obj.directory), fire, name, WorkerSettings(concurrency=concurrency, grace=grace)
    )
    service.do = run_task
    service.prepare = load_models
    service.say = lambda line: warn(printable(line))
    code = service.serve()
    sys.stdout.flush()
    machine.exit_now(code)


@daemon.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def daemon_status(context: click.Context, as_json: bool) -> None:
    """Show whether the daemon is running, and its health; exits with 1 if it is not."""
    from ...schedule.worker import health_path, lock_path

    place, name = find_place(context.obj.directory), context.meta["worker"]
    holder = machine.current_holder(lock_path(place, name))
    health = _read_health(health_path(place, name)) if holder else {}
    if as_json:
        say_json({"running": holder is not None, "pid": holder.pid if holder else None, "health": health})
    elif holder is None:
        say("No daemon is running.")
        say(hint_line("run `metier daemon` to start one; `metier daemon unit` prints a systemd unit"))
    else:
        say(f"Running: process {holder.pid}")
        for key, value in health.items():
            if value != "":
                say(f"  {printable(str(key)) + ':':<10}{printable(str(value))}")
    context.exit(0 if holder else 1)


def _read_health(path: str) -> dict[str, object]:
    try:
        health = loads(paths.read_text_file(path) or "{}")
    except (ValueError, HostError):
        return {}
    return health if isinstance(health, dict) else {}


@daemon.command("stop")
@click.option("--wait", type=click.FloatRange(0), default=45.0, show_default=True, help="Seconds to wait")
@click.pass_context
def stop_daemon(context: click.Context, wait: float) -> None:
    """Stop the daemon and wait until it has exited."""
    from ...schedule.worker import lock_path

    place = find_place(context.obj.directory)
    holder = machine.current_holder(lock_path(place, context.meta["worker"]))
    if holder is None:
        say("No daemon is running.")
        return
    if not machine.stop_lock_holder(holder, wait):
        raise HostError(
            f"process {holder.pid} has not exited yet",
            "it is waiting for running work; repeat the command to stop it immediately",
        )
    say(f"Stopped: process {holder.pid}")


@daemon.command("unit")
@click.option("--write", is_flag=True, help="Write it to ~/.config/systemd/user/metier.service")
@click.pass_obj
def print_unit(context: CliContext, write: bool) -> None:
    """Print a systemd unit for this daemon, or write it."""
    place = find_place(context.directory)
    text = UNIT_TEMPLATE.format(
        # -P: a file in the working folder must not be imported in place of a module.
        command=_quote_unit_value(f"{sys.executable}") + " -P -m metier daemon",
        state=_quote_unit_value(place.state),
        keys=_keys_path(place).replace("%", "%%"),
    )
    if not write:
        say(text.rstrip("\n"))
        return
    path = _unit_path(place)
    make_folder(path.rpartition("/")[0])
    write_text(path, text, 0o644)
    say(f"Written: {clean_path(path)}")
    say(
        hint_line(
            f"a service does not inherit your shell's environment: put API keys into {clean_path(_keys_path(place))}"
        )
    )
    say(hint_line("systemctl --user daemon-reload && systemctl --user enable --now metier"))


def _keys_path(place: Place) -> str:
    return f"{place.state}/daemon.env"


def _unit_path(place: Place) -> str:
    return f"{place.home.rstrip('/')}/.config/systemd/user/metier.service"


def _quote_unit_value(text: str) -> str:
    """A path quoted for a unit file, where `%` and blanks are special."""
    if any(character < " " or character == "\x7f" for character in text):
        raise BadRequest(
            f"{clean_path(text)} contains a control character, which a unit file can't hold",
            "set METIER_HOME to a path without one",
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != text or " " in text else text
