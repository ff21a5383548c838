"""Each row of Agenvoy's table of what is fixed: what a replay proves lands by itself, and the rest waits for a person."""

import pytest
from tests.agent.talking import call
from tests.improve.failing import earlier, improved, ran, skill


def edit(old, new):
    return call("edit_file", path="SKILL.md", old=old, new=new)


def command(text, id=""):
    return call("run_command", id, command=text)


ROWS = {
    "wrong tool name": (
        "Call the tool `frobnicate` with the file.\n",
        [call("frobnicate", path="a.txt")],
        [edit("`frobnicate`", "`read_file`"), "It is read_file."],
        "Call the tool `read_file` with the file.\n",
    ),
    "a step that fails again and again": (
        "1. Run `sh build.sh`.\n2. Say that it is built.\n",
        [command("sh build.sh", "a"), command("sh build.sh", "b")],
        [
            edit("Run `sh build.sh`.", "Run `sh build.sh`. If it fails, stop and say so; do not run it again."),
            "It has a way out now.",
            command("sh build.sh"),
            "It failed.",
        ],
        "1. Run `sh build.sh`. If it fails, stop and say so; do not run it again.\n2. Say that it is built.\n",
    ),
    "an unclear instruction": (
        "Read the notes with read_file.\n",
        [call("read_file", file="")],
        [
            edit("with read_file", "with `read_file`, its `path` being `notes.md`"),
            "It says which path.",
            call("read_file", path="notes.md"),
            "Read.",
        ],
        "Read the notes with `read_file`, its `path` being `notes.md`.\n",
    ),
    "steps in the wrong order": (
        "1. Run `cat made.txt`.\n2. Run `touch made.txt`.\n3. Say it is done.\n",
        [command("cat made.txt", "a"), command("touch made.txt"), command("cat made.txt", "b")],
        [
            edit(
                "1. Run `cat made.txt`.\n2. Run `touch made.txt`.", "1. Run `touch made.txt`.\n2. Run `cat made.txt`."
            ),
            "It is made first.",
            command("touch made.txt"),
            command("cat made.txt"),
            "Done.",
        ],
        "1. Run `touch made.txt`.\n2. Run `cat made.txt`.\n3. Say it is done.\n",
    ),
    "a typo, in the language of the text": (
        "1. 請執行 `cat 報告.txt`,並且把結果逐行整理給使用者看。\n2. 完成後請回報總共有多少行內容。\n",
        [command("cat 報告.txt")],
        [
            edit("請執行 `cat 報告.txt`", "請先確認檔案存在,再執行 `cat 報告.txt`"),
            "改好了。",
            command("ls"),
            "沒有這個檔案。",
        ],
        "1. 請先確認檔案存在,再執行 `cat 報告.txt`,並且把結果逐行整理給使用者看。\n2. 完成後請回報總共有多少行內容。\n",
    ),
}


PROVEN = ("wrong tool name", "steps in the wrong order")


@pytest.mark.parametrize("row", [row for row in ROWS if row not in PROVEN])
def test_what_a_replay_can_t_prove_is_rewritten_after_a_cluster_and_waits(world, row):
    body, calls, lines, mended = ROWS[row]
    file = skill(world, body)
    run = ran(world, *calls)
    assert improved(world, run, lines)[0].proposals == ()  # once is nobody's fault

    earlier(world, run)
    found, _ = improved(world, run, [*lines, *lines[2:]])  # both runs are replayed

    [proposal] = found.proposals
    assert (proposal.standing, proposal.how) == ("waiting", "model")
    assert proposal.after["SKILL.md"].endswith("---\n" + mended)
    assert file.read_text().endswith("---\n" + body)


@pytest.mark.parametrize("row", PROVEN)
def test_a_skill_that_failed_is_rewritten_committed_and_watched_with_no_input(world, row):
    body, calls, lines, mended = ROWS[row]
    file = skill(world, body)

    found, model = improved(world, ran(world, *calls), lines)

    [proposal] = found.proposals
    assert proposal.note == ""
    assert (proposal.standing, proposal.how) == ("accepted", "model")
    assert file.read_text().endswith("---\n" + mended)
    assert proposal.rev
    assert proposal.watched == ()
    assert model.lines == []


def test_a_typo_is_not_mended_in_another_language(world):
    body, calls, lines, _ = ROWS["a typo, in the language of the text"]
    skill(world, body)
    other = edit("並且把結果逐行整理給使用者看", "and then go through the result line by line for the user")
    run = ran(world, *calls)
    earlier(world, run)
    found, _ = improved(world, run, [other, lines[0], *lines[1:]])

    assert found.proposals[0].standing == "refused"
    assert found.proposals[0].note.startswith("language: ")
