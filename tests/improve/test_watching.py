"""A change that was accepted is watched for its next runs, and taken back when it does worse."""

from dataclasses import replace

from tests.agent.talking import call
from tests.improve.failing import AUTO, improved, ran, skill

from metier.improve import proposal_store
from metier.improve.improver import ImproveOptions, improve_after_run
from metier.improve.land import LANDING, WATCHED_RUNS, land_proposal, settle_interrupted
from metier.record import history
from metier.types.improvement import Proposal

WRONG = "1. Use the Bash tool to run `python3 count.py`.\n2. Run `sh second.sh`.\n3. Run `scripts/total.py --all`.\n"
WORSE = call("run_command", command="python3 count.py")
"""The step that the change touched; it fails, and nothing says why."""


def accepted(world):
    """A skill in which a change has just landed."""
    file = skill(world, WRONG)
    (world.project / "count.py").write_text("raise SystemExit('3 of 7 numbers')\n")
    found, _ = improved(world, ran(world, call("Bash", command="ls")))
    assert found.proposals[0].standing == "accepted"
    return file


def later(world, *calls):
    improve_after_run(world.open("agenvoy"), ran(world, *calls), ImproveOptions())


def standing(world):
    return proposal_store.list_proposals(str(world.state))[0]


def test_a_change_that_does_worse_is_taken_back_and_that_is_a_version_too(world):
    file = accepted(world)
    later(world, WORSE)
    assert standing(world).standing == "accepted"
    later(world, WORSE)

    assert standing(world).standing == "rolled-back"
    assert standing(world).note == "2 of 2 runs since then failed"
    assert file.read_text().endswith(WRONG)
    [newest, *_] = history.list_versions(history.repository_path(str(world.state), str(world.home / AUTO)), "report")
    assert newest.act == "rollback"


EXPIRED = "your session has expired: run `counting login`"


def test_an_expired_login_takes_nothing_back(world):
    file = accepted(world)
    (world.project / "count.py").write_text(f"raise SystemExit({EXPIRED!r})\n")
    later(world, WORSE)
    later(world, WORSE)

    assert standing(world).standing == "accepted"
    assert "run_command" in file.read_text()


def test_a_step_that_the_change_did_not_touch_takes_nothing_back(world):
    accepted(world)
    (world.project / "second.sh").write_text("exit 3\n")
    later(world, call("run_command", command="sh second.sh"))
    later(world, call("run_command", command="sh second.sh"))

    assert standing(world).standing == "accepted"


def test_what_a_person_took_back_is_not_tried_again(world):
    file = accepted(world)
    file.write_text(file.read_text().replace("run_command", "Bash"))
    found, _ = improved(world, ran(world, call("Bash", command="ls")))

    assert found.proposals == ()
    assert standing(world).standing == "rolled-back"
    assert "taken back by a person" in standing(world).note
    assert "Bash" in file.read_text()


def test_a_landing_that_was_killed_is_finished_or_undone_and_said(world):
    file = accepted(world)
    killed = replace(standing(world), standing="waiting", note=LANDING, rev="", watched=None)
    proposal_store.write_proposal(str(world.state), killed)
    [done] = settle_interrupted(world.open("agenvoy"))
    assert (done.standing, done.watched, len(done.rev)) == ("accepted", (), 40)
    assert "it is applied now" in done.note

    file.write_text(file.read_text().replace("run_command", "Bash"))
    proposal_store.write_proposal(str(world.state), killed)
    [undone] = settle_interrupted(world.open("agenvoy"))
    assert undone.standing == "waiting"
    assert "nothing was changed" in undone.note


def test_a_change_that_does_well_is_kept_and_no_longer_watched(world):
    file = accepted(world)
    for _ in range(WATCHED_RUNS):
        later(world)

    assert (standing(world).standing, standing(world).watched) == ("accepted", None)
    assert "run_command" in file.read_text()


def test_what_a_person_wrote_after_the_change_is_theirs(world):
    file = accepted(world)
    file.write_text(file.read_text() + "3. Mine.\n")
    later(world, WORSE)
    later(world, WORSE)

    assert standing(world).standing == "accepted"
    assert "was edited since" in standing(world).note
    assert "3. Mine." in file.read_text()


def waiting(world, file):
    from metier.improve.examine import read_contents

    before = file.read_text()
    return Proposal(
        "20260101-000000-abcdef",
        "report",
        str(file.parent),
        str(file.parents[1]),
        read_contents(str(file.parent)).digest,
        {"SKILL.md": before},
        {"SKILL.md": before.replace("Bash", "run_command")},
        (),
        "fix",
    )


def test_a_skill_that_was_edited_meanwhile_is_left_alone(world):
    file = skill(world, WRONG)
    proposal = waiting(world, file)
    file.write_text(file.read_text() + "3. Mine.\n")

    assert land_proposal(world.open("agenvoy"), proposal).standing == "stale"
    assert file.read_text().endswith("3. Mine.\n")


def test_what_can_t_be_kept_in_the_history_waits_and_changes_nothing(world):
    file = skill(world, WRONG)
    proposal = waiting(world, file)
    (world.state).mkdir(exist_ok=True)
    (world.state / "history").write_text("in the way\n")

    done = land_proposal(world.open("agenvoy"), proposal)

    assert done.standing == "waiting"
    assert "could not be applied" in done.note
    assert file.read_text().endswith(WRONG)
