"""`lint --fix`: repair a SKILL.md one mistake at a time, as text, without touching the rest of the file.

Every change to the frontmatter is read back before it is kept: it must say what it was meant to say, and all that the
block said before.  Rewriting the file from its parsed tree was refused: it would lose comments, order and quoting.
Removing hidden characters is the risky part, because they may be all that keeps a command from running; a line stays
as it is when a command, a placeholder or a fence would appear in it, and the whole file when a command would appear
elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..types.text import hidden_characters_in, strip_hidden
from ..types.tree import RawValue
from . import frontmatter
from .check import name_fault
from .document import split_frontmatter
from .fields import LONGEST_DESCRIPTION, SPELLINGS, first_paragraph
from .frontmatter import BadYaml, FrontmatterReading
from .markers import ANY_DIALECT, find_markers, opening_fence
from .plain_yaml import PLAIN_TEXT_KEYS, STRUCTURED_KEYS, repair_block

_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?$").match
_line = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
_placeholders = re.compile(r"(?<!\\)\\*\$(?:\{[^}]*\}?|ARGUMENTS(?:\[[0-9]*\])?|[\w@]+)")
"""Placeholders of any dialect."""
_SHELLS = (ANY_DIALECT, ANY_DIALECT._replace(anchored=True))
"""The widest rules, and those for which the character before a command decides: a command may be new to either."""
_ROUNDS = 4
"""Fixing one mistake may uncover another; after this many rounds nothing is left to fix."""
_KNOWN_KEYS = PLAIN_TEXT_KEYS | STRUCTURED_KEYS | frozenset(SPELLINGS) | frozenset(SPELLINGS.values())

KEY_TYPOS = {
    "user-invokable": "user-invocable",
    "user_invokable": "user-invocable",
    "userInvokable": "user-invocable",
    "descripton": "description",
    "desciption": "description",
    "discription": "description",
    "desc": "description",
    "disable-model-invokation": "disable-model-invocation",
    "allowed-tool": "allowed-tools",
    "allow-tools": "allowed-tools",
    "argument-hints": "argument-hint",
    "arguments-hint": "argument-hint",
    "licence": "license",
    "compatability": "compatibility",
}
"""Keys that people write, and the ones they mean."""


class FixedText(NamedTuple):
    text: str
    what: tuple[str, ...]


class _TextLine(NamedTuple):
    text: str
    end: str


def fix_text(text: str, directory: str) -> FixedText:
    """The text with every mistake fixed that has one obvious fix, and what was done."""
    changes: list[str] = []
    for _ in range(_ROUNDS):
        text, new_changes = _fix_once(text, directory)
        changes += [change for change in new_changes if change not in changes]
        if not new_changes:
            break
    return FixedText(text, tuple(changes))


def _fix_once(text: str, directory: str) -> FixedText:
    changes: list[str] = []
    if text.startswith("\ufeff") and not text.startswith("\ufeff\ufeff"):
        text = text[1:]
        changes.append("removed the byte order mark")
    lines = _split_lines(text)
    hidden = hidden_characters_in(text)
    if hidden:
        bare = _strip_all_lines(lines)
        if bare != lines and not _runs_more(bare, lines):
            lines = bare
            changes.append(f"removed hidden characters ({', '.join(hidden)})")
    lines = _fix_frontmatter(lines, directory, changes)
    return (
        FixedText("".join(line.text + line.end for line in lines), tuple(changes)) if changes else FixedText(text, ())
    )


def _split_lines(text: str) -> list[_TextLine]:
    """The lines, each with the end it has; the last one has none, and may be empty."""
    lines = [_TextLine(match[1], match[2]) for match in _line.finditer(text)]
    while len(lines) > 1 and not lines[-1].end and not lines[-2].end:
        lines.pop()
    return lines


def _strip_all_lines(lines: list[_TextLine]) -> list[_TextLine]:
    """Every line without hidden characters; frontmatter that could be read with them must be readable without."""
    bare = [*_strip_each_line(lines)]
    for number in range(1, len(lines)):
        if bare[number] == ("", "\n") and bare[number - 1].end == "\r":
            bare[number] = lines[number]  # without it, two line ends would become one
    fences = [number for number, line in enumerate(lines) if line.text.strip(" \t") == "---"][:2]
    if fences[:1] == [0] and len(fences) == 2:
        head = slice(1, fences[1])
        bare[head] = [old if _hides_key(old.text) else new for old, new in zip(lines[head], bare[head], strict=True)]
        if _is_readable(lines[head]) and (
            not _is_readable(bare[head]) or _block_keys(bare[head]) - _block_keys(lines[head])
        ):
            bare[head] = lines[head]
    elif fences and strip_hidden(lines[0].text).rstrip(" \t") == "---" and _is_head(bare[1 : fences[0]]):
        bare[0] = _TextLine("---", lines[0].end)
    return bare


def _is_readable(block: Sequence[_TextLine]) -> bool:
    try:
        frontmatter.read_yaml(_join_texts(block))
    except BadYaml as fault:
        try:
            repair_block(_join_texts(block), fault)
        except BadYaml:
            return False
    return True


def _strip_each_line(lines: Sequence[_TextLine]) -> Iterator[_TextLine]:
    """Each line without hidden characters, but those of a block of commands: what did not run must not begin to."""
    closing = ""
    for line in lines:
        if closing:
            yield line
            closing = "" if line.text.strip(" \t").startswith(closing) else closing
        else:
            yield _TextLine(_strip_line(line.text), line.end)
            ticks, info = opening_fence(line.text)
            closing = ticks if info.strip(" \t").startswith("!") else ""


def _strip_line(text: str) -> str:
    """A line without hidden characters, unless it would become a fence, a command or a placeholder that it was not."""
    bare = strip_hidden(text)
    if bare == text or (bare.strip(" \t") == "---" and text.strip(" \t") != "---"):
        return text
    return text if _live_constructs(bare) - _live_constructs(text) else bare


def _live_constructs(text: str) -> Counter[object]:
    """What a line would run, fill in or fence off; placeholders with the characters around them, which decide."""
    constructs: Counter[object] = Counter(
        text[max(0, match.start() - 1) : match.end() + 1] for match in _placeholders.finditer(text)
    )
    constructs.update((shell.anchored, marker.command) for shell in _SHELLS for marker in find_markers(text, shell))
    ticks, info = opening_fence(text)
    if ticks:
        constructs[ticks, info.strip(" \t").startswith("!")] += 1
    return constructs


def _runs_more(lines: Sequence[_TextLine], before: Sequence[_TextLine]) -> bool:
    """Whether a command runs that did not: one line can close a comment or a fence around another."""
    return bool(_all_commands(lines) - _all_commands(before))


def _all_commands(lines: Sequence[_TextLine]) -> Counter[object]:
    text = _join_texts(lines)
    bodies = {text, split_frontmatter(text).body}
    return Counter(
        (shell.anchored, marker.command) for body in bodies for shell in _SHELLS for marker in find_markers(body, shell)
    )


def _hides_key(text: str) -> bool:
    """Whether a line of frontmatter has hidden characters where its key is."""
    key, colon, _ = text.partition(":")
    return bool(colon) and strip_hidden(key) != key


def _block_keys(block: Sequence[_TextLine]) -> set[str]:
    """The keys of a block; none when it can't be read as it stands."""
    reading = _read_block(block)
    return set(reading.tree) if reading is not None else set()


def _join_texts(lines: Sequence[_TextLine]) -> str:
    return "\n".join(line.text for line in lines)


def _insert_lines(lines: Sequence[_TextLine], at: int, texts: Sequence[str]) -> list[_TextLine]:
    """The lines with more of them at a place, ended as the first line is."""
    end = next((line.end for line in lines if line.end), "\n")
    before = [*lines[:at]]
    if before and not before[-1].end:
        before[-1] = _TextLine(before[-1].text, end)
    inserted = [_TextLine(text, end) for text in texts]
    if at == len(lines):
        inserted[-1] = _TextLine(inserted[-1].text, "")
    return [*before, *inserted, *lines[at:]]


def _is_fence(line: _TextLine) -> bool:
    return line.text.rstrip(" \t") == "---"


def _fix_frontmatter(lines: list[_TextLine], directory: str, changes: list[str]) -> list[_TextLine]:
    if not _is_fence(lines[0]):
        lines = _open_frontmatter(lines, directory, changes)
        if not _is_fence(lines[0]):
            return lines
    end = next((number for number in range(1, len(lines)) if _is_fence(lines[number])), None)
    # Frontmatter that is never closed: it ends where its keys do.
    if end is None:
        end = _end_of_keys(lines)
        if end == 1:
            return lines
        lines = _insert_lines(lines, end, ["---"])
        changes.append(f"closed the frontmatter on line {end + 1}")
    block = _fix_block(lines[1:end], changes)
    block = _add_missing_fields(block, lines[0].end, lines[end + 1 :], directory, changes)
    return [lines[0], *block, *lines[end:]]


def _end_of_keys(lines: Sequence[_TextLine]) -> int:
    """Where unclosed frontmatter ends: at the first blank line or plain text that no known key follows."""
    end = 1
    for at in range(1, len(lines)):
        text = lines[at].text
        key = _key(text)
        follows = end == at and (key or (at > 1 and text[:1] in (" ", "\t", "-") and text.strip()))
        if follows or (key and key[1] in _KNOWN_KEYS):
            end = at + 1
        elif text.strip() and not text.startswith("#"):
            break
    return end


def _open_frontmatter(lines: list[_TextLine], directory: str, changes: list[str]) -> list[_TextLine]:
    """A file that does not begin with a fence: it has one further down, it lacks one, or it has no frontmatter."""
    first = next((number for number, line in enumerate(lines) if line.text.strip()), None)
    if first is None or strip_hidden(lines[first].text).lstrip().startswith("---"):
        rest = lines[first:] if first is not None else []
        end = next((number for number, line in enumerate(rest) if number and _is_fence(line)), 0)
        if not first or not end or not _is_fence(rest[0]) or not _is_head(rest[1:end]):
            return lines
        changes.append("removed the blank lines before the frontmatter")
        return rest
    fence = next((number for number, line in enumerate(lines) if _is_fence(line)), 0)
    if not first and _is_head(lines[:fence]):
        changes.append("opened the frontmatter on line 1")
        return _insert_lines(lines, 0, ["---"])
    description = _body_paragraph(lines)
    if not description or name_fault(directory):
        return lines
    changes.append("added frontmatter; its description is the first paragraph: read it")
    return _insert_lines(lines, 0, ["---", f"name: {directory}", f"description: {quote_scalar(description)}", "---"])


def _body_paragraph(lines: Sequence[_TextLine]) -> str:
    return first_paragraph("\n".join(line.text for line in lines))[:LONGEST_DESCRIPTION].strip()


def _read_block(block: Sequence[_TextLine]) -> FrontmatterReading | None:
    """What a block says, if it is a mapping or empty."""
    try:
        reading = frontmatter.read_yaml(_join_texts(block))
    except BadYaml:
        return None
    return reading if reading.kind in ("", "empty") else None


def _is_head(block: Sequence[_TextLine]) -> bool:
    """Whether lines are frontmatter beyond doubt: they give a name and a description."""
    reading = _read_block(block)
    return reading is not None and all(str(reading.tree.get(key, "")).strip() for key in ("name", "description"))


def _reads_as(block: Sequence[_TextLine], tree: Mapping[str, RawValue]) -> bool:
    reading = _read_block(block)
    return reading is not None and reading.tree == tree


def _fix_block(block: list[_TextLine], changes: list[str]) -> list[_TextLine]:
    """Fix what YAML can't read, then typos in keys."""
    try:
        reading = frontmatter.read_yaml(_join_texts(block))
    except BadYaml as fault:
        try:
            repaired = repair_block(_join_texts(block), fault)
        except BadYaml:
            return block
        requoted = _requote_values(block, repaired.what, repaired.reading.tree)
        if not _reads_as(requoted, repaired.reading.tree):
            return block
        for reason, _ in repaired.what:
            quote = reason.startswith("`")
            changes.append(f"put {reason.split(',')[0]} in quotes" if quote else "indented with spaces instead of tabs")
        block, reading = requoted, frontmatter.read_yaml(_join_texts(requoted))
    return _rename_keys(block, reading, changes)


def _rename_keys(block: list[_TextLine], reading: FrontmatterReading, changes: list[str]) -> list[_TextLine]:
    tree = dict(reading.tree)
    for key, number in reading.lines.items():
        intended = KEY_TYPOS.get(key)
        if intended is None or not block[number].text.startswith(key):
            continue
        # Both are there: which one is meant is the author's to say.
        if intended in {SPELLINGS.get(name, name) for name in tree}:
            continue
        renamed = [*block]
        renamed[number] = _TextLine(intended + block[number].text[len(key) :], block[number].end)
        expected = {intended if name == key else name: value for name, value in tree.items()}
        if _reads_as(renamed, expected):
            block, tree = renamed, expected
            changes.append(f"renamed `{key}` to `{intended}`")
    return block


def _requote_values(
    block: list[_TextLine], repairs: Sequence[tuple[str, int]], tree: Mapping[str, RawValue]
) -> list[_TextLine]:
    block = [*block]
    for reason, number in sorted(repairs, key=lambda entry: -entry[1]):
        matched = _key(block[number].text)
        if not reason.startswith("`"):
            block = [_TextLine(_expand_tabs(line.text), line.end) for line in block]
        elif matched:
            stop = number + 1
            while stop < len(block) and block[stop].text[:1] in (" ", "\t"):
                stop += 1
            value = quote_scalar(str(tree.get(matched[1], "")))
            block[number:stop] = [_TextLine(f"{matched[1]}: {value}", block[stop - 1].end)]
    return block


def _expand_tabs(line: str) -> str:
    stripped = line.lstrip(" \t")
    return line[: len(line) - len(stripped)].replace("\t", "  ") + stripped


def _add_missing_fields(
    block: list[_TextLine], end: str, body: Sequence[_TextLine], directory: str, changes: list[str]
) -> list[_TextLine]:
    """A name and a description where they are missing."""
    if not name_fault(directory):
        block = _with_field(block, end, "name", directory, changes, "added the name of the folder as `name`")
    paragraph = _body_paragraph(body)
    if paragraph:
        note = "added the first paragraph as `description`: read it"
        block = _with_field(block, end, "description", quote_scalar(paragraph), changes, note)
    return block


def _with_field(
    block: list[_TextLine], end: str, key: str, written: str, changes: list[str], note: str
) -> list[_TextLine]:
    """The block with a key it lacks or leaves blank; unchanged if that would not be read as meant."""
    reading = _read_block(block)
    if reading is None or (reading.tree.get(key, "") not in ("",) and str(reading.tree.get(key)).strip()):
        return block
    number = reading.lines.get(key)
    if number is None:
        at = reading.lines["name"] + 1 if key == "description" and "name" in reading.lines else 0
        changed = [*block[:at], _TextLine(f"{key}: {written}", end or "\n"), *block[at:]]
    else:
        changed = [*block]
        changed[number] = _TextLine(f"{key}: {written}", block[number].end)
    value = frontmatter.read_yaml(f"{key}: {written}").tree[key]
    if not _reads_as(changed, {**reading.tree, key: value}):
        return block
    changes.append(note)
    return changed


def quote_scalar(text: str) -> str:
    """A text as a double-quoted YAML scalar, if it needs to be one."""
    try:
        if frontmatter.read_yaml(f"description: {text}").tree == {"description": text} and " #" not in text:
            return text
    except BadYaml:
        pass
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(character if character.isprintable() else f"\\U{ord(character):08x}" for character in escaped)
        + '"'
    )
