"""Is a skill chosen for what it is for, and left alone otherwise?"""

import json

import pytest
from tests.agent.talking import call
from tests.home import World, write_skill
from tests.improve.trying import Actor

from metier.improve.evals import TriggerReport, TriggerResult, triggers_document
from metier.improve.evaluate import run_trigger_prompts, skill_to_try
from metier.improve.trials import ThreadQueue
from metier.types.errors import BadRequest, ModelError

CHARTS = [
    f"draw a {kind} chart of the sales data" for kind in ("bar", "line", "pie", "wide", "small", "red", "old", "new")
]
OTHERS = [f"translate this letter into {language}" for language in ("French", "Dutch", "Thai", "Latin")]
NOTHING = ["hello", "thank you", "what time is it", "good morning"]


def chooser(
    world: World, description: str = "Draws charts: bar chart, line chart, pie chart, from sales data."
) -> None:
    home = world.home / ".metier" / "skills"
    write_skill(home / "sketch", description)
    write_skill(home / "letters", "Translates letters and other texts into another language.")
    rows = [{"query": one, "should_trigger": True} for one in CHARTS]
    rows += [{"query": one, "should_trigger": False} for one in (*OTHERS, *NOTHING)]
    (home / "sketch" / "evals").mkdir()
    (home / "sketch" / "evals" / "triggers.json").write_text(json.dumps(rows))


def tried(world: World, model: Actor | None = None, runs: int = 1) -> TriggerReport:
    library = world.open(index=True)
    return run_trigger_prompts(library, skill_to_try(library, "sketch"), ThreadQueue(2), model, runs)


def test_a_good_description_is_chosen_for_its_own_prompts_and_for_no_others(world):
    chooser(world)
    found = tried(world)

    assert found.tier == "ranker"
    assert [one.query for one in found.tried if not one.passed] == []
    assert found.verdict == "good"
    assert found.share(True).low < 1.0


def test_a_description_that_says_nothing_is_found_to_be_poor(world):
    chooser(world, "Does useful things.")

    assert tried(world).verdict == "poor"


def test_few_prompts_give_no_verdict(world):
    chooser(world)
    (world.home / ".metier/skills/sketch/evals/triggers.json").write_text(json.dumps([{"query": CHARTS[0]}]))
    found = tried(world)

    assert found.verdict == "underpowered"
    assert found.underpowered == "only 1 that should trigger and 0 that should not trigger; 8 of each are needed"


def test_a_model_chooses_among_all_skills_and_is_stopped_there(world):
    chooser(world)

    def choosing(request):
        asked = request.messages[0].text
        return call("skill_use", skill_name="sketch" if "chart" in asked else "letters") if "a" in asked else "Hello."

    model = Actor(choosing)
    found = tried(world, model, runs=2)

    assert found.tier == "actor"
    assert found.verdict == "good"
    assert {one.instead for one in found.tried if "translate" in one.query} == {("letters",)}
    assert len(model.requests) == 2 * len(found.tried)


def test_a_service_that_is_down_is_no_choice(world):
    chooser(world)

    with pytest.raises(ModelError, match="it is down"):
        tried(world, Actor(lambda request: ModelError("it is down")))


def test_half_of_the_runs_are_enough():
    half = ("charts", "")

    assert TriggerResult("x", True, half, "charts").passed
    assert not TriggerResult("x", False, half, "charts").passed


def test_the_results_are_written_as_other_tools_write_them():
    found = TriggerReport(
        "charts",
        "Draws.",
        "ranker",
        (TriggerResult("x", True, ("charts",), "charts"), TriggerResult("y", True, ("z",), "charts")),
    )
    rows = triggers_document(found)

    assert rows["summary"] == {"total": 2, "passed": 1, "failed": 1}
    assert rows["results"][1] == {
        "query": "y",
        "should_trigger": True,
        "trigger_rate": 0.0,
        "triggers": 0,
        "runs": 1,
        "pass": False,
        "instead": ["z"],
    }


def test_a_skill_without_prompts_says_where_to_write_them(world):
    write_skill(world.home / ".metier/skills/sketch")

    with pytest.raises(BadRequest, match="no trigger prompts"):
        tried(world)
