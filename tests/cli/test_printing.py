"""Nothing that a skill, a file name or a setting says reaches a terminal as anything but text."""

import contextlib
import io
import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.console import Desk

from metier.faces.cli.output import (
    clean_path,
    display_width,
    fit_width,
    format_columns,
    printable,
    problem_lines,
    say_json,
)
from metier.types.problem import Problem
from metier.types.text import clean_line, escape_hidden_in_json, hidden_characters_in, one_line, visible_text

ORDERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)
evil = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Mn"]),
        st.sampled_from("\x1b[]0;m\x07\x9b\r\n\t\x0b\x0c\x85\u2028\u202e\U000e0041\U000e0100"),
    ),
    max_size=60,
)


def harmless(text: str) -> bool:
    return not ORDERS.search(text)


@given(evil)
def test_what_is_shown_on_one_line_is_one_harmless_line(text):
    for shown in (clean_line(text), one_line(text), printable(text), clean_path(text)):
        assert harmless(shown)
    assert harmless(visible_text(text).replace("\n", "").replace("\t", ""))
    assert not hidden_characters_in(clean_line(text))


@given(evil)
def test_flattening_twice_changes_nothing_more(text):
    assert clean_line(clean_line(text)) == clean_line(text)
    assert one_line(one_line(text)) == one_line(text)


@given(
    st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u3164\u115f\u1160\uffa0"), max_size=40)
)
def test_ordinary_text_stays_as_it_is(text):
    assert clean_line(text) == text
    assert one_line(f" {text}  x") == f" {text}  x"


@given(evil, evil, evil)
def test_a_finding_is_harmless_whatever_it_is_about(message, hint, path):
    for line in problem_lines(Problem("binary", "error", message, hint, path, 3)):
        assert harmless(line)


@given(st.lists(st.tuples(evil, evil, evil), max_size=5))
def test_a_table_is_harmless_and_aligned(rows):
    cleaned = [tuple(map(printable, row)) for row in rows]
    lines = format_columns(cleaned)
    assert len(lines) == len(rows)
    assert all(harmless(line) for line in lines)
    assert all(
        display_width(line) <= 100 or display_width(row[0]) + display_width(row[1]) > 60
        for line, row in zip(lines, cleaned, strict=True)
    )


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_cut_text_never_takes_more_room_than_it_was_given(text, room):
    cut = fit_width(clean_line(text), room)
    assert display_width(cut) <= room
    assert cut == clean_line(text) or cut.endswith("…")


@pytest.mark.parametrize(
    ("text", "columns_taken"), [("abc", 3), ("日本", 4), ("🔧", 2), ("e\u0301", 1), ("ｆ", 2), ("é", 1), ("", 0)]
)
def test_wide_characters_take_two_columns_and_combining_ones_none(text, columns_taken):
    assert display_width(text) == columns_taken


@given(
    st.recursive(
        evil, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(evil, inner, max_size=3), max_leaves=6
    )
)
def test_json_is_harmless_and_says_the_same(value):
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    with contextlib.redirect_stdout(out):
        say_json(value)
    out.flush()
    written = out.buffer.getvalue().decode()
    assert harmless(written.replace("\n", ""))
    assert json.loads(written) == value or any("\ud800" <= c <= "\udfff" for c in str(value))


def test_json_for_a_terminal_that_knows_only_ascii_is_still_json():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    with contextlib.redirect_stdout(out):
        say_json({"é": "日本\x9b\U000e0041"})
    out.flush()
    assert json.loads(out.buffer.getvalue()) == {"é": "日本\x9b\U000e0041"}
    assert escape_hidden_in_json("\U000e0041") == "\\udb40\\udc41"


POISON = "\x1b[31m\x9b2J\x07\r\u202e\u2028\U000e0041\x85\x0b"
EVERY = ["list", "list -v", "status", "status -v", "status evil", "why evil", "show evil", "catalog", "commands", "roots --all", "doctor",
         "list --json", "status evil --json", "show evil --json", "why evil --json", "catalog --json", "commands --json", "--dialect multica catalog"]  # fmt: skip


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("poisoned"))
    quoted = '"' + "".join(f"\\U{ord(character):08x}" for character in POISON) + '"'
    desk.skill(
        "evil",
        f"---\nname: evil\ndescription: {quoted}\nargument-hint: {quoted}\nversion: {quoted}\nhomepage: {quoted}\n"
        f"{quoted}: {quoted}\nmetadata:\n  emoji: {quoted}\n  requires:\n    bins: [{quoted}]\n    env: [{quoted}]\n"
        f"    config: [{quoted}]\ninstall:\n  - {{kind: brew, package: {quoted}, label: {quoted}, id: {quoted}}}\n---\n"
        "Body \x1b]0;title\x07 \x9b31m \u202e \x0b\x0c\x85 end\n",
        desk.home / ".super-multica/skills",
    )
    desk.skill("odd\x1b[31m\r", under=desk.skills, text="---\nname: fine\ndescription: d\n---\n")
    desk.skill("bad\x1b[31m", "---\nname: x\n---\n")
    desk.configure('[skills]\n"\\u001b[31m" = 1\n[["\\u009b"]]\n')
    (desk.state / "bundled.json").write_text('{"skills": {}}')
    return desk


@pytest.mark.parametrize("command", EVERY)
def test_no_command_lets_a_skill_speak_to_the_terminal(poisoned, command):
    said = poisoned.say(*command.split())
    assert "Traceback" not in said.err
    assert harmless((said.out + said.err).replace("\n", "")), ascii(said.out + said.err)
    if "evil" in command:
        assert said.code == 0, said.err
    if "--json" in command:
        json.loads(said.out)


@pytest.mark.parametrize(
    "command",
    ["show \x1b[31mx", "why \x9b", "\x1b[31m", "--dialect \x1b[2J list", "--root \x1b[2J list", "commands \x1b[31m"],
)
def test_not_even_what_was_typed_is_echoed_unfiltered(poisoned, command):
    said = poisoned.say(*command.split(" "))
    assert harmless((said.out + said.err).replace("\n", ""))


def test_the_tests_run_where_output_is_utf8():
    assert sys.getfilesystemencoding() == "utf-8"
