"""A command as a shell will read it: its simple commands, the words of each, and what can't be told beforehand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from .starting import SHELLS, STARTERS, Word, Words, is_opaque, mentions, reckons

_UNREADABLE = frozenset({"case", "select", "function", "coproc", "alias"})
_assignment = re.compile(r"\w+(\[[^]]*\])?\+?=").match
_token = re.compile(
    r"""(?P<gap>[ \t]+|\\\n)|'(?P<single>[^']*)'|\\(?P<escaped>.)|(?P<double>")|(?P<sub>\$\()|(?P<tick>`)
    |(?P<odd>\$['"[]|\$\{(?!\w+\})|<<(?!<)|[$<>]\\\n|[\x00-\x08\x0b-\x1f\x7f\\'])|(?P<made>\$\{\w+\}|\$\w+|\$[@*#?$!-]|[*?\[\]{}])
    |(?P<redirect>[<>][<>&|]*)|(?P<open>\()|(?P<close>\))|(?P<end>[;&|\n]+)|(?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
).match
_quoted = re.compile(
    r"""(?P<double>")|(?P<gap>\\\n)|\\(?P<escaped>[$`"\\])|(?P<sub>\$\()|(?P<tick>`)|(?P<odd>\$\{(?!\w+\})|\$\[|\$\\\n|\0)
    |(?P<made>\$\{\w+\}|\$\w+|\$[@*#?$!-])|(?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
).match
_reckons = re.compile(r"\$?\(\((?![\d\s+*/%<>=!-]*\)\))").match
"""Arithmetic has letters of its own, and runs what it finds in the values of names."""


class Line(NamedTuple):
    """What a shell is told."""

    parts: tuple[tuple[Word, ...], ...]
    plain: bool
    """Simple commands and nothing else: nothing goes to a file, nothing is put in from another command."""
    known: bool
    """False where it may hold more than was read."""
    written: frozenset[str] = frozenset()
    """The names of files that something goes to."""


def text_of_command(given: object) -> str:
    """The one text that is judged and run, whether a model wrote a line or a list of words."""
    if isinstance(given, list | tuple):
        return shlex.join(map(str, given))
    return given.strip() if isinstance(given, str) else ""


def covered(pattern: str, part: Words) -> bool:
    """Whether a pattern allows a simple command: its program by the very name, its words one by one."""
    wanted = _pattern(pattern)
    if not part or not wanted or reckons(part):
        return False
    program = part[0].text
    if wanted[0] != "*" and (not part[0].fixed or re.search(r"\s", program) or ("/" in program) != ("/" in wanted[0])):
        return False
    return _runs(wanted, part, lambda one, word: fnmatchcase(word.text, one) and (word.fixed or "$" not in word.text))


def named(pattern: str, line: Line) -> bool:
    """Whether a pattern names any of the commands, however it is spelled or started."""
    wanted = _pattern(pattern)
    return any(_runs(wanted, one, _alike) for part in line.parts for one in _readings(part, 3))


def may_be_named(pattern: str, line: Line) -> bool:
    """Whether a pattern could name one of the commands once the shell has put in what it puts in."""
    if not line.known:
        return True
    wanted = _pattern(pattern)
    for part in line.parts:
        if is_opaque(part, line.written):
            return True
        for one in _readings(part, 3):
            if _runs(wanted, one, _alike, maybe=True) or any(_runs(wanted, less, _alike) for less in _less(one)):
                return True
            if is_opaque(one, line.written) or mentions(wanted, one):
                return True
    return False


def _alike(pattern: str, word: Word) -> bool:
    return fnmatchcase(word.text, pattern)


def _pattern(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _readings(part: Words, depth: int) -> Iterator[Words]:
    """The command as it stands, by its program's bare name, and what it starts."""
    start = next((at for at, word in enumerate(part) if not _assignment(word.text)), len(part))
    words = part[start:]
    if not words:
        return
    bare = words[0]._replace(text=words[0].text.rpartition("/")[2])
    yield words
    yield [bare, *words[1:]]
    if bare.text not in STARTERS or depth == 0:
        return
    if bare.text in SHELLS and all(word.text.startswith("-") for word in words[1:]):
        yield [Word("", fixed=False)]  # it is told by a pipe
    for at in range(1, len(words)):
        yield words[at:]
        yield [words[at]._replace(text=words[at].text.rpartition("/")[2]), *words[at + 1 :]]
        if re.search(r"[\s;&|(`]", words[at].text):
            inner = read(words[at].text)
            for one in inner.parts:
                yield from _readings(one, depth - 1)
            if not inner.known:
                yield [Word("", fixed=False)]


def _less(words: Words) -> Iterator[Words]:
    """The command without options, and their values, between the program and what it is told to do."""
    if len(words) > 1 and words[1].text.startswith("-"):
        for at in range(2, len(words)):
            yield [words[0], *words[at:]]


def _runs(pattern: list[str], words: Words, alike: Callable[[str, Word], bool], maybe: bool = False) -> bool:
    """Words against a pattern: `*` alone is any words, and a star at the very end is whatever follows."""
    most = len(pattern)

    def past(places: set[int]) -> set[int]:
        for one in sorted(places):
            while one < most and pattern[one] == "*":
                one += 1
                places.add(one)
        return places

    at = past({0})
    for word in words:
        if maybe and not word.fixed and at:
            return True
        reached = {one for one in at if one > most or (one < most and pattern[one] == "*")}
        for one in at:
            if one < most and pattern[one] != "*" and alike(pattern[one], word):
                reached.add(one + 1)
                if one == most - 1 and pattern[one].endswith("*"):
                    reached.add(most + 1)
        at = past(reached)
    return any(one >= most for one in at)


def read(text: str) -> Line:
    """The simple commands of a text."""
    return _Reading(text[:100_000]).line(len(text) <= 100_000)


class _Open(NamedTuple):
    """What was being read when a quote or a command inside began."""

    kind: str
    part: list[Word]
    word: str | None
    target: bool


class _Reading:
    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[tuple[Word, ...]] = []
        self.part: list[Word] = []
        self.word: str | None = None
        self.fixed = self.plain = self.known = True
        self.written: set[str] = set()
        self.out = False
        """Whether that file is written."""
        self.target = False
        """Whether the next word is a file that something goes to or comes from."""
        self.outer: list[_Open] = []

    def line(self, whole: bool) -> Line:
        at = 0
        while at < len(self.text):
            inside = bool(self.outer) and self.outer[-1].kind == '"'
            if not inside and self.word is None and self.text[at] == "#":
                self.plain = False
                self.known = self.known and not self._is_odd_place()
                at = (self.text.find("\n", at) + len(self.text) + 1) % (len(self.text) + 1)
                continue
            found = (_quoted if inside else _token)(self.text, at)
            assert found is not None  # the last of each pattern is any character
            kind = found.lastgroup or "plain"
            self.known = self.known and not (kind in ("sub", "open") and _reckons(self.text, at))
            self._take(kind, found[kind], inside)
            at = found.end()
        self.end()
        known = whole and self.known and not self.outer
        return Line(tuple(self.parts), self.plain and known, known, frozenset(self.written))

    def _is_odd_place(self) -> bool:
        """Whether what looks like a comment may be none: a backtick ends in it, and a test may hold a `#`."""
        return self._is_test() or any(one.kind == "`" for one in self.outer)

    def _is_test(self) -> bool:
        return bool(self.part) and self.part[0].text == "[["

    def _take(self, kind: str, text: str, inside: bool) -> None:
        if kind in ("plain", "single", "escaped"):
            quotes = kind == "escaped" or (kind == "single" and "`" in text)
            self.known = self.known and not (quotes and any(one.kind == "`" for one in self.outer))
            self.word = (self.word or "") + text
        elif kind == "made":
            self.word, self.fixed = (self.word or "") + text, False
            self.plain = self.plain and text[0] not in "{}" and not text.startswith("${")
        elif kind == "gap" and not inside and text[0] != "\\":
            self.end_word()
        elif kind == "redirect":
            if (self.word or "").isdigit():
                self.word = None
            self.end_word()
            self.target, self.plain, self.out = True, False, ">" in text
        elif kind == "end":
            self.end()
        elif kind == "odd":
            self.known, self.word = False, (self.word or "") + text
        elif kind != "gap":
            self._nest(kind, inside)

    def _nest(self, kind: str, inside: bool) -> None:
        """A quote or a command inside begins or ends."""
        kinds = [one.kind for one in self.outer]
        if kind == "double":
            if inside:
                self.outer.pop()
            else:
                self.outer.append(_Open('"', [], None, False))
                self.word = self.word or ""
            return
        self.plain = False
        closing = {"close": "(", "tick": "`"}.get(kind)
        if closing and kinds[-1:] == [closing]:
            self.end()
            was = self.outer.pop()
            self.part, self.word, self.target, self.fixed = was.part, was.word, was.target, was.word is None
        elif kind == "close":
            self.end()  # of a pattern
        else:
            odd = "`" in kinds if kind == "tick" else kind == "open" and self._is_test()
            self.known = self.known and not odd
            if kind == "open":
                self.end()
            held = None if kind == "open" else self.word or ""
            self.outer.append(_Open("`" if kind == "tick" else "(", self.part, held, self.target))
            self.part, self.word, self.target, self.fixed = [], None, False, True

    def end_word(self) -> None:
        text, fixed = self.word, self.fixed
        self.word, self.fixed = None, True
        if text is None:
            return
        if self.target:
            self.target = False
            if self.out:
                self.written.add(text.rpartition("/")[2])
        elif not fixed and text in ("{", "}"):
            self.end()
        else:
            self.known = self.known and not (not self.part and text in _UNREADABLE)
            self.part.append(Word(text, fixed or text in ("[", "]", "[[", "]]")))

    def end(self) -> None:
        """The end of a simple command."""
        self.end_word()
        if self.part:
            self.parts.append(tuple(self.part))
            if self.part[0].text == "tee":
                self.written |= {word.text.rpartition("/")[2] for word in self.part[1:]}
        self.part, self.target = [], False
