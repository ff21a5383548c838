"""A body, rendered: commands where they may run, notes where not, and nothing read twice."""

from __future__ import annotations

from itertools import count

import pytest
from tests.activate.shelling import Runner, activated, block, refusal
from tests.builders import origin, skill

from metier.activate.render import CommandFailed, RenderOptions, render
from metier.types.activation import Call
from metier.types.dialect import ShellRules
from metier.types.sandbox import ProcessResult


class Said:
    """Answers every command with the same ending."""

    def __init__(self, ran: ProcessResult) -> None:
        self.ran, self.sources = ran, list[str]()

    def __call__(self, source: str, env: dict[str, str], shell: ShellRules, seconds: float) -> ProcessResult:
        self.sources.append(source)
        return self.ran


@pytest.mark.parametrize(
    ("dialect", "ran", "text"),
    [
        ("umbra", ProcessResult(0, " out \n\n", "err"), " out"),
        ("agentmd", ProcessResult(0, " out \n", "err"), "out"),
        ("standard", ProcessResult(0, "out\n"), "out"),
        ("umbra", ProcessResult(2, "out", "bad\n"), "[shell error: exit 2: x\nbad]"),
        ("umbra", ProcessResult(-9, "", ""), "[shell error: ended by signal 9: x]"),
        ("agentmd", ProcessResult(2, "out", "bad\n"), "out\n[stderr: bad]"),
        ("agentmd", ProcessResult(2, "out"), "out"),
        ("umbra", ProcessResult(0, ""), ""),
        ("umbra", ProcessResult(None, "", note="there is no sandbox here"), "[shell error: there is no sandbox here]"),
        ("agentmd", ProcessResult(None, "", timed_out=True), "[command timed out: x]"),
        ("umbra", ProcessResult(None, "", timed_out=True), "[shell error: timed out: x]"),
        ("umbra", ProcessResult(0, "a\x1b[31mb\x07\x00\u202ec"), "abc"),
    ],
)
def test_a_command_is_replaced_by_what_it_says_in_the_dialects_own_form(dialect: str, ran: ProcessResult, text: str):
    assert activated("!`x`", "", dialect, Said(ran)).text == text


@pytest.mark.parametrize(
    "ran", [ProcessResult(2, "out", "bad"), ProcessResult(None, "", timed_out=True), ProcessResult(None, "", note="no")]
)
def test_in_claude_code_a_command_that_fails_ends_the_activation(ran: ProcessResult):
    with pytest.raises(CommandFailed) as failed:
        activated("!`x`", "", "claude", Said(ran))
    assert "x" in failed.value.hint


@pytest.mark.parametrize(
    "command", ["grep x f", "git diff --quiet", "test -f x", "[ -f x ]", "cd a && grep x f", "find . -x"]
)
def test_in_claude_code_exit_status_1_of_a_search_is_an_answer(command: str):
    assert activated(f"!`{command}`", "", "claude", Said(ProcessResult(1, ""))).text == ""


@pytest.mark.parametrize("command", ["make", "grep x f; make", "grep x f | make", "git log"])
def test_in_claude_code_exit_status_1_of_anything_else_is_a_failure(command: str):
    with pytest.raises(CommandFailed):
        activated(f"!`{command}`", "", "claude", Said(ProcessResult(1, "")))


@pytest.mark.parametrize("off", ["untrusted", "off"])
def test_where_commands_may_not_run_a_note_stands_for_each_and_nothing_is_started(off: str):
    run = Runner()
    found = activated("a !`x $1` b\n```!\ny\n```\n$1", "arg", "umbra", run, off=off)

    assert run.runs == []
    assert found.text.count("[command not run: ") == 2
    assert found.text.endswith("\narg")
    assert [one.note for one in found.inserts if one.kind == "command"] == [off, off]


def test_metadata_and_what_was_filled_in_are_never_read_again():
    said = Said(ProcessResult(0, "!`y` $1 ${CLAUDE_SKILL_DIR} ```!\ny\n```"))
    found = activated("$0 !`x`", ("!`z` $1", "two"), "claude", said)

    assert said.sources == ["x"]
    assert found.text == "!`z` $1 !`y` $1 ${CLAUDE_SKILL_DIR} ```!\ny\n```\n\nARGUMENTS: '!`z` $1' two"


def test_all_commands_of_a_body_share_a_budget():
    clock = count(0, 9.0)
    said = Said(ProcessResult(0, "ok"))
    made = skill("s", at=origin("umbra"))
    terms = RenderOptions(run=said, clock=lambda: float(next(clock)))

    text = render(made, " !`a` !`b` !`c` !`d`", Call("s"), terms).text
    over = "[shell error: the time for all commands of this skill is used up]"
    assert text == f" ok ok {over} {over}"


@pytest.mark.parametrize("dialect", ["umbra", "agentmd"])
def test_what_a_failing_command_complains_of_is_no_order_to_a_terminal(dialect: str):
    text = activated(
        "!`x`", "", dialect, Said(ProcessResult(2, "out\x1b[2J", "bad\x1b]52;c;eA==\x07 thing\u202e"))
    ).text
    assert "bad thing" in text or "out" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_value_with_a_nul_or_too_long_for_any_program_is_refused_in_words():
    assert "NUL" in refusal("echo $1", ("a\0b",))
    assert "bytes" in refusal("echo $1", ("x" * 200_000,))
    assert refusal("echo $1", ("x" * 90_000 + "\n",)) == ""


def test_many_large_values_together_are_refused_in_words():
    assert refusal("echo $ARGUMENTS", tuple("x" * 90_000 + str(number) for number in range(20)))


@pytest.mark.parametrize(
    ("form", "text"),
    [("${@:0}", "a b"), ("${@:2:99999999999}", "b"), ("$0", ""), ("$10", ""), ("$$", "$$"), ("$FOO", "$FOO"), ("${SKILL_DIR}", "${SKILL_DIR}")],
)  # fmt: skip
def test_odd_placeholders_give_what_is_written_down_for_them(form: str, text: str):
    assert activated(form, ("a", "b")).text == text


def test_an_absurd_index_is_left_as_it_stands_in_claude_code():
    assert activated("$ARGUMENTS[999]", ("a",), "claude").text.startswith("$ARGUMENTS[999]")


def test_hidden_orders_are_taken_out_for_the_model_and_the_record_says_so():
    found = activated(
        "Be\u202e good\U000e0041\U000e0042.\ufe01\U000e0123 \u0645\u06cc\u200c\u062e\u0648 👩\u200d💻 🏴\U000e0067\U000e0062\U000e007f"
    )

    assert found.text == "Be good. \u0645\u06cc\u200c\u062e\u0648 👩\u200d💻 🏴\U000e0067\U000e0062\U000e007f"
    removed = [one for one in found.inserts if one.kind == "removed"]
    assert [(one.source, one.at) for one in removed] == [
        ("\u202e", 2),
        ("\U000e0041\U000e0042", 7),
        ("\ufe01\U000e0123", 8),
    ]
    assert removed[1].note == "hidden characters U+E0041 U+E0042"


# Arguments that the body has no place for.

UNUSED = [
    ("claude", "Body.", "a b", "Body.\n\nARGUMENTS: a b"),
    ("claude", "Body $0.", "a b", "Body a.\n\nARGUMENTS: a b"),
    ("claude", "Body $ARGUMENTS.", "a b", "Body a b."),
    ("claude", "Body $ARGUMENTS[1].", "a b", "Body b."),
    ("claude", "Body.", "", "Body."),
    ("claude", "", "a", "ARGUMENTS: a"),
    ("standard", "Body $0.", "a b", "Body a."),
    ("standard", "Body.", "a b", "Body.\n\nARGUMENTS: a b"),
    ("multica", "Body $ARGUMENTS.", "a b", "Body $ARGUMENTS.\n\nUser request: a b"),
    ("umbra", "Body.", "a b", "Body."),
    ("agenvoy", "Body.", "a b", "Body."),
    ("openclaw", "Body.", "a b", "Body."),
    ("agentmd", "Body.", "a b", "Body."),
]


@pytest.mark.parametrize(("dialect", "body", "arguments", "text"), UNUSED)
def test_unused_arguments_are_put_after_the_body_as_the_dialect_does(
    dialect: str, body: str, arguments: str, text: str
):
    assert activated(body, arguments, dialect).text == text


def test_a_command_that_takes_no_argument_runs_as_its_author_wrote_it_whatever_it_is():
    for source in ("echo `date`", "eval x", "cat <<'E'\n$x\nE", "x=$(", "sh -c 'a $b'", "trap x EXIT", "echo 'open"):
        run = Runner()
        activated(block(source), "", "umbra", run)
        assert run.runs == [(f"{source}\n", {})]


def test_the_skills_own_folder_may_stand_anywhere_a_path_may():
    run = Runner()
    activated(
        block('eval "${CLAUDE_SKILL_DIR}/x.sh" `ls ${CLAUDE_SKILL_DIR}`'),
        "",
        "claude",
        run,
        variables={"CLAUDE_SKILL_DIR": "/a/b-c"},
    )
    assert run.runs == [('eval "/a/b-c/x.sh" `ls /a/b-c`\n', {})]


def test_a_folder_that_a_shell_would_misread_is_passed_like_an_argument():
    run = Runner()
    activated(block("ls ${CLAUDE_SKILL_DIR}/x"), "", "claude", run, variables={"CLAUDE_SKILL_DIR": "/a b/$(c)"})
    assert run.runs == [('ls "${METIER_ARG_1}"/x\n', {"METIER_ARG_1": "/a b/$(c)"})]


OWN = [
    "bash scripts/x.sh $1",
    "sh -e ./scripts/x.sh",
    "./scripts/x.sh $1",
    "timeout 5 python3 -u scripts/x.sh",
    ". scripts/x.sh; echo $1",
]


@pytest.mark.parametrize("command", OWN)
def test_a_script_of_the_skills_is_written_with_the_skills_folder(command: str):
    def text(dialect: str, cwd: str, has: str = "scripts/x.sh") -> str:
        made = skill("s", at=origin(dialect))
        runner = Runner()
        render(
            made,
            f"!`{command}`",
            Call("s", "main", "user", cwd or made.directory),
            RenderOptions(runner, has=lambda path: path == has),
        )
        return "".join(source for source, _ in runner.runs)

    assert text("umbra", "/work") == ""
    assert text("umbra", "/work", "scripts/y.sh") != ""
    assert text("umbra", "") != ""
    assert text("agentmd", "/work") != ""
