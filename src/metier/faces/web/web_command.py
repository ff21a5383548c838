"""The command `metier web`; the server, and starlette with it, is imported only when it starts."""

from __future__ import annotations

from json import dumps, loads
from typing import TYPE_CHECKING

import click

from ...host import paths
from ...host.daemon import current_holder, hold_daemon_lock
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
    command ends. Run it again to let in another browser.
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
    if _is_served(folder):
        _enter_other(folder, mint_token(state), no_open)
        return

    def ready(at: int) -> None:
        write_text(f"{folder}/address", dumps({"port": at}) + "\n")
        _announce(folder, f"http://127.0.0.1:{at}/enter?token={mint_token(state)}", no_open, read_only)

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
        if not serve_page(site, AccessKeys(state), port, ready):
            raise HostError(f"can't listen on 127.0.0.1:{port}", "the port may be in use; choose another with --port")


def _lock_path(folder: str) -> str:
    return f"{folder}/lock"


def _is_served(folder: str) -> bool:
    return current_holder(_lock_path(folder)) is not None


def _enter_other(folder: str, token: str, no_open: bool) -> None:
    """Let a browser into the page that runs already: it has the same home, so it knows the same tokens."""
    try:
        port = int(loads(paths.read_text_file(f"{folder}/address") or "{}")["port"])
    except (ValueError, KeyError, TypeError):
        raise Refused(
            "metier web is already running", "open the page that it printed, or stop it with Ctrl-C"
        ) from None
    say("metier web is already running for this home; this address leads to it")
    _announce(folder, f"http://127.0.0.1:{port}/enter?token={token}", no_open, False)


def _announce(folder: str, address: str, no_open: bool, read_only: bool) -> None:
    say(f"{paint(address, 'bold')}")
    say(paint("it works once, for ten minutes" + ("; read-only" if read_only else ""), "dim"))
    # A file that leads there, not the address: everyone can see the words that a program is started with.
    page = f"{folder}/open.html"
    write_text(page, f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">\n')
    if no_open or not open_in_browser(f"file://{page}"):
        say(hint_line("open it in a browser on this machine; Ctrl-C ends it"))
