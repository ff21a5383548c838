"""metier completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .printing import say


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for your shell.

    bash: metier completion bash >> ~/.bashrc
    """
    found = get_completion_class(shell)
    assert found is not None
    say(found(context.find_root().command, {}, "metier", "_METIER_COMPLETE").source())
