"""The house's numbers, kept over everything in src/metier but what the bundled skills carry."""

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "src" / "metier"
FORBIDDEN_WORDS = {word + end for word in ("manager", "helper", "util", "handler") for end in ("", "s")}
BROAD = {"Exception", "BaseException"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A node, and the file it stands in."""

    file: Path
    node: ast.AST

    def __str__(self) -> str:
        name = getattr(self.node, "name", None) or type(self.node).__name__
        return f"{self.file.relative_to(ROOT)}:{getattr(self.node, 'lineno', 1)} {name}"


FILES = sorted(file for file in ROOT.rglob("*.py") if file.relative_to(ROOT).parts[0] != "bundled")
NODES = [Place(file, node) for file in FILES for node in ast.walk(ast.parse(file.read_bytes()))]
FUNCTIONS = [place for place in NODES if isinstance(place.node, Function)]
CLASSES = [place for place in NODES if isinstance(place.node, ast.ClassDef)]


def length(place: Place) -> int:
    node = place.node
    assert isinstance(node, Function | ast.ClassDef)
    return (node.end_lineno or node.lineno) - node.lineno + 1


def line_count(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def over(limit: int, places: list[Place], measure: Callable[[Place], int]) -> list[str]:
    return [f"{place}: {measure(place)}" for place in places if measure(place) > limit]


def dotted(node: ast.expr) -> str:
    """`click.option` for `@click.option("--root")`."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def is_command(place: Place) -> bool:
    """Whether click calls it: its parameters are then the options of a command line."""
    decorators = getattr(place.node, "decorator_list", [])
    return any(dotted(decorator).endswith((".command", ".option")) for decorator in decorators)


def parameter_count(place: Place) -> int:
    assert isinstance(place.node, Function)
    given = place.node.args
    named = [*given.posonlyargs, *given.args]
    if named and named[0].arg in ("self", "cls"):
        named = named[1:]
    return len(named) + len(given.kwonlyargs) + sum(rest is not None for rest in (given.vararg, given.kwarg))


def caught(node: ast.AST) -> Iterator[ast.expr | None]:
    """What a handler, or `contextlib.suppress`, catches; None for a bare `except`."""
    if isinstance(node, ast.ExceptHandler):
        yield from node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    elif isinstance(node, ast.Call) and dotted(node).split(".")[-1] == "suppress":
        yield from node.args


def catches_all(place: Place) -> bool:
    return any(kind is None or dotted(kind).split(".")[-1] in BROAD for kind in caught(place.node))


def words(name: str) -> set[str]:
    """`readHTTPFiles_fast` as `{"read", "http", "files", "fast"}`."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_there_is_something_to_measure():
    assert FILES
    assert FUNCTIONS


def test_no_function_is_longer_than_60_lines():
    assert not over(60, FUNCTIONS, length)


def test_nine_functions_in_ten_have_at_most_25_lines():
    lengths = sorted(length(place) for place in FUNCTIONS)
    assert lengths[math.ceil(len(lengths) * 0.9) - 1] <= 25


def test_no_file_is_longer_than_600_lines():
    assert not [f"{file.relative_to(ROOT)}: {line_count(file)}" for file in FILES if line_count(file) > 600]


def test_no_class_is_longer_than_250_lines():
    assert not over(250, CLASSES, length)


def test_no_function_takes_more_than_6_parameters():
    # The initialiser of a frozen value names its fields, whether it is generated or written for speed.
    counted = [place for place in FUNCTIONS if not is_command(place) and getattr(place.node, "name", "") != "__init__"]

    assert not over(6, counted, parameter_count)


def test_at_most_3_places_catch_everything():
    broad = [str(place) for place in NODES if catches_all(place)]
    assert len(broad) <= 3, broad


def test_no_function_or_class_is_named_with_an_empty_word():
    names = [(place, getattr(place.node, "name", "")) for place in FUNCTIONS + CLASSES]
    assert not [str(place) for place, name in names if words(name) & FORBIDDEN_WORDS]


def test_no_module_or_package_is_named_with_an_empty_word():
    paths = [file.relative_to(ROOT).with_suffix("") for file in FILES]
    assert not [path for path in paths for part in path.parts if words(part) & FORBIDDEN_WORDS]
