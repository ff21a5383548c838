"""Everything of a release but the upload: `python -m scripts.release [--quick]`.

Builds the sdist and the wheel, checks what an index would show, writes the SBOM, and installs the wheel into empty
environments: on the oldest and the newest Python that this machine has, and then each extra alone, each with a command
that needs it. `--quick` leaves the extras out. What a machine lacks (a Python, a tool) is named, never passed over.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_RUN = ["-m", "metier"]
EXTRA_COMMANDS: dict[str, list[str]] = {
    "watch": ["-c", "import watchfiles"],
    "mcp": [*_RUN, "mcp", "--help"],
    "pydantic-ai": ["-c", "import metier.adapters.pydantic_ai"],
    "langchain": ["-c", "import metier.adapters.langchain"],
    "openai-agents": ["-c", "import metier.adapters.openai_agents"],
    "acp": [*_RUN, "acp", "--help"],
    "dense": [*_RUN, "search", "fill a form"],
    "schedule": [*_RUN, "schedule", "list"],
    "agent": ["-c", "import metier.agent.models.hosted"],
    "anthropic": ["-c", "import metier.agent.models.hosted, anthropic"],
    "google": ["-c", "import metier.agent.models.hosted, google.genai"],
    "local": [*_RUN, "models", "list"],
    "sandbox": [*_RUN, "doctor", "--json"],
    "web": [*_RUN, "web", "--help"],
    "otel": ["-c", "import metier.record.telemetry"],
    "chat": [*_RUN, "chat", "--help"],
    "all": [*_RUN, "doctor", "--json"],
    "dev": ["-c", "import pytest, hypothesis"],
}
"""A program for each extra that does not work without it, or would not be there."""


def run(command: list[str | Path], note: str, good: tuple[int, ...] = (0,), **options: object) -> None:
    print(f"  {note}", flush=True)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1800, **options)  # type: ignore[call-overload]
    if done.returncode not in good:
        sys.exit(f"release: {note} failed with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def build() -> Path:
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "hatchling", "build", "-d", DIST], "build the sdist and the wheel", cwd=ROOT)
    # A wheel that only the working tree can give is none: the sdist must give the same.
    with tempfile.TemporaryDirectory() as folder:
        [source] = DIST.glob("*.tar.gz")
        shutil.unpack_archive(source, folder, filter="data")
        [tree] = Path(folder).iterdir()
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], "build from the sdist", cwd=tree)
        [again] = Path(folder).glob("*.whl")
        [wheel] = DIST.glob("*.whl")
        if again.read_bytes() != wheel.read_bytes():
            sys.exit("release: the wheel of the sdist differs from the wheel of the working tree")
    return wheel


def check() -> None:
    if shutil.which("twine") is None:
        print("  not checked by twine: it is not installed (pip install twine)")
        return
    run(["twine", "check", "--strict", *DIST.glob("*.whl"), *DIST.glob("*.tar.gz")], "twine check")


def write_sbom() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.sbom"], cwd=ROOT, capture_output=True, check=True)
    (DIST / "sbom.cdx.json").write_bytes(done.stdout)
    print("  sbom.cdx.json")


def try_install(python: str, what: str, commands: list[list[str]]) -> None:
    """Install into an environment of its own, and run commands from an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "venv" / "bin" / "python"
        run([python, "-m", "venv", Path(folder) / "venv"], f"{python}: an empty environment")
        run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what], f"{python}: {what}")
        home = Path(folder) / "home"
        home.mkdir()
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        for words in commands:
            # `doctor` ends with 1 where the machine lacks something that is required; it still ran.
            good = (0, 1) if "doctor" in words else (0,)
            run([inside, *words], f"{python}: {' '.join(words)}", good, cwd=home, env=env)


def main(quick: bool) -> None:
    wheel = build()
    check()
    write_sbom()
    there = [name for version in PYTHONS if (name := shutil.which(f"python{version}")) and _starts(name)]
    print(f"  Pythons to be had here: {', '.join(map(str, there)) or 'only ' + sys.executable}")
    first = [[*_RUN, "--version"], [*_RUN, "list"], [*_RUN, "init"], [*_RUN, "status"]]
    for python in dict.fromkeys([there[0], there[-1]] if there else [sys.executable]):
        try_install(python, str(wheel), first)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in [] if quick else extras:
        try_install(there[0] if there else sys.executable, f"{wheel}[{extra}]", [EXTRA_COMMANDS[extra]])
    print(f"ready: {', '.join(sorted(file.name for file in DIST.iterdir()))}; nothing was uploaded")


def _starts(python: str) -> bool:
    """A shim of pyenv is on PATH also where its version is not chosen."""
    return subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
