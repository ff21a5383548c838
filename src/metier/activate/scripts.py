"""Code of the author's that stands in a command: a small program that gets an argument must not run it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .lexicon import Unreadable, Word

_AWK = re.compile(r"\bsystem\b|\bgetline\b|\bprintf?\b[^;\n}]*(?<!\|)\|(?!\|)|@\s*\w+\s*\(|@(?:load|include)")
_DOES = re.compile(
    r"\b(?:exec\w*|eval|compile|system|popen\w*|subprocess|pty|spawn\w*|fork|__import__|importlib|runpy|child_process"
    r"|Function|qx|shell_exec|passthru|proc_open|pickle|marshal|builtins|globals|getattr)\b|`|/[a-z]*ee",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w./=:,-]*")
_substitutes = re.compile(r"([sy])([^\w\s\\])((?:\\.|(?!\2)[^\\])*)\2((?:\\.|(?!\2)[^\\])*)\2([a-zA-Z0-9]*)", re.DOTALL)
_address = re.compile(r"/(?:\\.|\[[^\]]*\]|[^/\\])*/")
_label = re.compile(r"[:bt]\s*[a-zA-Z]\w*(?=[;\s}]|$)")
_text = re.compile(r"[aic](?:\\|\s).*")
_rest = re.compile(r"[\s\d;,{}!$~+pdqQ=PDnNgGhHxlIMbt]*")


def check_code(base: str, words: Sequence[Word]) -> None:
    """Refuse code that runs what it reads."""
    if base in ("sed", "gsed"):
        if not all(map(_is_plain_sed, _sed_scripts(words))):
            raise Unreadable(f"`{base}` may run or write what it reads; use only `s`, `p`, `d` and their like")
        return
    for word in words[1:]:
        if base.endswith("awk"):
            bad = _AWK.search(word.text)
        else:
            bad = None if _PATH.fullmatch(word.text) else _DOES.search(word.text)
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
    """Whether a script for sed only changes and prints; its `e` runs, its `w` writes."""
    flags: list[str] = []

    def one(found: re.Match[str]) -> str:
        flags.append(found[5])
        return ""

    rest = _substitutes.sub(one, script)
    if any(set(flag) & set("ew") for flag in flags):
        return False
    for form in (_address, _label, _text):
        rest = form.sub("", rest)
    return bool(_rest.fullmatch(rest))
