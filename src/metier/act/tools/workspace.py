"""The tools that read and write files of the working folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate

from ...host import paths, workspace
from ...host.sandbox.view import PROTECTED
from ...types.errors import BadRequest, Refused
from ...types.text import seen
from ...types.tool import Answer, Parameter, Tool
from ..permission import Spot
from .desk import Arguments, guarded, number_of, text_of

PAGE = 64_000
"""Bytes of a file that are read at once."""
_LARGEST = 2_000_000
_MOST = 500
"""Names in one answer."""


@dataclass(frozen=True)
class Ground:
    """Where an agent works: the folder it may touch, and the one it stands in."""

    base: str
    cwd: str
    hidden: tuple[str, ...] = ()
    """Folders in it that are nobody's business."""
    also: tuple[str, ...] = ()
    """Folders elsewhere that it may touch too: what lies there runs when nobody watches, so a write is asked for."""
    private: bool = False
    """Whether it was made for one run: no other program takes orders from what is in it."""

    def at(self, arguments: Arguments, default: str | None = None) -> tuple[str, str]:
        """The folder that a path lies in, and the path inside it."""
        said = text_of(arguments, "path", default)
        for base in self.also:
            if workspace.leads_into(base, self.cwd, said):
                return base, workspace.inner(base, self.cwd, said)
        path = workspace.inner(self.base, self.cwd, said)
        whole = f"{self.base}/{path}"
        if any(paths.is_inside(one, way) for one in (whole, paths.real_path(whole)) for way in self._closed()):
            raise Refused(f"Access denied: '{path}' is not for agents")
        return self.base, path

    def _closed(self) -> set[str]:
        return {*self.hidden, *map(paths.real_path, self.hidden)}

    def spot(self, said: str) -> Spot:
        """Where a path leads, by every name that a rule may have for it."""
        if not paths.can_be_path(said) or "\0" in said:
            return Spot((said,), (said,))
        whole = paths.absolute(said, self.cwd, "~")
        real = paths.real_path(whole)
        bases = {self.base, paths.real_path(self.base)}
        given = {*self.also, *map(paths.real_path, self.also)}
        inner = _beneath(real, given) or [*_beneath(real, bases), *_beneath(whole, bases)]
        told = [f"/{one.casefold()}/" for one in inner or [real]]
        held = (name for name in PROTECTED if any(f"/{name}/" in one for one in told))
        orders = "" if self.private else next(held, "")
        ruled = next((one for one in self.also if paths.is_inside(real, paths.real_path(one))), "")
        orders = ruled.rpartition("/")[2] or orders
        return Spot(_called(real, bases, self.cwd), _called(whole, bases, self.cwd), orders)


def _called(path: str, bases: set[str], cwd: str) -> tuple[str, ...]:
    """A path from the base, from the folder that the agent stands in, and from the root."""
    return tuple(dict.fromkeys([*_beneath(path, bases), *_beneath(path, {cwd}), path]))


def _beneath(path: str, folders: set[str]) -> list[str]:
    return [paths.relative(path, folder) for folder in folders if paths.is_inside(path, folder)]


_PATH = Parameter("path", "Path of the file, relative to the working folder.")


def read_file(ground: Ground) -> Tool:
    def call(arguments: Arguments) -> Answer:
        (base, path), offset = ground.at(arguments), number_of(arguments, "offset", 0)
        size, data = workspace.read(base, path, offset, PAGE)
        text, read = _decoded(path, data, offset + len(data) >= size)
        left = size - offset - read
        return Answer(
            text if left <= 0 else f"{text}\n[{left} of {size} bytes left: go on with offset {offset + read}]"
        )

    return Tool(
        "read_file",
        "Read a text file in the working folder.",
        (_PATH, Parameter("offset", "Byte to begin at, to go on in a long file.", required=False, kind="integer")),
        guarded(call),
    )


def _decoded(path: str, data: bytes, ends: bool) -> tuple[str, int]:
    """Text, and how many bytes it took: a page may end inside a character."""
    if b"\0" not in data:
        for cut in range(1 if ends else 4):
            try:
                return data[: len(data) - cut].decode("utf-8"), len(data) - cut
            except UnicodeDecodeError:
                continue
    raise BadRequest(f"Not a text file: '{path}'", "use a command that reads its format")


def write_file(ground: Ground) -> Tool:
    def call(arguments: Arguments) -> Answer:
        (base, path), text = ground.at(arguments), text_of(arguments, "content")
        there = workspace.write(base, path, text)
        lines = len(text.splitlines())
        return Answer(f"{'Replaced' if there else 'Wrote'} {path}: {lines} {'line' if lines == 1 else 'lines'}.")

    return Tool(
        "write_file",
        "Write a text file in the working folder, whole. Folders on the way are made.",
        (_PATH, Parameter("content", "The whole text of the file.")),
        guarded(call),
    )


def edit_file(ground: Ground) -> Tool:
    def call(arguments: Arguments) -> Answer:
        (base, path), old, new = ground.at(arguments), text_of(arguments, "old"), text_of(arguments, "new")
        size, data = workspace.read(base, path, 0, _LARGEST)
        if size > _LARGEST:
            raise BadRequest(f"'{path}' is too large to edit ({size:,} bytes)", "use a command")
        text, _ = _decoded(path, data, True)
        found = text.count(old) if old else 0
        every = arguments.get("all") in (True, "true", "True")
        if found == 0:
            raise BadRequest(f"'{path}' does not hold the old text", "read it again and copy the lines exactly")
        if found > 1 and not every:
            raise BadRequest(f"'{path}' holds the old text {found} times", "give more lines around it, or all=true")
        workspace.write(base, path, text.replace(old, new))
        return Answer(f"Edited {path}: {found} {'place' if found == 1 else 'places'}.")

    return Tool(
        "edit_file",
        "Replace a piece of a text file in the working folder. The old text must be in it exactly once.",
        (
            _PATH,
            Parameter("old", "The text that is there now, exactly."),
            Parameter("new", "The text to put in its place."),
            Parameter("all", "Replace it wherever it stands.", required=False, kind="boolean"),
        ),
        guarded(call),
    )


def list_files(ground: Ground) -> Tool:
    def call(arguments: Arguments) -> Answer:
        return _names(workspace.listed(*ground.at(arguments, ".")))

    return Tool(
        "list_files",
        "List what a folder holds.",
        (Parameter("path", "The folder; the working folder where it is left out.", required=False),),
        guarded(call),
    )


def find_files(ground: Ground) -> Tool:
    def call(arguments: Arguments) -> Answer:
        (base, path), pattern = ground.at(arguments, "."), text_of(arguments, "pattern")
        fits = _fits(pattern[:500])
        return _names([one for one in workspace.tree(base, path) if fits(one)])

    return Tool(
        "find_files",
        "Find files by a pattern such as *.py or src/**/*.md.",
        (
            Parameter("pattern", "With * and ?; ** crosses folders. Without a / it is matched against names alone."),
            Parameter("path", "Where to look; the working folder where it is left out.", required=False),
        ),
        guarded(call),
    )


def _fits(pattern: str) -> Callable[[str], bool]:
    """Whether a path fits: `*` stays inside a folder, and `**` alone is any folders, or none.

    Folders are taken one by one, so that the time does not grow with the ways to divide a path among stars.
    """
    if "/" not in pattern:
        name = re.compile(translate(pattern)).match
        return lambda path: name(path.rpartition("/")[2]) is not None
    steps = re.sub(r"(?<![^/])\*\*+(?=[^*/])", "**/*", pattern)  # **.py is **/*.py
    wanted = [None if step == "**" else re.compile(translate(step)).match for step in steps.split("/")]
    if wanted[-1] is None:
        wanted.append(re.compile(".*").match)

    def fits(path: str) -> bool:
        at = {0}
        for step in path.split("/"):
            at = _past(at, wanted)
            at = {one for one in at if one < len(wanted) and wanted[one] is None} | {
                one + 1 for one in at if one < len(wanted) and (like := wanted[one]) is not None and like(step)
            }
        return len(wanted) in at

    return fits


def _past(places: set[int], wanted: Sequence[object]) -> set[int]:
    """The places in a pattern, and those behind the `**` that they stand at."""
    found = set(places)
    for one in places:
        while one < len(wanted) and wanted[one] is None:
            one += 1
            found.add(one)
    return found


def _names(found: list[str]) -> Answer:
    if not found:
        return Answer("[nothing]")
    left = len(found) - _MOST
    return Answer("\n".join(map(seen, found[:_MOST])) + (f"\n[and {left} more]" if left > 0 else ""))
