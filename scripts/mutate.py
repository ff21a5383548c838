"""Take each defence away in a copy of the repository, and see that the tests it is listed with fail.

`tests/defences.toml` has the list.  `make mutants` runs all of it; `make mutants ROWS="C013 C040"` some of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from metier.host.process import run_program
from metier.types.sandbox import ProcessResult, ProgramSpec

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "defences.toml"
_SECONDS = 150.0
_FAILED = 1
"""What pytest ends with when tests failed; every other ending is a fault of ours."""


class Edit(NamedTuple):
    """A piece of a file, and what is put in its place."""

    file: str
    old: str
    new: str


class Break(NamedTuple):
    """What takes a defence away."""

    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    @property
    def what(self) -> str:
        return "; ".join(
            f"{one.file.removeprefix('src/metier/')}: {' '.join(one.old.split())[:90]}" for one in self.edits
        )


class Defence(NamedTuple):
    row: str
    attack: str
    tests: tuple[str, ...]
    breaks: tuple[Break, ...]


def defences() -> list[Defence]:
    found = []
    for row, one in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        tests = tuple(one["tests"])
        breaks = tuple(
            Break(
                tuple(
                    Edit(f"src/metier/{edit['in']}", edit["old"], edit["new"])
                    for edit in (each, each.get("and"))
                    if edit
                ),
                tuple(each.get("tests", tests)),
            )
            for each in one["without"]
        )
        found.append(Defence(row, one["attack"], tests, breaks))
    return found


def broken(text: str, one: Edit) -> str:
    """The text of a file without the defence."""
    if text.count(one.old) != 1:
        raise ValueError(f"{one.file} holds `{one.old}` {text.count(one.old)} times")
    return text.replace(one.old, one.new)


def main(rows: Sequence[str]) -> int:
    chosen = [one for one in defences() if not rows or one.row in rows]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mut-") as folder:
        copy = _copied(Path(folder))
        tests = sorted({test for one in chosen for each in one.breaks for test in each.tests})
        whole = _tested(copy, tests)
        if whole.status != 0:
            print(whole.stdout)
            print("the tests fail before anything is broken")
            return 1
        for defence in chosen:
            for said, killed in _outcomes(copy, defence):
                wrong += not killed
                print(f"{defence.row}  {'ok   ' if killed else 'ALIVE'}  {said}", flush=True)
    count = sum(len(one.breaks) for one in chosen)
    print(f"{len(chosen)} defences, {count} ways to take them away, {wrong} not noticed")
    return 1 if wrong else 0


def _outcomes(copy: Path, defence: Defence) -> Iterator[tuple[str, bool]]:
    for one in defence.breaks:
        before = {edit.file: (copy / edit.file).read_text(encoding="utf-8") for edit in one.edits}
        try:
            for edit in one.edits:
                text = (copy / edit.file).read_text(encoding="utf-8")
                (copy / edit.file).write_text(broken(text, edit), encoding="utf-8")
            ran = _tested(copy, one.tests)
        finally:
            for name, text in before.items():
                (copy / name).write_text(text, encoding="utf-8")
        ending = "timed out" if ran.timed_out else f"pytest ended with {ran.status}"
        noticed = ran.timed_out or ran.status == _FAILED
        yield one.what if noticed else f"{one.what} ({ending}) {ran.stdout[-2000:] if ran.status else ''}", noticed


def _copied(folder: Path) -> Path:
    """The files of the repository, and an interpreter that imports them and not ours."""
    folder.chmod(0o755)  # tests that become another user look into it
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / "copy" / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode & 0o777)
    copy = folder / "copy"
    venv.create(copy / ".venv", symlinks=True)
    ours = next(path for path in sys.path if path.startswith(sys.prefix) and path.endswith("site-packages"))
    site = next((copy / ".venv" / "lib").glob("python*/site-packages"))
    (site / "copy.pth").write_text(f"{copy / 'src'}\n{ours}\n", encoding="utf-8")
    (folder / "t").mkdir()  # a short name: the path of a socket can't be long
    (folder / "t").chmod(0o1777)
    return copy


def _tested(copy: Path, tests: Sequence[str]) -> ProcessResult:
    """Run some tests of the copy; whatever they leave running ends with them."""
    argv = (str(copy / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
    env = {**os.environ, "TMPDIR": str(copy.parent / "t"), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("VIRTUAL_ENV", "PYTHONPATH"):
        env.pop(name, None)
    return run_program(ProgramSpec(argv, str(copy), env, _SECONDS if len(tests) < 20 else 1800, 8000, merged=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
