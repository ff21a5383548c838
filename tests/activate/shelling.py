"""Commands of a body, read with their arguments, and run by real shells in a folder that anything may be done to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders import origin, skill

from metier.activate.render import CommandRunner, RenderOptions, render
from metier.host import process
from metier.types.activation import Activation, Call, InvokedBy
from metier.types.dialect import ShellRules
from metier.types.sandbox import ProcessResult, ProgramSpec

PATH = os.environ.get("PATH", "/usr/bin:/bin")
SHELLS = ("sh", "bash")


@dataclass
class Runner:
    """Runs what it is given in a folder, with the shell it was told; without a folder it only remembers it."""

    cwd: Path | None = None
    program: str = ""
    """Which shell; empty for the dialect's own."""
    path: str = PATH
    runs: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __call__(self, source: str, env: dict[str, str], shell: ShellRules, seconds: float) -> ProcessResult:
        self.runs.append((source, env))
        if self.cwd is None:
            return ProcessResult(0, "")
        around = {"PATH": self.path, "LANG": "C.UTF-8", "HOME": str(self.cwd)}
        argv = (self.program or shell.program, "-c", source)
        return process.run_program(ProgramSpec(argv, str(self.cwd), around | env, 20, merged=shell.output == "merged"))


def block(command: str) -> str:
    return f"```!\n{command}\n```"


def activated(
    body: str,
    arguments: str | tuple[str, ...] = "",
    dialect: str = "umbra",
    run: CommandRunner | None = None,
    by: InvokedBy = "user",
    **more: Any,
) -> Activation:
    """A body, rendered without any disk."""
    off = more.pop("off", "")
    variables = more.pop("variables", {})
    made = skill("s", at=origin(dialect), extra={"arguments": more.pop("names", ())}, **more)
    return render(made, body, Call("s", arguments, by, "/work"), RenderOptions(run or Runner(), off, variables))


def ran(
    command: str, arguments: str | tuple[str, ...], run: Runner, dialect: str = "umbra", by: InvokedBy = "user"
) -> str:
    """What a block command writes."""
    return activated(block(command), arguments, dialect, run, by).text


def refusal(command: str, arguments: str | tuple[str, ...] = "", dialect: str = "umbra", by: InvokedBy = "user") -> str:
    """Why a command is not run; empty when it is."""
    runner = Runner()
    text = activated(block(command), arguments, dialect, runner, by).text
    if runner.runs:
        return ""
    assert text.startswith("[shell error: not run: "), text
    return text
