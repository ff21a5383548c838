from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, anthropic_like, make_certificate


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return anthropic_like(tmp_path / "served" / "skills")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))
