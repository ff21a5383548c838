"""The suite passes on machines unlike this one: a sample in each `make test`, all of it by `make test-everywhere`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import everywhere, machine
from scripts.everywhere import SETTINGS, Setting
from tests.conftest import skip_reasons
from tests.reachable import common_folder, open_to_others, others_reach, reachable

ROOT = Path(__file__).parents[2]
HOME = "tests/sources/test_state.py::test_metier_home_may_be_written_in_any_way"
NO_RIGHTS = (
    "tests/sources/test_state.py::test_a_home_that_may_not_be_written_still_has_its_skills_and_writing_is_a_clear_error"
)
DATABASE = "tests/schedule/test_rules.py::test_replace_stops_the_one_at_work_and_begins_when_it_has_stopped"
COMMAND = "tests/conformance/test_cases.py::test_conform_gives_one_json_document"
HANDFUL = {
    "private-folder": [NO_RIGHTS, DATABASE],
    "spaces-and-letters": [HOME, COMMAND],
    "no-home": [HOME, COMMAND],
    "tmpdir-elsewhere": [HOME, NO_RIGHTS, DATABASE],
}


@pytest.mark.parametrize("name", HANDFUL)
def test_a_handful_of_tests_passes_elsewhere(name: str, request: pytest.FixtureRequest):
    [setting] = everywhere.chosen([name])
    assert everywhere.reason_against(setting) == ""
    scratch = common_folder("everywhere-")  # pytest's own folder is private, and its path is long
    request.addfinalizer(lambda: everywhere.remove(scratch))
    said = everywhere.run_setting(setting, HANDFUL[name], scratch, workers=0)
    assert re.search(r"\d+ passed", said)


def test_every_sample_is_a_test():
    assert [name for name in everywhere.SAMPLE if not (ROOT / name).exists()] == []


def test_settings_have_names_of_their_own():
    names = [one.name for one in SETTINGS]
    assert len(set(names)) == len(names)
    assert set(HANDFUL) <= set(names)


def test_a_setting_that_nobody_knows_is_refused_with_those_there_are():
    with pytest.raises(SystemExit, match=r"no setting `nowhere`\. There are: plain, "):
        everywhere.chosen(["nowhere"])


def test_a_setting_changes_the_environment_it_names_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("METIER_SOAK", "1")
    monkeypatch.setenv("HOME", "/home/me")
    found = everywhere.variables(Setting("x", env={"HOME": None, "TMPDIR": "{scratch}/t"}), tmp_path)
    assert found == {
        name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "PYTEST_", "HOME"))
    } | {"TMPDIR": f"{tmp_path}/t"}


def test_a_failing_test_fails_its_setting_and_leaves_its_log(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    held = everywhere.try_setting(Setting("odd"), ["tests/no_such_file.py"], 0, tmp_path)
    said = capsys.readouterr().out
    assert not held
    log = Path(said.rpartition(": ")[2].strip())
    assert said.startswith("odd ")
    assert "FAILED" in said
    assert "no_such_file" in log.read_text(encoding="utf-8")


def test_a_setting_this_machine_lacks_is_told_and_fails_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert everywhere.try_setting(Setting("old", python="2.0"), [], 0, tmp_path)
    assert capsys.readouterr().out.split() == ["old", "not", "here", "there", "is", "no", "Python", "2.0", "here"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_committed_yet_is_tried_as_well(tmp_path: Path):
    everywhere.make_clone(tmp_path / "clone")
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True)
    names = [name for name in os.fsdecode(listed.stdout).split("\0") if name]
    if not names:  # an unpacked source distribution is no repository
        names = [__file__]
    for name in names:
        if (ROOT / name).is_file():
            assert (tmp_path / "clone" / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_a_lent_environment_has_our_packages_and_the_clones_metier(tmp_path: Path):
    clone = tmp_path / "a clöne"
    (clone / "src/metier/faces/cli").mkdir(parents=True)
    (clone / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (clone / "src/metier/__init__.py").touch()
    everywhere.lend_packages(clone)
    code = "import metier, yaml; print(metier.__file__); print(yaml.__file__)"
    done = subprocess.run([f"{clone}/.venv/bin/python", "-c", code], capture_output=True, encoding="utf-8", check=True)
    import yaml

    assert done.stdout.splitlines() == [f"{clone}/src/metier/__init__.py", yaml.__file__]
    assert (clone / ".venv/bin/metier").stat().st_mode & 0o111


# What is missing is said, by `make test` before it starts and by pytest at its end.


def need(name: str, there: bool, linux_only: bool = False) -> machine.Need:
    return machine.Need(name, "a thing", f"get {name}", lambda: there, linux_only)


def test_what_is_missing_is_named_with_its_use_and_how_to_get_it():
    wanted = [need("one", False), need("two", True), need("three", False)]
    assert machine.report(machine.missing(wanted)).splitlines() == [
        "missing on this machine, and not tested:",
        "  one    a thing  get one",
        "  three  a thing  get three",
    ]


def test_nothing_missing_is_one_line():
    assert "\n" not in machine.report([])


def test_what_only_linux_has_is_missed_there_alone():
    wanted = [need("one", False, linux_only=True)]
    assert (machine.missing(wanted, "linux"), machine.missing(wanted, "darwin")) == (wanted, [])


def test_the_report_of_this_machine_comes_without_an_error():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.machine"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "this machine" in done.stdout


def test_tests_that_did_not_run_are_counted_by_their_reason():
    def report(longrepr: object) -> pytest.TestReport:
        return pytest.TestReport("x", ("x", 1, "x"), {}, "skipped", longrepr, "call")  # type: ignore[arg-type]

    reports = [report(("a.py", 1, "Skipped: needs tmux")), report(("b.py", 7, "Skipped: needs tmux")), report("odd")]
    assert skip_reasons(reports).most_common() == [("needs tmux", 2), ("odd", 1)]


def test_ci_runs_make_test_and_installs_nothing():
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith(("#", "set ", "cd "))] == ["make test"]


# What other users can reach.


def test_a_private_folder_anywhere_on_the_way_keeps_others_out():
    base = common_folder("metier-reach-")
    try:
        (base / "a/b").mkdir(parents=True, mode=0o755)
        (base / "a/b/file").write_text("x")
        open_to_others(base)
        assert others_reach(base / "a/b/file")
        (base / "a").chmod(0o700)
        assert not others_reach(base / "a/b/file")
        (base / "link").symlink_to("a/b/file")
        assert not others_reach(base / "link")
        assert not others_reach(base / "missing")
    finally:
        everywhere.remove(base)


def test_what_others_can_not_reach_is_copied_to_where_they_can(tmp_path: Path):
    (tmp_path / "tree/in").mkdir(parents=True, mode=0o700)
    (tmp_path / "tree/in/file").write_text("x")
    (tmp_path / "tree/in/file").chmod(0o600)
    tmp_path.chmod(0o700)
    [copied] = reachable([tmp_path / "tree"])
    assert copied != tmp_path / "tree"
    assert others_reach(copied / "in/file")
    assert (copied / "in/file").read_text() == "x"
    assert reachable([copied]) == [copied]
