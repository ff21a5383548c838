"""The page of a trial: one file that fetches nothing, runs nothing, and shows what it is given as text."""

import re
from html.parser import HTMLParser

from metier.improve.report import Benchmark, render_page
from metier.types.improvement import EvalArm, EvalCase, EvalCheck, EvalOutput, EvalSample, EvalSuite, GradedCheck

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\x1b[31m\u202e<!--"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


def read(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def benchmark(text: str = HOSTILE) -> Benchmark:
    case = EvalCase(text, text, (EvalCheck(text),), expected=text, slug="1")
    made = EvalOutput(text, "/nowhere", "finished", 1.0, 10, note=text)
    arms: tuple[EvalArm, ...] = ("with_skill", "without_skill")
    samples = tuple(
        EvalSample(text, arm, 1, made, (GradedCheck(text, arm == "with_skill" or None, text),)) for arm in arms
    )
    return Benchmark(EvalSuite(text, (case,)), samples, arms, 1, text, text, (text,))


def test_nothing_that_a_skill_or_a_model_says_becomes_part_of_the_page():
    hostile, plain = read(render_page(benchmark())), read(render_page(benchmark("plain")))

    assert hostile.names == plain.names
    assert [name for name, _ in hostile.attributes] == [name for name, _ in plain.attributes]
    assert "\x1b" not in render_page(benchmark())
    assert "\u202e" not in render_page(benchmark())


def test_the_page_fetches_nothing_and_runs_nothing():
    tags = read(render_page(benchmark()))
    policy = dict(tags.attributes)["content"]

    assert not {"script", "link", "img", "iframe", "object", "form", "base", "a"} & set(tags.names)
    assert not {"src", "href", "style", "onload", "onerror"} & {name for name, _ in tags.attributes}
    assert "default-src 'none'" in render_page(benchmark())
    assert re.search(r"style-src 'sha256-[A-Za-z0-9+/=]+'", render_page(benchmark()))
    assert policy is not None


def test_the_style_is_the_one_that_the_policy_allows():
    from base64 import b64encode
    from hashlib import sha256

    text = render_page(benchmark())
    style = text.partition("<style>")[2].partition("</style>")[0]

    assert b64encode(sha256(style.encode()).digest()).decode() in text
    assert "url(" not in style
    assert "@import" not in style


def test_an_interval_lies_on_its_line():
    numbers = [float(one) for one in re.findall(r'(?:x1|x2|cx)="([-\d.]+)"', render_page(benchmark("plain")))]

    assert numbers
    assert all(4 <= one <= 196 for one in numbers)
