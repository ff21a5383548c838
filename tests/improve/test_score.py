"""How sure one may be: few cases prove little, and what is alike in both arms is no gain."""

import math

import pytest

from metier.improve.score import compare_arms, is_worse, pass_rate, spread_of_values, wilson_interval
from metier.types.improvement import EvalOutput, EvalSample, GradedCheck


def scores(*values: float, runs: int = 3) -> dict[str, list[float]]:
    return {str(at): [value] * runs for at, value in enumerate(values)}


def samples(*good: bool, runs: int = 3) -> list[EvalSample]:
    made = EvalOutput("", "")
    return [
        EvalSample(str(at), "with_skill", number, made, (GradedCheck("x", one),))
        for at, one in enumerate(good)
        for number in range(runs)
    ]


def test_an_interval_is_never_narrower_than_the_cases_allow():
    low, high = wilson_interval(1.0, 3).low, wilson_interval(1.0, 3).high

    assert low == pytest.approx(0.4385, abs=0.001)
    assert high == 1.0
    assert wilson_interval(0.5, 100).low == pytest.approx(0.4038, abs=0.001)
    assert wilson_interval(0.0, 0) == (0.0, 0.0, 1.0, 0)


def test_one_value_deviates_by_nothing():
    assert spread_of_values([0.5]).stddev == 0.0
    assert spread_of_values([]).mean == 0.0
    assert spread_of_values([1.0, 0.0]).stddev == pytest.approx(math.sqrt(0.5))


def test_runs_of_one_case_count_once():
    once, often = samples(True, False, runs=1), samples(True, False, runs=50)

    assert pass_rate(once, "with_skill") == pass_rate(often, "with_skill")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_three_cases_are_no_proof_however_clear_they_are(count):
    assert compare_arms(scores(*[0.0] * count), scores(*[1.0] * count)).verdict == "underpowered"


def test_what_is_always_better_is_better_and_the_other_way_round_worse():
    bad, good = scores(*[0.0] * 6), scores(*[1.0] * 6)

    assert compare_arms(bad, good).verdict == "better"
    assert compare_arms(good, bad).verdict == "worse"
    assert compare_arms(good, bad).lost == ("0", "1", "2", "3", "4", "5")
    assert compare_arms(bad, good).gained == ("0", "1", "2", "3", "4", "5")


def test_no_difference_needs_as_many_cases_as_any_other_verdict():
    few, many = scores(*[0.5] * 5), scores(*[0.5] * 20)

    assert compare_arms(few, few).verdict == "underpowered"
    assert compare_arms(few, few).needed == 20
    assert compare_arms(many, many).verdict == "same"


def test_only_cases_that_both_arms_have_are_compared():
    assert compare_arms({"a": [1.0]}, {"b": [1.0]}).cases == 0


def test_noise_is_not_worse_but_a_case_that_is_lost_is():
    assert not is_worse(samples(True, True, False), samples(True, True, False))
    assert is_worse(samples(True), samples(False))
    assert not is_worse(samples(False), samples(True))


def test_the_interval_holds_what_it_says_it_holds():
    """Of many trials of a skill that helps by a fifth, about 95 in 100 have it in their interval."""
    from random import Random

    chance, held, trials = Random(7), 0, 400
    for _ in range(trials):
        before = {str(at): [float(chance.random() < 0.5) for _ in range(3)] for at in range(20)}
        after = {str(at): [float(chance.random() < 0.7) for _ in range(3)] for at in range(20)}
        found = compare_arms(before, after)
        held += found.low <= 0.2 <= found.high

    assert held / trials >= 0.94
