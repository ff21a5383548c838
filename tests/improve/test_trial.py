"""Trying skills with and without them: a good one, a bad one and a useless one come out so."""

import json
from pathlib import Path

import pytest
from tests.agent.talking import call
from tests.improve.trying import SECRET, Actor, compared, obedient, shown, skill, trial

from metier.improve.trials import SerialQueue
from metier.sources.skill_files import SkillFiles
from metier.types.errors import BadRequest, MetierError, ModelError, Refused

BOTH = ("with_skill", "without_skill")


def test_a_skill_that_helps_is_found_to_help(world):
    skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}])
    found = trial(world, Actor(obedient), arms=BOTH)

    assert compared(found).verdict == "better"
    assert compared(found).low > 0
    assert found.rate("with_skill")[:1] == (1.0,)
    assert found.rate("with_skill").low < 1.0
    assert found.rate("without_skill").mean == 0.0


def test_a_skill_that_harms_is_found_to_harm(world):
    skill(world, "Say WRONG.\n", [{"contains": "PLAIN"}])
    found = trial(world, Actor(obedient), arms=BOTH)

    assert compared(found).verdict == "worse"
    assert compared(found).high < 0


def test_a_skill_that_changes_nothing_is_found_to_change_nothing(world):
    skill(world, "Be kind.\n", [{"contains": "PLAIN"}], cases=20)
    found = trial(world, Actor(obedient), arms=BOTH)

    assert compared(found).verdict == "same"
    assert compared(found).low < 0 < compared(found).high


def test_three_cases_give_no_verdict_and_say_how_many_would(world):
    skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}], cases=3)
    found = trial(world, Actor(obedient), arms=BOTH, runs=2)

    assert compared(found).verdict == "underpowered"
    assert compared(found).needed == 6


def test_the_arm_without_the_skill_has_no_way_to_it(world):
    folder = skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}], cases=1)
    (folder / "notes.md").write_text(f"The word is {SECRET}.\n")
    project = world.project / ".agents" / "skills" / "fruit"
    project.mkdir(parents=True)
    (project / "SKILL.md").write_text((folder / "SKILL.md").read_text())
    tries = [
        call("skill_use", skill_name="fruit"),
        call("skill_read_file", skill_name="fruit", file_path="notes.md"),
        call("skill_run_script", skill_name="fruit", script_name="x.py"),
        call("skill_search", query="fruit"),
        call("read_file", path=str(folder / "SKILL.md")),
        call("read_file", path="../../../../../../../../" + str(folder / "SKILL.md").lstrip("/")),
        call("list_files", path=str(folder)),
        call("run_command", command=f"cat {folder}/SKILL.md {folder}/notes.md {project}/SKILL.md"),
        call("run_command", command="grep -rs QUINC[E] / --include=SKILL.md --include=notes.md --exclude-dir=proc; :"),
        call("run_command", command=f"ln -s {folder} link; cat link/SKILL.md"),
        call("read_file", path="link/SKILL.md"),
    ]

    def prying(request):
        done = sum(message.role == "tool" for message in request.messages)
        if "Say " in shown(request):
            return SECRET
        return tries[done] if done < len(tries) else "I could not find it."

    model = Actor(prying)
    found = trial(world, model, arms=BOTH)
    without = [one for one in model.requests if "skill_use" not in {tool.name for tool in one.tools}]

    assert [(one.arm, one.score) for one in found.samples] == [("with_skill", 1.0), ("without_skill", 0.0)]
    assert len(without) == len(tries) + 1
    said = "\n".join(message.text for one in without for message in one.messages)
    assert "Knows fruit" not in said
    assert f"Say {SECRET}" not in said
    assert f"is {SECRET}" not in said
    assert not any("fruit and their names" in shown(one) for one in without)


def test_a_baseline_that_could_reach_the_skill_is_refused(world):
    """Without a boundary a command reads everything: that is found out before anything is compared."""
    skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}])
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text('[sandbox]\nneed = "off"\n')

    with pytest.raises(Refused, match="without the skill could still reach"):
        trial(world, Actor(obedient), arms=BOTH)
    assert list((world.state / "evals" / "fruit").iterdir()) == []


def test_nobody_reads_the_answers(world):
    """Neither arm can see the skill's evals: they say what is wanted."""
    folder = skill(world, "Read what you find.\n", [{"contains": "xyzzy"}], cases=1)

    def cheating(request):
        used = [message for message in request.messages if message.role == "tool"]
        if not used:
            return call("skill_read_file", skill_name="fruit", file_path="evals/evals.json")
        if len(used) == 1:
            return call("run_command", command=f"cat {folder}/evals/evals.json")
        return "\n".join(message.text for message in used)

    assert trial(world, Actor(cheating)).rate("with_skill").mean == 0.0


def test_every_run_begins_anew(world):
    """What one run leaves behind no other one sees."""
    skill(world, "Work.\n", [{"contains": "clean"}], cases=1)

    def messy(request):
        used = [message for message in request.messages if message.role == "tool"]
        if not used:
            return call("run_command", command="ls; echo left > behind.txt")
        return "clean" if "behind" not in used[0].text else "dirty"

    model = Actor(messy)
    found = trial(world, model, runs=3)

    assert [one.score for one in found.samples] == [1.0, 1.0, 1.0]
    assert all(one.made.activated for one in found.samples)
    assert sum(len(request.messages) for request in model.requests[:1]) < 6
    assert not (world.state / "runs").exists()


def test_inputs_are_there_and_what_is_made_is_kept_in_the_standard_layout(world):
    checks = [
        {"file": "out.json", "json": "rows", "equals": 2},
        {"command": "test -f sales.csv && grep -q a sales.csv"},
    ]
    folder = skill(world, "Count.\n", checks, cases=1, files=["evals/files/sales.csv"], assertions=["It counts."])
    (folder / "evals" / "files").mkdir()
    (folder / "evals" / "files" / "sales.csv").write_text("a\nb\n")

    def counting(request):
        if "claims" in request.messages[-1].text:
            return '[{"claim": 1, "passed": true, "evidence": "rows: 2"}]'
        done = any(message.role == "tool" for message in request.messages)
        return "Done." if done else call("run_command", command='echo "{\\"rows\\": $(wc -l < sales.csv)}" > out.json')

    model = Actor(counting)
    found = trial(world, model, runs=2, grader="", out=str(world.home / "results"))
    kept = world.home / "results" / "iteration-1"
    grading = json.loads((kept / "eval-0/with_skill/run-1/grading.json").read_text())
    timing = json.loads((kept / "eval-0/with_skill/run-2/timing.json").read_text())
    bench = json.loads((kept / "benchmark.json").read_text())

    assert grading["summary"] == {"passed": 3, "failed": 0, "total": 3, "pass_rate": 1.0}
    assert [one["decided_by"] for one in grading["assertion_results"]] == ["json", "command", "model"]
    assert set(timing) >= {"total_tokens", "duration_ms"}
    assert (kept / "eval-0/with_skill/run-1/outputs/out.json").read_text() == '{"rows": 2}\n'
    assert bench["metadata"]["runs_per_configuration"] == 2
    assert bench["run_summary"]["with_skill"]["pass_rate"] == {"mean": 1.0, "stddev": 0.0, "min": 1.0, "max": 1.0}
    assert [one["configuration"] for one in bench["runs"]] == ["with_skill", "with_skill"]
    assert found.folder == str(kept)
    assert "Files in the working folder: sales.csv" in shown(model.requests[0])


def test_a_second_trial_is_a_second_iteration_and_one_run_needs_no_folder_of_its_own(world):
    skill(world, "Work.\n", [{"contains": "PLAIN"}], cases=1)
    for _ in range(2):
        trial(world, Actor(obedient), arms=BOTH)
    kept = world.state / "evals" / "fruit"

    assert sorted(one.name for one in kept.iterdir()) == ["iteration-1", "iteration-2"]
    bench = json.loads((kept / "iteration-2/benchmark.json").read_text())
    assert bench["run_summary"]["delta"]["pass_rate"] == 0.0
    assert (kept / "iteration-2/eval-0/without_skill/grading.json").is_file()


def test_a_trial_that_was_cut_off_goes_on_where_it_was(world):
    skill(world, "Work.\n", [{"contains": "PLAIN"}], cases=4)
    asked = []

    def leaving(request):
        asked.append(shown(request))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return "PLAIN"

    with pytest.raises(KeyboardInterrupt):
        trial(world, Actor(leaving), queue=SerialQueue())
    found = trial(world, Actor(leaving), queue=SerialQueue())

    assert found.rate("with_skill").mean == 1.0
    assert len(found.samples) == 4
    assert len(asked) == 5
    assert found.folder.endswith("iteration-1")


def test_a_trial_of_a_skill_that_was_changed_begins_anew(world):
    folder = skill(world, "Work.\n", [{"contains": "PLAIN"}], cases=1)

    def leaving(request):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial(world, Actor(leaving), queue=SerialQueue())
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.\n")

    assert trial(world, Actor(obedient)).folder.endswith("iteration-2")


def test_a_service_that_is_down_counts_for_nothing(world):
    skill(world, "Work.\n", [{"contains": "PLAIN"}], cases=2)

    def failing(request):
        return ModelError("it is down") if "number 1" in shown(request) else "PLAIN"

    found = trial(world, Actor(failing))

    assert [one.score for one in found.samples] == [1.0, None]
    assert found.rate("with_skill").cases == 1


def test_a_skill_is_compared_with_what_it_was(world):
    folder = skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}])
    was = (folder / "SKILL.md").read_bytes().replace(SECRET.encode(), b"WRONG")
    found = trial(
        world, Actor(obedient), arms=("with_skill", "old_skill"), old=SkillFiles.from_pairs({"SKILL.md": (0o644, was)})
    )

    assert compared(found).verdict == "better"


def test_a_change_that_is_not_made_yet_can_be_tried(world):
    folder = skill(world, "Say WRONG.\n", [{"contains": SECRET}])
    new = (folder / "SKILL.md").read_bytes().replace(b"WRONG", SECRET.encode())

    assert (
        trial(world, Actor(obedient), new=SkillFiles.from_pairs({"SKILL.md": (0o644, new)})).rate("with_skill").mean
        == 1.0
    )
    assert b"WRONG" in (folder / "SKILL.md").read_bytes()


@pytest.mark.parametrize("root", [".claude/skills", ".umbra/skills", ".openclaw/skills", ".agents/skills"])
def test_skills_of_every_dialect_get_the_task_and_their_instructions(world, root):
    folder = skill(world, f"Say {SECRET}.\n", [{"contains": SECRET}], cases=1)
    target = world.home / root / "fruit"
    target.parent.mkdir(parents=True)
    folder.rename(target)
    model = Actor(obedient)
    dialect = {".umbra/skills": "umbra", ".openclaw/skills": "openclaw", ".claude/skills": "claude"}.get(root)
    from metier.improve.eval_runner import EvalPlan
    from metier.improve.evaluate import run_evals, skill_to_try
    from metier.improve.trials import ThreadQueue

    library = world.open(dialect)
    plan = EvalPlan(model=model, runs=1, grader=None)
    run_evals(library, skill_to_try(library, "fruit"), plan, ThreadQueue(1), lambda what, done, total: None)

    assert "Which fruit is number 0?" in shown(model.requests[0])
    assert (f"Say {SECRET}." in shown(model.requests[0])) == (dialect != "openclaw")  # there the model reads it itself


def test_a_skill_that_may_not_run_here_is_not_tried(world):
    folder = world.project / ".metier" / "skills" / "theirs"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: theirs\ndescription: x\n---\nDo.\n")

    with pytest.raises(Refused, match="may not run here"):
        trial(world, Actor(obedient), name="theirs")


def test_a_check_of_a_skill_runs_inside_a_boundary(world, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hush")
    checks = [
        {"command": f"cat {secret}"},
        {"command": f"touch {tmp_path}/made"},
        {"command": "touch here && test -f here"},
    ]
    skill(world, "Work.\n", checks, cases=1)
    found = trial(world, Actor(obedient))

    assert [one.passed for one in found.samples[0].graded] == [False, False, True]
    assert not (tmp_path / "made").exists()
    assert not Path(found.folder, "eval-0/with_skill/outputs/here").exists()


def test_a_file_that_a_case_needs_and_is_not_there_is_named_before_anything_runs(world):
    skill(world, "Work.\n", [{"contains": "x"}], cases=1, files=["evals/none.csv"])
    model = Actor(obedient)

    with pytest.raises(BadRequest, match=r"needs the file `evals/none.csv`"):
        trial(world, model)
    assert model.requests == []


def test_a_file_that_a_case_needs_may_not_be_a_link_out_of_the_skill(world):
    folder = skill(world, "Work.\n", [{"contains": "x"}], cases=1, files=["evals/link"])
    (folder / "evals" / "link").symlink_to("/etc/passwd")

    with pytest.raises(MetierError, match="can't be read"):
        trial(world, Actor(obedient))


def test_a_skill_without_evals_says_where_to_write_them(world):
    folder = skill(world, "Work.\n", [{"contains": "x"}], cases=1)
    (folder / "evals" / "evals.json").unlink()

    with pytest.raises(BadRequest, match="has no evals"):
        trial(world, Actor(obedient))
