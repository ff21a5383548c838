"""The command `metier web`; the server, and starlette with it, is imported only when it starts."""

from __future__ import annotations

from json import dumps, loads
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...host import paths
from ...host.daemon import current_holder, current_pid, hold_daemon_lock
from ...host.editor import open_in_browser
from ...host.facts import find_place
from ...host.fs import make_folder, write_text
from ...types.errors import HostError, MissingExtra, Refused
from ..cli import options
from ..cli.output import hint_line, paint, say

if TYPE_CHECKING:
    from ..cli.options import CliContext

PORT = 8766
_PACKAGES = ("starlette", "uvicorn", "jinja2", "markupsafe", "markdown_it", "h11", "anyio")


@click.command("web")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    metavar="N",
    show_default=True,
    help="Port to listen on; 0 for any free one",
)
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser")
@click.option("--read-only", is_flag=True, help="Show everything and change nothing")
@options.model_option("Model for the chat [default: the configured one]")
@click.pass_obj
def web(context: CliContext, port: int, no_open: bool, read_only: bool, model: str) -> None:
    """Open a page in your browser: skills, runs, schedules, and what waits for your decision.

    It listens on this machine only. The address works once, for ten minutes; the browser then has a cookie until this
    command ends. Run it again in the same folder, with the same options, to let in another browser.
    """
    try:
        from ..agents import open_agent
        from .access_keys import AccessKeys, forget_tokens, keys_folder, mint_token
        from .conversations import ConversationHub
        from .web_app import serve_page
        from .web_site import SiteOptions, WebSite
    except ImportError as error:
        # Only what the extra brings: an import that fails elsewhere is a defect, and no extra would help.
        if (error.name or "").partition(".")[0] in _PACKAGES:
            raise MissingExtra("the web page", "web") from error
        raise
    context.library()  # what is wrong with the configuration is told here, before a page opens
    place = find_place(context.directory, context.profile)
    state = place.state
    folder = keys_folder(state)
    make_folder(folder)
    asked = {"folder": place.cwd, "read_only": read_only, "model": model, **context._asdict()}
    # Where the command was run, which `folder` says, and how it reads: neither is another page.
    del asked["directory"], asked["use_index"]
    # Only a port that was asked for by name: the usual one, or any, may as well be the one that is served.
    given = click.get_current_context().get_parameter_source("port") is not ParameterSource.DEFAULT
    running = _find_running(folder)
    if running is not None:
        _check_same_page(running, asked, port if given else 0)
        say("metier web is already running for this folder; this address leads to it")
        _announce(folder, f"http://{running['host']}:{running['port']}", mint_token(state), no_open, read_only)
        return
    keys = AccessKeys(state)

    def ready(at: int) -> None:
        entry = {"pid": current_pid(), "host": keys.host_name, "port": at, "asked": asked}
        write_text(f"{folder}/address", dumps(entry) + "\n")
        _announce(folder, f"http://{keys.host_name}:{at}", mint_token(state), no_open, read_only, "; Ctrl-C ends it")

    site = WebSite(
        SiteOptions(
            context.root,
            context.dialect,
            context.agent,
            context.profile,
            context.use_index,
            model,
            read_only,
        ),
        place,
    )
    site.hub = ConversationHub(lambda: open_agent(site.library(), model, context.agent))
    with hold_daemon_lock(_lock_path(folder), "metier web is already running", "open the page that it printed"):
        forget_tokens(state)
        if not serve_page(site, keys, port, ready):
            raise HostError(f"can't listen on 127.0.0.1:{port}", "the port may be in use; choose another with --port")


def _lock_path(folder: str) -> str:
    return f"{folder}/lock"


def _find_running(folder: str) -> dict[str, Any] | None:
    """What the page that runs for this home wrote about itself; None where none runs."""
    holder = current_holder(_lock_path(folder))
    if holder is None:
        return None
    try:
        entry = loads(paths.read_text_file(f"{folder}/address") or "{}")
        # One that is just starting has not written it yet: the file is of an earlier page, with other options.
        if entry["pid"] == holder.pid:
            return {"host": str(entry["host"]), "port": int(entry["port"]), "asked": dict(entry["asked"]), **entry}
    except (ValueError, KeyError, TypeError):
        pass
    raise Refused(
        f"metier web is already running (process {holder.pid})",
        "open the page that it printed, or stop it with Ctrl-C in its terminal",
    )


def _check_same_page(running: dict[str, Any], asked: dict[str, Any], port: int) -> None:
    """Refuse to lead to a page that shows, or may do, something else than what was asked for."""
    served = running["asked"]
    differs = [name for name in asked if served.get(name) != asked[name]]
    if port not in (0, running["port"]):
        differs.append("port")
    if not differs:
        return
    can = "read-only" if served.get("read_only") else "with actions"
    options = ", ".join(f"--{name.replace('_', '-')}" for name in differs if name != "folder")
    other = " and ".join([*(["folder"] if "folder" in differs else []), *([options] if options else [])])
    raise Refused(
        f"metier web is already running for {served.get('folder')}, {can}, on port {running['port']}"
        f" (process {running['pid']}); you asked for another {other}",
        "stop it with Ctrl-C in its terminal and try again, or run `metier web` as it was started to open that page",
    )


def _announce(folder: str, page: str, token: str, no_open: bool, read_only: bool, ending: str = "") -> None:
    address = f"{page}/enter?token={token}"
    say(f"{paint(address, 'bold')}")
    say(paint("it works once, for ten minutes" + ("; read-only" if read_only else ""), "dim"))
    # A file that leads there, not the address: everyone can see the words that a program is started with.
    leads = f"{folder}/open.html"
    write_text(leads, f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">\n')
    if no_open or not open_in_browser(f"file://{leads}"):
        say(hint_line(f"open it in a browser on this machine{ending}"))
