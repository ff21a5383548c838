"""The command `metier chat`; the app itself, and textual with it, is imported only when it starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...types.errors import BadRequest, MissingExtra
from ..cli import options

if TYPE_CHECKING:
    from ..cli.options import CliContext


@click.command("chat")
@options.model_option("Model to use [default: the configured one]")
@click.option("--resume", metavar="ID", default="", help="Continue a conversation: its id, or `last`")
@click.pass_obj
def chat(context: CliContext, model: str, resume: str) -> None:
    """Chat with an agent that uses your skills: type / to pick one, Esc to stop, /help for the rest."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("`metier chat` needs a terminal", 'without one, use `metier run "…"`')
    try:
        from .app import ChatApp
    except ImportError as error:
        # Only what the extra brings: an import that fails elsewhere is a defect, and no extra would help.
        if (error.name or "").partition(".")[0] in ("textual", "rich"):
            raise MissingExtra("the terminal app", "chat") from error
        raise
    from ..agents import open_agent

    agent = open_agent(context.library(), model, context.agent)
    raise click.exceptions.Exit(ChatApp(agent, resume).run() or 0)
