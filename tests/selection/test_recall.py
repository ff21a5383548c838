"""The ranker on half of the authors' prompts: what was measured once is held.  The weights were chosen with them in view."""

from pathlib import Path

import pytest
from bench.select_data import Request, requests, skills, stuffed
from bench.select_rankers import lexical

from metier.catalog.cards import is_stuffed
from metier.library.search import LexicalEngine

ASKED, IDLE = requests()
HELD = [one for one in ASKED if not one.tuning]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LexicalEngine:
    return lexical(skills(), tmp_path_factory.mktemp("index"))


def rank(engine: LexicalEngine, one: Request) -> int:
    paths = [found.path for found in engine.rank(one.text, 10)]
    return paths.index(one.right) if one.right in paths else 10


def test_the_right_skill_is_first_for_half_and_among_ten_for_nine_in_ten(engine: LexicalEngine):
    ranks = [rank(engine, one) for one in HELD]
    assert sum(place == 0 for place in ranks) / len(ranks) >= 0.54
    assert sum(place < 10 for place in ranks) / len(ranks) >= 0.88


def test_small_talk_is_left_alone_and_tasks_are_not(engine: LexicalEngine):
    assert sum(not any(found.clear for found in engine.rank(one.text, 5)) for one in IDLE) >= 95
    lost = sum(not any(found.clear for found in engine.rank(one.text, 5)) for one in HELD)
    assert lost / len(HELD) <= 0.05


def test_stuffed_skills_are_flagged_and_are_never_first(tmp_path: Path):
    pool = skills()
    bad = stuffed(pool, ASKED)
    assert all(is_stuffed(one.description) for one in bad)
    assert sum(is_stuffed(one.description) for one in pool) / len(pool) <= 0.01
    full = lexical(pool + bad, tmp_path)
    first = [found[0].path for one in HELD if (found := full.rank(one.text, 1))]
    assert sum(path.startswith("stuffed") for path in first) / len(HELD) <= 0.01
