"""config.toml: what it may say, and that every slip in it is named, with its line, and passed over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.dialects import DIALECTS
from metier.dialects.custom import custom_dialect
from metier.parse.config import merge_settings, parse_settings
from metier.types.problem import Finding, Problem, problem_from
from metier.types.settings import ConfiguredRoot, Settings


def read(toml: str) -> tuple[Settings, list[Problem]]:
    marks: list[Finding] = []
    found = parse_settings(toml, marks)
    return found, [problem_from(mark, "config.toml") for mark in marks]


def test_everything_a_configuration_may_say_is_read():
    found, problems = read(
        """
dialect = "openclaw"
plugins = ["~/plugins/a"]
roots = ["~/one", {path = "two", dialect = "umbra", label = "mine"}]
[skills]
allowBundled = ["pdf"]
[skills.entries.pdf]
enabled = false
apiKey = "k"
env = {X = "1"}
config = {depth = 3}
[skills.other]
enabled = false
[limits]
listed = 10
characters = 500
[agents.reviewer]
skills = ["pdf"]
[agents.nobody]
[config.browser]
enabled = true
[dialects.house]
like = "umbra"
"""
    )
    assert problems == []
    assert found.plugins == ("~/plugins/a",)
    assert found.roots == (ConfiguredRoot("~/one"), ConfiguredRoot("two", "umbra", "mine"))
    assert found.allow_bundled == ("pdf",)
    assert found.limits == {"listed": 10, "characters": 500}
    assert found.agents == {"reviewer": ("pdf",), "nobody": None}
    assert found.tree["dialect"] == "openclaw"
    assert not found.entry("pdf").enabled
    assert not found.entry("other").enabled
    assert found.entry("pdf").env == {"X": "1"}
    assert found.entry("pdf").api_key == "k"
    assert found.at("browser.enabled") is True


@pytest.mark.parametrize(
    ("toml", "key", "hint"),
    [
        ("rots = []", "`rots`", "did you mean `roots`?"),
        ("[skill]", "`skill`", "did you mean `skills`?"),
        ("[skills]\nallowbundled = []", "`skills.allowbundled`", "did you mean `skills.allowBundled`?"),
        ("[skills.entries.x]\nenable = true", "`skills.entries.x.enable`", "did you mean `skills.entries.x.enabled`?"),
        ("[skills.x]\napikey = 'k'", "`skills.x.apikey`", "did you mean `skills.x.apiKey`?"),
        ("[limits]\nchars = 3", "`limits.chars`", "characters"),
        ("[[roots]]\npath = 'x'\ndialct = 'umbra'", "`roots[0].dialct`", "did you mean `roots[0].dialect`?"),
        ("[agents.a]\nskils = []", "`agents.a.skils`", "did you mean `agents.a.skills`?"),
        ("[browser]\nenabled = true", "`browser`", "[config]"),
    ],
)
def test_a_key_that_is_no_setting_is_named_with_the_one_that_was_meant(toml, key, hint):
    _, [one] = read(toml)
    assert one.code == "config-unknown-key"
    assert key in one.message
    assert hint in one.hint


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("dialect = 5", "dialect"),
        ("skills = 1", "skills"),
        ("limits = []", "limits"),
        ("agents = 'x'", "agents"),
        ("dialects = 'x'", "dialects"),
        ("config = 1", "config"),
        ("dialects.x = 1", "dialects.x"),
        ("plugins = 'x'", "plugins"),
        ("plugins = [1]", "plugins"),
        ("roots = 5", "roots[0]"),
        ("roots = [{dialect = 'umbra'}]", "roots[0]"),
        ("roots = ['']", "roots[0]"),
        ("roots = [{path = ''}]", "roots[0]"),
        ("[skills]\nallowBundled = 'x'", "skills.allowBundled"),
        ("[skills]\nentries = 1", "entries"),
        ("[skills.entries]\nx = 1", "skills.entries.x"),
        ("[skills.entries.x]\nenabled = 'no'", "skills.entries.x.enabled"),
        ("[skills.entries.x]\napiKey = 5", "skills.entries.x.apiKey"),
        ("[skills.entries.x]\nenv = []", "skills.entries.x.env"),
        ("[skills.entries.x.env]\nA = []", "skills.entries.x.env.A"),
        ("[skills.x]\nenabled = 1", "skills.x.enabled"),
        ("[limits]\nlisted = -1", "limits.listed"),
        ("[limits]\nlisted = true", "limits.listed"),
        ("[limits]\nlisted = 1.5", "limits.listed"),
        ("[agents]\na = 1", "agents.a"),
        ("[agents.a]\nskills = 1", "agents.a.skills"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_and_passed_over(toml, key):
    found, [one] = read(toml)
    assert one.code == "config-type"
    assert f"`{key}`" in one.message
    assert "ignored" in one.message
    assert one.hint.startswith("write ")
    assert found.entry("x").enabled
    assert found.limits == {}


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        ("a = 1\nb = \nc = 2", 2),
        ("a = 1\n\n[x", 3),
        ("x = 'a\n", 1),
        ('x = """', 1),
        ("a = 1\na = 2", 2),
        ("\n\n= 1", 3),
    ],
)
def test_a_syntax_error_gives_its_line_and_column_and_nothing_is_used(toml, line):
    found, [one] = read(toml)
    assert (one.code, one.severity, one.line) == ("config-syntax", "error", line)
    assert one.place == f"config.toml:{line}"
    assert "column" in one.message or "end of document" in one.message
    assert found == Settings()


@pytest.mark.parametrize("toml", ["x = " + "1" * 5_000, "x = " + "[" * 100_000, "x = 2024-13-45", "\0"])
def test_what_no_reader_can_take_is_a_finding_too(toml):
    found, [one] = read(toml)
    assert one.code == "config-syntax"
    assert found == Settings()


values = st.recursive(
    st.sampled_from(["1", "true", '"x"', "[]", "1.5", "1979-05-27"]),
    lambda inner: st.one_of(st.lists(inner, max_size=2).map(lambda some: f"[{', '.join(some)}]"),
                            inner.map(lambda one: f"{{path = {one}, enabled = {one}}}")),
    max_leaves=4,
)  # fmt: skip
keys = st.sampled_from(
    ["dialect", "roots", "plugins", "limits.listed", "limits", "skills", "skills.entries.a", "skills.entries.a.env",
     "skills.a.enabled", "skills.allowBundled", "agents.a", "agents.a.skills", "dialects.a", "config", "nonsense"]
)  # fmt: skip


@given(keys, values)
def test_no_value_at_any_key_is_more_than_a_finding(key, value):
    found, problems = read(f"{key} = {value}")
    assert all(one.message and one.hint for one in problems)
    found.entry("a")
    merge_settings(found, found)
    tables = found.tree.get("dialects", {})
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if isinstance(table, dict):
            custom_dialect(name, table, DIALECTS, [])


def test_the_second_file_says_more_where_both_speak():
    first, _ = read(
        'roots = ["a"]\n[limits]\nlisted = 1\nskills = 2\n[skills.entries.x]\nenabled = false\napiKey = "k"'
    )
    second, _ = read('roots = ["b"]\n[limits]\nlisted = 3\n[skills.entries.x]\nenabled = true')
    both = merge_settings(first, second)
    assert [root.path for root in both.roots] == ["b", "a"]
    assert both.limits == {"listed": 3, "skills": 2}
    assert both.entry("x").enabled
    assert both.entry("x").api_key == "k"


def made(table: dict[str, object], name: str = "house"):
    marks: list[Finding] = []
    return custom_dialect(name, table, DIALECTS, marks), [problem_from(mark) for mark in marks]


def test_a_dialect_of_ones_own_is_like_another_but_for_what_it_says():
    house, problems = made(
        {"like": "umbra", "fields": ["team"], "description": "required", "format": "plain", "description_cut": 80,
         "command_form": "underscore", "indented": False}
    )  # fmt: skip
    assert problems == []
    assert house is not None
    assert house.name == "house"
    assert "team" in house.authoring.fields
    assert house.authoring.description == "required"
    assert not house.authoring.indented
    assert house.authoring.arguments == DIALECTS["umbra"].authoring.arguments
    assert house.serving.listing.format == "plain"
    assert house.serving.listing.description_cut == 80
    assert house.serving.commands.form == "underscore"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"like": "nobody"}, "dialects.house.like"),
        ({"like": 5}, "dialects.house.like"),
        ({"name_rule": "strict"}, "dialects.house.name_rule"),
        ({"indented": "yes"}, "dialects.house.indented"),
        ({"fields": "team"}, "dialects.house.fields"),
        ({"format": "html"}, "dialects.house.format"),
        ({"format": []}, "dialects.house.format"),
        ({"description_cut": "80"}, "dialects.house.description_cut"),
        ({"description_cut": True}, "dialects.house.description_cut"),
        ({"description_cut": 0}, "dialects.house.description_cut"),
        ({"command_form": "snake"}, "dialects.house.command_form"),
        ({"colour": "red"}, "dialects.house.colour"),
    ],
)
def test_a_slip_in_a_dialect_of_ones_own_is_named(table, key):
    _, [one] = made(table)
    assert f"`{key}`" in one.message
    assert one.hint


def test_a_known_dialect_can_not_be_made_anew():
    house, [one] = made({}, "umbra")
    assert house is None
    assert "a new name" in one.hint


def test_a_tier_is_one_there_is_and_an_image_has_a_digest():
    image = "example.org/python@sha256:" + "0" * 64
    found, problems = read(f'[sandbox]\ntier = "docker"\nimage = "{image}"\n')
    assert (found.tree["sandbox"], problems) == ({"tier": "docker", "image": image}, [])
    found, problems = read('[sandbox]\ntier = "none"\nimage = "python:3.12"\nneed = 1\n')
    assert found.tree["sandbox"] == {}
    assert [problem.code for problem in problems] == ["config-type"] * 3
    assert "an image with its digest, NAME@sha256:…" in problems[-1].message


@pytest.mark.parametrize("table", ["[agents.a]\nskils = ['x']", "[agents]\na = 1", "[agents.a]\nskills = 1"])
def test_a_list_that_can_not_be_read_allows_no_skill_rather_than_all(table):
    found, problems = read(table)
    assert problems
    assert found.agents == {"a": ()}


def test_a_project_widens_no_list_of_an_agent_of_the_users():
    first, _ = read("[agents.a]\nskills = ['x']\n")
    second, _ = read("[agents.a]\n[agents.b]\nskills = ['y']\n")
    assert merge_settings(first, second).agents == {"a": ("x",), "b": ("y",)}
