"""What a person allowed for good, kept by what it was about; a program that changes is another program."""

from __future__ import annotations

from hashlib import sha256
from json import dumps, loads

from ..host import paths, state

_FILE = "approvals.json"


def _book(folder: str) -> list[str]:
    text = paths.read_text_file(f"{folder}/{_FILE}")
    try:
        found = loads(text) if text else []
    except ValueError:
        return []  # a damaged book allows nothing
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _digest(key: str) -> str:
    return "sha256:" + sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def remembered(folder: str, key: str) -> bool:
    return _digest(key) in _book(folder)


def remember(folder: str, key: str) -> None:
    with state.locked(f"{folder}/{_FILE}.lock"):
        book = dict.fromkeys([*_book(folder), _digest(key)])
        state.write_text(f"{folder}/{_FILE}", dumps(list(book), indent=1) + "\n")
