"""Placeholders: read once from the author's text, filled once, never read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.activate.render import BodyCommand, split_body
from metier.activate.template import (
    PlaceholderForms,
    PositionalArgument,
    TemplateValues,
    fill_pieces,
    split_arguments,
    split_pieces,
    split_text,
)
from metier.dialects import DIALECTS


def filled(
    dialect: str, body: str, arguments: str | tuple[str, ...], names: tuple[str, ...] = (), **variables: str
) -> str:
    reads = DIALECTS[dialect].authoring.arguments
    return fill_pieces(
        split_pieces(body, PlaceholderForms(reads, names, tuple(variables))),
        reads,
        TemplateValues(arguments, names, variables),
    )


LITERAL = [
    "It costs $1,000 or $1.50.",
    "$10/month, $1/seat",
    "$1M and $1k",
    "from $1-$2",
    "US$1",
    "a$1b",
    "$$1",
    "awk '{print $1}'",
    "regex ^$1$",
    "```sh\nawk '{ print $1 }'\n```",
    "> ~~~\n> set $1 here\n> ~~~",
    "- ```\n  $1\n  ```",
    "```\nnever closed $1",
]
REPLACED = [
    ("Deploy $1 now", "Deploy b now"),
    ("$1", "b"),
    ('Read `$1`, "$1" and ($1).', 'Read `b`, "b" and (b).'),
    ("Is it $1? Then $1, please: $1; $1!", "Is it b? Then b, please: b; b!"),
    ("path=$1\n| $1 |", "path=b\n| b |"),
    ("**$1**", "**b**"),
    ("```sh\nrun $ARGUMENTS\n```", "```sh\nrun a b\n```"),
    ("```\n$1\n```\nthen $1", "```\n$1\n```\nthen b"),
    (r"\$1,000 and \$1", "$1,000 and $1"),
    ("```\necho \\$1\n```", "```\necho $1\n```"),
    ("`` ``` `` is no fence: $1", "`` ``` `` is no fence: b"),
]


def _in_text(body: str) -> str:
    reads = DIALECTS["standard"].authoring.arguments
    return fill_pieces(split_text(body, PlaceholderForms(reads)), reads, TemplateValues("a b"))


@pytest.mark.parametrize("body", LITERAL)
def test_a_price_and_a_field_of_awk_stay_where_the_standard_is_read(body):
    assert _in_text(body) == body


@pytest.mark.parametrize(("body", "becomes"), REPLACED)
def test_a_placeholder_that_stands_alone_is_filled_where_the_standard_is_read(body, becomes):
    assert _in_text(body) == becomes


def test_in_a_command_a_placeholder_may_stand_anywhere():
    forms = PlaceholderForms(DIALECTS["standard"].authoring.arguments)
    parts = split_body("!`cat $1/x`", forms, DIALECTS["standard"].authoring.shell)
    assert isinstance(parts[0], BodyCommand)
    assert any(isinstance(piece, PositionalArgument) for piece in parts[0].pieces)


def test_the_products_that_promise_it_fill_a_placeholder_in_code_too():
    assert filled("claude", "```\n$1\n``` $1,000", "a b") == "```\nb\n``` b,000"


def test_the_first_word_is_one_in_umbra_and_nought_elsewhere():
    assert filled("umbra", "$1", "a b") == "a"
    assert filled("claude", "$0", "a b") == "a"
    assert filled("agentmd", "$0", "a b") == "a"


def test_a_missing_word_is_empty_or_stays_as_the_dialect_has_it():
    assert filled("umbra", "[$3]", "a") == "[]"
    assert filled("claude", "[$3]", "a") == "[$3]"


def test_one_backslash_makes_a_placeholder_literal_and_two_do_not():
    assert filled("claude", r"\$0 \\$0 \$HOME", "a") == r"$0 \\a \$HOME"


def test_declared_names_stand_for_words_and_the_longest_wins():
    assert filled("claude", "$issue_id of $issue", "1 2", names=("issue", "issue_id")) == "2 of 1"


def test_an_unknown_variable_stays_and_a_known_one_is_filled_even_behind_a_backslash():
    assert filled("claude", r"${X} \${CLAUDE_SKILL_DIR}", "", CLAUDE_SKILL_DIR="/s") == r"${X} \/s"


def test_an_absurd_number_is_a_missing_word():
    assert filled("umbra", "${@:2:99999999999999999999} $99999999999999999999", "a b") == "b "
    assert filled("umbra", "$" + "9" * 5000 + "${@:1:" + "9" * 5000 + "}", "a b") == "a b"


@pytest.mark.parametrize("dialect", ["multica", "agenvoy", "openclaw"])
def test_a_dialect_without_placeholders_changes_nothing(dialect: str):
    body = "$1 $ARGUMENTS $@ ${@:2} ${SKILL_DIR}"

    assert filled(dialect, body, "a b") == body


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), st.text(max_size=60), st.text(max_size=40))
def test_nothing_that_was_filled_in_is_read_again(dialect: str, body: str, arguments: str):
    reads = DIALECTS[dialect].authoring.arguments
    found = split_pieces(body, PlaceholderForms(reads))
    kept = "".join(piece for piece in found if isinstance(piece, str))

    assert fill_pieces(found, reads, TemplateValues(())).count("\x00") == kept.count("\x00")
    assert "".join(fill_pieces([piece], reads, TemplateValues(arguments)) for piece in found) == fill_pieces(
        found, reads, TemplateValues(arguments)
    )


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(max_size=60))
def test_splitting_never_fails_and_never_invents_a_letter(text: str):
    for how in ("quotes", "blanks", "shell", "none"):
        words = split_arguments(text, how)
        assert set("".join(words)) <= set(text)
