"""The files of the folder that an agent works in: read and written beneath it, through no link that leaves it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from ..types.errors import BadRequest, HostError, NoFile, Refused
from . import files, paths, state

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
PASSED_OVER = frozenset({"__pycache__", ".git", "node_modules", ".venv", ".mypy_cache", ".ruff_cache", ".hg", ".svn"})
"""Folders that nobody means when they ask for files."""


def inner(base: str, cwd: str, path: str) -> str:
    """A path as a model writes it, relative to the base; one that leads elsewhere is refused."""
    if "\0" in path or not paths.can_be_path(path):
        raise BadRequest("that is not a path", "give a path in the working folder")
    whole = os.path.normpath(os.path.join(cwd, path))
    if not paths.is_inside(whole, base):
        raise Refused(f"Access denied: '{path}' is outside the working folder", f"stay inside {base}")
    return os.path.relpath(whole, base)


def leads_into(base: str, cwd: str, path: str) -> bool:
    """Whether a path as a model writes it leads into a folder."""
    return paths.can_be_path(path) and paths.is_inside(os.path.normpath(os.path.join(cwd, path)), base)


def read(base: str, relative: str, offset: int, most: int) -> tuple[int, bytes]:
    """The size of a file, and part of it."""
    with _errors(relative):
        return files.read_part(base, relative, offset, most)


def write(base: str, relative: str, text: str) -> bool:
    """Write a file whole, its folders too where they are missing; True where there was one before."""
    folder, _, name = relative.rpartition("/")
    with _errors(relative):
        _make(base, folder)
        with state.folder_beneath(base, folder or ".") as opened:
            mode: int | None = 0o644
            there = True
            try:
                mode = state.plain_mode(opened, name)
            except FileNotFoundError:
                there = False
            if mode is None:
                raise Refused(f"Access denied: '{relative}' is a link or no file", "name the file that is meant")
            state.replace_in(opened, name, text, mode)
        return there


def _make(base: str, folder: str) -> None:
    """The folders of a path, one step at a time, through no link."""
    opened = os.open(base, _FOLDER)
    try:
        for step in folder.split("/") if folder else ():
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=opened)
            entered = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = entered
    finally:
        os.close(opened)


def listed(base: str, relative: str) -> list[str]:
    """What a folder holds: folders with a `/`, links with an `@`."""
    with _errors(relative), state.folder_beneath(base, relative) as opened:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            raise BadRequest(f"Not a folder: '{relative}'", "read it as a file")
        found = paths.list_names(opened)
    return sorted([*(f"{one}/" for one in found.folders), *(f"{one}@" for one in found.links), *found.files])


def tree(base: str, relative: str) -> list[str]:
    """Every file beneath a folder, by its path in it; what nobody means is passed over."""
    with _errors(relative), state.folder_beneath(base, relative):
        pass
    return [path for path, _ in paths.tree_of(os.path.normpath(f"{base}/{relative}"), passing_over=PASSED_OVER)]


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFile(f"File not found: '{path}'", "list the folder to see what there is") from error
    except files.NotRegular as error:
        raise BadRequest(f"Not a file: '{path}' is {error}") from error
    except IsADirectoryError as error:
        raise BadRequest(f"Not a file: '{path}' is a folder") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere") from error
        raise HostError(f"'{path}' can't be used: {error.strerror}", "check its permissions", path) from error
