"""Variables of a command: which come from outside, and which hold an argument as it came."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .lexicon import HOLE, Atom, Value

_name = re.compile(r"\$(?P<plain>[A-Za-z_]\w*)|\$\{(?P<braced>[A-Za-z_]\w*)\}|(?P<other>[A-Za-z_]\w*)")
_outer = re.compile(r"(?!METIER_|BASH|REPLY$|OPTARG$|COPROC|MAPFILE$|READLINE|PS[0-9]$)[A-Z][A-Z0-9_]+")


def outer_names(text: str) -> frozenset[str]:
    """The variables that a script uses and nowhere sets: they were there before it."""
    used: set[str] = set()
    otherwise: set[str] = set()
    for found in _name.finditer(text):
        name = found["plain"] or found["braced"]
        if name and _outer.fullmatch(name):
            used.add(name)
        elif found["other"]:
            otherwise.add(found["other"])
    return frozenset(used - otherwise)


_set = re.compile(rf"(?<![\w$\"'\\-])(?P<name>[A-Za-z_]\w*)=(?P<quote>\"?){HOLE}(?P=quote)(?=[\s;&|)]|\Z)")
_loop = re.compile(
    rf"\bfor[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in(?:[ \t]+(?:\"{HOLE}\"|{HOLE}|[\w./:@+]+))+[ \t]*(?=[;\n])"
)
_sources = re.compile(r"\bsource\b|(?:^|[;&|({\n]|\bthen|\bdo|\belse)[ \t]*\.\s")
_wild = re.compile(r"[*?\[\\]")


def copies(atoms: Sequence[Atom]) -> dict[str, tuple[Value, ...]]:
    """The variables that are only ever set to arguments as they came, each with all that it may hold."""
    text = "".join(one if isinstance(one, str) else HOLE for one in atoms)
    found: dict[str, list[Value]] = {}
    set_at = set()
    for match in (*_set.finditer(text), *_loop.finditer(text)):
        set_at.add(match.start("name"))
        values = [one for one in atoms[match.start() : match.end()] if isinstance(one, Value)]
        found.setdefault(match["name"], []).extend(values)
    if not found or _sources.search(text):
        return {}
    for match in _name.finditer(text):
        if match["other"] in found and match.start() not in set_at and not _only_used(text, match.start(), match.end()):
            del found[match["other"]]
    return {name: tuple(values) for name, values in found.items()}


def _only_used(text: str, start: int, end: int) -> bool:
    """Whether a variable's name stands where nothing is put into it: in `${name…}`, or as a word before a colon."""
    if text[max(0, start - 2) : start] == "${":
        return not text[end:].startswith(("=", ":=", "["))
    return text[end : end + 1] in (":", ",", ".") and text[end + 1 : end + 2] != "="


def split(value: Value) -> Value | None:
    """A variable's value outside quotes, as the shell splits it; None where it would look for files."""
    return None if _wild.search(value.whole) else Value(value.whole, tuple(value.whole.split()), value.ours)


_trims = re.compile(r"(?P<how>:?-|##?|%%?)(?P<any>\*?)(?P<text>[\w./:@+]+)(?P<end>\*?)")


def trimmed(value: Value, how: str) -> tuple[Value, ...]:
    """What `${name…}` makes of a value, where that is easily told: a default, or a beginning or an end taken off."""
    found = _trims.fullmatch(how)
    if not found or value.whole.startswith("-"):
        return ()
    text, whole = found["text"], value.whole
    if found["how"].endswith("-"):
        return () if found["any"] or found["end"] else (value, Value(text, (text,)))
    if found["how"].startswith("%"):
        return (value,)  # it begins as it did
    if found["end"]:
        return ()
    if not found["any"]:
        whole = whole.removeprefix(text)
    elif text in whole:
        whole = whole.rpartition(text)[2] if found["how"] == "##" else whole.partition(text)[2]
    return (Value(whole, (whole,)),)
