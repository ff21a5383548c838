"""The table of sandbox tiers names tests that are there, and the page shows every topic of it."""

import re
from pathlib import Path

from scripts.docs_tiers import PAGE, TIERS, TOPICS

TESTS = Path(__file__).parents[1] / "host"


def test_every_test_of_the_tier_table_is_there():
    text = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.glob("test_sandbox_*.py"))
    there = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert {name for names in TOPICS.values() for name in names} - there == set()


def test_the_page_shows_every_topic_and_no_tier_that_fails_one():
    table = PAGE.read_text(encoding="utf-8").partition("<!-- measured: tiers -->")[2].partition("<!-- end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    assert rows[0][1:] == list(TIERS.values())
    assert [row[0] for row in rows[2:]] == list(TOPICS)
    assert {cell for row in rows[2:] for cell in row[1:]} <= {"yes", "–"}
