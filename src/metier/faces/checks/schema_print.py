"""metier schema."""

from __future__ import annotations

import click

from ...parse.frontmatter_schema import dialect_schema, strict_schema
from ...types.errors import BadRequest
from ..cli.options import CliContext, dialect_names
from ..cli.output import say_json


@click.command("schema")
@click.option("--dialect", metavar="NAME", shell_complete=dialect_names, help="Print the schema of this dialect")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; this command never prints anything else")
@click.pass_obj
def schema(context: CliContext, dialect: str | None, as_json: bool) -> None:
    """Print a JSON Schema of a SKILL.md's frontmatter, for editors and other tools.

    The schema is that of the agentskills.io specification: it refuses what `metier validate` refuses. With --dialect it
    refuses what that dialect does not load. Its `$comment` says what no schema can check.
    """
    name = dialect or context.dialect
    if name is None:
        say_json(strict_schema())
        return
    # Dialects of the user's own are in the configuration.
    dialects = context._replace(dialect=None).library().dialects
    if name not in dialects:
        raise BadRequest(f"unknown dialect `{name}`", "choose one of: " + ", ".join(dialects))
    say_json(dialect_schema(dialects[name]))
