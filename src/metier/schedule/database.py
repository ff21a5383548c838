"""The database of schedules: SQLite in metier's own folder, or the PostgreSQL that METIER_DATABASE_URL names.

Statements are SQL text that both databases accept, run through SQLAlchemy for its pool; this module alone imports it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..host.fs import make_folder
from ..host.sqlite import add_subsecond_clock, ensure_private_database
from ..types.errors import BadRequest, HostError, MissingExtra
from ..types.place import Place

if TYPE_CHECKING:
    from sqlalchemy import Connection as Connection
    from sqlalchemy import Engine as Engine

URL_VARIABLE = "METIER_DATABASE_URL"
DATABASE_FILE = "schedule.db"
SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE metier_schedules (
    id TEXT PRIMARY KEY, skill TEXT NOT NULL, document TEXT NOT NULL, revision BIGINT NOT NULL, paused TEXT NOT NULL,
    failures BIGINT NOT NULL, next_due BIGINT, next_start BIGINT, seen BIGINT NOT NULL, since BIGINT NOT NULL);
CREATE INDEX metier_schedules_start ON metier_schedules (next_start);
CREATE INDEX metier_schedules_seen ON metier_schedules (seen);
CREATE INDEX metier_schedules_skill ON metier_schedules (skill);
CREATE TABLE metier_firings (
    schedule TEXT NOT NULL, due BIGINT NOT NULL, state TEXT NOT NULL, note TEXT NOT NULL, owner TEXT NOT NULL,
    attempt BIGINT NOT NULL, manual BIGINT NOT NULL, stop BIGINT NOT NULL, started BIGINT, ended BIGINT,
    PRIMARY KEY (schedule, due));
CREATE INDEX metier_firings_open ON metier_firings (state, due) WHERE state IN ('waiting', 'queued', 'running');
CREATE UNIQUE INDEX metier_firings_one_at_work ON metier_firings (schedule) WHERE state IN ('queued', 'running');
CREATE INDEX metier_firings_ended ON metier_firings (ended);
CREATE TABLE metier_pins (digest TEXT PRIMARY KEY, files TEXT NOT NULL);
CREATE TABLE metier_workers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, home TEXT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL,
    started BIGINT NOT NULL, beat BIGINT NOT NULL, state TEXT NOT NULL);
"""


# Version 1 is never edited: a new database is made as version 1 and then migrated, so both ways end at the same tables.
_MIGRATIONS = {
    2: """
CREATE TABLE metier_calls (
    batch TEXT NOT NULL, number BIGINT NOT NULL, task TEXT NOT NULL, state TEXT NOT NULL, note TEXT NOT NULL,
    PRIMARY KEY (batch, number));
""",
    3: "ALTER TABLE metier_firings ADD COLUMN run TEXT NOT NULL DEFAULT ''",
}
"""The statements that lead from each version of the tables to the next."""


def open_engine(place: Place, wait_ms: int = 5_000) -> Engine:
    """Open the database, and create or migrate its tables.  A damaged database is never replaced."""
    try:
        import sqlalchemy  # noqa: F401  # is it installed?
    except ImportError:
        raise MissingExtra("a schedule", "schedule") from None
    # A literal: the docs list variables by such calls.
    url = place.env.get("METIER_DATABASE_URL", "")
    if url and not url.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        raise BadRequest(
            f"{URL_VARIABLE} is not a PostgreSQL URL", "set it to postgresql://…, or unset it to use SQLite"
        )
    engine = _open_postgres(url) if url else _open_sqlite(place, wait_ms)
    with named_errors(place):
        make_tables(engine)
    return engine


def make_tables(engine: Engine) -> None:
    """Create or migrate the tables."""
    from sqlalchemy import inspect

    with engine.begin() as connection:
        exists = inspect(connection).has_table("metier_schema")
        _migrate_schema(connection, exists, engine.dialect.name == "postgresql")


def _open_postgres(url: str) -> Engine:
    from sqlalchemy import create_engine

    address = "postgresql+psycopg://" + url.partition("://")[2]
    return create_engine(address, pool_size=10, max_overflow=20, pool_pre_ping=True)


def _open_sqlite(place: Place, wait_ms: int) -> Engine:
    from sqlalchemy import create_engine, event

    make_folder(place.state)
    path = f"{place.state}/{DATABASE_FILE}"
    ensure_private_database(path)
    engine = create_engine(f"sqlite:///{path}", pool_size=10, max_overflow=20)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        # Take the write lock with a transaction's first write: upgrading a read lock later fails instead of waiting.
        # A SELECT before it takes no lock; `claims` relies on compare-and-set, not on this.
        connection.isolation_level = "IMMEDIATE"
        # WAL lets readers go on while one writes; FULL, because a claim that a power cut undoes would fire twice.
        for pragma in (f"busy_timeout = {wait_ms}", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        # KiB, for each connection of the pool: the default is 2000.
        connection.execute("PRAGMA cache_size = -512")
        add_subsecond_clock(connection)

    @event.listens_for(engine, "handle_error")
    def translate(context: Any) -> None:
        # DBOS waits for a database that is locked, but gives a workflow up for one whose disk is full: to it, both are
        # the same.  Our own statements are tried again by `patience`.
        reason = str(context.original_exception)
        if any(words in reason for words in _DISK_TROUBLE) and "metier_" not in (context.statement or ""):
            raise type(context.original_exception)(f"{reason} ({_LOCKED})") from context.original_exception

    return engine


_LOCKED = "database is locked"
_DISK_TROUBLE = ("database or disk is full", "disk I/O error", "unable to open database file")


def database_errors() -> tuple[type[Exception], ...]:
    """What a statement may raise: an error of the driver, or no free connection."""
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    return DBAPIError, PoolTimeout


def is_database_trouble(error: BaseException) -> bool:
    """Whether an error says that the database can't be used just now: away, locked, or without space."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    while isinstance(error, HostError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, PoolTimeout):
        return True
    # Damage is no trouble that passes.
    return (
        isinstance(error, DBAPIError)
        and (error.connection_invalidated or isinstance(error, OperationalError | InterfaceError))
        and not any(words in str(error.orig) for words in ("malformed", "not a database", "no such table"))
    )


def _migrate_schema(connection: Connection, exists: bool, shared: bool) -> None:
    """Create the tables, and bring them to the current version.  Two workers that start at once do it once."""
    if not exists:
        if shared:
            # IF NOT EXISTS is no protection: of two that create it at once, one fails with a unique violation.
            fetch_rows(connection, "SELECT pg_advisory_xact_lock(731005501)")
        run_statement(connection, "CREATE TABLE IF NOT EXISTS metier_schema (version BIGINT NOT NULL)")
    versions = fetch_rows(connection, "SELECT version FROM metier_schema")
    if not versions:
        _run_all(connection, _SCHEMA)
        run_statement(connection, "INSERT INTO metier_schema (version) VALUES (1)")
    version = versions[0]["version"] if versions else 1
    if version > SCHEMA_VERSION:
        raise HostError("the database of schedules is from a newer metier", "upgrade metier; nothing was changed")
    # In one transaction: after a crash the old version is intact.
    for step in range(version + 1, SCHEMA_VERSION + 1):
        if run_statement(connection, "UPDATE metier_schema SET version = :step WHERE version = :step - 1", step=step):
            _run_all(connection, _MIGRATIONS[step])


def _run_all(connection: Connection, script: str) -> None:
    for statement in filter(str.strip, script.split(";")):
        run_statement(connection, statement)


@contextlib.contextmanager
def named_errors(place: Place) -> Iterator[None]:
    """Turn errors of the database driver into errors that say what to do."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise database_failure(place, str(error.orig)) from error
    except UnicodeError as error:  # a host that can't be a name: `db..internal`
        raise database_failure(place, str(error)) from error


def database_failure(place: Place, reason: str) -> HostError:
    path = f"{place.state}/{DATABASE_FILE}"
    if place.env.get(URL_VARIABLE):
        return HostError(
            f"can't reach the database of schedules: {reason}", f"check {URL_VARIABLE} and that the server is running"
        )
    if "malformed" in reason or "not a database" in reason:
        hint = f"back it up, then try `sqlite3 {path} .recover`; metier does not replace it"
        return HostError(f"{path} is damaged: {reason}", hint, path)
    if "locked" in reason and not any(words in reason for words in _DISK_TROUBLE):
        return HostError(
            f"{path} is locked by another process", "try again; `metier daemon status` lists the workers", path
        )
    return HostError(f"can't use {path}: {reason}", "check permissions and disk space", path)


@lru_cache(256)
def _parsed_statement(statement: str) -> Any:
    """SQLAlchemy parses a text for its parameters; there are few texts, and they are run often."""
    from sqlalchemy import text

    return text(statement)


def run_statement(connection: Connection, statement: str, **values: object) -> int:
    """Run a statement; how many rows it changed."""
    return connection.execute(_parsed_statement(statement), values).rowcount


def run_many(connection: Connection, statement: str, values: Sequence[Mapping[str, object]]) -> None:
    if values:
        connection.execute(_parsed_statement(statement), list(values))


def fetch_rows(connection: Connection, query: str, **values: object) -> list[Any]:
    """Run a query; its rows have their columns by name."""
    return list(connection.execute(_parsed_statement(query), values).mappings())


def document_field(connection: Connection, field: str) -> str:
    """The SQL for a field of a schedule's document, so that a query over all schedules parses none of them here."""
    if connection.dialect.name != "postgresql":
        return f"json_extract(document, '$.{field}')"
    expression = f"CAST(document AS json) ->> '{field}'"
    return f"CAST({expression} AS boolean)" if field == "once" else f"({expression})"
