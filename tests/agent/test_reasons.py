"""Why a call went wrong is said in a word that a program can read, never in the text alone."""

import pytest
from tests.agent.talking import call, greeter, session, spoken

from metier.agent.permissions import Permission, PermissionRule
from metier.types.event import Used

ALLOWED = Permission(otherwise="allow")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (call("no_such_tool"), "unknown-tool"),
        (call("read_file", path="gone.md"), "missing-file"),
        (call("read_file", path="/etc/hosts"), "refused"),
        (call("read_file"), "bad-request"),
        (call("skill_run_script", skill_name="greet", script_name="gone.py"), "missing-file"),
        (call("skill_read_file", skill_name="greet", file_path="gone.md"), "missing-file"),
        (call("run_command", command="exit 3"), "exit-status"),
        (call("run_command", command="sleep 9", seconds=1), "timeout"),
        (call("list_files"), ""),
    ],
)
def test_each_kind_of_failure_has_its_word(world, asked, reason):
    greeter(world)
    talk, _ = session(world, [asked, "Done."], rules=ALLOWED)

    [used] = [one for one in spoken(talk, "do it") if isinstance(one, Used)]

    assert used.reason == reason
    assert used.failed == bool(reason)


def test_what_the_user_forbids_is_refused(world):
    talk, _ = session(world, [call("list_files"), "Done."], rules=Permission(deny=(PermissionRule("list_files"),)))

    [used] = [one for one in spoken(talk, "do it") if isinstance(one, Used)]

    assert used.reason == "refused"
