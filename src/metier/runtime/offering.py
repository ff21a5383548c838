"""What a conversation is told at its beginning, and what the catalog says at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..act.restore import Offer
from ..act.rules import rules
from ..catalog import layout
from ..types.event import Started

if TYPE_CHECKING:
    from .library import Library
    from .session import Session

PLAIN = """\
You are a careful assistant that works in a folder of the user's. You have tools; use them rather than guess.
Do what was asked, no more; say plainly what you did and what you could not do."""


def offer_of(library: Library) -> Offer:
    """The catalog's own lines, by name."""
    catalog = library.catalog()
    write = layout(library.dialect.serving.listing.format).entry
    return Offer({entry.name: write(entry) for entry in catalog.entries})


def started(session: Session) -> Started:
    """The beginning: the system prompt, which then never changes."""
    library, agent, kit = session.library, session.agent, session.tools()
    catalog = library.catalog()
    names = frozenset(tool.name for tool in kit.shown)
    parts = [agent.instructions or PLAIN, rules(names) if kit.skilled else "", catalog.text, _here(session)]
    return Started(
        session.run,
        "\n\n".join(part.strip("\n") for part in parts if part.strip()),
        session.model.name,
        library.dialect.name,
        agent.name,
        session.agent.cwd,
        session.parent,
        tuple(entry.name for entry in catalog.entries),
        offer_of(library).digests,
        library.request.habits.used,
        agent.alone.schedule if agent.alone else "",
    )


def _here(session: Session) -> str:
    """What differs from place to place comes last: all before it is the same bytes everywhere."""
    return f"## Here\n\nThe working folder is {session.agent.cwd}"
