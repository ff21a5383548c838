"""metier chat."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from ...types.errors import BadRequest, MissingExtra


def _complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names: list[str] = import_module("metier.faces.cli.options").usable_models(context, parameter, incomplete)
    return names


@click.command("chat")
@click.option(
    "--model",
    metavar="NAME",
    default="",
    shell_complete=_complete_models,
    help="Another model than the one that is configured.",
)
@click.option("--resume", metavar="ID", default="", help="Go on with a conversation: its id, or `last`.")
@click.pass_obj
def chat(context: Any, model: str, resume: str) -> None:
    """Talk to an agent that uses your skills: type / to pick one, Esc to stop, /help for the rest."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("`metier chat` needs a terminal", 'without one, use `metier run "…"`')
    try:
        from .app import ChatApp
    except ImportError as error:
        raise MissingExtra("the terminal app is not installed", "pip install 'metier[chat]'") from error
    from ..agents import open_agent

    agent = open_agent(context.library(), model, context.agent)
    raise click.exceptions.Exit(ChatApp(agent, resume).run() or 0)
