"""Demonstration: a call that failed and the one that then worked, mapped back into the text they came from.

The run itself shows the cure, so no model is needed, and no guess is made.  But a call that worked may also do
something else: another target, fewer checks, another number.  So a difference counts only if it corrects the call and
keeps what it is about: an option or a path under its real name, an option that the skill's own script asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from .scripts import options_of, values_of
from .steps import INTERPRETERS, StepMatch, TextPiece, code_pieces, inner_path, is_open, match_piece
from .typos import differ_in_meaning, is_typo, name_words

_MOST_CHANGES = 3
"""Differing words beyond which two calls are two ideas, not one corrected."""
CAUTION_WORDS = frozenset(
    (
        "dry",
        "check",
        "verify",
        "safe",
        "confirm",
        "preview",
        "test",
        "no",
        "interactive",
        "backup",
        "limit",
        "max",
    )
)
BOLD_WORDS = frozenset(
    (
        "force",
        "yes",
        "all",
        "hard",
        "recursive",
        "delete",
        "overwrite",
        "unsafe",
        "insecure",
        "skip",
        "ignore",
        "allow",
    )
)
"""Words of options that make a call careful, and of those that take the care away."""


class WordChange(NamedTuple):
    """A word of the failed call, and what stood there in the one that worked; either may be empty."""

    at: int
    old: str
    new: str


class ScriptWords(NamedTuple):
    """What the program of a call is known to accept: of a skill's own script, from its source."""

    own: bool = False
    options: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: str | None, files: frozenset[str]) -> ScriptWords:
        if source is None:
            return cls(files=files)
        return cls(True, options_of(source), values_of(source), files)


def demonstrated_changes(
    failed: Sequence[str], worked: Sequence[str], known: ScriptWords, folder: str
) -> tuple[WordChange, ...]:
    """How a call that worked corrects one that failed; empty if it does not only correct it."""
    changes: list[WordChange] = []
    old, new = [inner_path(word, folder) for word in failed], [inner_path(word, folder) for word in worked]
    for kind, start, end, other, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        shared = min(end - start, last - other)
        changes += [WordChange(start + step, failed[start + step], worked[other + step]) for step in range(shared)]
        changes += [WordChange(at, failed[at], "") for at in range(start + shared, end)]
        changes += [WordChange(end, "", worked[at]) for at in range(other + shared, last)]
    if not changes or len(changes) > _MOST_CHANGES:
        return ()
    return tuple(changes) if all(_corrects(change, failed, known, folder) for change in changes) else ()


def _corrects(change: WordChange, failed: Sequence[str], known: ScriptWords, folder: str) -> bool:
    old, new = change.old, change.new
    if not old:
        return _may_be_added(new, failed, known)
    if not new:
        # Only an option that its own script does not even have: any other may be what makes the call careful.
        return (
            known.own
            and old.startswith("-")
            and old.partition("=")[0] not in known.options
            and not _means(old, CAUTION_WORDS)
        )
    if old in INTERPRETERS and new in INTERPRETERS:
        return {old, new} <= {"python", "python3"} or change.at == 0
    if _numbers(old) != _numbers(new) or _means(new, BOLD_WORDS) != _means(old, BOLD_WORDS):
        return False
    if old.startswith("-") and new.startswith("-"):
        head, tail = old.partition("=")[0], old.partition("=")[2]
        return new.partition("=")[2] == tail and _same_option(head, new.partition("=")[0], known)
    if inner_path(new, folder) in known.files:
        return inner_path(old, folder) not in known.files and is_typo(_stem(old), _stem(new))
    return is_typo(old, new) and (not known.own or new in known.values)


def _same_option(old: str, new: str, known: ScriptWords) -> bool:
    words = name_words(old), name_words(new)
    if _means(old, CAUTION_WORDS) != _means(new, CAUTION_WORDS) or any(
        differ_in_meaning(first, second) for first in words[0] for second in words[1]
    ):
        return False
    if known.own:
        return old not in known.options and new in known.options
    return is_typo(old.lstrip("-"), new.lstrip("-"))


def _may_be_added(new: str, failed: Sequence[str], known: ScriptWords) -> bool:
    """Only what the skill's own script has, or what the call had elsewhere."""
    if new in failed or (new in INTERPRETERS and known.own):
        return True
    return known.own and new.startswith("-") and new.partition("=")[0] in known.options and not _means(new, BOLD_WORDS)


def _means(option: str, words: Collection[str]) -> bool:
    return any(word in words for word in name_words(option))


def _numbers(word: str) -> str:
    return "".join(letter if letter.isdigit() else " " for letter in word).strip()


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def apply_changes(text: str, failed: Sequence[str], changes: Sequence[WordChange], folder: str) -> str:
    """The text with its step corrected, wherever it gives it.

    Unchanged where what differs was filled in and is not the text's own.
    """
    # From the end, so that the places of what is still to be changed stay as they are.
    for piece in reversed(code_pieces(text)):
        match = match_piece(piece, failed, folder)
        if match is None or _has_interpreter(piece, changes):
            continue
        edits = [_edit_for(change, match, text) for change in changes]
        if all(edit is not None for edit in edits):
            for start, end, new in sorted((edit for edit in edits if edit is not None), reverse=True):
                text = text[:start] + new + text[end:]
    return text


def _has_interpreter(piece: TextPiece, changes: Sequence[WordChange]) -> bool:
    """Whether a change would give a step a second interpreter."""
    adds = any(not change.old and change.new in INTERPRETERS for change in changes)
    return adds and piece.source.split()[0] in INTERPRETERS


def _edit_for(change: WordChange, match: StepMatch, text: str) -> tuple[int, int, str] | None:
    places: Mapping[int, tuple[int, int]] = match.places
    if not change.old:
        # After the word before it, or before the first one.
        if change.at - 1 in places:
            end = places[change.at - 1][1]
            return end, end, f" {change.new}"
        return (places[0][0], places[0][0], f"{change.new} ") if change.at == 0 and 0 in places else None
    if change.at not in places:
        return None
    start, end = places[change.at]
    written = text[start:end]
    if is_open(written):
        return None
    if not change.new:
        return (start - 1 if text[start - 1 : start] == " " else start), end, ""
    # A path keeps the way the text leads to it: `${SKILL_DIR}/scripts/x.py`.
    tail = change.old.rpartition("/")[2]
    kept = written[: -len(tail)] + change.new.rpartition("/")[2] if "/" in change.old and written.endswith(tail) else ""
    return start, end, kept or change.new
