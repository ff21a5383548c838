"""One member of a JSON file is changed, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.parse.jsonc import BadJson, with_member, without_member

SETTINGS = """// My settings
{
    // The theme
    "theme": "One Dark", /* really */
    "servers": {
        "other": { "command": "x", "args": ["//", "/*"] }, // keep
    },
    "last": [1, 2, 3,],
}
"""


def test_a_new_member_stands_behind_the_others_and_all_comments_stay():
    changed = with_member(SETTINGS, ("servers", "metier"), {"command": "m"})

    assert changed == SETTINGS.replace(
        '["//", "/*"] }',
        '["//", "/*"] },\n        "metier": {\n            "command": "m"\n        }',
    )
    assert without_member(changed, ("servers", "metier")) == SETTINGS


def test_objects_on_the_way_are_made():
    assert json.loads(with_member("", ("a", "b"), 1)) == {"a": {"b": 1}}
    assert json.loads(with_member("{}", ("a", "b"), 1)) == {"a": {"b": 1}}
    assert with_member('{"x": 1}', ("a",), 2) == '{"x": 1,\n"a": 2}'


def test_a_member_that_is_there_is_replaced_in_its_place():
    assert with_member('{"a": {"b": [1, {}]}, "c": 2}', ("a", "b"), 5) == '{"a": {"b": 5}, "c": 2}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2}'),
        ('{"b": 2, "a": 1}', '{"b": 2}'),
        ('{"b": 2, "a": 1, "c": 3}', '{"b": 2, "c": 3}'),
        ('{"a": 1,}', "{}"),
        ('{"b": 2, "a": 1,}', '{"b": 2,}'),
        ('{"b": 2}', '{"b": 2}'),
        ("", ""),
    ],
)
def test_a_member_is_taken_out_with_its_comma(text, left):
    assert without_member(text, ("a",)) == left


def test_nothing_is_taken_out_of_what_is_not_there():
    assert without_member('{"a": 1}', ("servers", "metier")) == '{"a": 1}'
    assert without_member('{"servers": []}', ("servers", "metier")) == '{"servers": []}'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n"a": }', 2),
        ('{"a" 1}', 1),
        ('{"a": 1 "b": 2}', 1),
        ('{\n\n"a', 3),
        ("{} {}", 1),
        ("/* no end", 1),
        ("[" * 200, 1),
        ("{a: 1}", 1),
        ('{"servers": 5}', 1),
    ],
)
def test_what_is_no_such_file_is_said_with_its_line(text, line):
    with pytest.raises(BadJson) as raised:
        with_member(text, ("servers", "metier"), {})
    assert raised.value.line == line


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    whole=st.dictionaries(st.text(max_size=3), VALUES, max_size=4),
    key=st.text(max_size=3),
    value=VALUES,
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_the_text_means_what_a_dictionary_would(whole, key, value, indent):
    text = json.dumps(whole, indent=indent, ensure_ascii=False)

    assert json.loads(with_member(text, (key,), value)) == {**whole, key: value}
    assert json.loads(without_member(text, (key,))) == {name: one for name, one in whole.items() if name != key}
