"""A skill's own scripts: which of them a command starts, what they accept, and how they have to be started.

Their source is the evidence.  An option that a script's source does not contain is one that it does not have, and that
is known without reading what it printed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .steps import INTERPRETERS, inner_path

_option = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_quoted = re.compile(r"""["']([A-Za-z][\w.-]*)["']""")
_short_flags = re.compile(r"getopts\s+[\"']?:?([A-Za-z:]+)")
_first_line = re.compile(r"#!\s*(\S+)(?:\s+(?:-S\s+)?(\S+))?")
_BY_SUFFIX = {"py": "python3", "sh": "sh", "bash": "bash", "js": "node", "mjs": "node", "rb": "ruby", "pl": "perl"}


class OwnScript(NamedTuple):
    """A script of the skill that a command starts."""

    path: str
    at: int
    """Which word of the command it is."""


def find_own_script(words: Sequence[str], folder: str, files: Mapping[str, str]) -> OwnScript | None:
    """The skill's script that a command starts, with an interpreter or by itself."""
    at = 1 if len(words) > 1 and words[0].rpartition("/")[2] in INTERPRETERS else 0
    # Options of the interpreter: `python3 -u x.py`.
    while at and at < len(words) - 1 and words[at].startswith("-") and words[at] not in ("-c", "-m"):
        at += 1
    if at >= len(words):
        return None
    path = inner_path(words[at], folder)
    return OwnScript(path, at) if path in files else None


def options_of(source: str) -> frozenset[str]:
    """Every option that a script's source contains; empty if it reads none."""
    flags = "".join(match.replace(":", "") for match in _short_flags.findall(source))
    return frozenset({*_option.findall(source), *(f"-{flag}" for flag in flags)})


def values_of(source: str) -> frozenset[str]:
    """The words that a script's source quotes, such as its subcommands and choices."""
    return frozenset(_quoted.findall(source)) | frozenset(re.findall(r"^\s*([a-z][\w-]*)\)", source, re.MULTILINE))


def rejected_options(words: Sequence[str], source: str) -> list[str]:
    """The options in a call that the script's source does not have; none if it passes them on, or takes any."""
    known = options_of(source)
    passes_on = re.search(r"parse_known_args|\$@|\$\*|exec |subprocess|os\.system|REMAINDER", source)
    if not known or passes_on:
        return []
    given = (word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word))
    return [option for option in dict.fromkeys(given) if option not in known and not _is_short_group(option, known)]


def _is_short_group(option: str, known: frozenset[str]) -> bool:
    """Whether an option is several of one letter, `-xvf`, or the start of a longer one, which argparse accepts."""
    if option.startswith("--"):
        return sum(other.startswith(option) for other in known) == 1
    return all(f"-{letter}" in known for letter in option[1:]) or f"-{option[1:2]}" in known


def is_broken(path: str, source: str) -> str:
    """What keeps a script from being parsed at all; empty if nothing is known to."""
    if not path.endswith(".py"):
        return ""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"{type(error).__name__} in line {getattr(error, 'lineno', 0) or 0}"
    return ""


def interpreter_of(path: str, source: str) -> str:
    """The program that a script is for, by its first line or its suffix; empty if neither says."""
    match = _first_line.match(source)
    named = (match[2] if match[1].endswith("/env") else match[1]) if match else ""
    program = (named or "").rpartition("/")[2].strip()
    # `python` may be missing, or be another one, on every second machine.
    program = "python3" if program == "python" else program
    return program if program in INTERPRETERS else _BY_SUFFIX.get(path.rpartition(".")[2].casefold(), "")
