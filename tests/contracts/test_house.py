"""The layout stays one that a newcomer can read: each limit holds, and notices when it would not."""

from pathlib import Path

import pytest
from tests.contracts import house

METIER = Path(__file__).parents[2] / "src" / "metier"
MOST_MODULES = {"faces.cli": 30}
"""Packages that may hold more than 20 modules."""
BY_NAME = {
    "metier",  # the public names
    "metier.faces.cli.commands",  # the command table
    "metier.dialects.products",  # collects the products of its own folder
}
"""Modules that may import others of ours by a name: a table that loads what a command needs."""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A small package of its own, to plant violations in."""
    package = tmp_path / "small"
    for name in ("__init__.py", "upper/__init__.py", "upper/view.py", "lower/__init__.py", "lower/store.py"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{name}."""\n', encoding="utf-8")
    return package


def plant(package: Path, name: str, text: str) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def shared_classes(package: Path) -> dict[str, list[str]]:
    return {name: places for name, places in house.class_places(package).items() if len(places) > 1}


def test_a_class_name_means_one_class():
    assert shared_classes(METIER) == {}


def test_a_second_class_of_a_name_is_noticed(planted: Path):
    plant(planted, "upper/view.py", "class Request: ...\n")
    plant(planted, "lower/store.py", "class Request: ...\n")
    assert list(shared_classes(planted)) == ["Request"]


def crowded(package: Path) -> list[str]:
    return [
        f"{name}: {count}"
        for name, count in house.modules_per_package(package).items()
        if count > MOST_MODULES.get(name, 20)
    ]


def test_no_package_holds_more_modules_than_a_reader_can_survey():
    assert crowded(METIER) == []


def test_a_crowded_package_is_noticed(planted: Path):
    for number in range(20):
        plant(planted, f"lower/part{number}.py", "")
    assert crowded(planted) == ["lower: 22"]


def test_no_module_imports_another_that_imports_it_back():
    assert house.cycles(house.import_graph(METIER, typing=False)) == []


def test_a_cycle_through_an_import_inside_a_function_is_noticed(planted: Path):
    plant(planted, "upper/view.py", "from ..lower import store\n")
    plant(planted, "lower/store.py", "def late():\n    from ..upper.view import store\n")
    assert house.cycles(house.import_graph(planted, typing=False)) == [["small.lower.store", "small.upper.view"]]


def test_no_package_imports_another_that_imports_it_back_even_for_types():
    assert house.cycles(house.package_graph(house.import_graph(METIER, typing=True))) == []


def test_a_cycle_of_packages_for_types_alone_is_noticed(planted: Path):
    plant(planted, "upper/view.py", "from ..lower import store\n")
    plant(planted, "lower/other.py", "if TYPE_CHECKING:\n    from ..upper import view\n")
    assert house.cycles(house.import_graph(planted, typing=False)) == []
    assert house.cycles(house.package_graph(house.import_graph(planted, typing=True))) == [["lower", "upper"]]


def test_only_the_command_table_imports_by_a_name():
    assert set(house.imports_by_string(METIER)) <= BY_NAME


def test_an_import_by_a_name_is_noticed(planted: Path):
    plant(planted, "lower/store.py", "import importlib\nimportlib.import_module('small.upper.view')\n")
    assert house.imports_by_string(planted) == ["small.lower.store"]


def test_modules_are_nouns():
    activities = [stem for stem in house.module_stems(METIER).elements() if stem.endswith("ing")]
    assert len(activities) <= 8, activities


def test_few_modules_share_a_name():
    shared = [stem for stem, count in house.module_stems(METIER).items() if count > 1]
    assert len(shared) <= 20, shared


def test_most_names_say_more_than_a_word():
    assert house.one_word_share(list(house.class_places(METIER))) <= 0.45
    assert house.one_word_share(house.function_names(METIER)) <= 0.50


def test_one_word_names_are_counted(planted: Path):
    plant(planted, "upper/view.py", "class Box: ...\nclass FileView: ...\ndef said(): ...\ndef read_file(): ...\n")
    assert house.one_word_share(list(house.class_places(planted))) == 0.5
    assert house.one_word_share(house.function_names(planted)) == 0.5


def riddles(package: Path) -> set[str]:
    return {"one", "found"} & {name for name, _ in house.bound_names(package).most_common(20)}


def test_variables_say_what_they_hold():
    assert riddles(METIER) == set()


def test_a_variable_that_says_nothing_is_noticed(planted: Path):
    plant(planted, "upper/view.py", "def first(found):\n    return [one for one in found]\n")
    assert riddles(planted) == {"one", "found"}


def test_there_are_comments_and_they_are_not_all_for_tools():
    assert house.comments_per_100_lines(METIER) >= 2


def test_comments_for_tools_do_not_count(planted: Path):
    plant(planted, "upper/view.py", "# fmt: skip\nx = 1\n# why it is so\n")
    plant(planted, "lower/store.py", "y = 1\n" * 95)
    assert house.comments_per_100_lines(planted) == pytest.approx(100 / 99)


def test_the_formatter_decides_but_in_a_few_tables():
    assert house.format_skips(METIER) <= 10


def test_a_skipped_format_is_noticed(planted: Path):
    plant(planted, "upper/view.py", "x = 1  # fmt: skip\n")
    assert house.format_skips(planted) == 1
