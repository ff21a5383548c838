"""Mending a SKILL.md: one slip at a time, as text, without touching the rest of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..types.text import hidden_in, seen
from . import events
from .check import name_fault
from .events import BadYaml
from .fields import LONGEST_DESCRIPTION
from .repair import repair

_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?$").match
_header = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*[ \t]*:(?:[ \t]|$)|[ \t]+\S|[ \t]*$|#|- ").match

TYPOS = {
    "user-invokable": "user-invocable", "user_invokable": "user-invocable", "userInvokable": "user-invocable",
    "descripton": "description", "desciption": "description", "discription": "description", "desc": "description",
    "disable-model-invokation": "disable-model-invocation", "allowed-tool": "allowed-tools",
    "allow-tools": "allowed-tools", "argument-hints": "argument-hint", "arguments-hint": "argument-hint",
    "licence": "license", "compatability": "compatibility", "title": "name",
}  # fmt: skip
"""Keys that people write, and the ones they mean."""


class Mended(NamedTuple):
    text: str
    what: tuple[str, ...]


def mend(text: str, directory: str) -> Mended:
    """The text with every slip that has one clear cure cured, and what was done."""
    done: list[str] = []
    if text.startswith("\ufeff"):
        text = text[1:]
        done.append("removed the byte order mark")
    hidden = hidden_in(text)
    if hidden:
        text = "\n".join(seen(line) if hidden_in(line) else line for line in text.split("\n"))
        done.append(f"removed hidden characters ({', '.join(hidden)})")
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    lines = _frontmatter(lines, directory, done)
    return Mended(ending.join(lines), tuple(done)) if done else Mended(text, ())


def _frontmatter(lines: list[str], directory: str, done: list[str]) -> list[str]:
    if lines[0].rstrip() != "---":
        return _begun(lines, directory, done)
    end = next((number for number in range(1, len(lines)) if lines[number].rstrip() == "---"), None)
    if end is None:
        end = next((number for number in range(1, len(lines)) if not _header(lines[number])), len(lines))
        while end > 1 and not lines[end - 1].strip():
            end -= 1
        lines = [*lines[:end], "---", *lines[end:]]
        done.append(f"closed the frontmatter on line {end + 1}")
    block = _block(lines[1:end], done)
    block = _completed(block, lines[end + 1 :], directory, done)
    return [lines[0], *block, *lines[end:]]


def _begun(lines: list[str], directory: str, done: list[str]) -> list[str]:
    """A file without frontmatter gets one, from its folder's name and its first paragraph."""
    description = _paragraph(lines)
    if not description or name_fault(directory):
        return lines
    done.append("added frontmatter; its description is the first paragraph: read it")
    return ["---", f"name: {directory}", f"description: {quoted(description)}", "---", *lines]


def _paragraph(lines: list[str]) -> str:
    found: list[str] = []
    for line in lines:
        if line.strip():
            found.append(line.strip().lstrip("#").strip())
        elif found:
            break
    return " ".join(found)[:LONGEST_DESCRIPTION].strip()


def _block(block: list[str], done: list[str]) -> list[str]:
    """Typos in keys, then what YAML can't read."""
    block = list(block)
    keys = {matched[1] for line in block if (matched := _key(line))}
    for number, line in enumerate(block):
        matched = _key(line)
        meant = TYPOS.get(matched[1]) if matched else None
        if matched and meant and meant not in keys:
            block[number] = meant + line[len(matched[1]) :]
            done.append(f"renamed `{matched[1]}` to `{meant}`")
    try:
        events.read("\n".join(block))
        return block
    except BadYaml as fault:
        try:
            repaired = repair("\n".join(block), fault)
        except BadYaml:
            return block
    return _requoted(block, repaired.what, repaired.reading.tree, done)


def _requoted(
    block: list[str], what: tuple[tuple[str, int], ...], tree: Mapping[str, object], done: list[str]
) -> list[str]:
    for reason, number in sorted(what, key=lambda one: -one[1]):
        matched = _key(block[number])
        if matched is None or not reason.startswith("`"):
            block = [_untabbed(line) for line in block]
            done.append("indented with spaces instead of tabs")
            continue
        stop = number + 1
        while stop < len(block) and block[stop][:1] in (" ", "\t"):
            stop += 1
        block[number:stop] = [f"{matched[1]}: {quoted(str(tree[matched[1]]))}"]
        done.append(f"put `{matched[1]}` in quotes")
    return block


def _untabbed(line: str) -> str:
    stripped = line.lstrip(" \t")
    return line[: len(line) - len(stripped)].replace("\t", "  ") + stripped


def _completed(block: list[str], body: list[str], directory: str, done: list[str]) -> list[str]:
    """A name and a description where they are missing."""
    try:
        reading = events.read("\n".join(block))
    except BadYaml:
        return block
    if reading.kind and reading.kind != "empty":
        return block
    if not str(reading.tree.get("name", "")).strip() and not name_fault(directory):
        block = [f"name: {directory}", *(line for line in block if not line.startswith("name:"))]
        done.append("added the name of the folder as `name`")
    if not str(reading.tree.get("description", "")).strip():
        paragraph = _paragraph(body)
        if paragraph:
            block = [line for line in block if not line.startswith("description:")]
            block.insert(1 if block and block[0].startswith("name:") else 0, f"description: {quoted(paragraph)}")
            done.append("added the first paragraph as `description`: read it")
    return block


def quoted(text: str) -> str:
    """A text as a double-quoted YAML scalar, if it needs to be one."""
    plain = f"description: {text}"
    try:
        if events.read(plain).tree == {"description": text} and " #" not in text:
            return text
    except BadYaml:
        pass
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
