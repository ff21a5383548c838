"""The docstrings of the stages number them in order, and each returns what the next one takes."""

import re
from itertools import pairwise
from typing import NamedTuple

import pytest
from scripts.map import STAGES, lines, stages


class Signature(NamedTuple):
    number: int
    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]


def nouns(text: str) -> tuple[str, ...]:
    """`Skills + Facts` as `("skill", "fact")`: a list of a thing is still that thing."""
    return tuple(word.lower().removesuffix("s") for word in re.findall(r"\w+", text))


def read(line: str) -> Signature:
    """What a line such as `2. parse: Found -> Skill` says."""
    match = re.fullmatch(r"(\d+)\. (\w+): (.+)", line)
    assert match, f"not of the form '2. parse: Found -> Skill': {line!r}"
    steps = re.split(r"\s*(?:->|→)\s*", match[3])
    assert len(steps) > 1, f"has no arrow: {line!r}"
    assert all(steps), f"has nothing on one side of an arrow: {line!r}"
    return Signature(int(match[1]), match[2], nouns(steps[0]), nouns(steps[-1]))


SIGNED = stages()


def test_there_is_at_least_one_stage():
    assert SIGNED


@pytest.mark.parametrize("name", SIGNED)
def test_a_stage_opens_with_its_number_name_and_signature(name):
    signature = read(SIGNED[name])
    assert signature.name == name
    assert signature.number == STAGES.index(name) + 1


@pytest.mark.parametrize(("one", "following"), [p for p in pairwise(STAGES) if set(p) <= set(SIGNED)])
def test_a_stage_takes_what_the_one_before_it_gives(one, following):
    gives, takes = read(SIGNED[one]).gives, read(SIGNED[following]).takes
    assert set(gives) & set(takes), f"{SIGNED[one]!r} gives nothing that {SIGNED[following]!r} takes"


def test_the_map_shows_the_stages_first_and_then_every_other_module():
    shown = list(lines())
    assert shown[: len(SIGNED)] == list(SIGNED.values())
    assert not [line for line in shown if line.endswith("has no docstring")]
