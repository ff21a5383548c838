"""Adding a schedule: the library is opened once, and the project chooses no model."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from metier.faces.cli.options import CliContext
from metier.faces.cli.schedule import add
from metier.host.facts import find_place
from metier.library import settings
from metier.library.open import OpenRequest, open_at
from metier.library.trust import make_trust_record, write_trust_record
from metier.schedule import store
from metier.schedule.database import open_engine
from metier.types.place import Place
from metier.types.problem import Problem
from metier.types.schedule import Schedule

SCHEDULER_SKILL, LIBRARY_SKILL = "ping-12345678", "report"
Adding = Callable[..., Schedule]


def write_skill(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("METIER_MODEL", raising=False)
    write_skill(tmp_path / "state/scheduler", SCHEDULER_SKILL)
    write_skill(tmp_path / ".claude/skills", LIBRARY_SKILL)
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def adding(project: Path) -> Adding:
    def adding(*words: str) -> Schedule:
        said = CliRunner().invoke(add, [*words, "every", "hour"], obj=CliContext(directory=str(project)))
        assert said.exit_code == 0, said.output
        engine = open_engine(find_place(str(project)))
        try:
            [made] = store.all_schedules(engine)
            return made
        finally:
            engine.dispose()

    return adding


@pytest.mark.parametrize("words", [(), ("--model", "openai:a-model"), ("--permission", "network")])
@pytest.mark.parametrize("skill", [SCHEDULER_SKILL, LIBRARY_SKILL])
def test_the_library_is_opened_once(
    adding: Adding, monkeypatch: pytest.MonkeyPatch, skill: str, words: tuple[str, ...]
) -> None:
    opened: list[str] = []

    def counted(place: Place, problems: list[Problem]) -> object:
        opened.append(place.cwd)
        return settings.load_settings(place, problems)

    monkeypatch.setattr("metier.library.open.load_settings", counted)
    assert adding(skill, *words).skill == skill
    assert len(opened) == 1


@pytest.mark.parametrize("mine", ["openai:mine", ""])
def test_the_model_is_the_users_and_not_the_projects(adding: Adding, project: Path, mine: str) -> None:
    place = find_place(str(project))
    Path(place.state, "config.toml").write_text(f"[config]\nmodel = '{mine}'\n" if mine else "")
    (project / ".metier").mkdir()
    (project / ".metier/config.toml").write_text("[config]\nmodel = 'openai:theirs'\n")
    trusted = make_trust_record(str(project), open_at(place, OpenRequest()).skills, 1_000_000, whole=True)
    write_trust_record(place.state, str(project), trusted)

    assert adding(SCHEDULER_SKILL).terms.model == mine
