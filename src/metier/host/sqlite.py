"""The index database: a cache in one SQLite file.

Nothing in it is worth a failure.  If it is damaged it is recreated, if it is locked or unwritable the caller goes on
without it; no error of SQLite leaves this module.
"""

from __future__ import annotations

# What `sqlite3` is made of, without its converters for dates, which no index has: `datetime` takes long to import.
import _sqlite3 as sqlite3
import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

from ..light_typing import Any, Protocol
from ..types.errors import HostError
from .facts import now_ns
from .fs import hold_lock, make_folder

# Rather go on without the index than wait longer for it.
_WAIT_MS = 250
# WAL lets readers go on while one writes; NORMAL may lose the last write with the power, which a cache can.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF;"
    "PRAGMA cache_size = -1024;"  # in KiB: the system caches the file's pages too
)


class StatementExecutor(Protocol):
    """Runs one statement of a transaction."""

    def __call__(self, statement: str, values: Sequence[Any] = ()) -> None: ...


class IndexDatabase:
    """An open index.  After an error it falls silent: reads return nothing, writes do nothing."""

    def __init__(self, connection: sqlite3.Connection, path: str, inode: int) -> None:
        self._connection = connection
        self.path = path
        self._inode = inode
        self.silent = ""
        """Why it fell silent: `damaged`, `locked` or `unwritable: why`; empty if it did not."""

    def __del__(self) -> None:
        """Close the files now: a connection is part of a reference cycle, and would wait for the garbage collector."""
        self.close()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        if self.silent:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except UnicodeEncodeError:  # a file name that is not UTF-8 is never stored
            return []
        except sqlite3.Error as error:
            self._fall_silent(error)
            return []

    @contextlib.contextmanager
    def change(self) -> Iterator[StatementExecutor]:
        """One transaction."""

        def run(statement: str, values: Sequence[Any] = ()) -> None:
            if not self.silent:
                try:
                    self._connection.execute(statement, values)
                except UnicodeEncodeError:  # a file name that is not UTF-8: store the rest
                    return

        self._run("BEGIN IMMEDIATE")
        try:
            yield run
            self._run("COMMIT")
        except sqlite3.Error as error:
            self._fall_silent(error)
        finally:
            if not self.silent and self._connection.in_transaction:
                self._run("ROLLBACK")

    def _run(self, statement: str) -> None:
        if self.silent:
            return
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._fall_silent(error)

    def _fall_silent(self, error: sqlite3.Error) -> None:
        is_locked = "lock" in str(error) or "busy" in str(error)
        self.silent = "damaged" if _is_damage(error) else "locked" if is_locked else f"unwritable: {error}"
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        # Removed at once, so that the next process recreates it.
        if self.silent == "damaged" and self.path:
            self.close()
            with contextlib.suppress(HostError, OSError):
                _remove_index(self.path, self._inode)

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def open_database(path: str, schema: str, version: int) -> tuple[IndexDatabase | None, str]:
    """The database and its status: `ok`, `new`, `damaged` (and recreated), `locked` or `unwritable: why`."""
    status = ""
    try:
        make_folder(os.path.dirname(path))
        # Once as it is, and once more after a damaged or outdated file was removed.
        for _ in (1, 2):
            inode = _ensure_file(path)
            try:
                database, opened_status = _connect_index(path, inode, schema, version)
            except sqlite3.Error as error:
                if not _is_damage(error):
                    return None, "locked" if _is_transient(error, path) else f"unwritable: {error}"
                status = "damaged"
            else:
                if database is not None:
                    return database, status or opened_status
                if opened_status == "newer":
                    return None, "unwritable: a newer metier made it"
                status = status or "new"
            _remove_index(path, inode)
    except HostError as error:
        return None, f"unwritable: {error.message}"
    except OSError as error:
        return None, f"unwritable: {error.strerror}"
    return None, "unwritable: it can't be recreated"


def memory_database(schema: str) -> IndexDatabase:
    """A database in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in schema.split(";"):
        connection.execute(statement)
    return IndexDatabase(connection, "", 0)


def _ensure_file(path: str) -> int:
    """Make the file, private, unless it exists; its inode.

    An existing file is never opened here.  Closing any descriptor of a file drops all POSIX locks that this process has
    on it, those of an open connection included; the next process to close would then delete the log with its content.
    """
    with contextlib.suppress(FileExistsError):
        try:
            os.mknod(path, stat.S_IFREG | 0o600)
        except PermissionError:  # some systems allow mknod to root only
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.chmod(path, 0o600)  # whatever the umask
    file_status = os.lstat(path)
    if not stat.S_ISREG(file_status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return file_status.st_ino


def ensure_private_database(path: str) -> None:
    """Make a private database file; an existing one stays as it is, and a link is refused."""
    try:
        _ensure_file(path)
    except OSError as error:
        raise HostError(
            f"{path} can't be used: {error.strerror}", "check permissions, or set METIER_HOME", path
        ) from error


def add_subsecond_clock(connection: sqlite3.Connection) -> None:
    """Add `unixepoch('subsec')`, which the engine's tables use, to SQLite before 3.42."""
    if tuple(map(int, sqlite3.sqlite_version.split("."))) < (3, 42):
        connection.create_function("unixepoch", 1, lambda modifier: now_ns() / 1e9 if modifier == "subsec" else None)


def _connect_index(path: str, inode: int, schema: str, version: int) -> tuple[IndexDatabase | None, str]:
    """The database and its status, or None and `older` or `newer` if another version made it."""
    connection = sqlite3.connect(path, timeout=_WAIT_MS / 1000, isolation_level=None)
    try:
        connection.executescript(_PRAGMAS)
        current = _schema_version(connection)
        status = "ok"
        if current == 0:
            connection.execute("BEGIN IMMEDIATE")  # two processes may find it empty: one fills it
            current = _schema_version(connection)
            if current == 0 and not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                for statement in schema.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version}")
                current, status = version, "new"
            connection.execute("COMMIT")
    except sqlite3.Error:
        connection.close()
        raise
    if current == version:
        return IndexDatabase(connection, path, inode), status
    connection.close()
    return None, "newer" if current > version else "older"


def _schema_version(connection: sqlite3.Connection) -> int:
    [(number,)] = connection.execute("PRAGMA user_version").fetchall()
    return int(number)


def _is_transient(error: sqlite3.Error, path: str) -> bool:
    """Whether another process holds the file, or is replacing it right now."""
    if "lock" in str(error):
        return True
    replaced = "disk I/O" in str(error) or "unable to open" in str(error)
    return replaced and os.access(os.path.dirname(path), os.W_OK) and os.path.isfile(path)


def _is_damage(error: sqlite3.Error) -> bool:
    # Mostly a lock or a full disk; only these words mean a broken file or schema.
    if isinstance(error, sqlite3.OperationalError):
        return any(sign in str(error) for sign in ("no such", "malformed", "decode"))
    return isinstance(error, sqlite3.DatabaseError)


def _remove_index(path: str, inode: int) -> None:
    """Remove a damaged or outdated index, unless another process has put a new one in its place."""
    with hold_lock(f"{os.path.dirname(path)}/.{os.path.basename(path)}.lock"):
        try:
            if os.lstat(path).st_ino != inode:
                return
            # The file itself goes last: until then no process creates a new one that these could belong to.
            for name in (path + "-wal", path + "-shm", path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
        except FileNotFoundError:
            return
