"""Prints the walk of one turn: what `metier run "/deploy staging"` goes through, from the call to the answer.

The turn is real: a skill with one script is installed into a home of its own, a library is opened, and the agent that
`metier run` builds does the work; only the model is scripted.  It calls the skill's script once, then answers.
`sys.setprofile` sees every call.  With --write the result becomes the generated block of docs/concepts/walk.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import CO_OPTIMIZED
from pathlib import Path
from time import sleep
from types import FrameType

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SOURCE = str(ROOT / "src" / "metier") + os.sep
PAGE = ROOT / "docs" / "concepts" / "walk.md"
BEGIN, END = "<!-- walk: written by scripts/trace_turn.py --write -->\n", "<!-- end of the walk -->"
SKILL = """\
---
name: deploy
description: Deploys this project to an environment. Use it when somebody asks for a deployment.
argument-hint: <environment>
---

Run `scripts/deploy.py` with the environment $ARGUMENTS, then say what it printed.
"""
SCRIPT = "import sys\nprint('deployed to', sys.argv[1])\n"
CATALOG = "catalog/listing.py build_catalog"
HASHES = ("host/trees.py file_marks", "sources/bundled.py folder_digest")
"""The functions that read every byte of a folder into a digest."""
LEAVES = ("types", "host", "dialects")
"""Packages that everybody calls and that call nobody: in the picture they would be most of it."""
QUIET = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>", "<locals>")


@dataclass
class Step:
    """A function of another package that was entered, and what it entered in turn."""

    name: str
    inner: list[Step] = field(default_factory=list)
    times: int = 1


@dataclass
class Walk:
    """Every call of a turn that went into metier."""

    calls: Counter[str] = field(default_factory=Counter)
    """By file and function."""
    hashed: int = 0
    """How often the skill's folder was read into a digest."""
    top: Step = field(default_factory=lambda: Step("metier run"))
    trail: list[tuple[FrameType, Step]] = field(default_factory=list)
    """The functions of other packages that are running now, the innermost last."""

    @property
    def files(self) -> list[str]:
        return sorted({name.partition(" ")[0] for name in self.calls})

    @property
    def packages(self) -> list[str]:
        return sorted({file.split("/")[0].removesuffix(".py") for file in self.files})

    @property
    def catalogs(self) -> int:
        return self.calls[CATALOG]

    def enter(self, frame: FrameType) -> None:
        if not frame.f_code.co_flags & CO_OPTIMIZED:
            return  # the body of a module or a class: it is read once, nothing is called
        file = frame.f_code.co_filename.removeprefix(SOURCE)
        name = f"{file} {frame.f_code.co_qualname}"
        self.calls[name] += 1
        if name in HASHES and str(next(iter(frame.f_locals.values()), "")).endswith("/deploy"):
            self.hashed += 1
        package = file.split("/")[0]
        if package in LEAVES or any(part in frame.f_code.co_qualname for part in QUIET):
            return
        while self.trail and not _is_running(self.trail[-1][0], frame):
            self.trail.pop()
        parent = self.trail[-1][1] if self.trail else self.top
        if parent.name.split("/")[0] == package or _resumes(frame, parent):
            return
        known = next((step for step in parent.inner if step.name == name), None)
        if known is None:
            known = Step(name, times=0)
            parent.inner.append(known)
        known.times += 1
        self.trail.append((frame, known))


def _is_running(outer: FrameType, frame: FrameType | None) -> bool:
    while frame is not None:
        if frame is outer:
            return True
        frame = frame.f_back
    return False


def _resumes(frame: FrameType, parent: Step) -> bool:
    """A generator that goes on is no new step."""
    return bool(frame.f_code.co_flags & 0x20) and frame.f_lasti > 2 and any(step for step in parent.inner)


@contextmanager
def watched(walk: Walk) -> Iterator[None]:
    """Let a walk see every call, also on other threads."""

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            walk.enter(frame)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def prepare(folder: Path) -> dict[str, str]:
    """A home with the skill installed and the index warm, as on any day but the first."""
    home, project, origin = folder / "home", folder / "project", folder / "origin" / "deploy"
    for path in (home, project / ".git", origin / "scripts"):
        path.mkdir(parents=True)
    (origin / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (origin / "scripts" / "deploy.py").write_text(SCRIPT, encoding="utf-8")
    variables = {"HOME": str(home), "METIER_HOME": str(home / ".metier"), "PATH": os.environ["PATH"]}
    variables["PYTHONPATH"] = str(ROOT / "src")
    start = "import sys; from metier.faces.cli.app import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "--project", str(project)]
    added = subprocess.run(
        [*command, "add", str(origin), "--user", "--yes"], env=variables, capture_output=True, text=True
    )
    if added.returncode:
        raise SystemExit(added.stderr)
    sleep(0.2)  # files that changed a moment ago are not taken for settled, and would be hashed again
    subprocess.run([*command, "list"], env=variables, check=True, capture_output=True)
    return variables


def trace(folder: Path) -> Walk:
    """The walk of one turn; what it says is checked, so that a turn that fails is not measured."""
    variables = prepare(folder)
    os.environ.clear()
    os.environ.update(variables)
    from metier.faces.agents import open_agent
    from metier.library.open import open as open_library
    from metier.testing.models import ScriptedModel
    from metier.types.activation import ToolCall
    from metier.types.event import Ended, Used

    arguments = {"skill_name": "deploy", "script_name": "deploy.py", "script_args": "staging"}
    model = ScriptedModel([ToolCall("call-1", "skill_run_script", arguments), "Deployed to staging."])
    walk = Walk()
    with watched(walk):
        agent = replace(open_agent(open_library(str(folder / "project"))), model=model)
        events = list(agent.start().say("/deploy staging"))
    outputs = [event.text for event in events if isinstance(event, Used)]
    assert outputs == ["deployed to staging"], outputs
    assert isinstance(events[-1], Ended), events[-1]
    assert events[-1].outcome == "finished", events[-1]
    return walk


def picture(step: Step, indent: str = "") -> Iterator[str]:
    """The steps as a tree, in the order in which they were first taken."""
    for at, inner in enumerate(step.inner):
        last = at == len(step.inner) - 1
        file, _, function = inner.name.partition(" ")
        times = f"  ×{inner.times}" if inner.times > 1 else ""
        yield f"{indent}{'└─ ' if last else '├─ '}{file.removesuffix('.py')} {function}{times}"
        yield from picture(inner, indent + ("   " if last else "│  "))


def report(walk: Walk) -> str:
    by_package = Counter(file.split("/")[0].removesuffix(".py") for file in walk.files)
    rows = [
        ("calls into metier", f"{sum(walk.calls.values()):,}"),
        ("functions", f"{len(walk.calls):,}"),
        ("files", f"{len(walk.files)}"),
        ("packages", f"{len(walk.packages)}"),
        ("catalogs built", f"{walk.catalogs}"),
        ("times the skill's folder was hashed", f"{walk.hashed}"),
    ]
    lines = ["| of one turn | |", "|---|---:|", *(f"| {name} | {figure} |" for name, figure in rows), ""]
    lines += [
        "Files by package: " + ", ".join(f"`{name}` {count}" for name, count in sorted(by_package.items())) + ".",
        "",
        "```text",
        'metier run "/deploy staging"',
        *picture(walk.top),
        "```",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--write"]):
        print("usage: trace_turn.py [--write]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        text = report(trace(Path(folder).resolve()))
    if not arguments:
        print(text)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
