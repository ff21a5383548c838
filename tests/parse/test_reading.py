"""From bytes to a skill: fences, text, YAML, repair and the rules of each dialect, one sentence each."""

import time
from pathlib import Path

import pytest

from metier.dialects import DIALECTS
from metier.parse import frontmatter
from metier.parse.document import split_frontmatter
from metier.parse.reader import parse, parse_body
from metier.types.problem import CODE_FAMILIES
from metier.types.skill import BrokenSkill, Found, Origin, Skill

KEY = (1, 0, 0, 0)


def read(text, dialect="standard", directory="s", whole=True):
    data = text if isinstance(text, bytes) else text.encode()
    origin = Origin("user", 1, "root", "/skills", DIALECTS[dialect])
    return parse(Found(origin, directory, f"/skills/{directory}/SKILL.md", KEY, data, whole), DIALECTS)


def head(block, dialect="standard", directory="s", body="Body\n"):
    return read(f"---\n{block}\n---\n{body}", dialect, directory)


def codes(made):
    return [mark.code for mark in made.findings]


def place(made, code):
    return next(mark.line for mark in made.findings if mark.code == code)


def loads(made):
    return isinstance(made, Skill)


LENIENT_WITHOUT_FENCE = {"umbra", "agenvoy", "claude"}
OWN = ("name: s\ndescription: d",)


# Fences


def test_a_fence_in_a_value_does_not_end_the_block():
    assert head("name: s\ndescription: see --- below").description == "see --- below"
    assert head('name: s\ndescription: "a --- b"').description == "a --- b"


def test_four_hyphens_inside_a_quoted_text_do_not_end_the_block():
    made = head('name: s\ndescription: "a\n  ----\n  b"')

    assert made.description == "a ---- b"


def test_an_indented_fence_inside_a_block_scalar_does_not_end_the_block():
    assert head("name: s\ndescription: |\n  a\n  ---\n  b").description == "a\n---\nb"


def test_rules_in_the_body_change_nothing():
    text = "---\nname: s\ndescription: d\n---\n\n# T\n\n---\n\nend\n\n"

    assert read(text).description == "d"
    assert parse_body(text.encode(), DIALECTS["standard"]) == ("# T\n\n---\n\nend", ())


@pytest.mark.parametrize("opening", ["---js", "---toml", "----", "+++", "***", " ---", "--- x", "-- -"])
def test_an_opening_that_is_not_a_fence_is_no_frontmatter(opening):
    made = read(f"{opening}\nname: s\ndescription: d\n---\n")

    assert codes(made) == ["no-frontmatter"]
    assert place(made, "no-frontmatter") == 1


@pytest.mark.parametrize("before", ["\n", "# Title\n", " \n", "\t\n", "<!-- c -->\n"])
def test_anything_before_the_first_fence_is_no_frontmatter(before):
    assert codes(read(before + "---\nname: s\ndescription: d\n---\n")) == ["no-frontmatter"]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_file_without_frontmatter_is_a_body_where_the_dialect_says_so(dialect):
    made = read("Do it.\n\nMore.\n", dialect)

    assert loads(made) == (dialect in LENIENT_WITHOUT_FENCE)
    assert "no-frontmatter" in codes(made)
    assert made.problems[0].severity == ("warning" if loads(made) else "error")


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_unclosed_file_loads_only_where_an_open_header_counts_as_none(dialect):
    made = read("---\nname: other\ndescription: d\n\nBody\n", dialect)

    assert loads(made) == (dialect == "agenvoy")
    assert place(made, "unclosed-frontmatter") == 1
    if loads(made):
        assert (made.name, made.description) == ("s", "")


def test_three_dots_do_not_close_the_block():
    assert codes(read("---\nname: s\ndescription: d\n...\nBody\n")) == ["unclosed-frontmatter"]


def test_a_file_may_end_right_after_the_closing_fence():
    for end in ("", " ", "\n", "\r\n"):
        text = f"---\nname: s\ndescription: d\n---{end}"
        assert read(text).description == "d"
        assert parse_body(text.encode(), DIALECTS["standard"]) == ("", ())


def test_blanks_may_follow_both_fences():
    assert read("---  \nname: s\ndescription: d\n---\t \nBody").description == "d"


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
def test_an_evenly_indented_file_is_read_in_one_dialect_only(indent):
    text = "".join(
        f"{indent}{line}\n" for line in ("---", "name: s", "description: d", "metadata:", "  a: b", "---", "Body")
    )
    made = read(text, "umbra")

    assert (made.name, made.description) == ("s", "d")
    assert made.extra.plain() == {"metadata": {"a": "b"}}
    assert parse_body(text.encode(), DIALECTS["umbra"])[0] == "Body"
    assert codes(read(text, "standard")) == ["no-frontmatter"]


def test_cut_finds_the_first_line_that_is_a_fence():
    assert split_frontmatter("---\na: b\n--- x\n---\nbody\n---\n") == ("a: b\n--- x", "body\n---\n", True, 0)
    assert split_frontmatter("---\n---\n") == ("", "", True, 0)
    assert split_frontmatter("---") == (None, "---", True, 0)
    assert split_frontmatter("") == (None, "", False, 0)


# Bytes and lines


def test_a_byte_order_mark_is_removed_and_reported():
    made = read("\ufeff---\nname: s\ndescription: d\n---\n")

    assert made.description == "d"
    assert codes(made) == ["bom-stripped"]
    assert made.problems[0].severity == "info"
    assert made.problems[0].line == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_kind_of_line_end_gives_the_same_skill(end, dialect):
    text = "---\nname: s\ndescription: |\n  a\n  b\n---\nBody\n\nEnd\n".replace("\n", end)

    assert read(text, dialect).description == "a\nb"
    assert parse_body(text.encode(), DIALECTS[dialect])[0] == "Body\n\nEnd"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_other_encodings_are_named_and_never_a_crash(encoding, dialect):
    made = read("---\nname: s\ndescription: dé\n---\n".encode(encoding), dialect)

    assert isinstance(made, BrokenSkill)
    assert codes(made)[0] in ("not-utf8", "nul-byte")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_bytes_that_are_not_text_are_placed_on_their_line(end):
    latin = b"---\nname: s\ndescription: caf\xe9\n---\n".replace(b"\n", end)
    nul = b"---\nname: s\ndescription: d\n---\na\0b".replace(b"\n", end)

    assert (codes(read(latin)), place(read(latin), "not-utf8")) == (["not-utf8"], 3)
    assert (codes(read(nul)), place(read(nul), "nul-byte")) == (["nul-byte"], 5)


@pytest.mark.parametrize("data", [b"\xed\xa0\x80", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80", b"\x80"])
def test_encoded_surrogates_and_overlong_forms_are_not_utf8(data):
    assert codes(read(b"---\nname: s\ndescription: " + data + b"\n---\n")) == ["not-utf8"]


def test_a_head_that_ends_inside_a_character_is_not_faulty():
    data = "---\nname: s\ndescription: d\n---\né".encode()[:-1]

    assert read(data, whole=False).description == "d"
    assert codes(read(data)) == ["not-utf8"]


def test_an_empty_file_is_no_frontmatter():
    assert codes(read(b"")) == ["no-frontmatter"]
    assert codes(read(b"", "agenvoy"))[0] == "no-frontmatter"
    assert loads(read(b"", "agenvoy"))


# What is no mapping


@pytest.mark.parametrize("block", ["", "# only a comment", "- a\n- b", "just text", '""', "[a]", "42", "~"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_frontmatter_that_is_no_mapping_is_named(block, dialect):
    made = head(block, dialect)

    assert "not-a-mapping" in codes(made)
    assert place(made, "not-a-mapping") == 2
    assert loads(made) == (dialect in LENIENT_WITHOUT_FENCE)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_yaml_beyond_repair_is_named_with_its_line_and_a_cure(dialect):
    made = head("name: s\n}{ not yaml [", dialect, body="First line.\n")

    assert loads(made) == (dialect in LENIENT_WITHOUT_FENCE)
    assert place(made, "invalid-yaml") == 3
    problem = next(one for one in made.problems if one.code == "invalid-yaml")
    assert problem.severity == "error"
    assert problem.hint
    if loads(made):
        assert made.name == "s"
        assert made.description == ("" if dialect == "agenvoy" else "First line.")


# Repair


@pytest.mark.parametrize(
    "value",
    ["Use when: x", "*bold* start", "@someone asks", "`code` first", "% done", "& more", "! now", "[a] b", "{a} b", "a: b: c",
     "*.py files", "&anchor text", "!important", "> text after the sign", "| text after the sign", '"quoted" then more',
     "'quoted' then more", "\"unclosed", "[unclosed", "{unclosed", "C:\\x: y", "http://a.b: c", "- a: b: c", "? a: b: c",
     "{{ template }}", "a: b # c", "x: ]", "key: 'it's'"],
)  # fmt: skip
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_description_at_fault_is_taken_as_plain_text(value, dialect):
    made = head(f"name: s\ndescription: {value}", dialect)

    assert loads(made)
    assert made.description == value
    assert place(made, "yaml-repaired") == 3
    assert made.problems[0].severity == "warning"
    assert "description" in made.problems[0].message


@pytest.mark.parametrize(
    "value", ["C:\\Temp", "http://a.b/c", "a:b", "10:30", "50% off", "a - b", "x#y", "a, b", "it's", 'say "hi"']
)
def test_a_value_that_yaml_accepts_is_left_alone(value):
    made = head(f"name: s\ndescription: {value}")

    assert made.description == value
    assert codes(made) == []


def test_a_comment_after_a_valid_value_stays_a_comment():
    assert head("name: s\ndescription: d # a comment").description == "d"


def test_repair_leaves_valid_values_as_they_were():
    made = head(
        "name: s\ndescription: Use when: y\nmetadata:\n  requires:\n    bins: [git, node]\n  tags:\n    - a\n    - b\n"
        'license: "MIT"\ncompatibility: >\n  one\n  two\nallowed-tools: [Read, Grep]'
    )

    assert made.extra.plain() == {
        "metadata": {"requires": {"bins": ["git", "node"]}, "tags": ["a", "b"]},
        "license": "MIT",
        "compatibility": "one two",
        "allowed-tools": ["Read", "Grep"],
    }
    assert codes(made) == ["yaml-repaired"]


def test_several_values_at_fault_are_each_reported():
    made = head("name: s\ndescription: a: b\nlicense: c: d\nargument-hint: [x] [y]")

    assert [(mark.code, mark.line) for mark in made.findings] == [
        ("yaml-repaired", 3),
        ("yaml-repaired", 4),
        ("yaml-repaired", 5),
    ]
    assert made.argument_hint == "[x] [y]"


def test_a_plain_value_over_several_lines_is_repaired_as_one():
    assert head("name: s\ndescription: Use when: x\n  and also: y").description == "Use when: x and also: y"


def test_tabs_in_the_indentation_are_read_as_spaces_and_reported():
    made = head("name: s\ndescription: d\nmetadata:\n\tauthor: me")

    assert made.extra.plain() == {"metadata": {"author": "me"}}
    assert place(made, "yaml-repaired") == 5
    assert "tabs" in made.problems[0].message


@pytest.mark.parametrize("line", ["paths: *.py", "paths: **/*.ts", "allowed-tools: *", "tags: @team"])
def test_a_pattern_that_looks_like_an_alias_is_text(line):
    made = head(f"name: s\ndescription: d\n{line}", "claude")

    assert loads(made)
    assert made.description == "d"
    assert place(made, "yaml-repaired") == 4


@pytest.mark.parametrize("line", ["metadata: {a: b", "metadata:\n  a: b: c", "config: [", "install: *x"])
def test_structure_at_fault_is_not_guessed(line):
    assert codes(head(f"name: s\ndescription: d\n{line}"))[-1] == "invalid-yaml"


@pytest.mark.parametrize("blank", ["  ", "\t"])
@pytest.mark.parametrize("dialect", ["standard", "umbra"])
def test_a_key_that_slipped_to_the_right_is_no_part_of_the_text_above_it(dialect, blank):
    made = head(f"name: s\n{blank}description: d", dialect)

    assert codes(made)[0] == "invalid-yaml"
    assert "description: d" not in getattr(made, "name", "")


# What is refused


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('metadata: !!python/object/apply:os.system ["echo pwned"]', "tags"),
        ("metadata: !!python/name:os.system", "tags"),
        ("metadata: !include /etc/passwd", "tags"),
        ("description: !!str text", "tags"),
        ("metadata: !<tag:yaml.org,2002:str> x", "tags"),
        ("metadata: &a {x: y}", "anchors"),
        ("metadata:\n  a: &a [x]\n  b: *a", "anchors"),
        ("metadata:\n  b: *a", "aliases"),
        ("metadata:\n  <<: {a: b}", "merge"),
        ("<<: {a: b}", "merge"),
        ("--- x\nb: c", "document"),
        ("...\nb: c", "document"),
    ],
)
@pytest.mark.parametrize("dialect", ["standard", "agentmd", "multica", "openclaw"])
def test_tags_anchors_aliases_merge_keys_and_second_documents_are_refused(line, word, dialect):
    key = "name: s\n" if line.startswith("description") else "name: s\ndescription: d\n"
    made = head(key + line, dialect)

    assert isinstance(made, BrokenSkill)
    assert codes(made)[-1] == "invalid-yaml"
    assert word in made.problems[-1].message
    assert made.problems[-1].hint
    assert made.problems[-1].line > 2


BOMBS = {
    "brackets": "metadata: " + "[" * 60_000,
    "braces": "metadata: " + "{a: " * 15_000,
    "dashes": "metadata:\n  " + "- " * 30_000 + "x",
    "questions": "? " * 30_000,
    "nested": "\n".join(" " * depth + "a:" for depth in range(300)),
    "laughs": "metadata:\n  a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(f"  {chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(9)),
    "anchors": "metadata: [" + "&a x, " * 8_000 + "]",
    "keys": "\n".join(f"k{number}: [x]" for number in range(5_000)),
    "colons": "metadata: " + ": " * 30_000,
    "quotes": "metadata: " + "'\"" * 30_000,
    "json": "metadata: '{" + "/*" * 30_000 + "'",
    "line": "description: " + "x" * 1_000_000,
    "long": "\n".join(f"# {'x' * 97}" for _ in range(1_000)),
}  # fmt: skip


@pytest.mark.parametrize("bomb", sorted(BOMBS))
@pytest.mark.parametrize("dialect", ["standard", "openclaw", "claude"])
def test_a_bomb_costs_little_and_is_named(bomb, dialect):
    # The best of three: on a busy machine one try may cost twice what the work does.
    costs = []
    for _ in range(3):
        start = time.process_time()
        made = head(f"name: s\n{BOMBS[bomb]}", dialect)
        costs.append(time.process_time() - start)
        if costs[-1] < 0.5:
            break

    assert min(costs) < 0.5
    assert isinstance(made, BrokenSkill) or dialect == "claude"
    assert codes(made)


def test_brackets_in_plain_text_are_text():
    made = head("name: s\ndescription: " + "a[" * 70)

    assert made.description == "a[" * 70
    assert codes(made) == []


def test_sixty_four_levels_are_read_and_one_more_is_not():
    assert loads(head("name: s\ndescription: d\nmetadata: " + "[" * 63 + "]" * 63))
    assert "nested" in head("name: s\ndescription: d\nmetadata: " + "[" * 64 + "]" * 64).problems[-1].message


def test_frontmatter_of_65536_characters_is_read_and_one_more_is_not():
    block = "name: s\ndescription: d\nlicense: "
    assert loads(head(block + "x" * (frontmatter.LONGEST_BLOCK - len(block))))
    made = head(block + "x" * (frontmatter.LONGEST_BLOCK - len(block) + 1))
    assert codes(made) == ["invalid-yaml"]
    assert "longer" in made.problems[0].message


def test_frontmatter_that_goes_on_past_the_head_is_too_long_rather_than_unclosed():
    data = ("---\nname: s\ndescription: " + "x" * 69_000).encode()

    assert codes(read(data, whole=False)) == ["invalid-yaml"]
    assert codes(read(data, whole=True)) == ["unclosed-frontmatter"]


@pytest.mark.parametrize("character", ["\x01", "\x07", "\x1b", "\x7f"])
def test_a_control_character_is_named_with_its_line(character):
    made = head(f"name: s\n# é é é\ndescription: a{character}b")

    assert codes(made) == ["invalid-yaml"]
    assert place(made, "invalid-yaml") == 4
    assert f"U+{ord(character):04X}" in made.problems[0].message
    assert "lint --fix" in made.problems[0].hint


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029"])
def test_lines_are_counted_as_files_count_them(odd):
    made = head(f"name: s\ndescription: 'a{odd}b'\nmetadata: &x y")

    assert place(made, "invalid-yaml") == 4
    assert loads(head(f"name: s\ndescription: d\nmetadata:\n- {odd}\n- "))


# Scalars


@pytest.mark.parametrize(
    "written",
    ["3000", "1.10", "2024-01-01", "on", "true", "null", "~", "1e3", "0x1F", "0o17", "1_000", ".5", "NaN", "12:30:45"],
)
@pytest.mark.parametrize("dialect", ["multica", "claude"])
def test_scalars_keep_their_source_text(written, dialect):
    made = head(
        f"name: {written}\ndescription: {written}\nversion: {written}\nmetadata:\n  v: {written}\n  w: [{written}]",
        dialect,
    )

    assert (made.name, made.description) == (written, written)
    assert made.extra.plain() == {"version": written, "metadata": {"v": written, "w": [written]}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [("|\n  a\n  b\n", "a\nb"), ("|-\n  a\n  b", "a\nb"), ("|+\n  a\n\n", "a"), (">\n  a\n  b\n", "a b"), (">-\n  a\n\n  b", "a\nb"),
     ("|2\n    a", "  a"), ("|\n\n  a\n\n\n  b", "a\n\n\nb"), ("'a\n  b'", "a b"), ('"a\\nb"', "a\nb"), ("a\n  b", "a b")],
)  # fmt: skip
def test_values_over_several_lines_lose_only_the_line_breaks_at_their_end(written, expected):
    assert head(f"name: s\ndescription: {written}\nlicense: MIT", "claude").description.strip() == expected.strip()


@pytest.mark.parametrize("word", ["true", "TRUE", "True", "yes", "Yes", "on", "ON", "1", '"true"', "'yes'", '" on "'])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_words_for_yes_are_yes_in_any_case(word, dialect):
    made = head(f"name: s\ndescription: d\ndisable-model-invocation: {word}\nuser-invocable: {word}", dialect)

    assert (made.model_may_invoke, made.user_may_invoke) == (False, True)


@pytest.mark.parametrize("word", ["false", "FALSE", "no", "No", "off", "OFF", "0", '"false"', "'0'"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_words_for_no_are_no_in_any_case(word, dialect):
    made = head(f"name: s\ndescription: d\ndisable-model-invocation: {word}\nuser-invocable: {word}", dialect)

    assert (made.model_may_invoke, made.user_may_invoke) == (True, False)


@pytest.mark.parametrize("word", ["", "maybe", "2", "[true]", "{a: b}", "y", "null", "nope"])
def test_any_other_word_is_the_default(word):
    made = head(f"name: s\ndescription: d\ndisable-model-invocation: {word}\nuser-invocable: {word}")

    assert (made.model_may_invoke, made.user_may_invoke) == (True, True)


@pytest.mark.parametrize(
    ("kebab", "value"),
    [("argument-hint", "<x>"), ("user-invocable", "no"), ("disable-model-invocation", "yes"), ("allowed-tools", "Read"),
     ("disallowed-tools", "Bash"), ("command-dispatch", "tool"), ("command-tool", "t"), ("command-arg-mode", "raw")],
)  # fmt: skip
def test_keys_may_be_spelled_with_underscores_or_in_camel_case(kebab, value):
    first, *rest = kebab.split("-")
    for dialect in DIALECTS:
        made = [
            head(f"name: s\ndescription: d\n{key}: {value}", dialect)
            for key in (kebab, kebab.replace("-", "_"), first + "".join(part.title() for part in rest))
        ]
        plain = [(one.argument_hint, one.user_may_invoke, one.model_may_invoke, one.extra) for one in made]
        assert plain[0] == plain[1] == plain[2]
        assert [("unknown-field" in codes(one)) for one in made].count("unknown-field" in codes(made[0])) == 3


@pytest.mark.parametrize(
    ("written", "expected"),
    [("[issue-number]", "[issue-number]"), ("[a, b]", "[a, b]"), ("[a] [b]", "[a] [b]"), ("42", "42"), ("1.10", "1.10"), ("<a> | <b>", "<a> | <b>"),
     ('"[x]"', "[x]"), ("[a] # c", "[a]"), ("{a: b}", "{a: b}"), ("\n  - a\n  - b", "- a\n  - b"), ("[]", "[]"), ("true", "true"), ("[a,,b]", "[a,,b]")],
)  # fmt: skip
@pytest.mark.parametrize("key", ["argument-hint", "argument_hint", "argumentHint"])
def test_an_argument_hint_is_its_source_text(written, expected, key):
    assert head(f"name: s\ndescription: d\n{key}: {written}").argument_hint == expected


def test_a_hint_inside_metadata_is_an_ordinary_value():
    assert head("name: s\ndescription: d\nmetadata:\n  argument-hint: [a]").extra.plain() == {
        "metadata": {"argument-hint": ["a"]}
    }


# Fields


@pytest.mark.parametrize(
    "block",
    [
        "name: s\nname: t\ndescription: d",
        "name: s\ndescription: d\nmetadata:\n  a: b\n  a: c",
        "name: s\ndescription: d\nmetadata: {a: b, a: c}",
    ],
)
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_key_that_occurs_twice_is_reported_and_the_last_counts(block, dialect):
    made = head(block, dialect)

    assert loads(made)
    assert place(made, "duplicate-key") == (3 if block.startswith("name: s\nname") else 6 if "\n  a" in block else 4)
    if block.startswith("name: s\nname"):
        assert made.name == "t"


@pytest.mark.parametrize("key", ["name", "description"])
@pytest.mark.parametrize("value", ["[a]", "{a: b}", "\n  - a", "\n  a: b"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_list_or_map_in_place_of_text_is_an_error_on_its_line(key, value, dialect):
    other = "description: d" if key == "name" else "name: s"
    made = head(f"{other}\n{key}: {value}", dialect)

    assert place(made, "field-type") == 3
    assert next(one for one in made.problems if one.code == "field-type").severity == "error"
    assert loads(made) == (dialect in LENIENT_WITHOUT_FENCE)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("line", ["", 'name: ""\n', 'name: "   "\n', "name:\n"])
def test_a_missing_name_is_the_folder_except_where_it_must_be_given(dialect, line):
    made = head(f"{line}description: d", dialect, "folder")

    assert loads(made) == (dialect != "multica")
    assert "missing-name" in codes(made)
    assert next(one for one in made.problems if one.code == "missing-name").severity == (
        "error" if dialect == "multica" else "warning"
    )
    if loads(made):
        assert made.name == "folder"


WRONG = ["Bad", "a b", "-x", "x-", "a--b", "a_b", "café", "技能", "a.b", "a/b", "x" * 65]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_name_meets_the_rule_of_its_dialect_or_is_reported(name, dialect):
    made = head(f'description: d\nname: "{name}"', dialect, name)
    rule = DIALECTS[dialect].authoring.name_rule
    word = all(one.isascii() and (one.isalnum() or one in "-_") for one in name)

    assert loads(made) == (rule != "word" or word)
    assert ("name-invalid" in codes(made)) == ((rule == "kebab" and len(name) < 65) or (rule == "word" and not word))
    assert ("name-too-long" in codes(made)) == (len(name) > 64 and rule != "free")
    for mark in made.findings:
        assert mark.line == 3


def test_sixty_four_characters_are_not_too_long():
    for dialect in DIALECTS:
        assert codes(head(f"name: {'n' * 64}\ndescription: d", dialect, "n" * 64)) == []


def test_a_name_that_differs_from_its_folder_is_reported_in_the_standard_only():
    for dialect in DIALECTS:
        made = head("description: d\nname: other", dialect, "folder")
        assert made.name == "other"
        assert codes(made) == (["name-mismatch"] if dialect == "standard" else [])
        assert all(mark.line == 3 for mark in made.findings)


def test_composed_and_decomposed_letters_are_the_same_name():
    assert codes(head("name: cafe\u0301\ndescription: d", directory="caf\u00e9")) == []
    assert codes(head("name: caf\u00e9\ndescription: d", directory="cafe\u0301")) == []


@pytest.mark.parametrize("line", ["", "description:\n", 'description: "  "\n'])
@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        ("umbra", "\n\n## First line\nsecond\n", "First line"),
        ("umbra", "#\n\nReal text\n", "Real text"),
        ("umbra", "y" * 250, "y" * 200),
        ("umbra", "", None),
        ("umbra", "\n \n#\n", None),
        ("claude", "One\ntwo\n \nthree", "One two"),
        ("claude", "# Title\ntext", "text"),
        ("claude", "\n# Title\n\n## More\n\nOne\ntwo\n# Next\nthree", "One two"),
        ("claude", "# Title\n\n## More\n", "Title"),
        ("claude", "", ""),
        ("agentmd", "Text", ""),
        ("agenvoy", "Text", ""),
        ("multica", "Text", ""),
        ("openclaw", "Text", None),
        ("standard", "Text", None),
    ],
)
def test_a_missing_description_is_what_the_dialect_says(line, dialect, body, expected):
    made = head(f"name: s\n{line}metadata:\n  a: b", dialect, body=body)

    if expected is None:
        assert codes(made) == ["missing-description"]
        assert place(made, "missing-description") == (3 if line else 1)
    else:
        assert made.description == expected
        assert codes(made) == (["description-from-body"] if expected else [])


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_description_of_1024_characters_is_fine_and_one_more_is_reported(dialect):
    assert codes(head(f"name: s\ndescription: {'é' * 1024}", dialect)) == []
    made = head(f"name: s\ndescription: {'é' * 1025}", dialect)
    assert codes(made) == ["description-too-long"]
    assert place(made, "description-too-long") == 3
    assert len(made.description) == 1025


def test_compatibility_is_judged_where_the_dialect_knows_it():
    for dialect, known in (("standard", True), ("claude", True), ("umbra", False)):
        empty = head('name: s\ndescription: d\ncompatibility: ""', dialect)
        long = head(f"name: s\ndescription: d\ncompatibility: {'x' * 501}", dialect)
        fine = head(f"name: s\ndescription: d\ncompatibility: {'x' * 500}", dialect)
        assert codes(empty) == (["compatibility-empty"] if known else ["unknown-field"])
        assert codes(long) == (["compatibility-too-long"] if known else ["unknown-field"])
        assert codes(fine) == ([] if known else ["unknown-field"])
        assert all(mark.line == 4 for mark in (*empty.findings, *long.findings, *fine.findings))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_unknown_keys_are_kept_and_named_once(dialect):
    made = head("name: s\ndescription: d\nzebra: 1\nyak: [a]", dialect)

    assert codes(made) == ["unknown-field"]
    assert place(made, "unknown-field") == 4
    assert "zebra, yak" in made.problems[0].message
    assert made.problems[0].severity == "info"
    assert made.extra.plain() == {"zebra": "1", "yak": ["a"]}


@pytest.mark.parametrize(
    "written",
    [
        "Read Grep",
        "Read, Grep",
        "[Read, Grep]",
        "\n  - Read\n  - Grep",
        '["Read, Grep"]',
        "'Read,Grep,'",
        ">\n  Read\n  Grep",
    ],
)
def test_tools_are_one_list_however_they_are_written(written):
    assert head(f"name: s\ndescription: d\nallowed-tools: {written}").allowed_tools == ("Read", "Grep")


def test_brackets_keep_a_tool_together_and_unbalanced_ones_are_reported():
    made = head("name: s\ndescription: d\nallowed-tools: Bash(git add *) Bash(git commit *)")
    assert made.allowed_tools == ("Bash(git add *)", "Bash(git commit *)")
    assert " ".join(made.allowed_tools) == "Bash(git add *) Bash(git commit *)"
    for key in ("allowed-tools", "allowed_tools", "allowedTools"):
        bad = head(f"name: s\ndescription: d\n{key}: Bash(git add *")
        assert (codes(bad), bad.allowed_tools) == (["tools-invalid"], ())
        assert place(bad, "tools-invalid") == 4


def test_the_dialect_named_in_the_metadata_is_the_one_that_counts():
    made = head("name: s\nmetadata:\n  dialect: umbra", "standard", body="First line\n")

    assert made.origin.dialect.name == "umbra"
    assert made.description == "First line"
    assert loads(head("name: s\ndescription: d\nmetadata:\n  dialect: nobody", "standard"))


# Every code of the reading family that a file's text can bring about is brought about somewhere here.


def test_a_field_without_effect_is_marked_and_costs_nothing_else():
    place = Origin("user", 1, "root", "/skills", DIALECTS["claude"])
    head = b"---\nname: one\neffort: high\n---\nB.\n"
    found = parse(Found(place, "one", "/skills/one/SKILL.md", (1, 0, 0, 0), head, True), DIALECTS)
    assert isinstance(found, Skill)
    assert "not-supported" in {finding.code for finding in found.findings}
    assert found.extra.text("effort") == "high"


def test_every_reading_code_is_known_to_these_tests():
    source = Path(__file__).read_text(encoding="utf-8")
    outside = {"not-found", "not-a-directory", "missing-skill-md", "too-large"}  # of folders: test_strict.py

    assert not [code for code in CODE_FAMILIES["reading"] if f'"{code}"' not in source and code not in outside]
