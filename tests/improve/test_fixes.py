"""What has one clear cure is put right without any model, checked, and kept in the history."""

import pytest
from tests.agent.talking import call
from tests.improve.failing import improved, ran, skill

from metier.diagnose.texts import split_frontmatter
from metier.record import history


def versions(world):
    return history.list_versions(
        history.repository_path(str(world.state), str(world.home / ".config/agenvoy/skills")), "report"
    )


KINDS = {
    "a tool by a name that it has elsewhere": (
        "1. Use the Bash tool: `Bash(ls)`.\n2. A Bash script is fine.\n",
        [call("Bash", command="ls")],
        "1. Use the run_command tool: `run_command(ls)`.\n2. A Bash script is fine.\n",
    ),
    "a tool by a misspelled name": (
        "Call run_comand with `ls`, then list_files.\n",
        [call("run_comand", command="ls")],
        "Call run_command with `ls`, then list_files.\n",
    ),
    "a script that has another name": (
        "Run `scripts/totals.py`.\n",
        [call("skill_run_script", skill_name="report", script_name="totals.py")],
        "Run `scripts/total.py`.\n",
    ),
    "a script that a command names": (
        "Run `python3 scripts/totals.py`.\n",
        [call("run_command", command="python3 scripts/totals.py")],
        "Run `python3 scripts/total.py`.\n",
    ),
    "a link that leads nowhere": (
        "See [the guide](refs/guide.md).\n",
        [call("skill_read_file", skill_name="report", file_path="refs/guide.md")],
        "See [the guide](references/guide.md).\n",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_skill_that_is_wrong_in_a_way_with_one_cure_is_mended_without_a_model(world, kind):
    body, calls, mended = KINDS[kind]
    file = skill(world, body)
    (file.parent / "references").mkdir()
    (file.parent / "references" / "guide.md").write_text("Guide.\n")
    head = split_frontmatter(file.read_text())[0]

    found, model = improved(world, ran(world, *calls))

    assert file.read_text() == head + mended
    assert model.requests == []
    [proposal] = found.proposals
    assert (proposal.standing, proposal.how) == ("accepted", "fix")
    assert all(gate.says == "yes" for gate in proposal.gates)
    assert "replay" in [gate.name for gate in proposal.gates]
    newest, before = versions(world)
    assert (newest.act, before.act, newest.rev) == ("improve", "add", proposal.rev)
    assert newest.run == proposal.because[0].run
    assert proposal.id in newest.evidence


def test_a_misspelled_placeholder_is_mended_where_the_dialect_has_it(world):
    (world.state).mkdir(exist_ok=True)
    (world.state / "config.toml").write_text('[improve]\nmode = "auto"\n')
    file = skill(world, "Run `grep $ARGUMNETS notes.txt`.\n", root=".metier/skills")
    run = ran(world, call("run_command", command="grep $ARGUMNETS notes.txt"), dialect="standard")

    found, model = improved(world, run, dialect="standard")

    assert "grep $ARGUMENTS notes.txt" in file.read_text()
    assert model.requests == []
    assert found.proposals[0].standing == "accepted"
