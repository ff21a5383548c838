from hypothesis import given
from hypothesis import strategies as st

from metier.catalog import rank as ranking
from metier.catalog.cards import make_card
from metier.catalog.rank import fuse_rankings, ranks_by_path
from metier.record.stats import FunnelTurn, build_funnel, read_turns
from metier.types.activation import ToolCall
from metier.types.event import Activated, Ended, Event, Heard, Started, Suggested, Used
from metier.types.search import RankedSkill, SearchCard

SKILLS = {
    "pdf-form": "Fills PDF forms. Use when the user has a form to fill in.",
    "code-review": "Reviews a change for mistakes before it is merged.",
    "pricing": 'Sets prices. Use for "pricing page", "price increase", or tiers.',
    "blog-post": "Writes posts for a blog, from an outline to the last word.",
}
CARDS = {name: make_card(name, text) for name, text in SKILLS.items()}


def frequencies(cards: dict[str, SearchCard]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in cards.values():
        for term in {*one.name.split(), *one.description.replace("|", " ").split(), *one.more.split()}:
            found[term] = found.get(term, 0) + 1
    return found


def best(request: str, cards: dict[str, SearchCard] = CARDS) -> list[str]:
    weighed = ranking.weigh_query(ranking.parse_query(request), frequencies(cards), {}, len(cards))
    worth = ranking.score_cards(weighed, list(cards.values()))
    return [name for score, name in sorted(zip(worth, cards, strict=True), reverse=True) if score > 0]


def test_the_skill_that_says_so_comes_first():
    assert best("please fill in this PDF form for me")[0] == "pdf-form"
    assert best("our pricing page needs a price increase")[0] == "pricing"


def test_a_request_without_any_of_the_words_finds_nothing():
    assert best("zebra") == best("") == best("the of and") == []


def test_saying_a_word_ten_times_is_no_better_than_saying_it_once_more():
    once, often = ranking.parse_query("blog price"), ranking.parse_query("blog blog blog blog price")
    assert set(once.weights) == set(often.weights)


def test_what_comes_first_weighs_most_and_what_was_pasted_weighs_less():
    weights = ranking.parse_query('Review this: "' + "blog " * 20 + '"').weights
    assert weights["review"] > weights["blog"]
    later = ranking.parse_query("review " + "word " * 50 + "pricing").weights
    assert later["review"] > later["pric"]


def test_code_in_a_request_is_something_to_work_on():
    weights = ranking.parse_query("review\n```python\nclass Invoice: pass\n```").weights
    assert weights["review"] > weights["invoic"]


def test_a_request_of_nothing_but_light_words_still_asks_for_them():
    assert ranking.parse_query("3 4").weights


def test_a_stuffed_card_counts_for_less():
    request = ranking.weigh_query(ranking.parse_query("fill pdf form"), frequencies(CARDS), {}, 4)
    honest, stuffed = ranking.score_cards(request, [CARDS["pdf-form"], CARDS["pdf-form"]._replace(stuffed=True)])
    assert stuffed < honest


def test_small_talk_is_for_no_skill_and_a_task_is():
    def confidence(words: list[float], matched: int, total: int) -> float:
        terms = {f"term{number}": 6.0 for number in range(matched + 2)}
        parts = [ranking.CardParts(value, value, value / 4, matched / 2) for value in words]
        query = ranking.WeightedQuery(terms, (), {}, total)
        return ranking.request_confidence(query, parts, list(terms)[:matched])

    for total in (500, 2_500, 66_500):
        assert confidence([5.0, 4.0, 2.0, 1.0, 1.0], 1, total) < 0.5
        assert confidence([40.0, 30.0, 20.0, 20.0, 20.0], 4, total) > 0.5
        assert confidence([], 0, total) == 0


@given(st.text(max_size=400), st.text(max_size=200), st.text(max_size=400))
def test_no_text_upsets_the_ranker(request: str, name: str, description: str):
    cards = {"one": make_card(name, description, description), **CARDS}
    assert set(best(request, cards)) <= set(cards)


def test_two_rankings_are_one_by_reciprocal_rank():
    words = [RankedSkill("a", 9.0, True), RankedSkill("b", 5.0)]
    meaning = [RankedSkill("c", 0.9), RankedSkill("a", 0.8)]
    both = {"lexical": words, "dense": meaning}
    found = fuse_rankings(both, {"lexical": 2.0})
    assert [one.path for one in found] == ["a", "b", "c"]
    assert found[0].clear
    assert ranks_by_path(both) == {"a": {"lexical": 1, "dense": 2}, "b": {"lexical": 2}, "c": {"dense": 1}}


def test_a_skill_with_which_nothing_was_done_was_abandoned():
    read = ToolCall("1", "read", {})
    events: list[Event] = [
        Started("r", skills=("a",)),
        Heard("one"),
        Suggested(("/b", "/c")),
        Activated("a", "/a", "model"),
        Activated("c", "/c", "model"),
        Used(read),
        Ended("failed"),
        Heard("two"),
    ]
    first, second, third = read_turns(events)
    assert (first.activated, first.shown["/a"], first.used) == ("/a", 0, False)
    assert (second.activated, second.shown["/c"], second.used, second.outcome) == ("/c", 2, True, "failed")
    assert (third.activated, third.outcome) == ("", "cut off")


def test_the_funnel_counts_what_was_shown_activated_used_and_missed():
    turns = [
        FunnelTurn({"a": 1, "b": 2}, {"lexical": ["a", "b"], "dense": ["b"]}, "b", "model", True, "finished"),
        FunnelTurn({"a": 0}, {"lexical": ["c"]}, "a", "user"),
        FunnelTurn({}, {}),
    ]
    found = build_funnel(turns)
    assert (found.turns, found.shown, found.activated, found.used, found.abandoned, found.finished) == (
        3,
        2,
        2,
        1,
        1,
        1,
    )
    assert dict(found.ranks) == {2: 1, 0: 1}
    assert found.recall["lexical"][1] == 0.0
    assert found.recall["lexical"][3] == found.recall["dense"][1] == 1.0
    assert build_funnel([]).recall == {}
