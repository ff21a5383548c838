"""What was typed into the chat, kept over conversations so that Up brings it back; and the chosen theme."""

from __future__ import annotations

from json import dumps, loads

from ...host import fs, paths
from ...types.errors import MetierError

_MOST_ENTRIES = 1_000
_LONGEST_ENTRY = 20_000
"""Characters of an entry: a pasted file is not worth keeping twice."""


def _history_file(state: str) -> str:
    return f"{state}/chat-history.jsonl"


def read_history(state: str) -> list[str]:
    """The entries, oldest first."""
    entries: list[str] = []
    try:
        for line in fs.read_lines(_history_file(state)):
            try:
                text = loads(line)
            except ValueError:
                continue
            if isinstance(text, str) and text.strip():
                entries.append(text)
    except MetierError:
        return []  # a chat without its history is still a chat
    if len(entries) > 2 * _MOST_ENTRIES:
        entries = entries[-_MOST_ENTRIES:]
        fs.write_text(_history_file(state), "".join(f"{dumps(text)}\n" for text in entries), sync=False)
    return entries[-_MOST_ENTRIES:]


def append_history(state: str, text: str) -> None:
    """Keep an entry; a disk that is full or read-only costs no more than the entry."""
    if len(text) > _LONGEST_ENTRY:
        return
    try:
        fs.append_line(_history_file(state), dumps(text))
    except MetierError:
        return


def read_theme(state: str) -> str:
    """The theme that was chosen last; empty where none was."""
    return (paths.read_text_file(f"{state}/chat-theme", 200) or "").strip()


def write_theme(state: str, name: str) -> None:
    fs.write_text(f"{state}/chat-theme", f"{name}\n", sync=False)
