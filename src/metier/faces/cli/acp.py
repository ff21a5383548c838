"""metier acp."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import click

from ...types.errors import BadRequest, MissingExtra
from . import naming
from .app import Context
from .printing import warn


@click.command("acp")
@naming.model_option()
@click.pass_obj
def acp(context: Context, model: str) -> None:
    """Be the agent of an editor that speaks the Agent Client Protocol, such as Zed.

    The editor starts this command itself.  Skills are its slash commands, and it asks you before anything is done that
    needs your word.
    """
    try:
        serving = import_module("metier.faces.acp.serving")
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
        from ...runtime.acting import agent_for

        return agent_for(replace(context, project=cwd).library(), model, context.agent)

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
