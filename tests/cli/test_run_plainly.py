"""What `metier run` and `metier runs` tell a person: the reason and the cure, and no riddles."""

from __future__ import annotations

import json
import subprocess

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says
from tests.cli.console import METIER
from tests.cli.test_run import last, model

WRITE = Says(calls=[("write_file", {"path": "x.txt", "content": "new\nsame\n"})])


def run_of(call: tuple[str, dict[str, object]]) -> list[Says]:
    return [Says(calls=[call]), Says("Done.")]


def agent_file(desk, name: str, head: str) -> None:
    file = desk.state / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\n{head}---\nYou work.\n")


def test_a_skill_that_may_not_be_used_says_every_reason_and_the_cure(desk):
    desk.skill("theirs", "", desk.project / ".metier/skills")
    desk.skill("lacking", "metadata: {metier: {requires: {bins: [no-such-program], env: [NO_SUCH]}}}\n")
    with model(desk, []):
        untrusted = desk.say("run", "/theirs")
        lacking = desk.say("run", "/lacking")

    assert "not trusted yet" in untrusted.err
    assert f"metier trust {desk.project}" in untrusted.err
    assert "no-such-program" in lacking.err
    assert "NO_SUCH" in lacking.err
    assert "export NO_SUCH" in lacking.err


def test_a_slip_in_a_name_is_told_before_a_missing_model(desk):
    said = desk.say("run", "/nope")

    assert said.code == 2
    assert "no skill named `nope`" in said.err


def test_a_broken_configuration_is_mentioned(desk):
    desk.configure("model = \n")
    broken = desk.say("run", "hi")
    desk.configure('modle = "x"\n')
    typo = desk.say("run", "--model", "openai:x", "hi")

    assert "config.toml" in broken.err.splitlines()[0]
    assert "modle" in typo.err


def test_going_on_elsewhere_names_the_run_and_tells_the_model_where_it_works_now(desk):
    other = desk.home / "other"
    other.mkdir()
    with model(desk, [Says("One."), Says("Two."), Says("Three.")]) as wire:
        desk.say("run", "first")
        run = json.loads(desk.say("runs", "--json").out)[0]["run"]
        nothing = desk.say("run", "--resume", "last", "second", cwd=other)
        said = desk.say("run", "--resume", run, "second", cwd=other)
        again = desk.say("run", "--resume", "last", "third", cwd=other)

    assert (nothing.code, "no conversation in this folder yet" in nothing.err) == (2, True)
    assert f"continuing run {run}" in said.err
    assert f"continuing run {run}" in again.err  # it was last used here
    assert f"to {other}" in said.err
    assert f"The working folder is now {other}" in json.dumps(wire.requests[1]["messages"], ensure_ascii=False)
    assert "working folder changes" not in again.err


def test_the_last_run_is_neither_a_subagents_nor_the_improvers(desk):
    desk.skill("forky", "context: fork\n")
    with model(desk, [Says("Found.")]):
        desk.say("run", "/forky")
    kept = json.loads(desk.say("runs", "--json").out)
    improver = desk.state / "runs/99991231-000000-aaaaaa.jsonl"
    improver.write_text('{"at":1,"event":"started","run":"99991231-000000-aaaaaa","agent":"improver"}\n')

    own = next(one["run"] for one in kept if not one["parent"])
    assert len(kept) == 2
    assert json.loads(desk.say("runs", "show", "last", "--json").out)["run"] == own


def test_a_person_sees_what_a_file_becomes_and_a_slip_is_no_answer(desk):
    (desk.project / "x.txt").write_text("old\nsame\n")
    with model(desk, [WRITE, Says("Done.")]):
        said = desk.answering("run", "write", answer="maybe\n\ny\n")

    assert "changes the file" in said.out
    assert "-old" in said.out
    assert "+new" in said.out
    assert "\n   same\n" in said.out
    assert said.out.count("y: this once / a: always / n: no> ") == 3
    assert (desk.project / "x.txt").read_text() == "new\nsame\n"


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (("run_command", {"command": "git status"}), "'run_command(git status)'"),
        (("write_file", {"path": "a b.txt", "content": "x"}), "'write_file(a b.txt)'"),
    ],
)
def test_a_refusal_offers_the_narrowest_rule_and_that_rule_is_enough(desk, call, rule):
    with model(desk, run_of(call)):
        refused = desk.say("run", "go")
    with model(desk, run_of(call)):
        allowed = desk.say("run", "--allow", rule.strip("'"), "go")

    assert f"--allow {rule}" in refused.err
    assert (refused.code, allowed.code) == (4, 0)


def test_a_rule_for_a_tool_that_is_not_there_is_mentioned(desk):
    with model(desk, [Says("Hello."), Says("Hello.")]):
        said = desk.say("run", "--allow", "Bsh(ls)", "hello")
        right = desk.say("run", "--allow", "Bash(ls)", "--deny", "mcp__x__y", "--deny", "write_*", "hello")

    assert "did you mean `Bash`?" in said.err
    assert "did you mean" not in right.err


def test_what_an_agents_file_says_in_vain_is_mentioned_by_run_and_doctor(desk):
    agent_file(desk, "odd", "limits: many\ntools: Foo, Read\nskills: nosuch\n")
    with model(desk, [Says("Hello.")]):
        said = desk.say("--agent", "odd", "run", "hello")
    doctor = desk.say("doctor").out

    for told in ("`limits` must be a table", "`tools` names `Foo`", "`skills` names `nosuch`"):
        assert told in said.err
        assert told in doctor


def test_an_agent_that_is_not_there_is_guessed_and_what_it_may_not_call_is_said(desk):
    agent_file(desk, "reviewer", "tools: Read\n")
    with model(desk, [WRITE, Says("Then not.")]):
        narrow = desk.say("--agent", "reviewer", "run", "--yes", "write")
        slip = desk.say("--agent", "reviewr", "run", "hello")

    assert "write_file is not among the `tools` of this agent" in narrow.err
    assert "did you mean `reviewer`?" in slip.err


def test_runs_have_headings_their_task_and_the_reason_and_fit_the_terminal(desk):
    with model(desk, [Says("Hello.")]):
        desk.say("run", "a long task " * 20)
        desk.say("run", "/nope")
    wide = desk.say("runs").out.splitlines()
    narrow = desk.at_terminal("runs", columns=80, NO_COLOR="1").out.splitlines()

    assert wide[0].split() == ["RUN", "STARTED", "ENDED", "MODEL", "TASK"]
    assert wide[1].split()[3:] == ["unknown-skill", "mine", "/nope"]
    assert all(len(line.rstrip("\r")) <= 80 for line in narrow)


def test_a_run_is_shown_in_words(desk):
    with model(desk, [Says(calls=[("list_files", {})]), Says("Done.")]):
        desk.say("run", "look")
    said = desk.say("runs", "show", "last").out

    assert "{" not in said
    assert "tools: list_files 1×" in said
    assert "received" in said


def test_every_line_of_json_has_the_kind_of_its_event_and_the_last_one_a_code(desk):
    desk.skill("forky", "context: fork\n")
    with model(desk, [Says("Found.")]):
        said = desk.say("run", "--json", "/forky")
    events = [json.loads(line) for line in said.out.splitlines()]

    assert all(isinstance(one["event"], str) for one in events)
    assert next(one for one in events if one["event"] == "nested")["inner"]["event"] == "started"
    assert last(said)["code"] == 0
    assert "forky │" in desk.say("runs", "replay", "last").err


def test_without_a_journal_no_id_is_shown(desk):
    with model(desk, [Says("Hello.")]):
        said = desk.say("run", "--no-journal", "hello")

    assert "mine · no journal" in said.err


def test_a_wrong_key_is_named_by_its_variable_and_the_model_by_its_name(desk):
    with model(desk, [Fails(status=401)], more=""):
        config = (desk.state / "config.toml").read_text()
        desk.configure(f'{config}key = "TEAM_KEY"\n')
        said = desk.say("run", "hello", TEAM_KEY="secret")

    assert "hint: check the key in TEAM_KEY" in said.err
    assert said.err.startswith("mine · run")
    assert "status_code" not in said.err


def test_a_number_that_is_none_is_called_that_and_a_model_that_is_not_there_too(desk):
    assert "'abc' is not a valid number" in desk.say("run", "--max-cost", "abc", "x").err
    assert "does not exist" in desk.say("models", "add", "nofile.gguf").err


def test_going_on_takes_the_last_run_of_the_folder(desk):
    with model(desk, [Says("First."), Says("Second.")]) as server:
        desk.say("run", "one")
        desk.say("run", "-c", "two")
        both = desk.say("run", "--continue", "--resume", "last", "three")

    assert [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"][-2:] == [
        "one",
        "two",
    ]
    assert both.code == 2
    assert "two runs" in both.err


def test_input_that_is_not_utf8_is_said_to_be_so_and_never_sent(desk):
    with model(desk, []) as server:
        said = subprocess.run(
            [*METIER, "run"], input=b"caf\xe9", cwd=desk.project, env=desk.env, capture_output=True, timeout=60
        )

    assert said.returncode == 2
    assert b"standard input is not UTF-8 at character 4" in said.stderr
    assert not server.requests
