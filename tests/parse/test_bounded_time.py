"""Text that was made to take for ever takes no time."""

import time

import pytest

from metier.dialects import DIALECTS
from metier.parse import jsonc, plain_yaml
from metier.parse.reader import parse
from metier.types.skill import BrokenSkill, Found, Origin, Skill


def cost(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def read(text: str, dialect: str = "claude") -> Skill | BrokenSkill:
    origin = Origin("user", 1, "r", "/r", DIALECTS[dialect])
    return parse(Found(origin, "evil", "/r/evil/SKILL.md", (1, 0, 0, 0), text.encode(), True), DIALECTS)


def test_json_that_could_be_cut_in_many_ways_is_read_in_one():
    assert cost(lambda: plain_yaml.read_plain("metadata: {" + '"": ' * 15_000 + "x}")) < 1


def test_a_number_without_end_is_read_once():
    assert cost(lambda: jsonc.read_json5("{a: " + "1" * 60_000 + "x}")) < 1


def test_line_numbers_are_worked_out_for_few_keys_only():
    block = "metadata:\n  dialect: claude\n  x: [" + "(," * 21_000 + "\u0100\u2028]"
    assert cost(lambda: read(f"---\nname: evil\ndescription: d\n{block}\n---\n")) < 2


@pytest.mark.parametrize("hint", ['{"a": "b"}', "[a, b]"])
def test_a_hint_is_its_source_text_whichever_reader_sees_it(hint: str):
    plain = read(f"---\nname: evil\ndescription: d\nargument-hint: {hint}\n---\n")
    yaml = read(f"---\nname: evil\ndescription: d # seen by yaml\nargument-hint: {hint}\n---\n")
    assert isinstance(plain, Skill)
    assert isinstance(yaml, Skill)
    assert plain.argument_hint == yaml.argument_hint == hint


def test_frontmatter_that_waited_is_never_lost():
    skill = read("---\nname: evil\ndescription: d\nallowed-tools: Bash, Write\nhooks: x\ntags: [-a]\n---\n")
    assert isinstance(skill, Skill)
    assert skill.allowed_tools == ("Bash", "Write")
    assert skill.extra.text("hooks") == "x"
