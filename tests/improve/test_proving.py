"""A change is held against the skill's own evals: worse is refused, and few of them prove nothing."""

import json

import pytest
from tests.agent.talking import call
from tests.improve.failing import FAILS, REVIEW, WELL, gate, improved, ran, skill

from metier.improve.evaluate import confirm_gate, evals_gate
from metier.improve.score import compare_arms

BODY = "1. Run `scripts/total.py --all-of-it`.\n2. Answer with the word seven.\n3. Be brief.\n4. Stop.\n"
FIRST = call("edit_file", path="SKILL.md", old="--all-of-it", new="--everything")
SECOND = call("edit_file", path="SKILL.md", old="the word seven", new="the word eight")


def obeying(request):
    """A model that answers as the skill says."""
    told = "\n".join(message.text for message in request.messages)
    return "seven" if "the word seven" in told else "eight"


def with_evals(world, root=".config/agenvoy/skills"):
    file = skill(world, BODY, root=root)
    (file.parent / "evals").mkdir()
    case = {"id": 1, "prompt": "Which number?", "assertions": [{"text": "it is seven", "contains": "seven"}]}
    (file.parent / "evals" / "evals.json").write_text(json.dumps({"skill_name": "report", "evals": [case]}))
    return file


def test_a_change_that_makes_an_eval_worse_is_refused(world):
    file = with_evals(world)
    lines = [FIRST, SECOND, "Changed.", WELL, "It is eight.", *[obeying] * 6]
    found, model = improved(world, ran(world, FAILS), lines)
    [proposal] = found.proposals

    assert proposal.standing == "refused"
    assert gate(proposal, "evals").startswith("no: worse: -100%")
    assert file.read_text().endswith(BODY)
    assert model.lines == []


def test_the_improver_does_not_see_what_the_skill_is_tried_with(world):
    with_evals(world)
    looks = call("find_files", pattern="*.json")
    found, model = improved(world, ran(world, FAILS), [looks, FIRST, "Changed.", WELL, "Seven.", *[obeying] * 6])

    assert model.requests[1].messages[-1].text == "[nothing]"
    assert found.proposals[0].standing == "accepted"
    assert "telling a gain from chance takes 20 evals" in gate(found.proposals[0], "evals")


def test_outside_auto_few_evals_leave_it_to_a_person(world):
    with_evals(world, REVIEW)
    again = [call(FAILS.name, id, **FAILS.arguments) for id in "abc"]
    ran(world, *again, dialect="standard")
    found, _ = improved(
        world,
        ran(world, FAILS, dialect="standard"),
        [FIRST, "Changed.", WELL, "Seven.", WELL, "Seven.", *[obeying] * 6],
        dialect="standard",
    )

    assert found.proposals[0].standing == "waiting"
    assert gate(found.proposals[0], "evals").startswith("person: ")


@pytest.mark.parametrize(
    ("before", "after", "again", "says"),
    [(0.5, 1.0, 1.0, "yes"), (0.5, 0.5, 0.5, "no"), (1.0, 0.5, 0.5, "no"), (0.5, 1.0, 0.0, "no")],
    ids=["a gain that shows twice", "no gain", "a loss", "a gain that does not show again"],
)
def test_with_enough_evals_a_gain_must_show_twice(before, after, again, says):
    cases = [str(number) for number in range(20)]
    first = evals_gate(compare_arms({key: [before] for key in cases}, {key: [after] for key in cases}), 20, "review")
    gate = confirm_gate(first, compare_arms({key: [before] for key in cases}, {key: [again] for key in cases}))

    assert (gate.says if first.says == "yes" else first.says) == says
