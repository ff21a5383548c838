"""What is a word, a quote or an operator to the shell, and that both readers of commands see the same."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.activate.shelling import refusal

from metier.activate.shell.lexer import next_token
from metier.activate.shell.rewrite import read_command
from metier.activate.shell.words import UnreadableCommand
from metier.agent.agent_files import parse_rules
from metier.agent.permissions import Permission
from metier.agent.shell_rules import parse_command_line
from metier.types.activation import ToolCall


def tokens(text: str, in_quotes: bool = False) -> list[tuple[str, str]]:
    at = 0
    result: list[tuple[str, str]] = []
    while at < len(text):
        token = next_token(text, at, in_quotes)
        result.append((token.kind, token.text))
        at = token.end
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 'b c'\t\"", [("literal", "a"), ("blank", " "), ("single", "'b c'"), ("blank", "\t"), ("double", '"')]),
        ("$$(x)", [("parameter", "$$"), ("open", "("), ("literal", "x"), ("close", ")")]),
        ("$((1", [("arithmetic", "$(("), ("literal", "1")]),
        ("$(\\\n(1", [("arithmetic", "$(\\\n("), ("literal", "1")]),
        ("(\\\n(", [("double_open", "(\\\n(")]),
        ("${x}${x:-y", [("parameter", "${x}"), ("braces", "${"), ("literal", "x:-y")]),
        ("$'$\"$[$", [("ansi", "$'"), ("locale", '$"'), ("old_arithmetic", "$["), ("dollar", "$")]),
        ("a>&2<<<b", [("literal", "a"), ("redirect", ">&"), ("literal", "2"), ("redirect", "<<<"), ("literal", "b")]),
        ("<<-E<<E", [("heredoc", "<<-"), ("literal", "E"), ("heredoc", "<<"), ("literal", "E")]),
        ("<(a;;&", [("process", "<("), ("literal", "a"), ("operator", ";;&")]),
        ("$\\\nx\\\n\\x", [("split", "$\\\n"), ("literal", "x"), ("continuation", "\\\n"), ("escape", "\\x")]),
        ("'\\", [("stray", "'"), ("stray", "\\")]),
    ],
)
def test_tokens_end_where_the_shell_ends_them(text, expected):
    assert tokens(text) == expected


def test_inside_double_quotes_only_four_characters_are_special():
    assert tokens("a'b|(*\\n\\$$x`", in_quotes=True) == [
        ("literal", "a'b|(*"),
        ("stray", "\\"),
        ("literal", "n"),
        ("escape", "\\$"),
        ("parameter", "$x"),
        ("tick", "`"),
    ]


@pytest.mark.parametrize("typed", ["(\\\n(2 #1)); rm -f x\n))", "echo $(\\\n(2 #1)); rm -f x\n))"])
def test_a_line_break_in_an_operator_hides_nothing_from_a_rule(typed):
    rules = Permission(parse_rules(("run_command",)), (), parse_rules(("run_command(rm *)",)))

    assert rules.says(ToolCall("c", "run_command", {"command": typed}))[0] in ("ask", "deny")


@pytest.mark.parametrize(
    "typed",
    [
        "[[ -n a && a =~ (#) ]]; rm -f x\n)",
        "if [[ a =~ (#) ]]; then rm -f x; fi\n)",
        "! [[ ']]' && a =~ (#) ]]; rm -f x\n)",
        "time [[ a =~ (#) ]]; rm -f x\n)",
        "if case x in (\\#) ;; esac; then rm -f x; fi",
    ],
)
def test_a_test_or_a_case_hides_nothing_from_a_rule_wherever_it_begins(typed):
    rules = Permission(parse_rules(("run_command",)), (), parse_rules(("run_command(rm *)",)))

    assert rules.says(ToolCall("c", "run_command", {"command": typed}))[0] in ("ask", "deny")
    assert (
        rules.says(ToolCall("c", "run_command", {"command": "if [[ -f x && -n a ]]; then echo y; fi # z"}))[0]
        == "allow"
    )


@pytest.mark.parametrize("command", ["(\\\n(x=$1))", "echo $(\\\n(x=$1))", "y=$1; echo $y\\\nz"])
def test_an_argument_gets_into_no_operator_or_name_that_a_line_break_splits(command):
    assert "not run" in refusal(command, ("a[$(pwn)]",))


def test_the_process_number_is_no_command():
    """`$$(…)` in quotes is a number and a text: the quotes in it are text too."""
    assert refusal("echo \"$$(echo ' $1 ')\"", ("a b",)) == ""


PIECES = st.sampled_from(
    ["echo", "rm", "a", "-f", "git", "2", " ", " ", " ", "\t", "\n", "\\\n", "'b c'", '"b c"', '"a\\$b"', '"a\\nb"', "''",
     "\\ ", "\\;", ";", "&", "|", "||", "&&", "#", "a#b", "=", "x=1", "é", "~", "!", "%", "/", ".", ">", ">>", "2>", "<", ">&2",
     "*", "?", "(", ")", "$$", "((", "))", "$(", "'", '"']
)  # fmt: skip


@settings(max_examples=600, derandomize=True, deadline=None, database=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_both_readers_see_the_same_commands(text):
    """Where both can read a line, its simple commands are the same, word for word."""
    line = parse_command_line(text)
    try:
        read = read_command(list(text))
    except UnreadableCommand:
        return
    if not line.known or "$" in text or "(" in text:
        return
    assert [[word.text for word in part] for part in line.parts] == [
        [word.text for word in command.words] for command in read.commands
    ]


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    st.lists(
        st.sampled_from(["a", "'b c'", '"b c"', '"\\$b"', '"\\nb"', "\\ ", "''", "\\\n", "#", " ", " "]), max_size=8
    )
)
def test_a_shell_sees_these_words_too(pieces):
    text = "printf '%s\\0' ." + "".join(pieces)
    parts = parse_command_line(text).parts
    out = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=True).stdout

    assert [word.text for word in parts[0]][2:] == out.split("\0")[:-1]
