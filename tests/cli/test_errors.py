"""Wrong input, on purpose: one sentence and a hint, the right exit code, and never a traceback."""

import json
import os
import subprocess

import pytest
from tests.cli.console import FULL, METIER, Desk, Said
from tests.home import SOURCE


def complained(said: Said, code: int) -> None:
    lines = said.err.splitlines()
    assert said.code == code, said
    assert lines[0].startswith("error: "), said
    assert "Traceback" not in said.err
    assert "unforeseen" not in said.err
    assert len(lines) <= 2
    assert len(lines) == 1 or lines[1].startswith("hint: ")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("plain"))
    desk.skill("deploy")
    (desk.project / "file").write_text("")
    (desk.home / ".super-multica/agent-profiles/team/skills").mkdir(parents=True)
    return desk


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lsit", "did you mean `list`?"),
        ("xyzzy", "metier --help"),
        ("list --nope", "--nope"),
        ("--nope list", "--nope"),
        ("list extra", "extra"),
        ("--dialect umbar list", "did you mean `umbra`?"),
        ("--dialect xyzzy list", "one of: standard"),
        ("catalog --dialect umbar", "did you mean `umbra`?"),
        ("--agent nobody list", "no agent named `nobody`"),
        ("--agent ./file list", "has no frontmatter"),
        ("--agent ./missing.md list", "no agent named"),
        ("--profile taem list", "did you mean `team`?"),
        ("--profile ../x list", "not the name of a profile"),
        ("--profile= list", "--profile must not be empty"),
        ("--profile none --dialect multica status", "no profile named `none`"),
        ("show deplyo", "did you mean `deploy`?"),
        ("why deplyo", "did you mean `deploy`?"),
        ("status deplyo", "did you mean `deploy`?"),
        ("show xyzzy", "metier list"),
        ("show", "NAME"),
        ("--root missing list", "missing does not exist"),
        ("--root file list", "file is not a folder"),
        ("--project missing list", "missing is not a folder"),
        ("--project file status", "file is not a folder"),
        ("trust missing", "missing is not a folder"),
        ("catalog --format html", "html"),
        ("catalog --max-chars many", "many"),
        ("catalog --max-chars -1", "-1"),
        ("completion tcsh", "tcsh"),
        ("validate", "missing PATH"),
        ("new", "NAME"),
        ("new Bad_Name", "try `bad-name`"),
        ("new deploys --user --dir here", "mutually exclusive"),
        ("--root . new deploys --user", "mutually exclusive"),
        ("new deploys --dir=", "--dir must not be empty"),
        ("--root", "--root"),
    ],
)
def test_a_slip_is_told_in_a_sentence_with_what_to_do(plain, words, said):
    answer = plain.say(*words.split())
    complained(answer, 2)
    assert said in answer.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("list --jsn", "no such option '--jsn'", "did you mean `--json`?"),
        ("mcp install --snow", "no such option '--snow'", "run `metier mcp install --help`"),
        ("new --usr deploys", "no such option '--usr'", "did you mean `--user`?"),
        ("schedule ad", "no such command 'ad'", ""),
        ("list a b", "unexpected extra arguments (a b)", "run `metier list --help`"),
        ("show", "missing argument 'NAME'", "run `metier show --help`"),
        ("search x --limit many", "invalid value for '--limit': 'many' is not a valid integer", "run"),
    ],
)
def test_clicks_own_errors_are_in_the_form_of_the_others(plain, words, message, hint):
    answer = plain.say(*words.split())
    complained(answer, 2)
    assert answer.err.splitlines()[0] == f"error: {message}"
    assert hint in answer.err


def test_a_skill_without_a_name_is_not_created(plain):
    answer = plain.say("new", "", "Does a thing.")
    complained(answer, 2)
    assert answer.err.splitlines()[0] == "error: the skill's name is empty"


def test_a_path_that_is_wrong_fails_validation_and_not_the_program(plain):
    for path in ("missing", "file"):
        said = plain.say("validate", path)
        assert said.code == 1
        assert "Traceback" not in said.err


def test_a_failure_is_a_failure_through_a_pipe_too(plain):
    said = plain.shell("set -o pipefail; metier show nope | cat")
    assert said.code == 2
    assert plain.shell("metier list | head -1; exit ${PIPESTATUS[0]}").err == ""


DAMAGE = {
    "trust.json": (b"{", "is damaged", 5),
    "bundled.json": (b"[]", "is damaged", 5),
}


@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_a_damaged_file_of_metiers_own_is_named_with_what_to_do(desk, name):
    data, words, code = DAMAGE[name]
    desk.skill("one")
    (desk.state / name).write_bytes(data)
    for command in ("list", "status", "catalog", "commands", "why one", "roots"):
        said = desk.say(*command.split())
        complained(said, code)
        assert words in said.err
        assert str(desk.state / name) in said.err
        assert "hint: " in said.err
    doctor = desk.say("doctor")
    assert doctor.code == 1
    assert words in doctor.out


def test_a_configuration_that_is_a_folder_is_named(desk):
    (desk.state / "config.toml").mkdir(parents=True)
    said = desk.say("list")
    assert said.code == 0
    assert f"{desk.state}/config.toml: error: the configuration can't be read: it is not a regular file" in said.out
    assert desk.say("doctor").code == 1


def test_bad_toml_is_shown_with_its_line_and_the_skills_are_listed_all_the_same(desk):
    desk.skill("one")
    desk.configure("[skills]\nx = \n")
    said = desk.say("list")
    assert said.code == 0
    assert f"{desk.state}/config.toml:2: error: the configuration can't be read" in said.out
    assert "one " in said.out


def test_a_dialect_of_the_configuration_that_does_not_exist_is_told(desk):
    desk.configure('dialect = "umbar"\n')
    desk.skill("one")
    said = desk.say("list")
    assert said.code == 0
    assert "`dialect` must be one of standard" in said.out
    assert "dialect" in desk.say("doctor").out


def test_a_damaged_index_is_made_anew(desk):
    desk.skill("one")
    desk.say("list")
    (desk.state / "index.db").write_bytes(b"not a database, not at all" * 100)
    said = desk.say("status")
    assert said.code == 0
    assert "Total:      1" in said.out


def test_an_index_that_is_a_folder_is_passed_over(desk):
    desk.skill("one")
    (desk.state / "index.db").mkdir()
    said = desk.say("list")
    assert said.code == 0
    assert said.out.startswith("one  ")


def test_a_reader_that_has_seen_enough_is_no_fault(desk):
    for number in range(3_000):
        (desk.skills / f"s{number:04}").mkdir(parents=True)
        (desk.skills / f"s{number:04}/SKILL.md").write_text(f"---\nname: s{number:04}\ndescription: {'d' * 80}\n---\n")
    for _ in range(2):  # reading every file, then from the index
        desk.settle()
        said = desk.shell("metier list | head -1; echo ${PIPESTATUS[0]}")
        assert said.err == ""
        assert said.out.splitlines()[0].startswith("s0000")
        assert said.out.splitlines()[1] == "141"
        desk.say("list")


@pytest.mark.parametrize("program", [METIER, FULL], ids=["lean", "click"])
def test_a_full_disk_is_told(desk, program):
    desk.skill("one")
    desk.settle()
    desk.say("list")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*program, "list"], cwd=desk.project, env=desk.env, stdout=full, stderr=subprocess.PIPE)
    complained(Said(done.returncode, "", done.stderr.decode()), 5)
    assert b"No space left" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["list", "status", "show nope", "lsit", "--json list"])
def test_closed_streams_are_no_reason_to_fall_over(desk, closed, command):
    desk.skill("one")
    said = desk.shell(f"metier {command} {closed}")
    assert "Traceback" not in said.err
    assert "Exception ignored" not in said.err
    assert said.code == (0 if command in ("list", "status") else 2)


def test_a_working_folder_that_is_gone_is_told(desk):
    gone = desk.project / "gone"
    gone.mkdir()
    for command in ("list", "status", "new x", "trust", "init", "doctor"):
        said = desk.shell(f"mkdir -p '{gone}'; cd '{gone}'; rmdir '{gone}'; metier {command}")
        complained(said, 2)
        assert "the working folder no longer exists" in said.err


def test_without_a_home_the_users_own_is_taken(desk):
    said = desk.shell("unset HOME; metier list", METIER_HOME=str(desk.state))
    assert said.code == 0
    assert "Traceback" not in said.err


LOCALES = [{"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}]  # fmt: skip


@pytest.mark.parametrize("env", LOCALES, ids=["C", "POSIX", "ascii"])
def test_letters_that_the_terminal_does_not_know_do_no_harm(desk, env):
    desk.skill("one", description="日本 été → ✓")
    desk.settle()
    # Where the clone's own path has such letters, an ASCII interpreter can't read the .pth file that names it.
    desk.env["PYTHONPATH"] = str(SOURCE)
    for command in ("list", "list", "status one", "show one", "catalog", "why one"):
        said = desk.say(*command.split(), **env)
        assert said.code == 0, said
        assert "Traceback" not in said.err
    found = json.loads(desk.say("list", "--json", **env).out)
    assert found["skills"][0]["description"] == "日本 été → ✓"
    assert desk.say("list", **env) == desk.say("list", program=FULL, **env)


@pytest.mark.parametrize("columns", [1, 10, 39, 40, 5_000, 65_000])
def test_a_terminal_of_any_width_will_do(desk, columns):
    desk.skill("one", description="x " * 100)
    (desk.state / "bundled.json").write_text('{"skills": {}}')
    for command in ("list", "status", "commands", "roots", "list -v"):
        said = desk.at_terminal(*command.split(), columns=columns)
        assert said.code == 0
        assert "error" not in said.out
    assert desk.say("list", COLUMNS="99999").code == 0


def test_no_words_at_all_show_the_help(desk):
    said = desk.say()
    assert said.code == 0
    assert said.out.startswith("Usage: metier")
    assert said.err == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_may_not_be_read_is_told(desk):
    desk.skill("one").chmod(0)
    said = desk.say("list")
    assert said.code == 0
    assert "broken" in said.out


def test_a_configuration_that_is_no_text_is_a_finding_and_the_rest_goes_on(desk):
    desk.skill("one")
    (desk.state / "config.toml").write_bytes(b"\xff\xfe")
    said = desk.say("list")
    assert said.code == 0
    assert "is not UTF-8" in said.out
    assert "one" in said.out


def test_a_global_option_behind_the_command_is_told_its_place(desk):
    said = desk.say("list", "--dialect", "umbra")
    complained(said, 2)
    assert "before the command" in said.err


def test_an_error_is_json_for_whoever_asked_for_json(plain: Desk):
    said = plain.say("show", "dploy", "--json")

    assert said.code == 2
    assert said.out == ""
    assert json.loads(said.err) == {
        "error": "no skill named `dploy`",
        "hint": "did you mean `deploy`?",
        "code": 2,
    }
