"""The whole command line as a click group: help, completion, usage errors, and every command that is not read-only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from ... import __version__
from ...types.errors import BadRequest
from .commands import (
    COMMAND_ALIASES,
    COMMANDS,
    LOOKING,
    SECTIONS,
    Argument,
    CliParameter,
    Flag,
    Option,
    ReadOnlyCommand,
    load_command,
)
from .options import GLOBAL_NAMES, GLOBAL_OPTIONS, invoke, make_context, require_whole_configuration

# --- From declarations to click ---


def to_click(command: ReadOnlyCommand) -> click.Command:
    """A read-only command as a click command."""

    def call(**values: object) -> None:
        context = click.get_current_context()
        context.exit(invoke(command, context.obj, values))

    parameters = [_click_parameter(parameter) for parameter in command.parameters]
    made = _BareValueCommand(command.name, callback=call, params=parameters, help=command.function.__doc__)
    made.bare = {
        name: item.bare for item in command.parameters if isinstance(item, Option) and item.bare for name in item.names
    }
    return made


class _BareValueCommand(click.Command):
    """A command with options whose value may be left out; click would take the next word for it."""

    bare: dict[str, str]

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        written = [f"{word}={self.bare[word]}" if word in self.bare else word for word in args[:end]]
        return super().parse_args(context, written + args[end:])


def _click_parameter(parameter: CliParameter) -> click.Parameter:
    if isinstance(parameter, Argument):
        return click.Argument(
            [parameter.field],
            required=parameter.required,
            nargs=-1 if parameter.many else 1,
            shell_complete=parameter.complete,
        )
    if isinstance(parameter, Flag):
        return click.Option([*parameter.names, parameter.field], is_flag=True, help=parameter.help)
    kind: click.Choice[str] | click.IntRange | None = None
    if parameter.choices:
        kind = click.Choice(parameter.choices)
    elif parameter.minimum is not None:
        kind = click.IntRange(min=parameter.minimum)
    return LazyHelpOption(
        [*parameter.names, parameter.field],
        type=kind,
        lazy_help=parameter.help,
        metavar=parameter.metavar,
        default=parameter.default,
        show_default=isinstance(parameter.default, int),
        shell_complete=parameter.complete,
        hidden=parameter.hidden,
    )


class LazyHelpOption(click.Option):
    """An option whose help may be a function, called when help is shown."""

    def __init__(self, names: list[str], *, lazy_help: str | Callable[[], str], **settings: Any) -> None:
        super().__init__(names, **settings)
        self.lazy_help = lazy_help

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        self.help = self.lazy_help if isinstance(self.lazy_help, str) else self.lazy_help()
        return super().get_help_record(context)


# --- The group ---


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for, and not before."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = load_command(name)
        if isinstance(command, ReadOnlyCommand):
            return to_click(command)
        _guard_acting(command, name)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name == "help" and not context.resilient_parsing:
            # What people type first: `metier help`, `metier help run`.
            return super().resolve_command(context, [*args[1:], "--help"]) if args[1:] else _whole_help(context)
        # While a shell completes the line, an unknown command is just not typed to its end.
        if name and name not in COMMANDS and not context.resilient_parsing:
            raise _unknown_command(name)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names.split()])


def _whole_help(context: click.Context) -> tuple[str | None, click.Command | None, list[str]]:
    def show() -> None:
        click.echo(cli.get_help(click.get_current_context().find_root()))

    return "help", click.Command("help", callback=show), []


def _only_looks(path: str, values: dict[str, Any]) -> bool:
    """Whether a command that could act only lists or plans, as it is called here."""
    lists = values.get("listing") or values.get("action") == "list" or (path == "remove" and not values["names"])
    # A dry run of a task runs the commands of a skill's body, and taking trust away must always be possible.
    return bool(lists or (values.get("dry_run") and path != "run") or (path == "trust" and values["remove"]))


_TAKES_EMPTY = frozenset({("schedule patch", "model"), ("schedule patch", "arguments")})
"""Options that an empty value resets."""


def _refuse_empty(context: click.Context, path: str) -> None:
    """Refuse an empty value: mostly an unset variable in a script, which must not mean the default or this folder."""
    for item in context.command.params:
        value = context.params.get(item.name or "")
        given = context.get_parameter_source(item.name or "") == click.core.ParameterSource.COMMANDLINE
        empty = value == "" or (isinstance(item, click.Argument) and isinstance(value, tuple) and "" in value)
        if given and empty and (path, item.name) not in _TAKES_EMPTY and path not in _TEXT_COMMANDS:
            label = item.opts[-1] if isinstance(item, click.Option) else item.make_metavar(context).strip("[].")
            raise BadRequest(f"{label} must not be empty", "pass a value, or omit it")


_TEXT_COMMANDS = frozenset({"run", "batch", "render", "preview", "script", "new", "chat"})
"""Commands whose words are text for a skill or a model, or that say themselves what is missing."""


def _guard_acting(command: click.Command, path: str) -> None:
    """Make a command that acts, and the acting ones of a group, check the configuration first."""
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        _guard_acting(inner, f"{path} {name}")
    callback = command.callback
    if callback is None or hasattr(callback, "guarded"):
        return

    def guarded(*arguments: Any, **values: Any) -> Any:
        context = click.get_current_context()
        _refuse_empty(context, path)
        acts = path not in LOOKING and not _only_looks(path, context.params)
        # A group's own callback runs before each of its commands, which have their guards.
        if acts and context.invoked_subcommand is None:
            require_whole_configuration(context.find_root().obj)
        return callback(*arguments, **values)

    guarded.guarded = True  # type: ignore[attr-defined]  # commands are made once, and looked up often
    command.callback = guarded


def _unknown_command(name: str) -> BadRequest:
    from difflib import get_close_matches

    # 0.5 instead of the usual 0.6: the names are short, so one wrong letter weighs more.
    near = COMMAND_ALIASES.get(name) or next(iter(get_close_matches(name, COMMANDS, 1, 0.5)), "")
    hint = f"did you mean `{near}`?" if near else "run `metier --help` for the list of commands"
    return BadRequest(f"unknown command `{name}`", hint)


def _start(**values: object) -> None:
    """Find, check and run Agent Skills."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return
    if values.get("version_json"):
        # It would be taken and do nothing: a program that asked for JSON would get text.
        command = context.invoked_subcommand
        raise BadRequest("no such option: --json before the command", f"run `metier {command} --json`")
    context.obj = make_context(values)


cli = LazyGroup(
    "metier",
    callback=_start,
    params=[_click_parameter(option) for option in GLOBAL_OPTIONS],
    help=_start.__doc__,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version; with `--json`, also what a bug report or a tool needs to know."""
    if not asked or context.resilient_parsing:
        return
    if not context.params.get("version_json"):
        click.echo(f"metier {__version__}")
        context.exit()
    from .output import say_json

    say_json(version_facts())
    context.exit()


def version_facts() -> dict[str, str]:
    """The version of metier, and what it runs on."""
    import platform

    return {
        "version": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(terse=True),
        "location": __file__.rpartition("/faces/")[0],
    }


click.option("--version", is_flag=True, callback=_show_version, expose_value=False, help="Print the version and exit")(
    cli
)
# Only for --version, and so not listed: every command has its own --json. Read first, wherever it stands.
click.option("--json", "version_json", is_flag=True, is_eager=True, hidden=True)(cli)


# --- Running it ---


def run_click(arguments: list[str]) -> int:
    """Run the command line with click, with metier's own errors in place of click's."""
    try:
        # Not in standalone mode, in which click prints errors in its own form and exits.
        result = cli.main(args=arguments, prog_name="metier", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 0
    except click.ClickException as error:
        raise BadRequest(_usage_message(error), _usage_hint(error)) from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    # What click makes of a broken pipe.
    except SystemExit as error:
        raise BrokenPipeError from error
    return result if isinstance(result, int) else 0


def complete() -> int:
    """Answer a shell that completes a line."""
    cli(prog_name="metier")
    return 0


def _usage_message(error: click.ClickException) -> str:
    """Click's sentence in the form of metier's own: no capital, no period, and what was meant is left to the hint."""
    match error:
        case click.BadParameter(param=click.Parameter(type=click.IntRange() | click.FloatRange())):
            # "is not a valid integer range" is about the type's name; the user gave one number.
            message = error.format_message().replace(" range.", ".")
        case click.UsageError() if error.message.startswith("Got unexpected extra argument"):
            message = error.message.removeprefix("Got ")
        case _:
            message = error.format_message()
    message = re.split(r" \(?(?:Did you mean|Possible options)", message, maxsplit=1)[0]
    return (message[:1].lower() + message[1:]).removesuffix(".")


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", "")
    if context is None:
        return ""
    if option in GLOBAL_NAMES:
        return f"put it before the command: metier {option} … {context.info_name}"
    from difflib import get_close_matches

    # Click's own guesses go far: `--scope` for `--json`.
    wrong = option or getattr(error, "command_name", "")
    near = get_close_matches(wrong, getattr(error, "possibilities", None) or (), 1, 0.75)
    if near:
        return f"did you mean `{near[0]}`?"
    # A dash may well begin a word of the text that the command takes.
    takes_words = any(isinstance(item, click.Argument) and item.nargs == -1 for item in context.command.params)
    if option and takes_words and option.startswith("-"):
        return f"text that begins with `-` goes after `--`; run `{context.command_path} --help` for the options"
    return f"run `{context.command_path} --help`"
