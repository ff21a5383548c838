"""What fetching is done with, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..host import archive, paths
from ..host.archive import Bounds, Progress
from ..types.installed import Provenance
from ..types.problem import Mark


@dataclass(frozen=True)
class Outfit:
    """What fetching is done with."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = "/"
    home: str = "/"
    insecure: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    seconds: float = 300.0
    progress: Progress | None = None


class Fetched(NamedTuple):
    """A folder of ours that holds what was asked for."""

    path: str
    name: str
    """What to call it, if nobody says otherwise."""
    provenance: Provenance
    notes: tuple[tuple[str, Mark], ...] = ()
    """What was left out, by its path inside."""


def opened(file: str, target: str, name: str, outfit: Outfit) -> tuple[str, str]:
    """An archive taken apart: the folder it holds, or all of it when it is not one folder alone."""
    archive.unpack(file, target, 0, outfit.bounds, outfit.progress)
    listed = paths.list_names(target)
    if len(listed.folders) == 1 and not listed.files and not listed.links:
        return f"{target}/{listed.folders[0]}", listed.folders[0]
    return target, name
