"""One SQLite file that is only ever a convenience: damaged it is made anew, locked it is passed over."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

_WAIT_MS = 250


class Change(Protocol):
    """One statement of a transaction."""

    def __call__(self, statement: str, values: Sequence[Any] = ()) -> None: ...


class Database:
    """An open index.  A fault after opening makes it fall silent: reads give nothing, writes do nothing."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self.path = path
        self.silent = ""
        """Why it fell silent, or nothing."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        if self.silent:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._fall_silent(error)
            return []

    @contextlib.contextmanager
    def change(self) -> Iterator[Change]:
        """One transaction: all of it is kept, or none."""

        def run(statement: str, values: Sequence[Any] = ()) -> None:
            if not self.silent:
                self._connection.execute(statement, values)

        try:
            if not self.silent:
                self._connection.execute("BEGIN IMMEDIATE")
            yield run
            if not self.silent:
                self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._fall_silent(error)

    def _fall_silent(self, error: sqlite3.Error) -> None:
        self.silent = "damaged" if _is_damage(error) else "locked"
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        if self.silent == "damaged":
            self.close()
            remove(self.path)

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def open_database(path: str, schema: str, version: int) -> tuple[Database | None, str]:
    """The database and how it was found: `ok`, `new`, `damaged` (and made anew), `locked` or `unwritable: why`."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    except OSError as error:
        return None, f"unwritable: {error.strerror}"
    for attempt in (1, 2):
        try:
            connection = _connect(path)
            [(found,)] = connection.execute("PRAGMA user_version").fetchall()
            if found == version:
                return Database(connection, path), "ok" if attempt == 1 else "damaged"
            if found == 0 and not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                connection.executescript(f"BEGIN IMMEDIATE;{schema}PRAGMA user_version = {version};COMMIT;")
                return Database(connection, path), "new" if attempt == 1 else "damaged"
            connection.close()
        except sqlite3.Error as error:
            if not _is_damage(error):
                return None, "locked" if "lock" in str(error) else f"unwritable: {error}"
        except OSError as error:
            return None, f"unwritable: {error.strerror}"
        if not remove(path):
            return None, "unwritable: the damaged index can't be removed"
    return None, "unwritable: it can't be made anew"


def _connect(path: str) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection = sqlite3.connect(path, timeout=_WAIT_MS / 1000, isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF;")
    return connection


def _is_damage(error: sqlite3.Error) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return "no such" in str(error) or "malformed" in str(error)
    return isinstance(error, sqlite3.DatabaseError)


def remove(path: str) -> bool:
    for name in (path, path + "-wal", path + "-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
