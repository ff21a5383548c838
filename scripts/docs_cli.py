"""Write the command line page from the click objects."""

import click
from scripts.docs_text import code, page, prose, table

from metier.faces.cli.commands import COMMANDS
from metier.faces.cli.group import cli as group
from metier.types import errors


def cli() -> str:
    context = click.Context(group, info_name="metier", **group.context_settings)
    parts = [
        "`metier [OPTIONS] COMMAND [ARGS]...`",
        prose(group.help or ""),
        "## Options for every command",
        "They go before the command: `metier --dialect umbra list`.",
        options(group, context),
    ]
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        parts += one(name, command, context)
        if isinstance(command, click.Group):
            inside = click.Context(command, info_name=name, parent=context)
            for inner in command.list_commands(inside):
                found = command.get_command(inside, inner)
                assert found is not None
                parts += one(f"{name} {inner}", found, inside, "###")
    parts += ["## Exit codes", exit_codes()]
    return page("Command line", *parts)


def one(name: str, command: click.Command, parent: click.Context, level: str = "##") -> list[str]:
    inner = click.Context(command, info_name=name, parent=parent)
    pieces = " ".join(piece for piece in command.collect_usage_pieces(inner))
    return [f"{level} {name}", code(f"metier {name} {pieces}"), prose(command.help or ""), options(command, inner)]


def options(command: click.Command, context: click.Context) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and _worth_saying(parameter, context):
            rows.append((code(record[0]), record[1]))
    return table(("option", "does"), rows) if rows else ""


def _worth_saying(parameter: click.Option, context: click.Context) -> bool:
    """Every command has --help; it is documented once."""
    return "--help" not in parameter.opts or context.parent is None


def exit_codes() -> str:
    kinds: dict[int, list[str]] = {}
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.MetierError):
            kinds.setdefault(value.exit_code, []).append(value.__name__)
    words = {
        1: "problems found, by `validate`, `lint`, `doctor`, `conform`, `verify` and the like",
        2: "invalid usage, or an unknown name",
        3: "a problem with a skill",
        4: "refused by a policy",
        5: "a failure of the machine, the network or a service",
    }
    rows = [("0", "success", "")]
    rows += [(str(number), words[number], ", ".join(map(code, kinds.get(number, ())))) for number in words]
    rows += [
        ("70", "internal error; `METIER_DEBUG=1` prints a traceback", ""),
        ("130", "interrupted", ""),
        ("141", "the reader of the output closed the pipe", ""),
    ]
    return table(("code", "means", "in Python"), rows)
