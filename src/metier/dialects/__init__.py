"""The dialects of SKILL.md, as data.  A root chooses one; no stage knows a product's name.

Import `DIALECTS` for all of them by name and `PROTECTED_FOLDERS` for the folders their skills live in.
A product is one file in `products`; `standard` is the open standard, and `custom` reads a dialect from configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile

from ..types.dialect import Dialect, RootSpec
from .products import PRODUCTS
from .standard import STANDARD

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (STANDARD, *PRODUCTS)}
"""Every built-in dialect by name: the standard first, then the products in order of precedence."""


def protected_folders(roots: Iterable[RootSpec]) -> tuple[str, ...]:
    """The folders, relative to a project or a home, that a sandboxed program must not change to plant a skill.

    Below a hidden folder it is all of the product's own folder (`.umbra`, `.config/agenvoy`): settings and agents live
    next to the skills.  A root without one (`extensions/skills`) shares its parent with other files of the project, so
    only the root itself is protected.
    """
    folders: set[str] = set()
    for root in roots:
        anchor, *segments = root.path.split("/")
        if anchor in ("~", "{ancestor}", "{project}"):
            # A placeholder stands for any name: the folder above it covers them all.
            segments = list(takewhile(lambda segment: "{" not in segment, segments))
            if segments and segments[0].startswith(".") and "skills" in segments:
                segments = segments[: segments.index("skills")]
            folders.add("/".join(segments))
    return tuple(sorted(folder for folder in folders if folder and not _has_parent(folder, folders)))


def _has_parent(folder: str, folders: Collection[str]) -> bool:
    return any(folder.startswith(f"{parent}/") for parent in folders if parent)


PROTECTED_FOLDERS = protected_folders(root for dialect in DIALECTS.values() for root in dialect.serving.roots)
"""Those of every built-in dialect; a custom dialect has the roots of the one it is like."""

__all__ = ["DIALECTS", "PRODUCTS", "PROTECTED_FOLDERS", "STANDARD", "protected_folders"]
