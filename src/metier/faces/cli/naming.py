"""What the shell offers for a word of the command line, beside the names of skills."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from ...types.errors import MetierError

if TYPE_CHECKING:
    from ...runtime.library import Library

Command = TypeVar("Command", bound=Callable[..., Any])
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _offering(found: Callable[[str, str], Iterable[str]]) -> Complete:
    """Those of the names that begin so; nothing where they can't be had."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from ...host.place import here
        from .printing import clean

        place = here(str(context.find_root().params.get("project") or "."))
        try:
            names = list(found(place.state, place.project))
        except (MetierError, OSError):
            return []
        return [name for name in names if name.startswith(incomplete) and clean(name) == name]

    return complete


def _runs(state: str, project: str) -> Iterable[str]:
    from ...record.journal import ids

    return ["last", *reversed(ids(state))]


def _proposals(state: str, project: str) -> Iterable[str]:
    from ...improve.store import proposals

    return [one.id for one in proposals(state)]


def _trash(state: str, project: str) -> Iterable[str]:
    from ...install.place import Ground, trash

    roots = (f"{state}/skills", f"{project}/.metier/skills")
    return list(dict.fromkeys(what for root in roots for _, what, _ in trash(Ground(root))))


def _schedules(state: str, project: str) -> Iterable[str]:
    from ...host.place import here
    from ...schedule import book
    from ...schedule.database import open_engine

    return [one.id for one in book.schedules(open_engine(here(project)))]


def _clients(state: str, project: str) -> Iterable[str]:
    return list(import_module("metier.faces.mcp.clients").CLIENTS)


def _models(state: str, project: str) -> Iterable[str]:
    from ...runtime.keeping import KNOWN

    return list(KNOWN)


def _agents(state: str, project: str) -> Iterable[str]:
    from ...runtime.described import agent_files

    return sorted(agent_files(_library(project)))


def _asked(state: str, project: str) -> Iterable[str]:
    from ...runtime.models import model_names

    return model_names(_library(project))


def _calls(state: str, project: str) -> Iterable[str]:
    return [f"/{one.name}" for one in _library(project).commands()]


def _library(project: str) -> Library:
    from ...host.place import here
    from ...runtime.opening import Request, open_at

    return open_at(here(project), Request())


runs, proposals, trash, schedules, clients, models = map(
    _offering, (_runs, _proposals, _trash, _schedules, _clients, _models)
)
agents, asked, calls = map(_offering, (_agents, _asked, _calls))
"""Agents there are; models that can be asked; skills as they are called."""


def model_option(help: str = "The model to ask, such as anthropic:NAME or local:NAME.") -> Callable[[Command], Command]:
    """`--model`, as every command has it that asks one."""
    return click.option("--model", shell_complete=asked, default="", metavar="NAME", help=help)
