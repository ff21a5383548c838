"""Code in a word: scripts for sed, awk and other interpreters that the author wrote into a command.

An argument may be the data of such code, but the code must not run its data.  For sed the whole script is parsed and
only commands that change and print are accepted, since `e`, `w` and `r` are single letters that no search would find.
For other languages the code is searched for the names by which it could run something; one match refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .words import ShellWord, UnreadableCommand

_VALUE_LETTERS = {
    "sed": "efl",
    "gsed": "efl",
    "awk": "vFf",
    "mawk": "vFfW",
    "nawk": "vFf",
    "gawk": "vFfeil",
    "python": "WXcm",
    "pypy": "WXcm",
    "perl": "eEIMm",
    "node": "erCp",
    "ruby": "eErICF",
    "php": "drfBREFcz",
}
"""Short options that take a value, for the interpreters where all of them are known."""
_AWK = re.compile(r"\bsystem\b|\bgetline\b|@\s*\w+\s*\(|@(?:load|include)")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)|\|{3,}")
_AWK_QUIET = re.compile(
    r'"(?:\\.|[^"\\\n])*"|#[^\n]*|(?:\A|(?<=[(,{};!~&|\n]))(?P<blank>[ \t]*)/(?:\\.|\[[^\]/\n]*+\]|[^/\\\[\n])*/'
)
"""Strings, comments and patterns in a program for awk: a `|` in them is no pipe."""
# The names of all languages together: the check does not tell languages apart.
_RUNS_CODE = re.compile(
    r"\b(?:exec\w*|eval|compile|system|popen\w*|subprocess|pty|spawn\w*|fork|__import__|importlib|runpy|child_process"
    r"|Function|qx|shell_exec|passthru|proc_open|pickle|marshal|builtins|globals|getattr|modules|runIn\w+"
    r"|__\w*(?:dict|class|builtins|globals)\w*__|ctypes|createRequire|mainModule|dlopen|_load)\b|`|/[a-z]*ee"
    # A module with a fixed name is the author's choice; any other could be a file that an argument names.
    r"|\brequire\b(?!\s*\(\s*(?:'[\w.:@/-]*'|\"[\w.:@/-]*\")\s*\)|\s+['\"])|\bimport\s*\((?!\s*(?:'[\w.:@/-]*'|\"[\w.:@/-]*\")\s*\))"
    r"|\b(?:load|require_relative|include|require_once|include_once)\b\s*\(?\s*(?:ARGV|\$|process)",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w./=:,-]*")
_OPENS = re.compile(r"\bopen\b|\bIO\b")
"""In Perl and Ruby, these run a file name that begins with `|`."""
# Only repetitions of one character are possessive: Python before 3.11.5 loses matches when a group's is.  The others
# can't be read in two ways, since what may follow them never begins what they repeat, so no script takes more time than
# its length.
_SET = r"\[\^?+\]?+(?:\[:\w++:\]|(?!\[:\w++:\])[^\]\n])*\]"
_REGEX = rf"/(?:\\.|[^/\\\[\n]|{_SET})*/[IM]*+"
_FROM = rf"(?:\\.|{_SET}|(?!(?P={{0}}))[^\\\[])*(?P={{0}})"
_TO = r"(?:\\.|(?!(?P={0}))[^\\])*(?P={0})"
_sed = re.compile(
    rf"[\s;{{}}]*+(?:(?:\d++(?:~\d++)?|\$|{_REGEX})(?:\s*+,\s*+(?:[+~]?\d++|\$|{_REGEX}))?)?\s*+!*+\s*+(?:\{{|(?:"
    rf"s(?P<s>[^\w\s\\\[\]]){_FROM.format('s')}{_TO.format('s')}[gpIiMm0-9]*+|"
    rf"y(?P<y>[^\w\s\\\[\]]){_TO.format('y')}{_TO.format('y')}|"
    r"[aic](?:\s|\\)[^\\\n]*+(?=\n|\Z)|[:bt][ ]*+[a-zA-Z0-9]*+|[qQl][ ]*+\d*+|[pdPDnNgGhHxzF=])?"
    r"[^\S\n]*+(?=[;}\n]|\Z)[\s;}]*+)",
    re.DOTALL,
)
"""One sed command that only changes and prints: `e` runs, `w` and `r` use files."""


def check_code(base: str, words: Sequence[ShellWord]) -> None:
    """Refuse code that runs what it reads."""
    if base in ("sed", "gsed"):
        if not all(map(_is_plain_sed, _sed_scripts(words))):
            raise UnreadableCommand(
                f"`{base}` may run or write what it reads; use only commands such as `s`, `p` and `d`"
            )
        return
    for before, word in pairwise(words):
        # A plain path or option holds no code; awk's `-F` takes a separator, often a `|`.
        code = "" if _PATH.fullmatch(word.text) or before.text == "-F" else word.text
        bad = (_AWK if base.endswith("awk") else _RUNS_CODE).search(code)
        if base.endswith("awk") and not code.startswith("-"):
            bad = bad or _PIPE.search(_AWK_QUIET.sub(" ", code))
        if base in ("ruby", "perl"):
            bad = bad or _OPENS.search(code)
        if bad and not word.tainted:
            raise UnreadableCommand(f"the program for `{base}` may run what it is given: `{bad[0].strip()}`")


def _sed_scripts(words: Sequence[ShellWord]) -> Iterator[str]:
    awaits, has_script = "", False
    for word in words[1:]:
        text = word.text
        if awaits:
            if awaits == "e":
                yield text
            awaits, has_script = "", True
        elif text.startswith("--"):
            if text.startswith("--e"):
                yield text.partition("=")[2]
            has_script = has_script or text.startswith(("--e", "--f"))
            awaits = "e" if text == "--expression" else "f" if text in ("--file", "--line-length") else ""
        elif text.startswith("-") and len(text) > 1 and not word.tainted:
            # `-i` takes the rest of the word as a suffix.
            letters = text[1:].partition("i")[0]
            place = min((letters.find(letter) for letter in "efl" if letter in letters), default=-1)
            if place >= 0:
                has_script, value = has_script or letters[place] != "l", text[place + 2 :]
                awaits = "" if value else letters[place]
                if value and letters[place] == "e":
                    yield value
        elif not has_script:
            has_script = True
            yield text


def _is_plain_sed(script: str) -> bool:
    """Whether a script for sed only changes and prints."""
    at = 0
    while at < len(script):
        match = _sed.match(script, at)
        if not match or match.end() == at:
            return False
        at = match.end()
    return True


def code_letters(base: str) -> str:
    """The short options that are followed by code, or by the name of a program."""
    return {"sed": "ef", "gsed": "ef", "python": "cm", "pypy": "cm"}.get(base, "ceEfmrRpx")


def stands_alone(option: str, base: str) -> bool:
    """Whether an option of an interpreter is known to take no value."""
    takes = _VALUE_LETTERS.get(base)
    return takes is not None and not option.startswith("--") and option[-1] not in takes
