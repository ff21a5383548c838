"""Secrets that are known here, taken out of what is shown, sent and kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .library import Library

_named = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$").search
_SHORTEST = 8
HIDDEN = "[hidden]"


def hider(library: Library) -> Callable[[str], str]:
    """Takes the values of keys, tokens and passwords of this environment and configuration out of a text."""
    found = {form for value in _values(library) for form in (value, dumps(value)[1:-1])}
    if not found:
        return str
    any_of_them = re.compile("|".join(re.escape(one) for one in sorted(found, key=len, reverse=True)))
    return lambda text: any_of_them.sub(HIDDEN, text)


def _values(library: Library) -> Iterator[str]:
    for name, value in library.place.env.items():
        if _named(name.upper()) and len(value) >= _SHORTEST and not value.startswith("/"):
            yield value
    for skill in library.skills if library.settings.mentions_skills else ():
        entry = library.settings.entry(skill.settings_key)
        if len(entry.api_key) >= _SHORTEST:
            yield entry.api_key
        for name, value in entry.env.items():
            if _named(name.upper()) and len(value) >= _SHORTEST:
                yield value
