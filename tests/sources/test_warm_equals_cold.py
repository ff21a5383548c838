"""Over random trees and random changes, the library with the index is the library without it."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.home import World, make_world, settle
from tests.sources.test_index import shown

SOAK = bool(os.environ.get("METIER_SOAK"))
ROOTS = (".agents/skills", ".claude/skills", ".metier/skills", ".config/agenvoy/skills")
NAMES = ("a", "b", "a-b", "group/a", "group/c", "deep/er/d", "B", ".hidden", "é")
HEADS = (
    "---\nname: {name}\ndescription: Plain.\n---\nBody.\n",
    "---\nname: other\ndescription: Another name.\nlicense: MIT\n---\n",
    "---\nname: {name}\ndescription: 'Needs.'\nmetadata:\n  openclaw:\n    requires:\n      bins: [git, nope]\n---\n",
    "---\nname: {name}\ndescription: Own.\nmetadata:\n  dialect: umbra\n---\n",
    "---\nname: {name}\ndescription: Off.\nuser-invocable: false\ndisable-model-invocation: true\n---\n",
    "---\nname: {name}\ndescription: [a, list]\n---\n",
    "---\nname: {name}\ndescription: Use when: x\nargument-hint: [x]\nunknown: y\n---\n",
    "no frontmatter\n",
    "---\nname: {name}\n",
    "",
    "---\nname: {name}\ndescription: Long.\n---\n" + "x" * 300_000,
)
Move = tuple[str, str, str, int]
moves = st.tuples(
    st.sampled_from(["write", "write", "write", "delete", "rename", "touch", "link", "case", "folder", "chmod"]),
    st.sampled_from(ROOTS),
    st.sampled_from(NAMES),
    st.integers(0, len(HEADS) - 1),
)


def write(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    if not file.is_dir():
        file.write_text(HEADS[number].replace("{name}", folder.name))


def rename(folder: Path, number: int) -> None:
    target = folder.with_name(NAMES[number % 3])
    if folder.exists() and not target.exists() and not folder.is_symlink():
        folder.rename(target)


def link(folder: Path, number: int) -> None:
    source = folder.with_name("link-" + NAMES[number % 3])
    if folder.parent.is_dir() and not source.is_symlink():
        source.symlink_to(NAMES[(number + 1) % 3])


def case(folder: Path, number: int) -> None:
    file = folder / "SKILL.md"
    if file.is_file():
        file.rename(folder / ("skill.md" if number % 2 else "Skill.md"))


def into_folder(folder: Path, number: int) -> None:
    file = folder / "SKILL.md"
    if file.is_file():
        file.unlink()
        file.mkdir()


def touch(folder: Path, number: int) -> None:
    if (folder / "SKILL.md").exists():
        os.utime(folder / "SKILL.md", ns=(number, number * 10**9))


def chmod(folder: Path, number: int) -> None:
    if (folder / "SKILL.md").exists():
        (folder / "SKILL.md").chmod(0o600 + number % 7)


def delete(folder: Path, number: int) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


MAKE: dict[str, Callable[[Path, int], None]] = {
    "write": write, "delete": delete, "rename": rename, "touch": touch,
    "link": link, "case": case, "folder": into_folder, "chmod": chmod,
}  # fmt: skip


def apply(world: World, steps: list[Move]) -> None:
    for kind, root, name, number in steps:
        MAKE[kind](world.home / root / name, number)


@settings(
    max_examples=400 if SOAK else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not SOAK,
)
@given(st.lists(moves, min_size=3, max_size=25), st.lists(st.lists(moves, max_size=6), min_size=1, max_size=3))
def test_warm_is_cold(first: list[Move], later: list[list[Move]]):
    with tempfile.TemporaryDirectory(prefix="metier-test-") as folder:
        world = make_world(Path(folder))
        apply(world, first)
        for number, steps in enumerate([[], *later]):
            apply(world, steps)
            if number % 2 == 0:
                settle()
            cold = shown(world.open())
            for _ in (1, 2):
                warm = world.open(index=True)
                assert shown(warm) == cold
                assert warm.database is not None
                warm.database.close()
