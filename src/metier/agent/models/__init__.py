"""The models an agent can ask.

Here is said which one is in force: the caller's, `METIER_MODEL`'s, the configured one, or a local model that is there.
`registry` opens one by name, `hosted` talks to services, `local` runs a small model in this process; they import the
values of a conversation, which takes long, and `doctor` asks only for the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...host import paths

if TYPE_CHECKING:
    from ...library.library import Library


LOCAL = "local"
"""The provider of models that run on this machine."""


def models_folder(library: Library) -> str:
    """The folder of local models."""
    return f"{library.place.state}/models"


def local_models(library: Library) -> dict[str, str]:
    """The local models: name and file."""
    folder = models_folder(library)
    if not paths.is_folder(folder):
        return {}
    listed = paths.list_names(folder)
    names = sorted(name for name in (*listed.files, *listed.links) if name.endswith(".gguf"))
    return {name.removesuffix(".gguf"): f"{folder}/{name}" for name in names}


def resolve_model_name(name: str, library: Library) -> str:
    """The name in force: the given one, the environment's, the configured one, or the first local model."""
    configured = library.settings.own("model")
    chosen = name or library.place.env.get("METIER_MODEL", "") or (configured if isinstance(configured, str) else "")
    if not chosen and local_models(library):
        return f"{LOCAL}:{next(iter(local_models(library)))}"
    return chosen
