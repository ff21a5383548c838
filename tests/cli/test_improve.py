"""metier improve and metier proposals, and what follows a run by itself."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Says, speaking
from tests.cli.console import Desk

WRONG = "---\nname: look\ndescription: Looks around. # by hand\n---\nUse the Bash tool to run `ls`.\n"
RIGHT = WRONG.replace("Bash", "run_command")


def looked(desk: Desk, more: str = "", dialect: str = "agenvoy", auto: bool = True) -> str:
    """A run of a skill that names a tool wrongly."""
    more = more or ('[improve]\nmode = "auto"' if auto else "")
    under = desk.home / ".config/agenvoy/skills" if auto else None
    desk.skill("look", WRONG, under)
    with speaking([Says(calls=[("Bash", {"command": "ls"})]), Says("Done.")]) as wire:
        desk.configure(f'model = "mine"\n{more}\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        said = desk.say("--dialect", dialect, "run", "--yes", "/look")
    assert (said.code, said.out) == (0, "Done.\n")
    return said.err


def proposed(desk: Desk, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(desk.say("proposals", "--all", "--json", *words).out)
    return found


def test_a_run_in_which_a_skill_failed_is_followed_by_its_improvement_without_anybody_waiting(desk):
    looked(desk)
    file = desk.home / ".config/agenvoy/skills/look/SKILL.md"
    until = time.monotonic() + 120
    while not [one for one in proposed(desk) if one["standing"] == "accepted"] and time.monotonic() < until:
        time.sleep(0.1)

    assert file.read_text() == RIGHT
    [one] = proposed(desk)
    assert (one["standing"], one["how"]) == ("accepted", "fix")
    assert {gate["says"] for gate in one["checks"]} == {"yes"}  # type: ignore[attr-defined]


def test_nothing_follows_a_run_where_the_mode_is_off(desk):
    looked(desk, '[improve]\nmode = "off"')
    time.sleep(0.5)

    assert proposed(desk) == []


def test_a_proposal_waits_is_shown_and_is_accepted_by_a_person(desk):
    looked(desk, dialect="standard", auto=False)
    said = desk.say("improve", "look")
    assert said.code == 0
    assert "waiting: improve.mode is review: a person decides" in said.out
    assert "the tool is called `run_command`, not `Bash`" in said.out
    assert "-Use the Bash tool to run `ls`." in said.out
    [one] = proposed(desk)
    shown = desk.say("proposals", "show", "look").out
    assert shown.startswith(said.out)
    assert f"run `metier proposals accept {one['id']}`" in shown
    for command in ("status", "stats", "doctor"):
        assert "1 proposed change waits for you (look): run `metier proposals`" in desk.say(command).out

    assert desk.say("proposals", "accept", str(one["id"])).code == 0
    assert (desk.skills / "look" / "SKILL.md").read_text() == RIGHT
    assert "waits for you" not in desk.say("status").out
    again = desk.say("proposals", "accept", str(one["id"]))
    assert (again.code, "is accepted, not waiting" in again.err) == (2, True)


def test_rollback_without_a_version_goes_one_back_and_the_same_is_not_proposed_again(desk):
    looked(desk, dialect="standard", auto=False)
    desk.say("improve", "look")
    desk.say("proposals", "accept", "look")
    assert desk.say("rollback", "look").code == 0
    assert (desk.skills / "look" / "SKILL.md").read_text() == WRONG

    said = desk.say("improve", "look", "--run", "last")
    assert "the same was proposed before" in said.out
    assert [one["standing"] for one in proposed(desk)] == ["rolled-back"]
    assert "no version before this one" in desk.say("rollback", "look").err


def test_a_dry_run_writes_nothing(desk):
    looked(desk, dialect="standard", auto=False)
    said = desk.say("improve", "look", "--run", "last", "--dry-run")

    assert "+Use the run_command tool" in said.out
    assert proposed(desk) == []
    assert (desk.skills / "look" / "SKILL.md").read_text() == WRONG


def test_what_a_person_rejects_stays_as_it_is_and_is_kept_for_reading(desk):
    looked(desk, dialect="standard", auto=False)
    desk.say("improve", "look")
    said = desk.say("proposals", "reject", "look", "--why", "it is for another agent")

    assert (said.code, said.out.endswith("rejected: it is for another agent\n")) == (0, True)
    assert desk.say("proposals").out == "No pending proposals.\n"
    assert (desk.skills / "look" / "SKILL.md").read_text() == WRONG


def test_a_person_edits_a_proposal_and_may_not_break_the_skill_with_it(desk, tmp_path):
    looked(desk, dialect="standard", auto=False)
    desk.say("improve", "look")
    mine, bad = tmp_path / "mine.md", tmp_path / "bad.md"
    mine.write_text(RIGHT.replace("to run `ls`", "to list what is there"))
    bad.write_text("No frontmatter.\n")

    refused = desk.say("proposals", "edit", "look", "--from", str(bad))
    assert (refused.code, "the edit is refused" in refused.err) == (2, True)
    assert "edited by a person" in desk.say("proposals", "edit", "look", "--from", str(mine)).out
    assert desk.say("proposals", "accept", "look").code == 0
    assert (desk.skills / "look" / "SKILL.md").read_text() == mine.read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["improve"], "missing NAME"),
        (["improve", "lok"], "no skill named `lok`"),
        (["improve", "look", "--run", "2020"], "no run named `2020`"),
        (["proposals", "show", "2020"], "no proposal matches `2020`"),
    ],
)
def test_what_is_not_there_is_named(desk, words, complaint):
    desk.skill("look", WRONG)
    said = desk.say(*words)

    assert said.code == 2
    assert complaint in said.err


def test_a_skill_that_nothing_is_wrong_with_is_left_alone_and_no_model_is_asked(desk):
    desk.skill("look", WRONG)
    desk.configure('model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "http://127.0.0.1:9/v1"\n')
    for words in ([], ["--dry-run"]):
        said = desk.say("improve", "look", *words)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("look: no failure is the skill's fault; say what else to improve with --wish")
    assert proposed(desk) == []
    assert json.loads(desk.say("runs", "--json").out) == []


def test_a_model_that_cannot_be_reached_is_said_and_nothing_is_proposed(desk):
    desk.skill("look", WRONG)
    desk.configure('model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "http://127.0.0.1:9/v1"\nattempts = 1\n')
    said = desk.say("improve", "look", "--wish", "be kinder")

    assert said.code == 5
    assert "error: " in said.err
    assert proposed(desk) == []


def test_a_dry_run_that_asks_a_model_leaves_no_run_behind(desk):
    desk.skill("look", WRONG)
    with speaking([Says("I would not change it.")]) as wire:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        said = desk.say("improve", "look", "--wish", "be kinder", "--dry-run")

    assert "it changed nothing" in said.out
    assert json.loads(desk.say("runs", "--json").out) == []


def test_what_a_person_rejected_is_not_proposed_again_unless_they_wish_something(desk):
    looked(desk, dialect="standard", auto=False)
    desk.say("improve", "look")
    waits = desk.say("improve", "look")
    assert "the same was proposed before" in waits.out
    assert "(waiting)" in waits.out
    desk.say("proposals", "reject", "look", "--why", "no")
    again = desk.say("improve", "look")

    assert again.code == 0
    assert "(rejected); say what should be different with --wish" in again.out
    assert [one["standing"] for one in proposed(desk)] == ["rejected"]


def test_in_review_a_name_that_was_understood_is_no_failure_and_waits_for_nobody(desk):
    looked(desk, dialect="standard", auto=False)
    assert not list((desk.state / "proposals").glob("*"))
    said = desk.say("improve", "look")

    assert "because: it uses another agent's name for a tool, which metier translated: Bash" in said.out


def test_in_review_what_failed_and_has_a_rule_waits_after_the_run(desk):
    desk.skill("look", WRONG.replace("Bash", "run_comand"))
    with speaking([Says(calls=[("run_comand", {"command": "ls"})]), Says("Done.")]) as wire:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        assert desk.say("run", "--yes", "/look").code == 0
        until = time.monotonic() + 120
        while not proposed(desk) and time.monotonic() < until:
            time.sleep(0.1)

    [one] = proposed(desk)
    assert (one["standing"], one["how"]) == ("waiting", "fix")
    assert one["because"][0]["meaning"] == "it names a tool that does not exist"  # type: ignore[index]


def test_a_cure_that_was_rejected_is_not_proposed_again_whatever_else_failed(desk):
    desk.skill("look", WRONG + "Then run `sh gone.sh`.\n")
    calls = [Says(calls=[("Bash", {"command": "ls"})]), Says(calls=[("run_command", {"command": "sh gone.sh"})])]
    with speaking([*calls, Says("Done."), Says("I can't tell.")]) as wire:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        assert desk.say("run", "--yes", "/look").code == 0
        desk.say("improve", "look")
        [one] = proposed(desk)
        assert (one["standing"], one["how"]) == ("waiting", "fix")
        assert f"the same was proposed before: {one['id']} (waiting)" in desk.say("improve", "look").out

        desk.say("proposals", "reject", "look")
        assert len(wire.requests) == 3
        desk.say("improve", "look")
        assert [one["how"] for one in proposed(desk)] == ["fix", "model"]  # for what no rule cures
        assert "the same was proposed before" in desk.say("improve", "look").out
        assert len(wire.requests) == 4


def test_a_wish_beside_a_cure_is_not_forgotten(desk):
    looked(desk, dialect="standard", auto=False)
    said = desk.say("improve", "look", "--wish", "be kinder")
    assert "decide on this one first, then repeat --wish" in said.out
    with speaking([Says("I would not change it.")]) as wire:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        desk.say("improve", "look", "--wish", "be kinder")
        assert "be kinder" in json.dumps(wire.requests)
