"""What commands share of their options: the global ones, `--model`, and what the shell completes for a word."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from ...light_typing import TYPE_CHECKING, Any, NamedTuple
from ...types.errors import BadRequest, MetierError
from .commands import Completer, Flag, Option, ReadOnlyCommand

if TYPE_CHECKING:
    from typing import TypeVar

    import click

    from ...library.library import Library
    from ...types.problem import Problem

    Command = TypeVar("Command", bound=Callable[..., Any])

PICK_SESSION = "?"
"""Stands for a conversation that is to be picked from a list."""

# --- The global options ---


class CliContext(NamedTuple):
    """The global options; every command gets them first."""

    root: str | None = None
    dialect: str | None = None
    agent: str | None = None
    profile: str = ""
    directory: str = "."
    """Where the command runs: `-C DIR`."""
    use_index: bool = True
    kit: str = ""

    def library(self, shows_problems: bool = False) -> Library:
        """Open the library these options choose; unless the caller shows problems, a broken configuration is told."""
        from ...host.facts import find_place
        from ...library.open import OpenRequest, open_at

        request = OpenRequest(self.dialect, self.agent, self.root, self.use_index, kit=self.kit)
        library = open_at(find_place(self.directory, self.profile), request)
        if self.profile and self.root is None:
            _require_profile(
                self.profile, [root.origin.path for root in library.roots if root.origin.root == "profile"]
            )
        if library.problems and not shows_problems:
            from ...library.settings import settings_faults
            from .output import problem_lines, warn

            for problem in settings_faults(library.problems):
                for line in problem_lines(problem):
                    warn(line)
        return library


def require_whole_configuration(context: CliContext) -> None:
    """Stop a command that acts if the configuration can't be read in full."""
    from ...host.facts import find_place
    from ...library.settings import all_dialects, load_settings, require_whole_settings

    problems: list[Problem] = []
    settings, _ = load_settings(find_place(context.directory), problems)
    all_dialects(settings, problems)
    require_whole_settings(problems)


def make_context(values: Mapping[str, Any]) -> CliContext:
    """The context that the values of the global options make."""
    for option in GLOBAL_OPTIONS:
        # Mostly an unset variable in a script: `--root "$SKILLS"` must not mean the current folder.
        if isinstance(option, Option) and option.default is None and values.get(option.field) == "":
            raise BadRequest(f"{option.names[-1]} must not be empty", "pass a value, or omit the option")
    directory = values.get("directory") or values.get("project") or "."
    return CliContext(
        values.get("root"),
        values.get("dialect"),
        values.get("agent"),
        values.get("profile") or "",
        directory,
        not values.get("no_index"),
        values.get("kit") or "",
    )


def _require_profile(profile: str, roots: list[str]) -> None:
    """Refuse a profile that has no folder: the name is most likely misspelled."""
    from difflib import get_close_matches

    from ...host import paths

    for root in roots:
        folder = root.rpartition("/")[0]
        if paths.is_folder(folder):
            continue
        home = folder.rpartition("/")[0]
        profiles = paths.list_names(home).folders if paths.is_folder(home) else []
        near = get_close_matches(profile, profiles, 1)
        if near:
            hint = f"did you mean `{near[0]}`?"
        else:
            hint = "available profiles: " + ", ".join(profiles) if profiles else f"create {folder}"
        raise BadRequest(f"no profile named `{profile}`", hint)


_BRINGS_BUNDLED = frozenset({"list", "status", "show", "catalog", "commands", "why"})
"""The commands that a person is likely to run first: they copy the bundled skills."""


def invoke(command: ReadOnlyCommand, context: CliContext, values: Mapping[str, object]) -> int:
    """Run a read-only command and return its exit code."""
    if context.root is None and command.name in _BRINGS_BUNDLED:
        _copy_bundled_once()
    return command.function(context, **values) or 0


def _copy_bundled_once() -> None:
    """Copy the bundled skills when a person first uses metier at a terminal; programs never get them unasked."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    from ...host.facts import find_place
    from ...sources.bundled import copy_bundled, was_copied
    from .output import count_of, paint, printable, warn

    place = find_place(".")
    if was_copied(place.state):
        return
    # Imports most of install, for the one time it is needed.
    from ...install.managed import record_bundled

    copied = copy_bundled(place.state)
    record_bundled(place, copied, lambda text: warn(f"note: {text}"))
    if copied.added:
        skills = count_of(len(copied.added), "bundled skill")
        warn(paint(f"{skills} copied to {printable(place.state)}/skills; edit or delete them as you like", "dim"))


# --- Completion ---

_SHELL_CHARACTERS = set(" \t\n,'\"`$\\*?[]{}()<>|&;#~!")
"""A shell expands or splits words with these: such a name is never offered, since completing it could run something."""


def skill_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a skill's name."""
    return complete_skill(make_context(context.find_root().params), incomplete)


def complete_skill(context: CliContext, incomplete: str) -> list[str]:
    """The names of skills that begin so, without those that a shell would expand."""
    from ...host.facts import find_place
    from ...library.open import discover
    from ...sources.scan import skill_names as skill_names_of
    from .output import printable

    try:
        place = find_place(context.directory, context.profile)
        scan = discover(place, context.dialect, context.root, context.use_index).scan
    except (MetierError, OSError):
        return []
    # Broken skills too: their names are what `status` and `why` are asked about.
    names = {*skill_names_of(scan.skills), *(broken.id for broken in scan.broken)}
    return sorted(name for name in names if name.startswith(incomplete) and _completes_as_is(name, printable))


def _completes_as_is(name: str, printable: Callable[[str], str]) -> bool:
    """Whether a shell takes a name for just that word."""
    # A name that begins with `-` would be an option.
    if name[:1] == "-":
        return False
    # Most names are plain letters, digits and dashes, and there may be thousands: they are through with one look.
    if name.isascii() and name.replace("-", "_").isidentifier():
        return True
    # One that prints as something else could not be recognised.
    return printable(name) == name and not set(name) & _SHELL_CHARACTERS


def dialect_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a dialect's name."""
    from ...dialects import DIALECTS

    return [name for name in DIALECTS if name.startswith(incomplete)]


def _dialect_help() -> str:
    from ...dialects import DIALECTS

    return f"Dialect to use: {', '.join(DIALECTS)}"


def _make_completer(list_names: Callable[[str, str], Iterable[str]]) -> Completer:
    """A completer of the names that a function lists for a state folder and a project."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from ...host.facts import find_place
        from .output import printable

        place = find_place(make_context(context.find_root().params).directory)
        try:
            names = list(list_names(place.state, place.project))
        except (MetierError, OSError):
            return []
        return [name for name in names if name.startswith(incomplete) and printable(name) == name]

    return complete


def _run_ids(state: str, project: str) -> Iterable[str]:
    from ...record.journal import run_ids

    return ["last", *reversed(run_ids(state))]


def _proposal_ids(state: str, project: str) -> Iterable[str]:
    from ...improve.proposal_store import list_proposals

    return [proposal.id for proposal in list_proposals(state)]


def _trashed_names(state: str, project: str) -> Iterable[str]:
    from ...install.transaction import list_trash
    from ...library.lockfile import InstallRoot

    roots = (f"{state}/skills", f"{project}/.metier/skills")
    return list(dict.fromkeys(name for root in roots for _, name, _ in list_trash(InstallRoot(root))))


def _schedule_ids(state: str, project: str) -> Iterable[str]:
    from ...host.facts import find_place
    from ...schedule import store
    from ...schedule.database import open_engine

    engine = open_engine(find_place(project))
    try:
        return [schedule.id for schedule in store.all_schedules(engine)]
    finally:
        engine.dispose()


def _client_names(state: str, project: str) -> Iterable[str]:
    from ..mcp.clients import CLIENTS

    return list(CLIENTS)


def _known_models(state: str, project: str) -> Iterable[str]:
    from ...agent.models.registry import KNOWN_MODELS

    return list(KNOWN_MODELS)


def _agent_names(state: str, project: str) -> Iterable[str]:
    from ...agent.agent_files import agent_files

    return sorted(agent_files(_open_library(project)))


def _usable_models(state: str, project: str) -> Iterable[str]:
    from ...agent.models.registry import model_names

    return model_names(_open_library(project))


def _slash_commands(state: str, project: str) -> Iterable[str]:
    return [f"/{command.name}" for command in _open_library(project).commands()]


def _open_library(project: str) -> Library:
    from ...host.facts import find_place
    from ...library.open import OpenRequest, open_at

    return open_at(find_place(project), OpenRequest())


runs, proposals, trash, schedules, clients, models = map(
    _make_completer, (_run_ids, _proposal_ids, _trashed_names, _schedule_ids, _client_names, _known_models)
)
agents, usable_models, calls = map(_make_completer, (_agent_names, _usable_models, _slash_commands))
"""Agents; models that can be used now; skills as slash commands."""


# --- Declarations ---

GLOBAL_OPTIONS: tuple[Flag | Option, ...] = (
    Option("root", ("--root",), "Use only the skills in DIR, and trust them", metavar="DIR"),
    Option(
        "dialect",
        ("--dialect",),
        _dialect_help,
        metavar="NAME",
        complete=dialect_names,
    ),
    Option(
        "agent",
        ("--agent",),
        "Use only the skills that this agent allows (its name or file)",
        metavar="NAME",
        complete=agents,
    ),
    Option("kit", ("--kit",), "Use only the skills of this kit of the configuration", metavar="NAME"),
    Option("profile", ("--profile",), "Also use the skills of this agent profile", metavar="ID"),
    Option("directory", ("-C", "--directory"), "Run as if started in DIR", metavar="DIR"),
    # The old name of --directory. Subcommands have a `--project` flag of their own, which this one does not affect.
    Option("project", ("--project",), "The same as --directory", metavar="DIR", hidden=True),
    Flag("no_index", ("--no-index",), "Read every file, without reading or writing the index"),
)
GLOBAL_NAMES = frozenset(name for option in GLOBAL_OPTIONS for name in option.names)


def model_option(help: str = "Model to use, such as anthropic:NAME or local:NAME") -> Callable[[Command], Command]:
    """`--model`, for every command that calls a model."""
    import click

    return click.option("--model", shell_complete=usable_models, default="", metavar="NAME", help=help)
