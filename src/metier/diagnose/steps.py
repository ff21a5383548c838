"""Steps: the commands that a text gives, and which of them a call came from.

A model fills in what the text leaves open, so a call is matched against the text as a template: `$NAME`, `<name>` and
`{name}` stand for whatever was put there, also among the first words, and every other word for itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..agent.permissions import call_subject
from ..types.activation import ToolCall

INTERPRETERS = frozenset({"python", "python3", "bash", "sh", "zsh", "dash", "node", "ruby", "perl", "deno", "bun"})
_span = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_fence = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})")
_open_part = re.compile(r"\$\{?\w+\}?|<[^<>\s]+>|\{\{?[^{}\s]+\}?\}|\[[^\[\]\s]+\]|…|\.\.\.")
"""What a text leaves open in a command."""
_folder_variable = re.compile(r"^[\"']?(?:\$\{?\w*(?:SKILL|PLUGIN|BASE)\w*\}?|\{\w*(?:[Dd]ir|[Rr]oot|skill)\w*\})/")


class TextPiece(NamedTuple):
    """A piece of code in a text, and where it stands."""

    start: int
    source: str

    @property
    def words(self) -> list[tuple[int, str]]:
        """Its words, each with its place in the text."""
        return [(self.start + match.start(), match[0]) for match in re.finditer(r"\S+", self.source)]


class StepMatch(NamedTuple):
    """A piece of code that a call came from."""

    piece: TextPiece
    places: Mapping[int, tuple[int, int]]
    """Where a word of the call stands in the text, by its number; words that were filled in are not among them."""


def code_pieces(text: str) -> list[TextPiece]:
    """All code of a text: fenced lines, and what is in backticks."""
    pieces: list[TextPiece] = []
    fence, at, plain = "", 0, []
    for line in text.splitlines(keepends=True):
        mark = _fence.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            elif line.strip():
                pieces.append(TextPiece(at, line.rstrip("\n")))
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
        else:
            plain.append((at, line))
        at += len(line)
    # Spans may run over lines, so lines that belong together are searched together.
    for start, part in _joined(plain):
        pieces += [TextPiece(start + match.start(2), match[2]) for match in _span.finditer(part)]
    return sorted(pieces)


def _joined(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    parts: list[tuple[int, str]] = []
    for at, line in lines:
        if parts and parts[-1][0] + len(parts[-1][1]) == at and line.strip():
            parts[-1] = (parts[-1][0], parts[-1][1] + line)
        else:
            parts.append((at, line))
    return parts


def call_words(call: ToolCall) -> list[str]:
    """A call of a program as the words of a command; empty for any other call."""
    if call.name != "skill_run_script":
        return call_subject(call).split() if call.name == "run_command" else []
    script = str(call.arguments.get("script_name", "")).removeprefix("scripts/")
    given = call.arguments.get("script_args") or ""
    try:
        arguments = [str(word) for word in given] if isinstance(given, list | tuple) else shlex.split(str(given))
    except ValueError:
        arguments = str(given).split()
    return [f"scripts/{script}", *arguments]


def inner_path(word: str, folder: str) -> str:
    """A word as a path in the skill's folder, without what stands for that folder."""
    bare = _folder_variable.sub("", word).strip("\"'")
    return bare.removeprefix(f"{folder}/").removeprefix("./")


def is_open(word: str) -> bool:
    """Whether a text leaves a word, or part of it, to be filled in."""
    return _open_part.search(_folder_variable.sub("", word)) is not None


def match_step(text: str, words: Sequence[str], folder: str, exact: bool = False) -> StepMatch | None:
    """The piece of code that a command came from; the one with the most words of its own, if several fit."""
    best: StepMatch | None = None
    for piece in code_pieces(text):
        match = match_piece(piece, words, folder, exact)
        if match is not None and (best is None or len(match.places) > len(best.places)):
            best = match
    return best


def match_piece(piece: TextPiece, words: Sequence[str], folder: str, exact: bool = False) -> StepMatch | None:
    """How a command came from a piece of code; None if it did not.

    With `exact`, an interpreter that only the text has makes it another command.
    """
    template, offset = piece.words, 0
    # The tool for scripts adds the interpreter itself, so a call has none where the text has one.
    if not exact and len(template) > 1 and words and template[0][1] in INTERPRETERS and words[0] not in INTERPRETERS:
        template, offset = template[1:], 1
    found = _match_words([word for _, word in template], list(words), folder)
    if found is None:
        return None
    places = {theirs: (template[ours][0], template[ours][0] + len(template[ours][1])) for ours, theirs in found.items()}
    # A lone word, or nothing but what was filled in, matches by accident.
    return StepMatch(piece, places) if len(places) > (0 if offset or "/" in piece.source else 1) else None


def _match_words(template: list[str], words: list[str], folder: str) -> dict[int, int] | None:
    """Which word of a call each word of a template became; the call may have more at its end."""
    fits: dict[int, int] = {}
    at = 0
    for number, word in enumerate(template):
        if _open_part.fullmatch(word.strip("\"'")):
            # Takes what comes before the next word of the template, and everything if there is none.
            following = next((other for other in template[number + 1 :] if not is_open(other)), None)
            while at < len(words) and (following is None or not _same_word(following, words[at], folder)):
                at += 1
            continue
        if at >= len(words) or not _same_word(word, words[at], folder):
            return None
        if not is_open(word):
            fits[number] = at
        at += 1
    return fits


def _same_word(word: str, called: str, folder: str) -> bool:
    ours, theirs = inner_path(word, folder), inner_path(called, folder)
    if not is_open(word):
        return ours == theirs
    pattern = "".join(".*" if _open_part.fullmatch(part) else re.escape(part) for part in _split_open(ours))
    return re.fullmatch(pattern, theirs) is not None


def _split_open(word: str) -> list[str]:
    parts, at = [], 0
    for match in _open_part.finditer(word):
        parts += [word[at : match.start()], match[0]]
        at = match.end()
    return [part for part in (*parts, word[at:]) if part]
