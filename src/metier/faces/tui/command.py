"""The command `metier chat`; the app itself, and textual with it, is imported only when it starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...types.errors import BadRequest, MissingExtra
from ..cli import options
from ..cli.options import PICK_SESSION
from ..cli.output import paint, say, terminal_width

if TYPE_CHECKING:
    from ..cli.options import CliContext
    from .app import ChatApp


@click.command("chat")
@options.model_option("Model to use [default: the configured one]")
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value=PICK_SESSION,
    default="",
    help="Continue a conversation: its id, or `last`; without one, pick it from a list",
)
@click.option("--continue", "-c", "go_on", is_flag=True, help="Continue the last conversation in this folder")
@click.pass_obj
def chat(context: CliContext, model: str, resume: str, go_on: bool) -> None:
    """Chat with an agent that uses your skills: type / to pick one, Esc to stop, /help for the rest."""
    open_chat(context, model, "last" if go_on else resume)


def open_chat(context: CliContext, model: str = "", resume: str = "") -> None:
    """Run the app, and leave in the terminal what a person would look for afterwards."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("`metier chat` needs a terminal", 'without one, use `metier run "…"`')
    try:
        from .app import ChatApp
    except ImportError as error:
        # Only what the extra brings: an import that fails elsewhere is a defect, and no extra would help.
        if (error.name or "").partition(".")[0] in ("textual", "rich", "markdown_it"):
            raise MissingExtra("the terminal app", "chat") from error
        raise
    from ..agents import open_agent

    app = ChatApp(open_agent(context.library(), model, context.agent), resume)
    code = app.run() or 0
    say_farewell(app)
    raise click.exceptions.Exit(code)


def say_farewell(app: ChatApp) -> None:
    """Print the last answer and how to go on: the app had the whole screen and leaves nothing on it."""
    from ...types.text import visible_text
    from .markdown import render_markdown

    if app.session is None or not app.session.conversation.messages:
        return
    if answer := visible_text(app.last_answer()):
        for row in render_markdown(answer, min(terminal_width(), 120)):
            say(row.content.plain.rstrip())
        say("")
    say(f"run {app.session.run}")
    if app.agent.keep:
        say(paint(f"→ go on with `metier chat --resume {app.session.run}`", "dim"))
