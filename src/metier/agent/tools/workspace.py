"""The tools that read and write files in the working folder, and what decides where a path leads.

Paths of a model are hostile input.  `Workspace.at` confines a path to the agent's folder, and `Workspace.spot` gives
every spelling of it that a permission rule may name; the file itself is opened by `host.fs`, which follows no link out
of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from fnmatch import translate

from ...dialects import PROTECTED_FOLDERS
from ...host import fs, paths
from ...library.skill_tools import ToolArguments, guard_errors, number_argument, text_argument
from ...sandbox.obeyed import PROTECTED
from ...types.activation import ToolCall
from ...types.errors import BadRequest, MetierError, Refused
from ...types.model import Answer, Tool, ToolParameter
from ...types.text import visible_text
from ..permissions import PathTarget

PAGE_BYTES = 64_000
"""Bytes of a file that are read at once."""
_LARGEST_EDIT = 2_000_000
_MOST_NAMES = 500
"""Names in one answer."""


@dataclass(frozen=True)
class Workspace:
    """Where an agent works: the folder it may touch, and its working folder inside."""

    base: str
    cwd: str
    hidden: tuple[str, ...] = ()
    """Folders in it that no tool may touch."""
    also: tuple[str, ...] = ()
    """Folders elsewhere that it may touch too.  Their content runs unattended, so every write needs approval."""
    private: bool = False
    """Whether it was made for one run, so that no other program obeys its files."""
    roots: tuple[str, ...] = ()
    """Folders that skills are loaded from: what is written there would be a skill, so every write needs approval."""

    def at(self, arguments: ToolArguments, default: str | None = None) -> tuple[str, str]:
        """The folder that a path lies in, and the path inside it."""
        requested = text_argument(arguments, "path", default)
        for base in self.also:
            if fs.leads_into(base, self.cwd, requested):
                return base, fs.path_from_base(base, self.cwd, requested)
        path = fs.path_from_base(self.base, self.cwd, requested)
        full_path = f"{self.base}/{path}"
        if any(
            paths.is_inside(candidate, folder)
            for candidate in (full_path, paths.real_path(full_path))
            for folder in self._closed()
        ):
            raise Refused(f"Access denied: '{path}' is not for agents")
        return self.base, path

    def _closed(self) -> set[str]:
        return {*self.hidden, *map(paths.real_path, self.hidden)}

    def spot(self, requested: str) -> PathTarget:
        """The target of a path, in every spelling that a rule may have for it."""
        if not paths.can_be_path(requested) or "\0" in requested:
            return PathTarget((requested,), (requested,))
        full_path = paths.absolute_path(requested, self.cwd, "~")
        real = paths.real_path(full_path)
        bases = {self.base, paths.real_path(self.base)}
        extra_folders = {*self.also, *map(paths.real_path, self.also)}
        inner = _relative_paths(real, extra_folders) or [
            *_relative_paths(real, bases),
            *_relative_paths(full_path, bases),
        ]
        lowered = [f"/{path.casefold()}/" for path in inner or [real]]
        names = (*PROTECTED, *PROTECTED_FOLDERS)
        protected = (name for name in names if any(f"/{name.casefold()}/" in text for text in lowered))
        orders = "" if self.private else next(protected, "") or self._root_of(real, full_path)
        ruled = next((folder for folder in self.also if paths.is_inside(real, paths.real_path(folder))), "")
        orders = ruled.rpartition("/")[2] or orders
        return PathTarget(_path_spellings(real, bases, self.cwd), _path_spellings(full_path, bases, self.cwd), orders)

    def _root_of(self, *spellings: str) -> str:
        """The name of the root, or of its lock, that one of these paths is or lies in; empty for none."""
        for root in self.roots:
            for folder in (root, f"{root}-lock.json"):
                if any(
                    paths.is_inside(path, place) for path in spellings for place in (folder, paths.real_path(folder))
                ):
                    return folder.rpartition("/")[2]
        return ""


def _path_spellings(path: str, bases: set[str], cwd: str) -> tuple[str, ...]:
    """A path relative to the base, relative to the working folder, and absolute."""
    return tuple(dict.fromkeys([*_relative_paths(path, bases), *_relative_paths(path, {cwd}), path]))


def _relative_paths(path: str, folders: set[str]) -> list[str]:
    return [paths.relative_path(path, folder) for folder in folders if paths.is_inside(path, folder)]


_PATH_PARAMETER = ToolParameter("path", "Path of the file, relative to the working folder.")


def read_file(agent_workspace: Workspace) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        (base, path), offset = agent_workspace.at(arguments), number_argument(arguments, "offset", 0)
        size, data = fs.read_file_part(base, path, offset, PAGE_BYTES)
        text, read = _decode_page(path, data, offset + len(data) >= size)
        remaining = size - offset - read
        return Answer(
            text if remaining <= 0 else f"{text}\n[{remaining} of {size} bytes left: go on with offset {offset + read}]"
        )

    return Tool(
        "read_file",
        "Read a text file in the working folder.",
        (
            _PATH_PARAMETER,
            ToolParameter("offset", "Byte to begin at, to go on in a long file.", required=False, kind="integer"),
        ),
        guard_errors(call),
    )


def _decode_page(path: str, data: bytes, ends: bool) -> tuple[str, int]:
    """The text of a page and its length in bytes: a page may end inside a character, which then belongs to the next."""
    if b"\0" not in data:
        for cut in range(1 if ends else 4):
            try:
                return data[: len(data) - cut].decode("utf-8"), len(data) - cut
            except UnicodeDecodeError:
                continue
    raise BadRequest(f"Not a text file: '{path}'", "use a command that reads its format")


def write_file(agent_workspace: Workspace) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        (base, path), text = agent_workspace.at(arguments), text_argument(arguments, "content")
        existed = fs.write_file(base, path, text)
        lines = len(text.splitlines())
        return Answer(f"{'Replaced' if existed else 'Wrote'} {path}: {lines} {'line' if lines == 1 else 'lines'}.")

    return Tool(
        "write_file",
        "Write a text file in the working folder, whole. Folders on the way are made.",
        (_PATH_PARAMETER, ToolParameter("content", "The whole text of the file.")),
        guard_errors(call),
    )


def edit_file(agent_workspace: Workspace) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        (base, path), old, new = (
            agent_workspace.at(arguments),
            text_argument(arguments, "old"),
            text_argument(arguments, "new"),
        )
        size, data = fs.read_file_part(base, path, 0, _LARGEST_EDIT)
        if size > _LARGEST_EDIT:
            raise BadRequest(f"'{path}' is too large to edit ({size:,} bytes)", "use a command")
        text, _ = _decode_page(path, data, True)
        count = text.count(old) if old else 0
        every = arguments.get("all") in (True, "true", "True")
        if count == 0:
            raise BadRequest(f"'{path}' does not hold the old text", "read it again and copy the lines exactly")
        if count > 1 and not every:
            raise BadRequest(f"'{path}' holds the old text {count} times", "give more lines around it, or all=true")
        fs.write_file(base, path, text.replace(old, new))
        return Answer(f"Edited {path}: {count} {'place' if count == 1 else 'places'}.")

    return Tool(
        "edit_file",
        "Replace a piece of a text file in the working folder. The old text must be in it exactly once.",
        (
            _PATH_PARAMETER,
            ToolParameter("old", "The text that is there now, exactly."),
            ToolParameter("new", "The text to put in its place."),
            ToolParameter("all", "Replace it wherever it stands.", required=False, kind="boolean"),
        ),
        guard_errors(call),
    )


def list_files(agent_workspace: Workspace) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        return _names_answer(fs.list_folder(*agent_workspace.at(arguments, ".")))

    return Tool(
        "list_files",
        "List what a folder holds.",
        (ToolParameter("path", "The folder; the working folder where it is left out.", required=False),),
        guard_errors(call),
    )


def find_files(agent_workspace: Workspace) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        (base, path), pattern = agent_workspace.at(arguments, "."), text_argument(arguments, "pattern")
        fits = _glob_matcher(pattern[:500])
        return _names_answer([candidate for candidate in fs.list_tree(base, path) if fits(candidate)])

    return Tool(
        "find_files",
        "Find files by a pattern such as *.py or src/**/*.md.",
        (
            ToolParameter(
                "pattern", "With * and ?; ** crosses folders. Without a / it is matched against names alone."
            ),
            ToolParameter("path", "Where to look; the working folder where it is left out.", required=False),
        ),
        guard_errors(call),
    )


def _glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that matches paths: `*` stays inside a folder, and `**` matches any number of folders.

    Folders are matched one by one, keeping the set of possible positions in the pattern.  One regular expression for
    the whole pattern was refused: with several `**` its time grows exponentially.
    """
    if "/" not in pattern:
        name = re.compile(translate(pattern)).match
        return lambda path: name(path.rpartition("/")[2]) is not None
    steps = re.sub(r"(?<![^/])\*\*+(?=[^*/])", "**/*", pattern)  # **.py is **/*.py
    matchers = [None if step == "**" else re.compile(translate(step)).match for step in steps.split("/")]
    if matchers[-1] is None:
        matchers.append(re.compile(".*").match)

    def fits(path: str) -> bool:
        positions = {0}
        for step in path.split("/"):
            positions = _skip_globstars(positions, matchers)
            positions = {
                position for position in positions if position < len(matchers) and matchers[position] is None
            } | {
                position + 1
                for position in positions
                if position < len(matchers) and (like := matchers[position]) is not None and like(step)
            }
        return len(matchers) in positions

    return fits


def _skip_globstars(places: set[int], matchers: Sequence[object]) -> set[int]:
    """Positions in a pattern, and those reached by letting a `**` match nothing."""
    reached = set(places)
    for position in places:
        while position < len(matchers) and matchers[position] is None:
            position += 1
            reached.add(position)
    return reached


def _names_answer(names: list[str]) -> Answer:
    if not names:
        return Answer("[nothing]")
    remaining = len(names) - _MOST_NAMES
    return Answer(
        "\n".join(map(visible_text, names[:_MOST_NAMES])) + (f"\n[and {remaining} more]" if remaining > 0 else "")
    )


_LARGEST_COMPARED = 200_000
"""Bytes of a file up to which a change is shown as a diff."""


def preview_change(agent_workspace: Workspace, call: ToolCall) -> str:
    """The diff of a call that writes a file; empty for other calls, and for one that will be refused anyway."""
    try:
        if call.name == "write_file":
            return _preview_write(agent_workspace, call)
        if call.name == "edit_file":
            old, new = text_argument(call.arguments, "old"), text_argument(call.arguments, "new")
            return _line_diff(old, new)
    except (MetierError, OSError, ValueError):
        return ""
    return ""


def _preview_write(agent_workspace: Workspace, call: ToolCall) -> str:
    text, (base, path) = text_argument(call.arguments, "content"), agent_workspace.at(call.arguments)
    try:
        size, data = fs.read_file_part(base, path, 0, _LARGEST_COMPARED)
    except (MetierError, OSError):
        return f"a new file:\n{_line_diff('', text)}"
    if size > _LARGEST_COMPARED or b"\0" in data:
        return f"replaces a file of {size:,} bytes:\n{_line_diff('', text)}"
    diff = _line_diff(data.decode("utf-8", "replace"), text)
    return f"changes the file:\n{diff}" if diff else "the file already has this content"


def _line_diff(old: str, new: str) -> str:
    return "\n".join(list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:])
