"""Write the table of what each sandbox tier gives, by running the tests in every tier that this machine has.

It takes minutes and needs a machine with all tiers, so `make docs` leaves it alone: run it when a tier or a test of
`TOPICS` changes.  A cell is "yes" if every test of its topic passed in that tier, "–" if the topic has no test there.
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts.docs_text import table  # noqa: E402

PAGE = ROOT / "docs/concepts/sandbox.md"
TESTS = ROOT / "tests/host"
TIERS = {"bubblewrap": "bubblewrap", "wheel": "bubblewrap of `metier[sandbox]`", "landlock": "Landlock"}
TOPICS: dict[str, tuple[str, ...]] = {
    "reads only what it was given": (
        "test_what_was_not_granted_is_not_there",
        "test_metier_other_skills_and_the_users_secrets_are_not_there",
        "test_a_readable_grant_can_be_read_and_not_written",
        "test_a_link_out_of_a_grant_leads_nowhere",
    ),
    "what is hidden stays so inside a folder it may read or write": (
        "test_what_is_hidden_stays_out_of_sight_in_a_folder_that_may_be_read",
        "test_what_is_hidden_in_a_writable_folder_stays_so_and_the_rest_can_be_used",
        "test_a_link_does_not_lead_past_what_is_hidden_and_is_there_itself",
    ),
    "writes a project, but not `.git`, hooks, settings and shell start-up files": (
        "test_a_writable_grant_can_be_written",
        "test_what_other_programs_take_orders_from_stays_as_it_is_in_a_writable_grant",
        "test_no_way_leads_into_the_repository",
        "test_no_link_that_is_exchanged_meanwhile_leads_into_the_repository",
        "test_arguments_that_change_meanwhile_do_not_change_what_was_decided",
        "test_a_repository_within_the_repository_stays_as_it_is_too",
    ),
    "makes repositories, links, modes and times like any program": (
        "test_a_new_repository_further_in_can_be_made_and_worked_in",
        "test_what_files_are_is_written_as_it_was_meant",
        "test_a_program_may_copy_files_and_their_modes_in_its_work_folder",
        "test_every_thread_and_process_of_a_program_writes",
    ),
    "Python says nothing but the script's own words": ("test_a_python_script_says_nothing_but_its_own_words",),
    "no network, and no socket of another program": (
        "test_it_reaches_no_server_of_this_machine_and_none_beyond",
        "test_it_reaches_no_socket_of_another_program",
        "test_it_gets_no_socket_to_the_kernel",
    ),
    "other processes can't be read, signalled or slowed": (
        "test_it_signals_nothing_outside",
        "test_keys_of_the_process_that_started_it_can_not_be_read",
    ),
    "no namespace, mount, kernel key or other way out": (
        "test_calls_that_let_programs_out_of_boxes_are_refused",
        "test_it_makes_no_namespace",
        "test_no_program_in_it_gains_rights",
        "test_kernel_settings_can_not_be_written_even_by_root",
    ),
    "limits of memory, processes and disk": (
        "test_a_fork_bomb_is_ended",
        "test_taking_too_much_memory_is_ended_and_the_reason_is_oom",
        "test_a_file_grows_no_larger_than_its_limit",
        "test_the_work_folder_holds_no_more_than_its_limit",
    ),
    "nothing outlives it": (
        "test_nothing_in_the_box_outlives_the_program",
        "test_when_we_are_killed_all_in_the_box_ends",
    ),
    "sees no process but its own": ("test_it_sees_no_process_but_its_own",),
    "has no network device": ("test_it_has_no_network_at_all_where_it_may_have_none",),
    "has a `/tmp` and a `/dev/shm` of its own": ("test_temporary_folders_are_small",),
}
"""What a tier gives, and the tests that show it; tests for one kind of tier count for bubblewrap in either form."""
_region = re.compile(r"(<!-- measured: tiers -->\n).*?(<!-- end -->)", re.DOTALL)


def outcomes() -> dict[tuple[str, str], set[str]]:
    """How each test ended in each tier."""
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.xml"
        names = " or ".join(name for tests in TOPICS.values() for name in tests)
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junit-xml={report}", "-k", names, str(TESTS)],
            cwd=ROOT,
            check=False,
        )
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for case in ET.parse(report).iter("testcase"):
            name, _, words = case.get("name", "").partition("[")
            ended = {child.tag for child in case} & {"failure", "error", "skipped"}
            named = [tier for tier in TIERS if tier in re.split(r"[-\]]", words)]
            for tier in named or ("bubblewrap", "wheel"):
                found[name, tier] |= ended or {"passed"}
        return found


def measured() -> str:
    found = outcomes()
    rows = []
    for topic, tests in TOPICS.items():
        cells = []
        for tier in TIERS:
            ended = set[str]().union(*(found.get((test, tier), set()) for test in tests)) - {"skipped"}
            cells.append("yes" if ended == {"passed"} else "–" if not ended else "no")
        rows.append((topic, *cells))
    return table(("a program…", *TIERS.values()), rows)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = measured()
    PAGE.write_text(_region.sub(lambda match: f"{match[1]}{made}{match[2]}", text), encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
