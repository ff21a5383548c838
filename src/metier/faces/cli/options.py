"""What the shell offers for a word of the command line, beside the names of skills."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from ...types.errors import MetierError

if TYPE_CHECKING:
    from ...library.library import Library


Command = TypeVar("Command", bound=Callable[..., Any])
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _make_completer(list_names: Callable[[str, str], Iterable[str]]) -> Complete:
    """Those of the names that begin so; nothing where they can't be had."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from ...host.facts import find_place
        from .output import printable

        place = find_place(str(context.find_root().params.get("project") or "."))
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
    from ...improve.store import list_proposals

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

    return [schedule.id for schedule in store.all_schedules(open_engine(find_place(project)))]


def _client_names(state: str, project: str) -> Iterable[str]:
    return list(import_module("metier.faces.mcp.clients").CLIENTS)


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
"""Agents there are; models that can be asked; skills as they are called."""


def model_option(help: str = "The model to ask, such as anthropic:NAME or local:NAME.") -> Callable[[Command], Command]:
    """`--model`, as every command has it that asks one."""
    return click.option("--model", shell_complete=usable_models, default="", metavar="NAME", help=help)
