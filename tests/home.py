"""A home and a project in a temporary folder, described to metier rather than found by it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.reachable import SOURCE as SOURCE
from tests.reachable import common_base, source_for_others

from metier.library.library import Library
from metier.library.open import OpenRequest, open_at
from metier.library.trust import approve_skills, make_trust_record, write_trust_record
from metier.types.place import Place

SETTLED = 0.06
"""Files younger than this are not remembered by the index."""


@dataclass(frozen=True)
class World:
    home: Path
    project: Path
    state: Path

    def place(self, cwd: Path | None = None, profile: str = "", env: Mapping[str, str] | None = None) -> Place:
        at = str(cwd or self.project)
        inside = at == str(self.project) or at.startswith(f"{self.project}/")
        return Place(
            at, str(self.project) if inside else at, str(self.home), str(self.state), env or {}, "linux", profile
        )

    def open(
        self,
        dialect: str | None = None,
        *,
        agent: str | Sequence[str] | None = None,
        root: Path | str | None = None,
        index: bool = False,
        place: Place | None = None,
    ) -> Library:
        request = OpenRequest(dialect, agent, None if root is None else str(root), index)
        return open_at(place or self.place(), request)

    def trust(self, dialect: str | None = None) -> None:
        library = self.open(dialect)
        theirs = [skill for skill in library.skills if skill.origin.source == "project"]
        limit, settings = library.limits.file_bytes, library.settings
        record = make_trust_record(str(self.project), theirs, limit, whole=True, settings=settings)
        write_trust_record(str(self.state), str(self.project), record)

    def approve(self, library: Library, *names: str) -> None:
        """Approve skills that lie outside the project, all of them where none is named."""
        chosen = [skill for skill in library.skills if not names or skill.id in names]
        approve_skills(str(self.state), chosen, library.limits.file_bytes)

    @property
    def variables(self) -> dict[str, str]:
        """The same world for a process of its own."""
        return {"HOME": str(self.home), "METIER_HOME": str(self.state), "PATH": os.environ.get("PATH", "")}


def make_world(folder: Path) -> World:
    home, project = folder / "home", folder / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    return World(home, project, home / ".metier")


def skill_text(name: str, description: str = "Does it.", body: str = "Do it.\n", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


def write_skill(folder: Path, description: str = "Does it.", body: str = "Do it.\n", more: str = "") -> Path:
    """A folder that is a skill called like the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(skill_text(folder.name, description, body, more), encoding="utf-8")
    return file


def settle() -> None:
    time.sleep(SETTLED)


def ids(library: Library) -> list[str]:
    return [skill.id for skill in library.skills]


def codes(library: Library) -> list[str]:
    return [problem.code for problem in library.problems]


def usable(library: Library) -> list[str]:
    return [verdict.skill.name for verdict in library.verdicts if verdict.usable]


def python(
    code: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(SOURCE), **(env or {})},
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def as_somebody_else(
    code: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, first: str = ""
) -> str:
    """What a piece of Python prints when it runs without root's right to read everything; `first` still has it."""
    drop = "import os\nif os.getuid() == 0:\n    os.setgroups([])\n    os.setgid(65534)\n    os.setuid(65534)\n"
    around = {"PYTHONPATH": source_for_others(), **(env or {})}
    done = python(_OPEN_DOORS + first + drop + code, *arguments, env=around, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


# What is imported after the rights are dropped may lie where only root may look.
_OPEN_DOORS = """
import metier, metier.library, metier.library.open, metier.library.snapshot, metier.parse.config
import metier.library.trust, metier.sources.bundled
import ctypes, difflib, encodings.utf_8_sig, hashlib, json, pwd, shutil
"""


@contextlib.contextmanager
def world_for_everybody() -> Iterator[World]:
    """A world in a folder that other users may look into; pytest's own they may not."""
    with tempfile.TemporaryDirectory(prefix="metier-test-", dir=common_base()) as folder:
        Path(folder).chmod(0o755)
        yield make_world(Path(folder))
