"""Which model is meant: by its name, by the configuration, or the one that runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types.errors import NoModel

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library


def open_model(name: str, library: Library) -> Model:
    raise NoModel(f"no model is called {name}")
