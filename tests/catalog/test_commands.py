"""What a person may type, and which skill a line of input calls: the rules of each dialect, sentence by sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import origin, skill

from metier.catalog.commands import command_names, command_table, match_command, normalize_command
from metier.catalog.commands import name_commands as table_of
from metier.dialects import DIALECTS
from metier.types.catalog import CommandMatch, SlashCommand
from metier.types.verdict import Verdict

NORMALISING = ("multica", "openclaw")
EXACT = ("umbra", "claude", "standard")


def named(dialect: str, *names: str, reserved: tuple[str, ...] = ()) -> list[str]:
    return command_names([(name, name) for name in names], DIALECTS[dialect].serving.commands.form, reserved)


def called(dialect: str, line: str, *names: str) -> CommandMatch:
    rules = DIALECTS[dialect].serving.commands
    return match_command(line, table_of([(name, name) for name in names], rules.form), rules.matching)._replace(at=None)


def table(dialect: str, *skills, reserved=(), scheduled=()):
    return command_table([Verdict(one) for one in skills], DIALECTS[dialect].serving.commands, reserved, scheduled)


@pytest.mark.parametrize(
    ("name", "multica", "openclaw"),
    [
        ("PDF", "pdf", "pdf"),
        ("My  Great\tSkill", "my_great_skill", "my_great_skill"),
        ("a-b", "a-b", "a_b"),
        ("--a--", "--a--", "a"),
        ("a - b", "a_-_b", "a_b"),
        ("__a__b__", "a_b", "a_b"),
        ("Ünï", "n", "n"),
        ("!!!", "skill", "skill"),
        ("", "skill", "skill"),
        ("🔧 fix", "fix", "fix"),
        ("a.b/c\\d", "a_b_c_d", "a_b_c_d"),
        ("x" * 33, "x" * 32, "x" * 32),
        ("-" * 40, "-" * 32, "skill"),
    ],
)
def test_a_name_becomes_a_command_of_small_letters_digits_and_underscores(name, multica, openclaw):
    assert named("multica", name) == [multica]
    assert named("openclaw", name) == [openclaw]


@given(
    st.lists(st.text(max_size=50), max_size=12), st.sampled_from(NORMALISING), st.lists(st.text(max_size=8), max_size=3)
)
def test_no_two_commands_are_the_same_none_is_reserved_and_none_is_longer_than_32(names, dialect, reserved):
    found = named(dialect, *names, reserved=tuple(reserved))
    assert len(set(found)) == len(names)
    assert not {name.lower() for name in reserved} & set(found)
    for name in found:
        assert 0 < len(name) <= 32
        assert name == normalize_command(name, DIALECTS[dialect].serving.commands.form) or name.endswith("_")


def test_a_suffix_shortens_the_base_and_not_itself():
    long = "a" * 40
    assert named("multica", long, long, long) == ["a" * 32, "a" * 30 + "_2", "a" * 30 + "_3"]
    twelve = named("openclaw", *[long] * 12)
    assert twelve[-1] == "a" * 29 + "_12"


def test_a_reserved_word_is_reserved_in_any_case():
    assert named("multica", "Help", reserved=("HELP",)) == ["help_2"]
    assert named("openclaw", "help", "help", reserved=("Help", "help_2")) == ["help_3", "help_4"]


@pytest.mark.parametrize("dialect", ["agenvoy", "standard", "agentmd"])
def test_elsewhere_the_name_is_the_command_in_the_order_given(dialect):
    assert named(dialect, "Zed", "a-b", "My Skill") == ["Zed", "a-b", "My Skill"]


def test_in_claude_the_folder_is_the_command():
    assert command_names([("Display", "folder")], DIALECTS["claude"].serving.commands.form, ()) == ["folder"]


def test_umbra_lists_its_commands_by_name():
    assert [one.name for one in table("umbra", skill("b"), skill("a"), skill("c"))] == ["a", "b", "c"]


def test_a_skill_that_users_may_not_call_has_no_command_and_uses_up_no_name():
    found = table("multica", skill("pdf", user_may_invoke=False, id="1"), skill("PDF", id="2"))
    assert [(one.name, one.skill.id) for one in found] == [("pdf", "2")]


def test_a_command_tells_its_hint_its_aliases_and_a_short_description():
    one = skill("My Skill", "d\n" * 100, origin("multica"), id="folder", argument_hint="<what>\n<where>")
    [command] = table("multica", one)
    assert command.name == "my_skill"
    assert command.hint == "<what> <where>"
    assert command.aliases == ("My Skill", "folder")
    assert len(command.description) <= 100
    assert command.description.endswith("…")


def test_a_skill_without_a_description_is_described_by_its_name():
    assert table("standard", skill("bare"))[0].description == "bare"


def test_the_skills_of_a_plugin_are_called_with_its_name_in_front():
    found = table("standard", skill("x", at=origin(namespace="tools")), skill("x"))
    assert [one.name for one in found] == ["tools:x", "x"]


@given(st.lists(st.tuples(st.sampled_from(["a", "A", "a b", "a-b", "\u200b"]), st.sampled_from("123")), max_size=8))
def test_no_command_stands_in_the_table_twice(pairs):
    for dialect in DIALECTS:
        at = [origin(dialect, root=f"root-{number}") for _, number in pairs]
        skills = [
            skill(name, at=place, id=f"{name}{n}") for n, ((name, _), place) in enumerate(zip(pairs, at, strict=True))
        ]
        names = [one.name for one in table(dialect, *skills)]
        assert len(set(names)) == len(names)
        assert all(name.strip() and " " not in name for name in names)


def test_scheduler_skills_come_last_where_the_dialect_has_them():
    later = SlashCommand("sched-daily", None, "run it now", scheduled="/s/daily/SKILL.md")
    assert [one.name for one in table("agenvoy", skill("z"), scheduled=[later])] == ["z", "sched-daily"]
    assert [one.name for one in table("umbra", skill("z"), scheduled=[later])] == ["z"]


NOT_COMMANDS = ["/", "//pdf", "/ pdf", "/\tpdf", "pdf", "", "   ", "see /pdf", "/usr/bin", "/pdf/x", "\\pdf", "／pdf"]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("line", NOT_COMMANDS)
def test_what_is_not_a_command_is_left_as_it_is(dialect, line):
    assert called(dialect, line, "pdf", "usr", "bin", "usr-bin") == CommandMatch(None, "", line)


@pytest.mark.parametrize("dialect", NORMALISING)
@pytest.mark.parametrize(
    "line",
    [
        "/my_skill",
        "/my-skill",
        "/MY-SKILL",
        "/My_Skill",
        "  /my_skill  ",
        "/skill my-skill",
        "/SKILL My_Skill",
        "\n/my-skill\n",
    ],
)
def test_every_spelling_of_a_name_finds_the_same_skill(dialect, line):
    for name in ("my-skill", "my_skill", "My Skill", "MY  SKILL"):
        assert called(dialect, line, "other", name) == CommandMatch(name, "", line)


@pytest.mark.parametrize("dialect", NORMALISING)
@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("/pdf  a  b  ", "a  b"),
        ("/pdf\ta\nb\n", "a\nb"),
        ("/skill pdf", ""),
        ("/skill   pdf   x y ", "x y"),
        ("/skill pdf\nx\n\ny", "x\n\ny"),
        ('/pdf "a b"', '"a b"'),
    ],
)
def test_arguments_are_trimmed_at_both_ends_and_no_more(dialect, line, arguments):
    assert called(dialect, line, "pdf") == CommandMatch("pdf", arguments, line)


@pytest.mark.parametrize("dialect", NORMALISING)
@pytest.mark.parametrize("line", ["/skill", "/skill nope", "/skills pdf", "/pdf!", "/pdf.", "/pdfs", "/pd", "/pdf_2"])
def test_a_near_miss_is_no_match(dialect, line):
    assert called(dialect, line, "pdf").name is None


def test_the_command_is_tried_before_the_name_and_the_name_before_looser_spellings():
    assert called("openclaw", "/hello_world", "hello-world", "hello_world").name == "hello-world"
    assert called("openclaw", "/hello-world", "hello_world", "hello-world").name == "hello-world"
    assert called("multica", "/a_b", "a-b", "a_b").name == "a_b"
    assert called("openclaw", "/hello-world-2", "hello-world", "hello_world").name == "hello_world"


def test_a_skill_that_is_called_skill_can_be_called():
    assert called("multica", "/skill", "skill") == CommandMatch("skill", "", "/skill")
    assert called("multica", "/skill do it", "skill") == CommandMatch("skill", "do it", "/skill do it")
    assert called("multica", "/skill pdf x", "skill", "pdf").name == "pdf"


def test_a_name_in_another_script_is_found_by_itself_and_by_its_command():
    assert called("multica", "/日本語 x", "日本語").name == "日本語"
    assert called("multica", "/skill_2", "日本語", "한국어").name == "한국어"


@pytest.mark.parametrize("dialect", EXACT)
@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("/deploy", ""),
        ("/deploy ", ""),
        ("/deploy\tx", "x"),
        ("/deploy\nx\ny", "x\ny"),
        ("/deploy \u3000x", "x"),
        ("/deploy  a  b", "a  b"),
    ],
)
def test_an_exact_name_ends_at_any_white_space(dialect, line, arguments):
    assert called(dialect, line, "deploy") == CommandMatch("deploy", arguments, line)


@pytest.mark.parametrize("dialect", EXACT)
@pytest.mark.parametrize("line", ["/Deploy", "/de-ploy", "/deploy_", "/deployer", "/skill deploy", "/deploy!"])
def test_an_exact_name_is_exact(dialect, line):
    assert called(dialect, line, "deploy").name is None


@pytest.mark.parametrize(
    ("line", "name", "message"),
    [
        ("/code-reviewer review src/parser.go", "code-reviewer", "review src/parser.go"),
        (" \t\r\n/code-reviewer", "code-reviewer", "/code-reviewer"),
        ("/code-reviewer \r\n\t ", "code-reviewer", "/code-reviewer \r\n\t "),
        ("/code-reviewer  keep  this  ", "code-reviewer", "keep  this  "),
        ("/code-reviewer\u00a0x", None, "/code-reviewer\u00a0x"),
        ("\u00a0/code-reviewer", None, "\u00a0/code-reviewer"),
        ("/CODE-REVIEWER x", None, "/CODE-REVIEWER x"),
        ("/code_reviewer x", None, "/code_reviewer x"),
        ("  hello ", None, "  hello "),
        ("/", None, "/"),
    ],
)
def test_agenvoy_takes_the_rest_of_the_line_as_the_message(line, name, message):
    found = called("agenvoy", line, "code-reviewer")
    assert (found.name, found.user_message) == (name, message)


@given(st.sampled_from(sorted(DIALECTS)), st.text(max_size=30), st.lists(st.text(min_size=1, max_size=8), max_size=4))
def test_a_match_is_always_one_of_the_skills_and_never_a_failure(dialect, line, names):
    found = called(dialect, line, *names)
    assert found.name is None or found.name in names
    if found.name is None:
        assert (found.arguments, found.user_message) == ("", line)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=10), min_size=1, max_size=6
    )
)
def test_every_command_of_the_table_calls_its_own_skill(names):
    for dialect in NORMALISING:
        for name, command in zip(names, named(dialect, *names), strict=True):
            assert called(dialect, f"/{command}", *names).name == name


def test_a_match_says_which_command_it_is():
    found = match_command("/b x", table_of([("a", "a"), ("b", "b")], "name"), "exact")

    assert (found.name, found.at) == ("b", 1)
