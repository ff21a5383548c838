"""Find a program that can be seen from inside: the system's, or one whose own folder is shown too."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

_SYSTEM = ("/usr", "/opt", "/nix/store", "/bin", "/sbin")
_INTERPRETER = re.compile(r"python[0-9.]*|node|deno|bun|bash|sh").fullmatch
_FALLBACK = ("/usr/local/bin", "/usr/bin", "/bin")


class Chosen(NamedTuple):
    """A program, the folders it needs beside the system's, and what a person should know about the choice."""

    path: str
    prefixes: tuple[str, ...] = ()
    note: str = ""


def choose(name: str, path: str, cwd: str, given: Iterable[str], homes: Iterable[str]) -> Chosen:
    """The program that a name means; an interpreter that can't be shown gives way to the system's."""
    given, homes = tuple(given), tuple(homes)
    candidates = [os.path.join(cwd, name)] if "/" in name else list(_on_path(name, path, cwd))
    for candidate in candidates:
        if found := _fits(candidate, given, homes):
            return found._replace(note=_instead(found.path, candidates[0]))
    plain = os.path.basename(name)
    if "/" not in name or _INTERPRETER(plain):
        for folder in _FALLBACK:
            for spelled in (plain, plain.rstrip("0123456789.") + "3" * plain.startswith("python")):
                if found := _fits(f"{folder}/{spelled}", given, homes):
                    return found._replace(note=_instead(found.path, *candidates[:1]))
    return Chosen("")


def _instead(path: str, wanted: str = "") -> str:
    same = not wanted or path == os.path.normpath(wanted)
    return "" if same else f"{path} was run: {wanted} can't be shown inside"


def python() -> str:
    """The interpreter that runs us, which is the one scripts are run with."""
    return sys.executable or "/usr/bin/python3"


def _on_path(name: str, path: str, cwd: str) -> Iterable[str]:
    for folder in path.split(os.pathsep):
        candidate = os.path.join(cwd, folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            yield candidate


def _fits(candidate: str, given: tuple[str, ...], homes: tuple[str, ...]) -> Chosen | None:
    """The candidate with what it needs, when all of that can be shown."""
    if not os.access(candidate, os.X_OK) or os.path.isdir(candidate):
        return None
    candidate = os.path.normpath(candidate)
    real = os.path.realpath(candidate)
    needed = []
    for place in (*_hops(candidate), real):
        if _within(place, (*_SYSTEM, *given)):
            continue
        prefix = _prefix(place, homes) if _INTERPRETER(os.path.basename(candidate)) else ""
        if not prefix or not _is_binary(real):
            return None
        needed.append(prefix)
    if needed and os.path.samefile(real, os.path.realpath(python())):
        needed += [one for one in (sys.prefix, sys.base_prefix) if not _within(one, (*_SYSTEM, *needed))]
    return Chosen(candidate, tuple(dict.fromkeys(needed)))


def _hops(path: str) -> Iterable[str]:
    """The path, and each that a link at its end leads to."""
    for _ in range(40):
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _prefix(path: str, homes: tuple[str, ...]) -> str:
    """The folder that a program was installed in; empty when that holds more than the program."""
    folder, last = os.path.split(os.path.dirname(path))
    if last != "bin" or folder.count("/") < 2:
        return ""
    return "" if any(_within(home, (folder,)) for home in homes) or folder.endswith("/.local") else folder


def _is_binary(path: str) -> bool:
    """Whether it is a program itself, not a script that would go looking for one."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
