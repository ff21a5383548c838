"""Code of the author's that stands in a command: a small program that gets an argument must not run it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .lexicon import Unreadable, Word

_AWK = re.compile(r"\bsystem\b|\bgetline\b|@\s*\w+\s*\(|@(?:load|include)")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)|\|{3,}")
_QUIET = re.compile(
    r'"(?:\\.|[^"\\\n])*+"|#[^\n]*|(?:\A|(?<=[(,{};!~&|\n]))(?P<blank>[ \t]*)/(?:\\.|\[[^\]/\n]*+\]|[^/\\\[\n])*+/'
)
"""In a program for awk: texts, comments and patterns, in which a `|` is a letter."""
_DOES = re.compile(
    r"\b(?:exec\w*|eval|compile|system|popen\w*|subprocess|pty|spawn\w*|fork|__import__|importlib|runpy|child_process"
    r"|Function|qx|shell_exec|passthru|proc_open|pickle|marshal|builtins|globals|getattr|modules|runIn\w+"
    r"|__\w*(?:dict|class|builtins|globals)\w*__|ctypes)\b|`|/[a-z]*ee",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w./=:,-]*")
_OPENS = re.compile(r"\bopen\b|\bIO\b")
"""In these, a file name that begins with `|` is a command."""
_SET = r"\[\^?+\]?+(?:\[:\w++:\]|[^\]\n])*+\]"
_REGEX = rf"/(?:\\.|[^/\\\[\n]|{_SET})*+/[IM]*+"
_FROM = rf"(?:\\.|{_SET}|(?!(?P={{0}}))[^\\\[])*+(?P={{0}})"
_TO = r"(?:\\.|(?!(?P={0}))[^\\])*+(?P={0})"
_sed = re.compile(
    rf"[\s;{{}}]*+(?:(?:\d++(?:~\d++)?|\$|{_REGEX})(?:\s*+,\s*+(?:[+~]?\d++|\$|{_REGEX}))?)?\s*+!*+\s*+(?:\{{|(?:"
    rf"s(?P<s>[^\w\s\\\[\]]){_FROM.format('s')}{_TO.format('s')}[gpIiMm0-9]*+|"
    rf"y(?P<y>[^\w\s\\\[\]]){_TO.format('y')}{_TO.format('y')}|"
    r"[aic](?:\s|\\)[^\\\n]*+(?=\n|\Z)|[:bt][ ]*+[a-zA-Z0-9]*+|[qQl][ ]*+\d*+|[pdPDnNgGhHxzF=])?"
    r"[^\S\n]*+(?=[;}\n]|\Z)[\s;}]*+)",
    re.DOTALL,
)
"""One command for sed of those that only change and print: its `e` runs, its `w` and `r` go to files.  Nothing in it
is tried twice, so that it costs what its length does."""


def check_code(base: str, words: Sequence[Word]) -> None:
    """Refuse code that runs what it reads."""
    if base in ("sed", "gsed"):
        if not all(map(_is_plain_sed, _sed_scripts(words))):
            raise Unreadable(f"`{base}` may run or write what it reads; use only `s`, `p`, `d` and their like")
        return
    for before, word in pairwise(words):
        code = "" if _PATH.fullmatch(word.text) or before.text == "-F" else word.text
        bad = (_AWK if base.endswith("awk") else _DOES).search(code)
        if base.endswith("awk") and not code.startswith("-"):
            bad = bad or _PIPE.search(_QUIET.sub(" ", code))
        if base in ("ruby", "perl"):
            bad = bad or _OPENS.search(code)
        if bad and not word.tainted:
            raise Unreadable(f"the program for `{base}` may run what it is given: `{bad[0].strip()}`")


def _sed_scripts(words: Sequence[Word]) -> Iterator[str]:
    awaits, told = "", False
    for word in words[1:]:
        text = word.text
        if awaits:
            if awaits == "e":
                yield text
            awaits, told = "", True
        elif text.startswith("--"):
            if text.startswith("--e"):
                yield text.partition("=")[2]
            told = told or text.startswith(("--e", "--f"))
            awaits = "e" if text == "--expression" else "f" if text in ("--file", "--line-length") else ""
        elif text.startswith("-") and len(text) > 1 and not word.tainted:
            letters = text[1:].partition("i")[0]
            place = min((letters.find(one) for one in "efl" if one in letters), default=-1)
            if place >= 0:
                told, value = told or letters[place] != "l", text[place + 2 :]
                awaits = "" if value else letters[place]
                if value and letters[place] == "e":
                    yield value
        elif not told:
            told = True
            yield text


def _is_plain_sed(script: str) -> bool:
    """Whether a script for sed only changes and prints."""
    at = 0
    while at < len(script):
        found = _sed.match(script, at)
        if not found or found.end() == at:
            return False
        at = found.end()
    return True
