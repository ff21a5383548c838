import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.builders import skill
from tests.home import World, codes, python, settle, write_skill
from tests.sources.test_index import bad_wal, garbage, held, index_of, no_schema, other_schema, scribbled, truncated

from metier.library.overlap import selection_findings
from metier.library.search import start_indexing
from metier.types.errors import BadRequest

STOCK = {
    "pdf-form": "Fills in PDF forms. Use when the user has a form to fill in.",
    "release-notes": "Writes release notes for users from a list of changes.",
    "code-review": 'Reviews a change. Use for "review my code" and "look for bugs".',
    "deploy": "Puts a service into production. 部署服务.",
    "csv-report": "Makes a report from a table of numbers.",
}


@pytest.fixture
def stocked(world: World) -> World:
    for name, description in STOCK.items():
        write_skill(world.home / ".agents/skills" / name, description, f"# About\n\nUses **{name}-engine**.\n")
    settle()
    return world


def found(world: World, query: str, index: bool = True) -> list[str]:
    return [hit.skill.name for hit in world.open(index=index).search(query)]


@pytest.mark.parametrize("index", [True, False])
def test_the_skill_that_answers_comes_first(stocked: World, index: bool):
    assert found(stocked, "fill in this form", index)[0] == "pdf-form"
    assert found(stocked, "请部署这个", index) == ["deploy"]
    assert found(stocked, "zebra", index) == []


def test_a_hit_says_its_rank_its_terms_and_whether_it_clearly_applies(stocked: World):
    [hit, *_] = stocked.open(index=True).search("fill in a pdf form")
    assert (hit.rank, hit.clear, dict(hit.ranks)) == (1, True, {"lexical": 1})
    assert {one.term: one.fields for one in hit.matched}["pdf"] == ("name", "description", "card")


def test_bodies_are_read_too_and_only_when_somebody_searches(stocked: World):
    library = stocked.open(index=True)
    assert library.database is not None
    assert library.catalog().text
    assert library.database.rows("SELECT count(*) FROM cards") == [(0,)]
    assert found(stocked, "csv report engine")[0] == "csv-report"
    assert library.database.rows("SELECT count(*) FROM cards WHERE whole") == [(5,)]


def test_every_change_reaches_the_next_search(stocked: World):
    root = stocked.home / ".agents/skills"
    assert found(stocked, "translate a letter") == []
    write_skill(root / "translate", "Translates letters.")
    assert found(stocked, "translate a letter") == ["translate"]
    write_skill(root / "translate", "Counts sheep.")
    assert found(stocked, "translates letters") == ["translate"]  # by its name alone
    assert found(stocked, "count sheep") == ["translate"]
    shutil.rmtree(root / "translate")
    assert found(stocked, "count sheep") == []


def test_one_index_serves_many_places_and_each_finds_its_own(stocked: World, tmp_path: Path):
    for number in range(40):
        write_skill(tmp_path / "other" / f"forms-{number}", "Fills in PDF forms of every kind.")
    assert stocked.open(root=tmp_path / "other", index=True).search("fill in a pdf form")
    assert found(stocked, "fill in a pdf form")[0] == "pdf-form"
    assert not [name for name in found(stocked, "fill in a pdf form") if name.startswith("forms-")]


def test_a_model_finds_only_what_its_catalog_may_list(stocked: World):
    write_skill(
        stocked.home / ".agents/skills/secret", "Fills in secret forms.", more="disable-model-invocation: true\n"
    )
    library = stocked.open(index=True)
    assert "secret" not in [hit.skill.name for hit in library.search("secret forms")]
    assert "secret" in [hit.skill.name for hit in library.search("secret forms", audience="person")]


def test_bad_requests_are_said(stocked: World):
    library = stocked.open(index=True)
    with pytest.raises(BadRequest, match="must be 0 or more"):
        library.search("form", limit=-1)
    with pytest.raises(BadRequest, match="not an audience"):
        library.search("form", audience="ghost")  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="not a policy"):
        library.catalog(policy="best")  # type: ignore[arg-type]
    assert library.search("form", limit=0) == ()


@pytest.mark.parametrize(
    "query", ['"', "a OR b", "NEAR(", "name:x", "*", "\0", "\ud800", "x" * 100_000, "'; DROP TABLE cards"]
)
def test_no_query_is_taken_for_an_order(stocked: World, query: str):
    assert found(stocked, f"{query} pdf form")[:1] in (["pdf-form"], [])
    assert found(stocked, "fill in a pdf form")[0] == "pdf-form"


def ranked(world: World) -> tuple[str, str, list[str]]:
    library = world.open(index=True)
    catalog = library.catalog(max_skills=2, request="fill in a pdf form")
    if library.database is not None:
        library.database.close()
    return catalog.text, catalog.ranked, [*codes(library), *(one.code for one in catalog.problems)]


@pytest.mark.parametrize("harm", [garbage, truncated, scribbled, other_schema, no_schema, bad_wal])
def test_a_damaged_index_costs_the_ranking_at_most_one_problem(stocked: World, harm):
    text, _, _ = ranked(stocked)
    for beside in ("-wal", "-shm"):
        Path(f"{index_of(stocked)}{beside}").unlink(missing_ok=True)
    harm(index_of(stocked))
    again, _, problems = ranked(stocked)
    assert again == text
    assert len(problems) <= 1
    assert ranked(stocked)[2] == []


def test_words_that_were_damaged_under_an_open_library_degrade_to_the_unranked_catalog(stocked: World):
    library = stocked.open(index=True)
    library.search("form")
    with contextlib.closing(sqlite3.connect(index_of(stocked))) as connection, connection:
        connection.execute("DROP TABLE words")
    fresh = stocked.open(index=True)
    catalog = fresh.catalog(max_skills=2, request="fill in a pdf form")
    assert [one.code for one in catalog.problems] == ["index-damaged"]
    assert catalog.suggested == ()
    assert catalog.text == library.catalog(max_skills=2).text
    assert fresh.search("fill in a form")[0].skill.name == "pdf-form"


def test_a_locked_index_degrades_to_the_unranked_catalog_with_one_problem(stocked: World):
    ranked(stocked)
    write_skill(stocked.home / ".agents/skills/another", "Another one.")
    library = stocked.open(index=True)
    with held(index_of(stocked), "BEGIN IMMEDIATE"):
        catalog = library.catalog(max_skills=2, request="fill in a pdf form")
    assert [one.code for one in catalog.problems] == ["index-locked"]
    assert catalog.suggested == ()


FULL = """
import resource, sys
sys.dont_write_bytecode = True  # a short write would leave half a file behind
import metier
library = metier.open()
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
catalog = library.catalog(max_skills=2, request="fill in a pdf form")
print([one.code for one in catalog.problems], len(catalog.entries), len(catalog.suggested))
print(library.search("fill in a pdf form")[0].skill.name)
"""


def test_a_full_disk_degrades_to_the_unranked_catalog_with_one_problem(stocked: World):
    done = python(FULL, env=stocked.variables, cwd=stocked.project)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['index-unwritable'] 2 0", "pdf-form"]


def test_an_index_that_may_not_be_written_is_done_without(stocked: World):
    stocked.state.mkdir(exist_ok=True)
    index_of(stocked).mkdir()
    _, block, problems = ranked(stocked)
    assert problems == ["index-unwritable"]
    assert "likeliest" not in block
    assert found(stocked, "fill in a form")[0] == "pdf-form"


SEARCH = """
import sys, metier
for number in range(6):
    library = metier.open()
    print([hit.skill.name for hit in library.search("fill in a pdf form", limit=1)])
"""


def test_many_at_once_never_harm_the_index(stocked: World):
    from concurrent.futures import ThreadPoolExecutor

    for number in range(60):
        write_skill(stocked.home / ".agents/skills" / f"more-{number}", f"Does thing {number}.")
    settle()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: python(SEARCH, env=stocked.variables, cwd=stocked.project), range(4)))
    assert [one.stderr for one in done] == [""] * 4
    assert {line for one in done for line in one.stdout.splitlines()} == {"['pdf-form']"}
    with contextlib.closing(sqlite3.connect(index_of(stocked))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


def test_the_words_stay_true_to_the_cards_whatever_changes(stocked: World):
    chance = random.Random(2)
    root = stocked.home / ".agents/skills"
    for _ in range(12):
        name = f"one-{chance.randrange(4)}"
        if chance.random() < 0.3 and (root / name).exists():
            shutil.rmtree(root / name)
        else:
            write_skill(root / name, " ".join(chance.choices(["red", "green", "blue", "form", "pdf", "部署"], k=6)))
        stocked.open(index=True).search("red form")
    with contextlib.closing(sqlite3.connect(index_of(stocked))) as connection:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


def test_a_thread_of_its_own_fills_the_index_and_can_be_stopped(stocked: World):
    library = stocked.open(index=True)
    reading = start_indexing(library)
    assert reading.wait(30)
    assert reading.left == 0
    assert library.database is not None
    assert library.database.rows("SELECT count(*) FROM cards WHERE whole") == [(5,)]
    stopped = start_indexing(library)
    stopped.stop(30)
    assert stopped.wait(0)


def test_shuffled_folders_give_the_same_catalog(world: World, tmp_path: Path):
    chance = random.Random(4)
    names = [f"skill-{number:02}" for number in range(30)]
    seen = set()
    for number in range(100):
        root = tmp_path / str(number)
        for name in chance.sample(names, len(names)):
            write_skill(root / name, f"Does {name}.")
        text = world.open(root=root).catalog(max_chars=2_500, request="does skill").text
        seen.add(text.replace(str(root), "ROOT").replace(f"/{number}/", "/N/"))
    assert len({text.split("<location>")[0] for text in seen}) == 1
    assert len({"".join(line for line in text.split("\n") if "location" not in line) for text in seen}) == 1


def test_did_you_mean_knows_words_as_well_as_spelling(stocked: World):
    library = stocked.open(index=True)
    assert library.nearest("relase-notes") == ("release-notes",)
    assert library.nearest("fill-in-forms")[0] == "pdf-form"
    assert library.nearest("zzz") == ()


def test_the_picker_goes_by_letters_and_then_by_meaning(stocked: World):
    library = stocked.open(index=True)
    assert library.pick("cdrev")[0].name == "code-review"
    assert library.pick("/rn")[0].name == "release-notes"
    assert library.pick("fill in a form")[0].name == "pdf-form"
    assert len(library.pick("")) == 5
    assert library.pick("qqq") == ()


def test_a_newcomer_that_steals_a_prompt_is_named(stocked: World):
    library = stocked.open(index=True)
    thief = skill("review-my-code", "Review my code, look for bugs, review my code.", path="/new/review/SKILL.md")
    [mark] = [one for one in selection_findings(thief, library) if one.code == "trigger-interference"]
    assert mark.details[0] == "code-review"
    assert "review my code" in mark.details[1]
    assert selection_findings(skill("quiet", "Tunes a piano."), library) == ()


def test_an_authors_own_trigger_prompts_count_before_what_the_description_quotes(stocked: World):
    folder = stocked.home / ".agents/skills/csv-report/evals"
    folder.mkdir()
    (folder / "triggers.json").write_text(json.dumps([{"query": "numbers in a table please", "should_trigger": True}]))
    thief = skill("tables", "Numbers in a table. Please table numbers.", path="/new/tables/SKILL.md")
    marks = selection_findings(thief, stocked.open(index=True))
    assert [(one.code, one.details[0]) for one in marks] == [("trigger-interference", "csv-report")]


def test_the_prefix_policy_stays_what_it_was(stocked: World):
    library = stocked.open(index=True)
    catalog = library.catalog(max_skills=2, policy="prefix", request="fill in a pdf form")
    assert catalog.text.startswith("⚠️ Skills truncated: included 2 of 5.")
    assert (catalog.ranked, len(catalog.left_out)) == ("", 3)
    assert stocked.open("openclaw", index=True).catalog(max_skills=0).ranked == ""


def test_the_configuration_pins_and_chooses_the_policy(stocked: World):
    stocked.state.mkdir(exist_ok=True)
    config = stocked.state / "config.toml"
    config.write_text('[catalog]\npinned = ["release-notes"]\n')
    assert [entry.name for entry in stocked.open().catalog(max_skills=1).entries] == ["release-notes"]
    config.write_text('[catalog]\npolicy = "prefix"\n')
    assert "truncated" in stocked.open().catalog(max_skills=1).text
    config.write_text('[catalog]\npolicy = "best"\npins = 1\n[search]\ndense = 3\n')
    assert sorted(codes(stocked.open())) == ["config-type", "config-type", "config-unknown-key"]
