"""The command table.  A command's module is imported when that command is run, and not before."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from ... import __version__
from ...types.errors import BadRequest, MetierError
from . import options

COMMANDS = {
    "list": ("skills:list_skills", "List the skills of this place."),
    "status": ("status:status", "Say what is ready, what is not, and why."),
    "show": ("skills:show", "Show one skill: its frontmatter and its instructions."),
    "search": ("search:search", "Find the skills that a request is for."),
    "catalog": ("catalog:catalog", "Print the listing a model gets."),
    "commands": ("catalog:commands", "List the slash commands."),
    "render": ("render:render", "Print exactly what a model gets when a skill is called."),
    "preview": ("render:preview", "Show what a skill costs and does, running nothing."),
    "read": ("render:read", "Read a file of a skill."),
    "script": ("render:script", "Run a script of a skill."),
    "run": ("run:run", "Do a task with a model, or call a skill."),
    "runs": ("runs:runs", "List runs; show one, or replay it."),
    "eval": ("evals:evaluate", "Try a skill with its evals, with and without it."),
    "stats": ("runs:stats", "Say how often each skill was offered, used and of use."),
    "models": ("doctor:models", "The models that run here: get, add, list."),
    "chat": ("..tui.command:chat", "Talk to an agent that uses your skills."),
    "why": ("status:why", "Follow one skill from disk to catalog, step by step."),
    "validate": ("lint:validate", "Check skills strictly, as agentskills.io says."),
    "lint": ("lint:lint", "Find slips in skills, and mend what can be mended."),
    "improve": ("improve:improve", "Put right what a skill did wrong, checked before it lands."),
    "proposals": ("improve:proposals", "List proposed changes of skills; show, accept, reject or edit one."),
    "new": ("authoring:new", "Write a new skill."),
    "add": ("add:add", "Get skills from a repository, an archive, a site or a folder."),
    "update": ("update:update", "Bring installed skills up to date."),
    "outdated": ("update:outdated", "List installed skills that have something newer."),
    "remove": ("remove:remove", "Remove an installed skill, or list what is installed."),
    "restore": ("remove:restore", "Bring a removed skill back."),
    "clean": ("remove:clean", "Empty the trash, and forget texts that nothing needs."),
    "history": ("history:history", "List the changes of a skill, or of all of them."),
    "diff": ("history:diff", "Show what changed in a skill since a version."),
    "rollback": ("history:rollback", "Make a skill what it was in a version."),
    "blame": ("history:blame", "Say which change each line of a skill came from."),
    "verify": ("verify:verify", "Compare installed skills with the lock, file by file."),
    "freeze": ("verify:freeze", "Lock skills as they are now."),
    "approve": ("verify:approve", "Approve an installed skill as it is now."),
    "sync": ("verify:sync", "Make skills what the lock says."),
    "install": ("install:install", "Install what a skill needs."),
    "plugins": ("add:plugins", "List plugins, or install one."),
    "unpack": ("authoring:unpack", "Take an archive apart, safely."),
    "trust": ("trust:trust", "Trust the skills of a project."),
    "schedule": ("schedule:schedule", "Run skills at their times."),
    "batch": ("run:batch", "Do many calls, over the same queue as schedules."),
    "daemon": ("daemon:daemon", "Fire schedules, in the foreground."),
    "acp": ("servers:acp", "Be the agent of an editor that speaks the Agent Client Protocol."),
    "export": ("authoring:export", "Write skills as a file, a site, a plugin or another dialect."),
    "mcp": ("servers:mcp", "Serve skills to any MCP client, and add that to its configuration."),
    "roots": ("catalog:roots", "Show where metier looks, in order of precedence."),
    "doctor": ("doctor:doctor", "Check metier's own footing on this machine."),
    "init": ("doctor:init", "Copy the bundled skills to where you may edit them."),
    "conform": ("conform:conform", "Run conformance cases against this build."),
    "completion": ("doctor:completion", "Print the completion script for your shell."),
}
SECTIONS = {
    "Look": "list status show search catalog commands why roots",
    "Use": "chat run runs render preview read script models",
    "Write": "new lint validate trust",
    "Get and keep": "add update outdated remove restore clean verify freeze approve sync install plugins unpack",
    "Improve": "eval stats improve proposals history diff rollback blame",
    "On a schedule": "schedule batch daemon",
    "Elsewhere": "mcp acp export",
    "metier itself": "doctor init conform completion",
}
"""The commands by what they are for, as the help has them."""
FIRST_USE = ("list", "status", "show", "catalog", "commands", "why")
"""Commands by which a person meets metier."""


_SHELL_CHARACTERS = set(" \t\n,'\"`$\\*?[]{}()<>|&;#~!")
"""A name with one of these means something else on a command line: it is not offered."""


@dataclass
class CliContext:
    """The global options."""

    root: str | None = None
    dialect: str | None = None
    agent: str | None = None
    profile: str = ""
    project: str = "."
    index: bool = True

    def library(self) -> Any:
        from ...library.open import open

        library = open(
            self.project,
            dialect=self.dialect,
            agent=self.agent,
            profile=self.profile,
            root=self.root,
            index=self.index,
        )
        if self.profile and self.root is None:
            _require_profile(
                self.profile, [root.origin.path for root in library.roots if root.origin.root == "profile"]
            )
        return library


def _require_profile(profile: str, roots: list[str]) -> None:
    """A profile that has no folder is a slip of the pen."""
    from ...host import paths

    for root in roots:
        folder = root.rpartition("/")[0]
        if paths.is_folder(folder):
            continue
        home = folder.rpartition("/")[0]
        profiles = paths.list_names(home).folders if paths.is_folder(home) else []
        near = get_close_matches(profile, profiles, 1)
        hint = (
            f"did you mean `{near[0]}`?"
            if near
            else "there is: " + ", ".join(profiles)
            if profiles
            else f"make {folder}"
        )
        raise BadRequest(f"no profile is called `{profile}`", hint)


_COMMAND_ALIASES = {
    "untrust": "trust --remove",
    "uninstall": "remove",
    "rm": "remove",
    "delete": "remove",
    "undo": "rollback",
    "lock": "freeze",
    "unlock": "freeze --off",
    "upgrade": "update",
    "log": "history",
    "ls": "list",
    "serve": "mcp",
    "test": "eval",
    "download": "add",
    "get": "add",
    "create": "new",
    "ask": "run",
    "tui": "chat",
}
"""What other tools call a command of ours: spelling alone would lead astray."""


class LazyGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name][0].partition(":")
        beside = module.startswith("..")  # another face: it is named, never imported by this one
        command: click.Command = getattr(import_module(module if beside else f".{module}", __package__), function)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not context.resilient_parsing:
            near = _COMMAND_ALIASES.get(name) or next(iter(get_close_matches(name, COMMANDS, 1, 0.5)), "")
            hint = f"did you mean `{near}`?" if near else "run `metier --help` to see the commands"
            raise BadRequest(f"`{name}` is not a command", hint)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names.split()])


def dialect_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completion of a dialect's name."""
    from ...dialects import DIALECTS

    return [name for name in DIALECTS if name.startswith(incomplete)]


class DialectOption(click.Option):
    """An option whose help names every dialect; they load only when help is shown."""

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        from ...dialects import DIALECTS

        self.help = f"Serve as: {' '.join(DIALECTS)}."
        return super().get_help_record(context)


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="metier %(version)s")
@click.option("--root", metavar="DIR", help="Look only in this folder of skills; it is trusted, you named it.")
@click.option(
    "--dialect",
    metavar="NAME",
    cls=DialectOption,
    shell_complete=dialect_names,
)
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=options.agents,
    help="Only the skills this agent may use (its name, or its file).",
)
@click.option("--profile", metavar="ID", default="", help="The agent profile whose skills count too.")
@click.option("--project", metavar="DIR", default=".", help="Stand in this folder instead of the current one.")
@click.option("--no-index", is_flag=True, help="Read every file anew and remember nothing.")
@click.pass_context
def cli(
    context: click.Context,
    root: str | None,
    dialect: str | None,
    agent: str | None,
    profile: str,
    project: str,
    no_index: bool,
) -> None:
    """metier finds Agent Skills, judges them, and tells a model about them."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return
    for option, value in (("--root", root), ("--project", project), ("--dialect", dialect), ("--agent", agent)):
        if value == "":
            raise BadRequest(f"`{option}` is empty", "give it a value, or leave it out")
    context.obj = CliContext(root, dialect, agent, profile, project, not no_index)
    if context.invoked_subcommand in FIRST_USE and root is None and not {"-h", "--help"} & set(sys.argv):
        _copy_bundled_once()


def _copy_bundled_once() -> None:
    """A person's first use of the command line brings the bundled skills; programs are left alone."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    from ...host.facts import find_place
    from ...sources.bundled import copy_bundled, was_copied
    from .output import count_of, paint, printable, warn

    place = find_place(".")
    if was_copied(place.state):
        return
    from ...install.managed import record_bundled  # once in a lifetime

    copied = copy_bundled(place.state)
    record_bundled(place, copied, lambda text: warn(f"note: {text}"))
    if copied.added:
        warn(
            paint(
                f"{count_of(len(copied.added), 'bundled skill')} copied to {printable(place.state)}/skills;"
                " yours to edit or delete.",
                "dim",
            )
        )


def run(arguments: list[str]) -> int:
    """Run the command line and give its exit code.  No traceback reaches a person."""
    if sys.stdout is None or sys.stderr is None:
        _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
    except OSError as error:
        return report_unwritable(error)
    return code


def _run_command(arguments: list[str]) -> int:
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        result = cli.main(args=arguments, prog_name="metier", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except MetierError as error:
        return _report_error(error.message, error.hint, error.exit_code, as_json)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 0
    except click.ClickException as error:
        return _report_error(error.format_message(), _usage_hint(error), 2, as_json)
    except (click.Abort, KeyboardInterrupt):
        return _report_error("interrupted", "", 130)
    except (BrokenPipeError, SystemExit) as error:  # the second is click's word for the first
        raise BrokenPipeError from error
    except Exception as error:  # bulkhead: whatever went wrong, a person gets a sentence
        if os.environ.get("METIER_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        return _report_error(
            f"something unforeseen went wrong: {type(error).__name__}: {error}",
            "set METIER_DEBUG=1 to see where, and please report it",
            70,
        )


def report_unwritable(error: OSError) -> int:
    """Standard output took no more: a reader that has seen enough is no fault, a full disk is."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return 141
    return _report_error(f"the output can't be written: {error.strerror}", "", 5)


def _open_missing_streams() -> None:
    """A closed standard output or error swallows what is said."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for the whole run
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def run_completion() -> int:
    """Completion through click: what goes wrong is nothing to offer."""
    try:
        cli(prog_name="metier")
    except (MetierError, OSError):
        return 1
    return 0


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", "")
    if option in ("--root", "--dialect", "--agent", "--profile", "--project", "--no-index") and context is not None:
        return f"it goes before the command: metier {option} … {context.info_name}"
    return f"run `{context.command_path} --help`" if context is not None else ""


def _report_error(message: str, hint: str, code: int, as_json: bool = False) -> int:
    """Say what went wrong on standard error; to a program that asked for JSON, as JSON."""
    from .output import printable, warn

    if as_json:
        from json import dumps

        warn(dumps({"error": printable(message), "hint": printable(hint), "code": code}))
        return code
    warn(f"error: {printable(message)}")
    if hint:
        warn(f"hint: {printable(hint)}")
    return code


def skill_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completion of a skill's name."""
    from .output_cache import remember_answer

    params = context.find_root().params
    chosen = {key: params[key] for key in ("root", "dialect", "agent", "profile", "project") if params.get(key)}
    cli_context = CliContext(**chosen, index=not params.get("no_index"))
    try:
        library = cli_context.library()
    except (MetierError, OSError):
        return []
    names = completable_names(library)
    if cli_context == CliContext(root=cli_context.root):
        remember_answer(library, "names", cli_context.root or "", "\n".join(names))
    return [name for name in names if name.startswith(incomplete)]


def completable_names(library: Any) -> list[str]:
    from .output import printable

    names = [*(skill.name for skill in library.skills), *(broken.id for broken in library.broken)]
    return sorted(
        {name for name in names if printable(name) == name and not set(name) & _SHELL_CHARACTERS and name[:1] != "-"}
    )
