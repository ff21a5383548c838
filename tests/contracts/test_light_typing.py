"""The light `typing` behaves as the original where our values use it, and nothing needs more of it."""

import copy
import inspect
import pickle
import re
import typing
from pathlib import Path

import pytest

from metier import light_typing

SOURCES = Path(light_typing.__file__).parent


class Light(light_typing.NamedTuple):
    """A value."""

    name: str
    size: int = 3
    parts: tuple[str, ...] = ()

    @property
    def doubled(self) -> int:
        return self.size * 2


class Original(typing.NamedTuple):
    """A value."""

    name: str
    size: int = 3
    parts: tuple[str, ...] = ()


CALLS: list[tuple[tuple[object, ...], dict[str, object]]] = [
    (("a",), {}),
    (("a", 1), {}),
    (("a", 1, ("x",)), {}),
    (("a",), {"parts": ("x",)}),
    ((), {"name": "a", "size": 1, "parts": ()}),
    ((), {"parts": (), "name": "a"}),
]
WRONG: list[tuple[tuple[object, ...], dict[str, object]]] = [
    ((), {}),
    ((), {"size": 1}),
    (("a", 1, (), 4), {}),
    (("a",), {"name": "b"}),
    (("a",), {"nmae": "b"}),
    (("a", 1, ()), {"parts": ()}),
]


@pytest.mark.parametrize(("values", "named"), CALLS)
def test_a_value_is_made_as_the_original_makes_it(values, named):
    light, original = Light(*values, **named), Original(*values, **named)
    assert tuple(light) == tuple(original)
    assert repr(light) == repr(original).replace("Original", "Light")
    assert light._asdict() == original._asdict()
    assert tuple(light._replace(size=9)) == tuple(original._replace(size=9))
    assert hash(light) == hash(original)


@pytest.mark.parametrize(("values", "named"), WRONG)
def test_what_the_original_refuses_is_refused(values, named):
    with pytest.raises(TypeError):
        Original(*values, **named)
    with pytest.raises(TypeError, match=r"Light\(\)"):
        Light(*values, **named)


def test_unknown_fields_and_wrong_counts_are_refused():
    with pytest.raises(ValueError, match="nmae"):
        Light("a")._replace(nmae=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Light._make(["a"])
    with pytest.raises(TypeError, match="without a default"):
        exec("class Bad(light_typing.NamedTuple):\n    a: int = 1\n    b: int", {"light_typing": light_typing})


def test_a_value_can_be_copied_pickled_matched_and_unpacked():
    value = Light("a", 1)
    assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
    assert type(pickle.loads(pickle.dumps(value))) is Light
    assert Light.__match_args__ == Original.__match_args__
    name, size, parts = value
    assert (name, size, parts, value.doubled) == ("a", 1, (), 2)
    assert Light._fields == Original._fields
    assert Light._field_defaults == Original._field_defaults
    assert not hasattr(value, "__dict__")
    with pytest.raises(AttributeError):
        value.name = "b"  # type: ignore[misc]


def test_help_shows_the_fields_of_a_value():
    assert str(inspect.signature(Light)) == str(inspect.signature(Original)).replace("Original", "Light")


def test_the_values_of_a_literal_are_what_typing_says_too():
    colours = light_typing.Literal["red", "green"]
    assert light_typing.get_args(colours) == typing.get_args(colours) == ("red", "green")


def test_modules_that_use_it_keep_their_annotations_as_text():
    """From Python 3.14 on, a class has its annotations at definition only where they are text."""
    users = [
        path for path in SOURCES.rglob("*.py") if re.search(r"^from \.+light_typing import", path.read_text(), re.M)
    ]
    assert len(users) > 20
    assert [path for path in users if "from __future__ import annotations" not in path.read_text()] == []
