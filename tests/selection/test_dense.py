from collections.abc import Sequence

import pytest
from tests.home import World, settle, write_skill

from metier.library.encoder import load_encoder, tokenize_text
from metier.library.search import DenseEngine, SkillFinder, open_dense_engine, open_stored_engine

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
    assert tokenize_text("unaffable Café, 東京!") == [101, 14477, 20961, 3468, 7668, 1010, 1879, 1755, 999, 102]
    assert tokenize_text("") == [101, 102]
    assert len(tokenize_text("word " * 1_000)) == 128
    assert tokenize_text("x" * 500) == [101, 100, 102]


def test_near_texts_have_near_vectors():
    found = load_encoder()
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
    words, _ = open_stored_engine(library)
    assert words is not None
    first = open_dense_engine(library, words, Letters(), 30)
    assert len(first.vectors) == 3
    write_skill(stocked.home / ".agents/skills/pdf-form", "Zzz.")
    fresh = stocked.open(index=True)
    words, _ = open_stored_engine(fresh)
    assert words is not None
    assert len(open_dense_engine(fresh, words, Letters(), 0).vectors) == 2
    assert len(open_dense_engine(fresh, words, Letters(), 30).vectors) == 3


def test_other_engines_run_beside_the_live_one_and_their_ranks_are_kept(stocked: World):
    library = stocked.open(index=True)
    words, _ = open_stored_engine(library)
    assert words is not None
    verdicts = {verdict.skill.path: verdict for verdict in library.verdicts}
    other = DenseEngine(Letters(), tuple(verdicts), tuple(map(Letters().encode, verdicts)), "letters")
    would = SkillFinder(verdicts, (words,), (other,)).shadow("fill in a pdf form")
    assert list(would) == ["lexical", "letters"]
    assert would["lexical"][0].endswith("/pdf-form/SKILL.md")
    assert len(would["letters"]) == 3
