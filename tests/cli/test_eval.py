"""metier eval, as a person and a program use it."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says
from tests.cli.console import Desk
from tests.cli.test_run import model


def tried(desk: Desk, checks: list[Any], cases: int = 1, **more: Any) -> Path:
    folder = desk.skill("fruit", description="Knows fruit.").parent
    (folder / "evals").mkdir()
    rows = [{"id": number, "prompt": f"Which is {number}?", "checks": checks, **more} for number in range(cases)]
    (folder / "evals" / "evals.json").write_text(json.dumps({"skill_name": "fruit", "evals": rows}))
    return folder


def test_a_trial_says_what_passed_between_which_bounds_and_where_the_report_is(desk):
    tried(desk, [{"contains": "Pear"}, {"contains": "\x1b[31mred"}, {"contains": "Plum"}], assertions=["It is ripe."])
    judged = '[{"claim": 1, "passed": true, "evidence": "Pear"}]'
    with model(desk, [Says("Pear."), Says(judged), Says("Pear."), Says(judged)]):
        said = desk.say("eval", "fruit", "--runs", "2", "--jobs", "1", "--fail-under", "0.8")

    assert said.code == 1
    assert "with the skill    50 %  between 5 % and 95 %" in said.out
    assert "failed 2x  0: the answer contains `red`" in said.out
    assert "\x1b" not in said.out
    report = said.out.partition("Report: ")[2].strip()
    assert report == str(desk.state / "evals/fruit/iteration-1/report.html")
    assert "It passes 50 %" in Path(report).read_text()
    assert not Path(report).with_name("arms").exists()


def test_a_program_gets_one_document(desk):
    tried(desk, [{"contains": "Pear"}])
    with model(desk, [Says("Pear."), Says("Plum.")]) as wire:
        said = desk.say("eval", "fruit", "--runs", "1", "--jobs", "1", "--with-without", "--json", "--out", "kept")
    found = json.loads(said.out)

    assert found["comparison"]["verdict"] == "underpowered"
    assert found["run_summary"]["delta"]["pass_rate"] == 1.0
    assert found["folder"] == str(desk.project / "kept" / "iteration-1")
    assert ["fruit" in json.dumps(one["messages"][0]) for one in wire.requests] == [True, False]


def test_a_skill_that_does_worse_is_a_failure_and_a_bar_shows_how_far_it_has_come(desk):
    tried(desk, [{"contains": "Pear"}], cases=5)
    with model(desk, [Says("Plum." if at % 2 == 0 else "Pear.") for at in range(10)]):
        said = desk.at_terminal("eval", "fruit", "--runs", "1", "--jobs", "1", "--with-without")

    assert said.code == 1
    assert "The skill does worse than going without it." in said.out
    assert "100%" in said.out


def test_a_service_that_is_down_is_no_result(desk):
    tried(desk, [{"contains": "Pear"}])
    with model(desk, [Fails(status=401)]):
        said = desk.say("eval", "fruit", "--runs", "1")

    assert said.code == 5
    assert "no run finished" in said.err


def test_a_skill_is_compared_with_a_version_of_its_history(desk):
    folder = tried(desk, [{"contains": "Pear"}])
    from metier.record.history import HistoryChange, record_change, repository_path

    version = record_change(
        repository_path(str(desk.state), str(desk.skills)), HistoryChange("edit", "fruit", str(folder))
    )
    assert version is not None
    desk.skill("fruit", description="Knows more fruit.")
    with model(desk, [Says("Pear."), Says("Plum.")]) as wire:
        said = desk.say("eval", "fruit", "--runs", "1", "--jobs", "1", "--compare", version.rev[:8])

    assert "as it was" in said.out
    assert ["more fruit" in json.dumps(one["messages"]) for one in wire.requests] == [True, False]
    assert desk.say("eval", "fruit", "--compare", "ffff0000").err.startswith("error: the history has no version")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["frut"], 2, "did you mean `fruit`?"),
        (["fruit", "--with-without", "--compare", "x"], 2, "are mutually exclusive"),
        (["fruit", "--triggers", "--with-without"], 2, "can't be used with --triggers"),
        (["fruit", "--triggers"], 2, "has no trigger prompts"),
        (["fruit", "--runs", "0"], 2, "--runs"),
        (["plain"], 2, "`plain` has no evals"),
        (["fruit"], 2, "there is no model to ask"),
    ],
)
def test_what_can_not_be_is_said_with_what_to_do(desk, words, code, said):
    tried(desk, [{"contains": "Pear"}])
    desk.skill("plain")
    found = desk.say("eval", *words)

    assert found.code == code
    assert said in found.err
    assert "Traceback" not in found.err


def test_trigger_prompts_need_no_model(desk):
    folder = desk.skill("charts", description="Draws charts: bar chart, pie chart, from sales data.").parent
    desk.skill("letters", description="Translates letters into another language.")
    rows = [
        {"query": "draw a bar chart of the sales data"},
        {"query": "translate this letter", "should_trigger": False},
    ]
    rows += [{"query": "play a song for me \x1b[2J"}]
    (folder / "evals").mkdir()
    (folder / "evals" / "triggers.json").write_text(json.dumps(rows))
    said = desk.say("eval", "charts", "--triggers")

    assert said.code == 0
    assert "3 prompts, chosen by the local ranker" in said.out
    assert "missed: play a song for me" in said.out
    assert "\x1b" not in said.out
    assert "No verdict: only 2 that should trigger and 1 that should not trigger" in said.out
    assert json.loads(desk.say("eval", "charts", "--triggers", "--json").out)["summary"]["total"] == 3


def test_what_could_not_be_decided_is_named_with_the_reason(desk):
    tried(desk, [{"contains": "Pear"}], assertions=["It is ripe."])
    with model(desk, [Says("Pear."), Says("no judgement"), Says("still none"), Says("none")]):
        said = desk.say("eval", "fruit", "--runs", "1", "--jobs", "1")

    assert "1 check could not be graded and are not counted:" in said.out
    assert "undecided 1x  0: It is ripe." in said.out


def test_a_skill_that_may_not_be_tried_is_refused_with_the_reason(desk):
    folder = desk.skill("fruit", under=desk.project / ".agents/skills").parent
    (folder / "evals").mkdir()
    said = desk.say("eval", "fruit")

    assert said.code == 4
    assert "can't be tried: " in said.err
    assert "metier trust" in said.err
