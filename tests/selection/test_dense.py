from collections.abc import Sequence

import pytest
from tests.world import World, settle, write_skill

from metier.host.encoder import encoder, pieces_of
from metier.runtime.dense import Dense, dense
from metier.runtime.finding import Finder
from metier.runtime.searching import stored

STOCK = {
    "pdf-form": "Fills in PDF forms for the user.",
    "sleep-better": "Helps people who lie awake at night.",
    "code-review": "Reviews a change for mistakes before it is merged.",
}


class Letters:
    """An encoder that knows nothing but which letters a text has."""

    def encode(self, text: str) -> bytes:
        return bytes(chr(97 + at) in text.lower() for at in range(26))

    def nearest(self, text: str, vectors: Sequence[bytes]) -> list[float]:
        mine = self.encode(text)
        return [sum(a & b for a, b in zip(mine, one, strict=True)) / (sum(one) or 1) for one in vectors]


@pytest.fixture
def stocked(world: World) -> World:
    for name, description in STOCK.items():
        write_skill(world.home / ".agents/skills" / name, description)
    settle()
    return world


def test_word_pieces_are_those_of_the_model():
    assert pieces_of("unaffable Café, 東京!") == [101, 14477, 20961, 3468, 7668, 1010, 1879, 1755, 999, 102]
    assert pieces_of("") == [101, 102]
    assert len(pieces_of("word " * 1_000)) == 128
    assert pieces_of("x" * 500) == [101, 100, 102]


def test_near_texts_have_near_vectors():
    found = encoder()
    vectors = [found.encode(text) for text in ("How do I fill in a form?", "A song about the sea.")]
    assert [len(one) for one in vectors] == [384, 384]
    near, far = found.nearest("Help me complete this questionnaire", vectors)
    assert near > far + 0.1
    assert found.nearest("anything", []) == ()


def test_a_skill_is_found_by_what_it_means(stocked: World):
    stocked.state.mkdir(exist_ok=True)
    (stocked.state / "config.toml").write_text("[search]\ndense = true\n")
    library = stocked.open(index=True)
    [hit, *_] = library.search("I suffer from insomnia")
    assert hit.skill.name == "sleep-better"
    assert dict(hit.ranks) == {"dense": 1}
    [hit, *_] = library.search("fill in this pdf form")
    assert (hit.skill.name, hit.clear, dict(hit.ranks)) == ("pdf-form", True, {"lexical": 1, "dense": 1})


def test_vectors_are_made_once_and_anew_for_what_changed(stocked: World):
    library = stocked.open(index=True)
    words, _ = stored(library)
    assert words is not None
    first = dense(library, words, Letters(), 30)
    assert len(first.vectors) == 3
    write_skill(stocked.home / ".agents/skills/pdf-form", "Zzz.")
    fresh = stocked.open(index=True)
    words, _ = stored(fresh)
    assert words is not None
    assert len(dense(fresh, words, Letters(), 0).vectors) == 2
    assert len(dense(fresh, words, Letters(), 30).vectors) == 3


def test_other_engines_run_beside_the_live_one_and_their_ranks_are_kept(stocked: World):
    library = stocked.open(index=True)
    words, _ = stored(library)
    assert words is not None
    verdicts = {verdict.skill.path: verdict for verdict in library.verdicts}
    other = Dense(Letters(), tuple(verdicts), tuple(map(Letters().encode, verdicts)), "letters")
    would = Finder(verdicts, (words,), (other,)).shadow("fill in a pdf form")
    assert list(would) == ["lexical", "letters"]
    assert would["lexical"][0].endswith("/pdf-form/SKILL.md")
    assert len(would["letters"]) == 3
