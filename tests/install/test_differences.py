"""Differences of texts: as `diff -u` writes them, in about the time it takes to read long ones."""

from __future__ import annotations

from difflib import unified_diff
from random import Random
from time import process_time

import pytest

from metier.install.merge import diff_texts, merge_texts


def lines(*parts: object) -> str:
    return "".join(f"{part}\n" for part in parts)


def put_together(before: str, difference: list[str]) -> str:
    """The later text, from the earlier one and what differs."""
    old, out, at = before.splitlines(), [], 0
    for line in difference[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (count != "0")
            out += old[at:first]
            at = first
        else:
            at += line[0] in " -"
            out += [line[1:]] if line[0] in " +" else []
    return lines(*out, *old[at:])


def changed(text: str, random: Random, letters: str) -> str:
    out = text.splitlines()
    for _ in range(random.randrange(8)):
        at = random.randrange(len(out) + 1)
        out[at : at + random.randrange(4)] = [random.choice(letters)] * random.randrange(3)
    return lines(*out)


@pytest.mark.parametrize("letters", ["ab", "abcdefghijklmnopqrstuvwxyz"])
def test_a_short_difference_is_what_diff_writes(letters: str):
    random = Random(7)
    for _ in range(50):
        before = lines(*random.choices(letters, k=random.randrange(60)))
        after = changed(before, random, letters)
        names = "a/x" if before else "/dev/null", "b/x" if after else "/dev/null"
        assert diff_texts("x", before, after) == list(
            unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
        )


@pytest.mark.parametrize("letters", ["ab", "abcdefghijklmnopqrstuvwxyz"])
def test_a_long_difference_says_what_became_of_every_line(letters: str):
    random = Random(7)
    for _ in range(10):
        before = lines(*(random.choice((place, random.choice(letters))) for place in range(700)))
        after = changed(before, random, letters)
        found = diff_texts("x", before, after)
        assert put_together(before, found) == after
        assert len(found) < 200


LONG = [
    (lines(*range(14_000)), lines(*(place if place % 2 else f"x{place}" for place in range(14_000)))),
    (lines(*range(50_000)), lines(*range(50_000, 0, -1))),
    (lines(*("ab" * 40_000)), lines(*("baa" * 30_000))),
    ("a\n" * 90_000, "a\n" * 50_000 + "b\n" + "a\n" * 40_000),
]


@pytest.mark.parametrize(("before", "after"), LONG)
def test_a_difference_of_long_texts_costs_what_their_length_does(before: str, after: str):
    begun = process_time()
    assert put_together(before, diff_texts("x", before, after)) == after
    assert process_time() - begun < 2


def test_long_texts_are_merged_as_fast_and_keep_both_changes():
    base = lines(*(place if place % 3 else "same" for place in range(18_000)))
    mine, theirs = base.replace("\n100\n", "\nmine\n"), base.replace("\n17000\n", "\ntheirs\n")
    begun = process_time()
    assert merge_texts(base, mine, theirs) == mine.replace("\n17000\n", "\ntheirs\n")
    assert merge_texts(base, mine, base.replace("\n100\n", "\ntheirs\n")) is None
    assert process_time() - begun < 2
