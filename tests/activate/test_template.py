"""Placeholders: read once from the author's text, filled once, never read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.activate.template import PlaceholderForms, TemplateValues, fill_pieces, split_arguments, split_pieces
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
