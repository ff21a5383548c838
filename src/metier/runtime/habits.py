"""What a person uses most, for conversations in which not every skill can be listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..record.uses import uses
from ..types.catalog import Habits

if TYPE_CHECKING:
    from .library import Library


def with_habits(library: Library, run: str, used: Mapping[str, int] | None = None) -> Library:
    """The library for one conversation: what was used most comes first where the catalog can't hold all.

    What was used is asked once and then stays, so that a conversation which goes on later lists the same skills.
    """
    if used is None:
        if not any(one.reason.startswith("limit-") for one in library.catalog().left_out):
            return library
        used = uses(library.place.state, {skill.path for skill in library.skills})
    return replace(library, request=replace(library.request, habits=Habits(used=used, seed=run)))
