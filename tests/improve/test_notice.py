"""What is not the skill's fault leads to nothing: no proposal, and no model is asked."""

from pathlib import Path

import pytest
from tests.agent.talking import call
from tests.improve.failing import AUTO, FAILS, improved, ran, skill

from metier.host import fs
from metier.improve import proposal_store
from metier.improve.improver import ImproveOptions, improve_after_run, improve_named
from metier.improve.land import MOST_PER_DAY
from metier.record.journal import Journal, new_run_id, runs_folder
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.errors import ModelError, Refused
from metier.types.event import Activated, Ended, Heard, Started, Used


def recorded(world, *used, agent="", ended=None):
    """A run as its journal has it."""
    run = new_run_id()
    journal = Journal(f"{runs_folder(str(world.state))}/{run}.jsonl")
    path = str(world.home / AUTO / "report" / "SKILL.md")
    begun = [Started(run, agent=agent, cwd=str(world.project)), Heard("/report"), Activated("report", path)]
    for event in (*begun, *used, ended or Ended("finished", "Done.")):
        journal.keep(event)
    return run


def used(command, reason="exit-status", status=1, error=False):
    return Used(ToolCall("1", "run_command", {"command": command}), "no", error, status, reason=reason)


NOT_ITS_FAULT = {
    "the network is down": used("curl https://example.com/numbers", status=6),
    "a program is not installed": used("frobnicate --all", status=127),
    "it was ended from outside": used("make all", status=137),
    "it took too long": used("make all", reason="timeout", status=None, error=True),
    "the machine failed": used("make all", reason="machine", status=None, error=True),
    "the user said no": used("make all", reason="refused", status=None, error=True),
    "a service said no": used("make all", reason="failed", status=None, error=True),
    "a key is not set": used("sh upload.sh $UPLOAD_TOKEN", status=1),
    "what was checked is wrong": used("pytest -q", status=1),
    "a search that finds nothing": used("grep -n TODO notes.txt", status=1),
    "a file of the user is not there": Used(
        ToolCall("1", "read_file", {"path": "CHANGES.md"}), "no", True, reason="missing-file"
    ),
    "the model had an idea of its own": used("grep nothing notes.txt", status=1),
}
BODY = (
    "Run `curl https://example.com/numbers`, then `frobnicate --all`, then `make all`,"
    " then `sh upload.sh $UPLOAD_TOKEN`, then `pytest -q`, then `grep -n TODO notes.txt`; read_file `CHANGES.md`.\n"
)


@pytest.mark.parametrize("case", NOT_ITS_FAULT)
def test_what_is_not_the_skills_fault_proposes_nothing(world, case):
    skill(world, BODY)

    found, model = improved(world, recorded(world, NOT_ITS_FAULT[case]))

    assert found.proposals == ()
    assert model.requests == []
    assert proposal_store.list_proposals(str(world.state)) == ()


def test_a_script_that_needs_a_key_that_is_not_set_proposes_nothing(world):
    file = skill(world, "Run `scripts/total.py`.\n")
    (file.parent / "scripts" / "total.py").write_text("import os\nprint(os.environ['REPORT_API_KEY'])\n")
    run = ran(world, call("skill_run_script", skill_name="report", script_name="total.py"))

    assert improved(world, run)[0].proposals == ()


def test_a_run_that_its_model_s_service_ended_proposes_nothing(world):
    skill(world, BODY)
    ended = Ended("failed", "it is down", "provider-down", code=5)

    assert improved(world, recorded(world, ended=ended))[0].proposals == ()


def test_what_went_well_the_second_time_was_chance(world):
    skill(world, "Run `make all`.\n")
    flaky = (used("make all"), used("make all", reason="", status=0))

    assert improved(world, recorded(world, *flaky))[0].proposals == ()


def test_what_a_tool_says_is_never_read_to_find_out_whether_it_failed(world):
    skill(world, "Run `make all`.\n")
    fine = Used(ToolCall("1", "run_command", {"command": "make all"}), "tool=x failed: error", status=0)

    assert improved(world, recorded(world, fine))[0].proposals == ()


LOST = {"skill_name": "report", "script_name": "gone.py"}


def test_an_error_inside_the_improver_starts_no_improver(world):
    skill(world, "Run `scripts/gone.py`.\n")
    broken = [call("frobnicate"), call("read_file", path="gone.md"), ModelError("it is down")]
    lost = Used(ToolCall("1", "skill_run_script", LOST), "no", True, skill="report", reason="missing-file")
    found, model = improved(world, recorded(world, lost), broken)
    [proposal] = found.proposals

    assert proposal.standing == "refused"
    assert proposal.note.startswith("improver: failed")
    assert len(model.requests) == 3
    assert improve_after_run(world.open("agenvoy"), proposal.by, ImproveOptions(ScriptedModel([]))) == ()
    with pytest.raises(Refused, match="the improver's own"):
        improve_named(world.open("agenvoy"), "report", proposal.by, ImproveOptions(ScriptedModel([])))


def test_the_improver_does_not_improve_itself(world):
    skill(world, "Run `make all`.\n", name="improve-skill")
    run = ran(world, call("run_command", command="make all"), task="/improve-skill")
    found, model = improved(world, run, ["Never said."])

    assert found.proposals == ()
    assert model.requests == []


def test_a_skill_is_not_rewritten_again_and_again(world):
    skill(world, "Run `scripts/total.py --all-of-it`.\n")
    first, _ = improved(world, ran(world, FAILS), ["I can't tell.", "Never."])
    again, model = improved(world, ran(world, FAILS), ["Never said."])

    assert [one.standing for one in first.proposals] == ["refused"]
    assert again.proposals == ()
    assert "the same was proposed before" in again.words
    assert model.requests == []


def test_only_so_many_proposals_are_made_for_a_skill_in_a_day(world):
    file = skill(world, "Begin.\n")
    for number in range(MOST_PER_DAY + 1):
        file.write_text(file.read_text() + f"Run `scripts/gone{number}.py`.\n")
        run = ran(world, call("skill_run_script", skill_name="report", script_name=f"gone{number}.py"))
        found, _ = improved(world, run, ["I can't tell."])

    assert found.proposals == ()
    assert found.words == f"{MOST_PER_DAY} proposals were made for it today"


@pytest.mark.parametrize("by_name", [False, True])
def test_nobody_else_improves_while_one_is_at_it(world, by_name):
    skill(world, "Run `scripts/total.py --all-of-it`.\n")
    run = ran(world, FAILS)
    lock, taken = Path(proposal_store.proposals_folder(str(world.state)), ".lock"), []

    def meanwhile(request):
        taken.append(lock.exists() and fs.try_lock(str(lock)) is None)
        return "I can't tell."

    terms = ImproveOptions(ScriptedModel([meanwhile]))
    library = world.open("agenvoy")
    found = improve_named(library, "report", run, terms) if by_name else improve_after_run(library, run, terms)[0]

    assert (len(found.proposals), taken) == (1, [True])


def test_with_the_mode_off_nothing_is_proposed_unless_somebody_asks(world):
    world.state.mkdir()
    (world.state / "config.toml").write_text('[improve]\nmode = "off"\n')
    skill(world, "Use the Bash tool.\n")
    run = ran(world, call("Bash", command="ls"))

    assert improved(world, run)[0].words == "improve.mode is off"
    asked = improve_named(world.open("agenvoy"), "report", run, ImproveOptions())
    assert [one.standing for one in asked.proposals] == ["waiting"]
