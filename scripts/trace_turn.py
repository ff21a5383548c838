"""Prints the walk of one turn: what `metier run "/deploy staging"` goes through, from the call to the answer.

The turn is real: a skill with one script is installed into a home of its own, a library is opened, and the agent that
`metier run` builds does the work; only the model is scripted.  It calls the skill's script once, then answers.
`sys.setprofile` sees every call.  With --write the result becomes the generated block of docs/concepts/walk.md.
"""

from __future__ import annotations

import os
import re
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

from metier.faces.agents import open_agent  # noqa: E402
from metier.library.open import OpenRequest, open_at  # noqa: E402
from metier.testing.models import ScriptedModel  # noqa: E402
from metier.types.activation import ToolCall  # noqa: E402
from metier.types.event import Ended, Used  # noqa: E402
from metier.types.place import Place  # noqa: E402

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
CATALOG = "catalog/listing.py prepare_catalog"
SETTLED = 0.2
"""Seconds after which a file counts as settled: one that changed a moment ago is hashed again to be sure."""
HASHES = ("host/trees.py file_marks", "sources/bundled.py folder_digest")
"""The functions that read every byte of a folder into a digest."""
LEAVES = ("types", "host", "dialects", "light_typing")
"""Packages that all others call and that call none of them: the picture leaves them out, but for the landmarks."""
LANDMARKS = (*HASHES, "sandbox/__init__.py run_sandboxed")
PLUMBING = re.compile(
    r"LazySkills|/journal.py (?!Journal\.keep)|guard_errors$|agent/agent.py (?!Agent.start|agent_for)|_target"
    r"|takes_path|call_subject|_line_digest|Session\.(?:access|catalog|say|refresh)|SessionTools|\.digests|get_layout|renumber|agents_trusted"
    r"|scheduler_roots|resolve_bounds|configured_permission|tool_tokens|read_trust_record|agent_files|build_toolset$"
    r"|__|<lambda>|comp>$"
).search
"""Short functions that say nothing about the way: their own steps count as their caller's."""
SHOWN_BY_MODULE = ("agent",)
"""Packages whose modules are steps of their own: the turn spends most of its way in there."""


@dataclass
class Step:
    """A function that was entered from another package, and what it entered in turn."""

    unit: str
    name: str
    inner: list[Step] = field(default_factory=list)
    times: int = 0


@dataclass
class Walk:
    """Every call of a turn to a function of metier."""

    calls: Counter[str] = field(default_factory=Counter)
    """By file and function."""
    hashed: int = 0
    """How often the skill's folder was read into a digest."""
    top: Step = field(default_factory=lambda: Step("", ""))
    entered: dict[FrameType, Step] = field(default_factory=dict)
    """The step of each frame that is one; a generator keeps its frame, and with it its step, when it goes on."""

    @property
    def files(self) -> list[str]:
        return sorted({name.partition(" ")[0] for name in self.calls})

    @property
    def packages(self) -> list[str]:
        return sorted({package_of(file) for file in self.files})

    @property
    def catalogs(self) -> int:
        return self.calls[CATALOG]

    def enter(self, frame: FrameType) -> None:
        code = frame.f_code
        if not code.co_flags & CO_OPTIMIZED:
            return  # the body of a module or a class: nothing is called
        file = code.co_filename.removeprefix(SOURCE)
        name = f"{file} {code.co_qualname}"
        self.calls[name] += 1
        if name in HASHES and str(frame.f_locals[code.co_varnames[0]]).endswith("/deploy"):
            self.hashed += 1
        if (package_of(file) not in LEAVES or name in LANDMARKS) and frame not in self.entered:
            self._add_step(frame, file, name)

    def _add_step(self, frame: FrameType, file: str, name: str) -> None:
        package = package_of(file)
        unit = file if package in SHOWN_BY_MODULE else package
        outer = frame.f_back
        while outer is not None and outer not in self.entered:
            outer = outer.f_back
        parent = self.entered[outer] if outer is not None else self.top
        if unit == parent.unit or (PLUMBING(name) and name not in LANDMARKS):
            return
        step = next((known for known in parent.inner if known.name == name), None)
        if step is None:
            step = Step(unit, name)
            parent.inner.append(step)
        step.times += 1
        self.entered[frame] = step


def package_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


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


def prepare(folder: Path) -> Place:
    """A place with the skill installed."""
    home, project, origin = folder / "home", folder / "project", folder / "origin" / "deploy"
    for path in (home, project / ".git", origin / "scripts"):
        path.mkdir(parents=True)
    (origin / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (origin / "scripts" / "deploy.py").write_text(SCRIPT, encoding="utf-8")
    variables = {"HOME": str(home), "METIER_HOME": str(home / ".metier"), "PATH": os.environ["PATH"]}
    start = "import sys; from metier.faces.cli.app import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "--project", str(project)]
    around = {**variables, "PYTHONPATH": str(ROOT / "src")}
    added = subprocess.run(
        [*command, "add", str(origin), "--user", "--yes"], env=around, capture_output=True, text=True
    )
    if added.returncode:
        raise SystemExit(added.stderr)
    sleep(SETTLED)
    return Place(str(project), str(project), str(home), variables["METIER_HOME"], variables, sys.platform)


def trace(folder: Path) -> Walk:
    """The walk of one turn, the second one: by then the index is warm and the sandbox is probed, as on any day."""
    place = prepare(folder)
    run_turn(place)
    walk = Walk()
    with watched(walk):
        run_turn(place)
    return walk


def run_turn(place: Place) -> None:
    """One turn; what came of it is checked, so that a turn that fails is not measured."""
    arguments = {"skill_name": "deploy", "script_name": "deploy.py", "script_args": "staging"}
    model = ScriptedModel([ToolCall("call-1", "skill_run_script", arguments), "Deployed to staging."])
    agent = replace(open_agent(open_at(place, OpenRequest())), model=model)
    events = list(agent.start().say("/deploy staging"))
    outputs = [event.text for event in events if isinstance(event, Used)]
    assert outputs == ["deployed to staging"], outputs
    assert isinstance(events[-1], Ended), events[-1]
    assert events[-1].outcome == "finished", events[-1]


def picture(step: Step, indent: str = "") -> Iterator[str]:
    """The steps as a tree, in the order in which they were first taken."""
    for at, inner in enumerate(step.inner):
        last = at == len(step.inner) - 1
        file, _, function = inner.name.partition(" ")
        times = f"  ×{inner.times}" if inner.times > 1 else ""
        module = file.removesuffix(".py").removesuffix("/__init__")
        shown = function.replace(".<locals>", "")
        yield f"{indent}{'└─ ' if last else '├─ '}{module} {shown}{times}"
        yield from picture(inner, indent + ("   " if last else "│  "))


def report(walk: Walk) -> str:
    by_package = Counter(map(package_of, walk.files))
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
