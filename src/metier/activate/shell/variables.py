"""Variables in a command: where their values come from, and what an expansion makes of them.

A variable would make every later word unknowable, and most commands set one (`name="$1"`).  Two kinds are safe to
follow without running anything: one that the script uses and never sets (its value was there before), and one that is
only ever set to a whole argument.  Both are found by looking at the whole text before it is read; any other mention of
the name, also one that can't be understood, drops the variable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .words import HOLE, CommandAtom, PlaceholderValue

_name = re.compile(r"\$(?P<plain>[A-Za-z_]\w*)|\$\{(?P<braced>[A-Za-z_]\w*)\}|(?P<other>[A-Za-z_]\w*)")
# Variables that metier or the shell itself sets are never from the environment.
_outer = re.compile(r"(?!METIER_|BASH|REPLY$|OPTARG$|COPROC|MAPFILE$|READLINE|PS[0-9]$)[A-Z][A-Z0-9_]+")


def outer_names(text: str) -> frozenset[str]:
    """The variables that a script uses and never sets: the environment has them."""
    used: set[str] = set()
    otherwise: set[str] = set()
    for match in _name.finditer(text):
        name = match["plain"] or match["braced"]
        if name and _outer.fullmatch(name):
            used.add(name)
        elif match["other"]:
            otherwise.add(match["other"])
    return frozenset(used - otherwise)


_set = re.compile(rf"(?<![\w$\"'\\-])(?P<name>[A-Za-z_]\w*)=(?P<quote>\"?){HOLE}(?P=quote)(?=[\s;&|)]|\Z)")
_loop = re.compile(
    rf"\bfor[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in(?:[ \t]+(?:\"{HOLE}\"|{HOLE}|[\w./:@+]+))+[ \t]*(?=[;\n])"
)
_sources = re.compile(r"\bsource\b|(?:^|[;&|({\n]|\bthen|\bdo|\belse)[ \t]*\.\s")
_wild = re.compile(r"[*?\[\\]")


def argument_copies(atoms: Sequence[CommandAtom]) -> dict[str, tuple[PlaceholderValue, ...]]:
    """The variables that are only ever set to whole arguments, each with all values that it may hold."""
    text = "".join(atom if isinstance(atom, str) else HOLE for atom in atoms)
    copied_values: dict[str, list[PlaceholderValue]] = {}
    set_at = set()
    for match in (*_set.finditer(text), *_loop.finditer(text)):
        set_at.add(match.start("name"))
        values = [atom for atom in atoms[match.start() : match.end()] if isinstance(atom, PlaceholderValue)]
        copied_values.setdefault(match["name"], []).extend(values)
    # A sourced script may set any variable.
    if not copied_values or _sources.search(text):
        return {}
    # Any other mention of a name might set it: `read x`, `printf -v x`, `x[0]=`…
    for match in _name.finditer(text):
        if (
            match["other"] in copied_values
            and match.start() not in set_at
            and not _only_used(text, match.start(), match.end())
        ):
            del copied_values[match["other"]]
    return {name: tuple(values) for name, values in copied_values.items()}


def _only_used(text: str, start: int, end: int) -> bool:
    """Whether the name is only used here, and not set: in `${name…}`, or as a word before a colon."""
    if text[max(0, start - 2) : start] == "${":
        return not text[end:].startswith(("=", ":=", "["))
    return text[end : end + 1] in (":", ",", ".") and text[end + 1 : end + 2] != "="


def split_value(value: PlaceholderValue) -> PlaceholderValue | None:
    """A variable's value outside quotes, as the shell splits it; None if it would expand it to file names."""
    return None if _wild.search(value.whole) else PlaceholderValue(value.whole, tuple(value.whole.split()), value.ours)


_trims = re.compile(r"(?P<how>:?-|##?|%%?)(?P<any>\*?)(?P<text>[\w./:@+]+)(?P<end>\*?)")


def trim_value(value: PlaceholderValue, operation: str) -> tuple[PlaceholderValue, ...]:
    """What `${name…}` makes of a value, in the simple cases: a default, or a prefix or suffix removed."""
    match = _trims.fullmatch(operation)
    # With a leading `-` the result may be an option that the value itself is not.
    if not match or value.whole.startswith("-"):
        return ()
    text, result = match["text"], value.whole
    if match["how"].endswith("-"):
        return () if match["any"] or match["end"] else (value, PlaceholderValue(text, (text,)))
    if match["how"].startswith("%"):
        return (value,)  # only its beginning matters, and that stays
    if match["end"]:
        return ()
    if not match["any"]:
        result = result.removeprefix(text)
    elif text in result:
        result = result.rpartition(text)[2] if match["how"] == "##" else result.partition(text)[2]
    return (PlaceholderValue(result, (result,)),)
