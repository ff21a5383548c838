"""The command table.  A command's module is imported when that command is run, and not before."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from ... import __version__
from ...types.errors import BadRequest, MetierError

COMMANDS = {
    "list": ("listing:list_skills", "List the skills of this place."),
    "status": ("status:status", "Say what is ready, what is not, and why."),
    "show": ("show:show", "Show one skill: its frontmatter and its instructions."),
    "catalog": ("catalog:catalog", "Print the listing a model gets."),
    "commands": ("catalog:commands", "List the slash commands."),
    "why": ("why:why", "Follow one skill from disk to catalog, step by step."),
    "validate": ("validate:validate", "Check skills strictly, as agentskills.io says."),
    "lint": ("lint:lint", "Find slips in skills, and mend what can be mended."),
    "new": ("new:new", "Write a new skill."),
    "trust": ("trust:trust", "Trust the skills of a project."),
    "roots": ("roots:roots", "Show where metier looks, in order of precedence."),
    "doctor": ("doctor:doctor", "Check metier's own footing on this machine."),
    "init": ("init:init", "Copy the bundled skills to where you may edit them."),
    "conform": ("conform:conform", "Run conformance cases against this build."),
    "completion": ("completion:completion", "Print the completion script for your shell."),
}
TAKES_NAME = ("show", "why", "status")


@dataclass
class Context:
    """The global options."""

    root: str | None = None
    dialect: str | None = None
    agent: str | None = None
    profile: str = ""
    project: str = "."
    index: bool = True

    def library(self) -> Any:
        from ...runtime import open

        return open(
            self.project,
            dialect=self.dialect,
            agent=self.agent,
            profile=self.profile,
            root=self.root,
            index=self.index,
        )


class LazyGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(f".{module}", __package__), function)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not context.resilient_parsing:
            near = get_close_matches(name, COMMANDS, 1, 0.5)
            hint = f"did you mean `{near[0]}`?" if near else "run `metier --help` to see the commands"
            raise BadRequest(f"`{name}` is not a command", hint)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="metier %(version)s")
@click.option("--root", metavar="DIR", help="Look only in this folder of skills; it is trusted, you named it.")
@click.option("--dialect", metavar="NAME", help="Serve as: standard claude umbra agentmd multica agenvoy openclaw.")
@click.option("--agent", metavar="NAME", help="Only the skills this agent may use (its name, or its file).")
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
    context.obj = Context(root, dialect, agent, profile, project, not no_index)
    if context.invoked_subcommand in ("list", "status", "show", "catalog", "commands", "why") and root is None:
        _first_time()


def _first_time() -> None:
    """A person's first use of the command line brings the bundled skills; programs are left alone."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    from ...host.place import here
    from ...sources.bundled import copy_bundled, was_copied
    from .printing import paint, warn

    place = here(".")
    if was_copied(place.state):
        return
    done = copy_bundled(place.state)
    if done.added:
        warn(
            paint(
                f"{len(done.added)} bundled skills were copied to {place.state}/skills; they are yours to edit.",
                "dim",
            )
        )


def run(arguments: list[str]) -> int:
    """Run the command line and give its exit code.  No traceback reaches a person."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = cli.main(args=arguments, prog_name="metier", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except MetierError as error:
        return _complain(error.message, error.hint, error.exit_code)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        return _complain(error.format_message(), _usage_hint(error), 2)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", "", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:  # bulkhead: whatever went wrong, a person gets a sentence
        if os.environ.get("METIER_DEBUG"):
            raise
        return _complain(
            f"something unforeseen went wrong: {type(error).__name__}: {error}",
            "set METIER_DEBUG=1 to see where, and please report it",
            70,
        )


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"run `{context.command_path} --help`" if context is not None else ""


def _complain(message: str, hint: str, code: int) -> int:
    from .printing import clean, warn

    warn(f"error: {clean(message)}")
    if hint:
        warn(f"hint: {clean(hint)}")
    return code


def skill_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completion of a skill's name."""
    from . import door, memory

    options = context.find_root().params
    here = Context(options.get("root"), options.get("dialect"), options.get("agent"), options.get("profile") or "")
    try:
        library = here.library()
    except MetierError:
        return []
    names = complete_names(library)
    if here == Context(root=here.root):
        memory.remember(library, door.key_of("names", here.root or ""), "\n".join(names))
    return [name for name in names if name.startswith(incomplete)]


def complete_names(library: Any) -> list[str]:
    from .printing import clean

    names = [*(skill.name for skill in library.skills), *(broken.id for broken in library.broken)]
    return sorted({clean(name) for name in names if clean(name) == name and not set(name) & set(" \t\n,'\"`$\\")})
