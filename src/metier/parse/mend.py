"""Mending a SKILL.md: one slip at a time, as text, without touching the rest of the file.

Every change to the frontmatter is read back before it is kept: it must say what it was meant to say, and all
that the block said before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..types.text import hidden_in, unhidden
from ..types.tree import Raw
from . import events
from .check import name_fault
from .events import BadYaml, Reading
from .fields import LONGEST_DESCRIPTION, SPELLINGS, first_paragraph
from .repair import PLAIN, STRUCTURED, repair

_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?$").match
_line = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
_LIVE = (
    re.compile(r"!`[^`]*`?"),
    re.compile(r"(?:`{3,}|~{3,})[ \t]*!?"),
    re.compile(r"(?<!\\)\\*\$(?:\{[^}]*\}?|ARGUMENTS(?:\[[0-9]*\])?|[\w@]+)"),
)
"""Commands, fences and placeholders of any dialect."""
_begins_fence = re.compile(r"[ \t>*+-]*(?:`{3,}|~{3,})[ \t]*!?").match
_commands = re.compile(r"[ \t>*+-]*(`{3,}|~{3,})[ \t]*!").match
_ROUNDS = 4
"""Curing one slip may bare another; what has been mended has nothing left to mend."""
_KNOWN = PLAIN | STRUCTURED | frozenset(SPELLINGS) | frozenset(SPELLINGS.values())

TYPOS = {
    "user-invokable": "user-invocable", "user_invokable": "user-invocable", "userInvokable": "user-invocable",
    "descripton": "description", "desciption": "description", "discription": "description", "desc": "description",
    "disable-model-invokation": "disable-model-invocation", "allowed-tool": "allowed-tools",
    "allow-tools": "allowed-tools", "argument-hints": "argument-hint", "arguments-hint": "argument-hint",
    "licence": "license", "compatability": "compatibility",
}  # fmt: skip
"""Keys that people write, and the ones they mean."""


class Mended(NamedTuple):
    text: str
    what: tuple[str, ...]


class _Line(NamedTuple):
    text: str
    end: str


def mend(text: str, directory: str) -> Mended:
    """The text with every slip that has one clear cure cured, and what was done."""
    done: list[str] = []
    for _ in range(_ROUNDS):
        text, what = _once(text, directory)
        done += [one for one in what if one not in done]
        if not what:
            break
    return Mended(text, tuple(done))


def _once(text: str, directory: str) -> Mended:
    done: list[str] = []
    if text.startswith("\ufeff") and not text.startswith("\ufeff\ufeff"):
        text = text[1:]
        done.append("removed the byte order mark")
    lines = _lines(text)
    hidden = hidden_in(text)
    if hidden:
        bare = _all_bare(lines)
        if bare != lines:
            lines = bare
            done.append(f"removed hidden characters ({', '.join(hidden)})")
    lines = _frontmatter(lines, directory, done)
    return Mended("".join(line.text + line.end for line in lines), tuple(done)) if done else Mended(text, ())


def _lines(text: str) -> list[_Line]:
    """The lines, each with the end it has; the last one has none, and may be empty."""
    found = [_Line(one[1], one[2]) for one in _line.finditer(text)]
    while len(found) > 1 and not found[-1].end and not found[-2].end:
        found.pop()
    return found


def _all_bare(lines: list[_Line]) -> list[_Line]:
    """Every line without hidden characters; frontmatter that could be read with them must be readable without."""
    bare = [*_each_bare(lines)]
    for number in range(1, len(lines)):
        if bare[number] == ("", "\n") and bare[number - 1].end == "\r":
            bare[number] = lines[number]  # without it, two line ends would become one
    fences = [number for number, line in enumerate(lines) if line.text.strip(" \t") == "---"][:2]
    if fences[:1] == [0] and len(fences) == 2:
        head = slice(1, fences[1])
        bare[head] = [old if _hides_key(old.text) else new for old, new in zip(lines[head], bare[head], strict=True)]
        if _readable(lines[head]) and (not _readable(bare[head]) or _keys(bare[head]) - _keys(lines[head])):
            bare[head] = lines[head]
    elif fences and unhidden(lines[0].text).rstrip(" \t") == "---" and _is_head(bare[1 : fences[0]]):
        bare[0] = _Line("---", lines[0].end)
    return bare


def _readable(block: Sequence[_Line]) -> bool:
    try:
        events.read(_texts(block))
    except BadYaml as fault:
        try:
            repair(_texts(block), fault)
        except BadYaml:
            return False
    return True


def _each_bare(lines: Sequence[_Line]) -> Iterator[_Line]:
    """Each line without hidden characters, but those of a block of commands: what did not run must not begin to."""
    closing = ""
    for line in lines:
        if closing:
            yield line
            closing = "" if line.text.strip(" \t").startswith(closing) else closing
        else:
            yield _Line(_bare(line.text), line.end)
            commands = _commands(line.text)
            closing = commands[1] if commands else ""


def _bare(text: str) -> str:
    """A line without hidden characters, unless it would become a fence, a command or a placeholder that it was not."""
    bare = unhidden(text)
    if bare == text or (bare.strip(" \t") == "---" and text.strip(" \t") != "---"):
        return text
    return text if _alive(bare) - _alive(text) else bare


def _alive(text: str) -> Counter[str]:
    """What a line would run or fill in, each with the characters around it: they decide whether it does."""
    found = Counter(
        text[max(0, one.start() - 1) : one.end() + 1] for pattern in _LIVE for one in pattern.finditer(text)
    )
    begun = _begins_fence(text)
    if begun:
        found["\n" + begun[0]] += 1
    return found


def _hides_key(text: str) -> bool:
    """Whether a line of frontmatter has hidden characters where its key is."""
    key, colon, _ = text.partition(":")
    return bool(colon) and unhidden(key) != key


def _keys(block: Sequence[_Line]) -> set[str]:
    """The keys of a block; none when it can't be read as it stands."""
    reading = _reading(block)
    return set(reading.tree) if reading is not None else set()


def _texts(lines: Sequence[_Line]) -> str:
    return "\n".join(line.text for line in lines)


def _added(lines: Sequence[_Line], at: int, texts: Sequence[str]) -> list[_Line]:
    """The lines with more of them at a place, ended as the first line is."""
    end = next((line.end for line in lines if line.end), "\n")
    before = [*lines[:at]]
    if before and not before[-1].end:
        before[-1] = _Line(before[-1].text, end)
    made = [_Line(text, end) for text in texts]
    if at == len(lines):
        made[-1] = _Line(made[-1].text, "")
    return [*before, *made, *lines[at:]]


def _is_fence(line: _Line) -> bool:
    return line.text.rstrip(" \t") == "---"


def _frontmatter(lines: list[_Line], directory: str, done: list[str]) -> list[_Line]:
    if not _is_fence(lines[0]):
        lines = _begun(lines, directory, done)
        if not _is_fence(lines[0]):
            return lines
    end = next((number for number in range(1, len(lines)) if _is_fence(lines[number])), None)
    if end is None:
        end = _end_of_keys(lines)
        if end == 1:
            return lines
        lines = _added(lines, end, ["---"])
        done.append(f"closed the frontmatter on line {end + 1}")
    block = _block(lines[1:end], done)
    block = _completed(block, lines[0].end, lines[end + 1 :], directory, done)
    return [lines[0], *block, *lines[end:]]


def _end_of_keys(lines: Sequence[_Line]) -> int:
    """Where unclosed frontmatter ends: at the first blank line or plain text that no known key follows."""
    end = 1
    for at in range(1, len(lines)):
        text = lines[at].text
        key = _key(text)
        follows = end == at and (key or (at > 1 and text[:1] in (" ", "\t", "-") and text.strip()))
        if follows or (key and key[1] in _KNOWN):
            end = at + 1
        elif text.strip() and not text.startswith("#"):
            break
    return end


def _begun(lines: list[_Line], directory: str, done: list[str]) -> list[_Line]:
    """A file that does not begin with a fence: it has one further down, it lacks one, or it has no frontmatter."""
    first = next((number for number, line in enumerate(lines) if line.text.strip()), None)
    if first is None or unhidden(lines[first].text).lstrip().startswith("---"):
        rest = lines[first:] if first is not None else []
        end = next((number for number, line in enumerate(rest) if number and _is_fence(line)), 0)
        if not first or not end or not _is_fence(rest[0]) or not _is_head(rest[1:end]):
            return lines
        done.append("removed the blank lines before the frontmatter")
        return rest
    fence = next((number for number, line in enumerate(lines) if _is_fence(line)), 0)
    if not first and _is_head(lines[:fence]):
        done.append("opened the frontmatter on line 1")
        return _added(lines, 0, ["---"])
    description = _paragraph(lines)
    if not description or name_fault(directory):
        return lines
    done.append("added frontmatter; its description is the first paragraph: read it")
    return _added(lines, 0, ["---", f"name: {directory}", f"description: {quoted(description)}", "---"])


def _paragraph(lines: Sequence[_Line]) -> str:
    return first_paragraph("\n".join(line.text for line in lines))[:LONGEST_DESCRIPTION].strip()


def _reading(block: Sequence[_Line]) -> Reading | None:
    """What a block says, if it is a mapping or empty."""
    try:
        reading = events.read(_texts(block))
    except BadYaml:
        return None
    return reading if reading.kind in ("", "empty") else None


def _is_head(block: Sequence[_Line]) -> bool:
    """Whether lines are frontmatter beyond doubt: they give a name and a description."""
    reading = _reading(block)
    return reading is not None and all(str(reading.tree.get(key, "")).strip() for key in ("name", "description"))


def _says(block: Sequence[_Line], tree: Mapping[str, Raw]) -> bool:
    reading = _reading(block)
    return reading is not None and reading.tree == tree


def _block(block: list[_Line], done: list[str]) -> list[_Line]:
    """What YAML can't read, then typos in keys."""
    try:
        reading = events.read(_texts(block))
    except BadYaml as fault:
        try:
            repaired = repair(_texts(block), fault)
        except BadYaml:
            return block
        requoted = _requoted(block, repaired.what, repaired.reading.tree)
        if not _says(requoted, repaired.reading.tree):
            return block
        for reason, _ in repaired.what:
            quote = reason.startswith("`")
            done.append(f"put {reason.split(',')[0]} in quotes" if quote else "indented with spaces instead of tabs")
        block, reading = requoted, events.read(_texts(requoted))
    return _renamed(block, reading, done)


def _renamed(block: list[_Line], reading: Reading, done: list[str]) -> list[_Line]:
    tree = dict(reading.tree)
    for key, number in reading.lines.items():
        meant = TYPOS.get(key)
        if meant is None or not block[number].text.startswith(key):
            continue
        if meant in {SPELLINGS.get(other, other) for other in tree}:
            continue
        renamed = [*block]
        renamed[number] = _Line(meant + block[number].text[len(key) :], block[number].end)
        expected = {meant if other == key else other: value for other, value in tree.items()}
        if _says(renamed, expected):
            block, tree = renamed, expected
            done.append(f"renamed `{key}` to `{meant}`")
    return block


def _requoted(block: list[_Line], what: Sequence[tuple[str, int]], tree: Mapping[str, Raw]) -> list[_Line]:
    block = [*block]
    for reason, number in sorted(what, key=lambda one: -one[1]):
        matched = _key(block[number].text)
        if not reason.startswith("`"):
            block = [_Line(_untabbed(line.text), line.end) for line in block]
        elif matched:
            stop = number + 1
            while stop < len(block) and block[stop].text[:1] in (" ", "\t"):
                stop += 1
            value = quoted(str(tree.get(matched[1], "")))
            block[number:stop] = [_Line(f"{matched[1]}: {value}", block[stop - 1].end)]
    return block


def _untabbed(line: str) -> str:
    stripped = line.lstrip(" \t")
    return line[: len(line) - len(stripped)].replace("\t", "  ") + stripped


def _completed(block: list[_Line], end: str, body: Sequence[_Line], directory: str, done: list[str]) -> list[_Line]:
    """A name and a description where they are missing."""
    if not name_fault(directory):
        block = _given(block, end, "name", directory, done, "added the name of the folder as `name`")
    paragraph = _paragraph(body)
    if paragraph:
        what = "added the first paragraph as `description`: read it"
        block = _given(block, end, "description", quoted(paragraph), done, what)
    return block


def _given(block: list[_Line], end: str, key: str, written: str, done: list[str], what: str) -> list[_Line]:
    """The block with a key it lacks or leaves blank; unchanged if that would not be read as meant."""
    reading = _reading(block)
    if reading is None or (reading.tree.get(key, "") not in ("",) and str(reading.tree.get(key)).strip()):
        return block
    number = reading.lines.get(key)
    if number is None:
        at = reading.lines["name"] + 1 if key == "description" and "name" in reading.lines else 0
        changed = [*block[:at], _Line(f"{key}: {written}", end or "\n"), *block[at:]]
    else:
        changed = [*block]
        changed[number] = _Line(f"{key}: {written}", block[number].end)
    value = events.read(f"{key}: {written}").tree[key]
    if not _says(changed, {**reading.tree, key: value}):
        return block
    done.append(what)
    return changed


def quoted(text: str) -> str:
    """A text as a double-quoted YAML scalar, if it needs to be one."""
    try:
        if events.read(f"description: {text}").tree == {"description": text} and " #" not in text:
            return text
    except BadYaml:
        pass
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped) + '"'
