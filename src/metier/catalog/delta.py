"""What changed between two listings, for the end of a conversation whose beginning must stay as it was."""

from __future__ import annotations

from collections.abc import Sequence

from ..types.catalog import Entry


def delta(before: Sequence[Entry], after: Sequence[Entry]) -> str:
    """A short note on what came, went and is described otherwise; empty where nothing did."""
    old = {entry.name: entry for entry in before}
    new = {entry.name: entry for entry in after}
    added = [entry for name, entry in new.items() if name not in old]
    changed = [entry for name, entry in new.items() if name in old and _said(entry) != _said(old[name])]
    removed = [name for name in old if name not in new]
    lines = [*_lines("New", added), *_lines("Described anew", changed)]
    if removed:
        lines.append(f"No longer available: {', '.join(removed)}")
    return "\n".join(["<skills-changed>", *lines, "</skills-changed>"]) if lines else ""


def _said(entry: Entry) -> tuple[str, str]:
    return entry.description, entry.location


def _lines(title: str, entries: Sequence[Entry]) -> list[str]:
    listed = [f"- {one.name}: {one.description}" if one.description else f"- {one.name}" for one in entries]
    return [f"{title}:", *map(_inert, listed)] if listed else []


def _inert(line: str) -> str:
    """A description can't end the note it stands in."""
    return line.replace("&", "&amp;").replace("<", "&lt;")
