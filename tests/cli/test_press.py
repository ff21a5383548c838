"""A command that is forked is the command: what the other tests see is what a shell would."""

import os
import subprocess

import pytest
from tests.cli import forkserver
from tests.cli.console import METIER

COMMANDS = [
    ["list"], ["list", "--json"], ["status", "-v"], ["show", "one"], ["roots", "--json"], ["catalog"], ["verify"],
    ["render", "one"], ["schedule", "list"], ["nonsense"], ["show", "nothing"], ["--help"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_forked_command_says_what_a_new_one_does(desk, words):
    desk.skill("one")
    desk.skill("broken", "---\nname: [\n---\n")
    desk.say("list")
    fresh = subprocess.run(
        [*METIER, *words], cwd=desk.project, env=desk.env, capture_output=True, stdin=subprocess.DEVNULL
    )

    assert forkserver.run(words, desk.project, desk.env, 60) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_it_has_its_own_folder_environment_and_files_and_leaves_none_behind(desk):
    before = len(os.listdir("/proc/self/fd"))
    first = forkserver.run(["roots", "--json"], desk.project, desk.env, 60)
    second = forkserver.run(["roots", "--json"], desk.home, desk.env | {"METIER_PATH": str(desk.bin)}, 60)

    assert str(desk.bin) not in first[1].decode()
    assert str(desk.bin) in second[1].decode()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the way to the press itself


def test_one_that_takes_too_long_is_ended(desk):
    ours, theirs = os.pipe()
    with open(os.devnull, "rb") as nothing:
        running = forkserver.fork(["mcp"], desk.project, desk.env, (ours, nothing.fileno(), nothing.fileno()))
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.5)
    os.close(ours)
    os.close(theirs)
