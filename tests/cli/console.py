"""A person at a desk: a home, a project, and the real command line, with or without a terminal."""

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple

from tests.cli import forkserver

METIER = [sys.executable, "-m", "metier"]
FULL = [
    sys.executable,
    "-c",
    "import sys; from metier.faces.cli import app; app.READ_ONLY = frozenset(); sys.exit(app.run(sys.argv[1:]))",
]
"""The same with every command line parsed by click."""
LONG_AGO = 1_600_000_000


class Said(NamedTuple):
    code: int
    out: str
    err: str = ""


class Desk:
    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.project = base / "project"
        self.bin = base / "bin"
        for folder in (self.home, self.project / ".git", self.bin):
            folder.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm"}

    @property
    def state(self) -> Path:
        return self.home / ".metier"

    @property
    def skills(self) -> Path:
        return self.state / "skills"

    def skill(self, name: str, text: str = "", under: Path | None = None, description: str = "Does a thing.") -> Path:
        """A skill of the user's own; `text` is more frontmatter, or the whole file when it begins with a fence."""
        file = (under or self.skills) / name / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = text if text.startswith("---") else f"---\nname: {name}\ndescription: {description}\n{text}---\nBody.\n"
        file.write_text(whole, encoding="utf-8")
        return file

    def configure(self, toml: str) -> None:
        self.state.mkdir(exist_ok=True)
        (self.state / "config.toml").write_text(toml, encoding="utf-8")

    def program(self, name: str) -> Path:
        file = self.bin / name
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
        return file

    def say(self, *words: str, cwd: Path | None = None, program: list[str] = METIER, **env: str) -> Said:
        if program in (METIER, FULL) and forkserver.takes(self.env | env):
            code, out, err = forkserver.run(words, cwd or self.project, self.env | env, 60, program is METIER)
            return Said(code, out.decode("utf-8", "surrogateescape"), err.decode())
        done = subprocess.run(
            [*program, *words],
            cwd=cwd or self.project,
            env=self.env | env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        return Said(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode())

    def shell(self, script: str, **env: str) -> Said:
        """A line of shell in which `metier` is the real one."""
        done = subprocess.run(
            ["/bin/bash", "-c", f'metier() {{ "{sys.executable}" -m metier "$@"; }}\n{script}'],
            cwd=self.project,
            env=self.env | env,
            capture_output=True,
            timeout=60,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def at_terminal(self, *words: str, columns: int = 100, program: list[str] = METIER, **env: str) -> Said:
        """The same at a real terminal of that width."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        running = self._begun(program, words, env, theirs)
        os.close(theirs)
        return Said(*_drained(ours, running))

    def answering(self, *words: str, answer: str, program: list[str] = METIER, **env: str) -> Said:
        """The same, with something typed at the terminal."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        running = self._begun(program, words, env, theirs)
        os.close(theirs)
        os.write(ours, answer.encode())
        return Said(*_drained(ours, running))

    def _begun(
        self, program: list[str], words: tuple[str, ...], env: dict[str, str], terminal: int
    ) -> "subprocess.Popen[bytes] | forkserver.Forked":
        around = self.env | env
        if program in (METIER, FULL) and forkserver.takes(around):
            return forkserver.fork(words, self.project, around, (terminal, terminal, terminal), program is METIER)
        return subprocess.Popen(
            [*program, *words], cwd=self.project, env=around, stdin=terminal, stdout=terminal, stderr=terminal
        )

    def neat(self, text: str) -> str:
        """Without what differs from run to run."""
        return text.replace(str(self.home), "HOME").replace(str(self.project), "PROJECT").replace(str(self.bin), "BIN")

    def settle(self) -> None:
        """Make everything old enough to be remembered."""
        time.sleep(0.06)


def _drained(ours: int, running: "subprocess.Popen[bytes] | forkserver.Forked") -> tuple[int, str]:
    parts = []
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.5)[0]:
            try:
                part = os.read(ours, 65_536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        elif running.poll() is not None:
            break
    os.close(ours)
    return running.wait(60), b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")
