"""Run the tests as they would run on other machines, each time in a fresh clone: `make test-everywhere`.

A setting is what a machine or an account may be like: a private folder, no network, another locale.  `--sample` runs
a few minutes' worth of tests in each, and names on the command line choose settings (`--list` prints them).
One line is printed for each setting; one that failed leaves its log.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
NOBODY = 65_534
LIMIT = 7200
"""Seconds: more than a whole run takes on one core."""

# What depends most on where it runs: users, folders, processes, clocks, locales.
SAMPLE = (
    "tests/agent/test_files.py",
    "tests/cli/test_lean.py",
    "tests/cli/test_errors.py",
    "tests/contracts/test_examples.py",
    "tests/host/test_process.py",
    "tests/install/test_git.py",
    "tests/journeys/test_tiers.py",
    "tests/journeys/test_thirty_broken.py",
    "tests/library/test_watch.py",
    "tests/properties",
    "tests/record",
    "tests/schedule/test_crashes.py",
    "tests/schedule/test_firing.py",
    "tests/sources/test_index.py",
    "tests/sources/test_links.py",
    "tests/sources/test_state.py",
)

# A machine without a network still talks to itself, and a new namespace starts with that link down.
LINK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket() as link:
    fcntl.ioctl(link, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""
NO_NETWORK = ("unshare", "--net", sys.executable, "-I", "-c", LINK_UP)
NO_NAMESPACES = (sys.executable, "tests/journeys/lacking.py", "namespaces")
"""bubblewrap can't start, whichever is installed, so that the next tier has to do."""


class Account(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


class SettingFailed(Exception):
    """The tests did not pass in a setting, or could not be begun."""


@dataclass(frozen=True)
class Setting:
    """What is different from a plain clone of one's own."""

    name: str
    folder: str = "clone"
    """Where the clone is, below a scratch folder."""
    mode: int = 0o755
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables to set, with `{scratch}` for the scratch folder; None takes one away."""
    before: tuple[str, ...] = ()
    """A command that runs the tests' command."""
    python: str = ""
    """The interpreter to make .venv with, as a version; empty is the one of this .venv."""
    ordinary: bool = False
    busy: bool = False
    copies: int = 1


LONG = "a rather long folder for temporary files, with spaces and ümläuts/" + "and-more-of-it-/" * 4

SETTINGS = (
    Setting("plain"),
    Setting("private-folder", mode=0o700),
    Setting("ordinary-user", ordinary=True),
    Setting("spaces-and-letters", folder="Ünï çode/my clöne"),
    Setting("no-bubblewrap", before=NO_NAMESPACES),
    Setting("no-network", before=NO_NETWORK),
    Setting("no-home", env={"HOME": None}),
    Setting("tmpdir-elsewhere", env={"TMPDIR": f"{{scratch}}/{LONG}"}),
    Setting("c-locale", env={"LC_ALL": "C", "LANG": None, "PYTHONUTF8": None}),
    Setting("posix-locale", env={"LC_ALL": "POSIX", "LANG": None, "PYTHONUTF8": None, "PYTHONIOENCODING": None}),
    Setting("one-core", before=("taskset", "--cpu-list", "0")),
    Setting("under-load", busy=True),
    Setting("twice-at-once", copies=2),
    Setting("python-3.11", python="3.11"),
    Setting("python-3.12", python="3.12"),
    Setting("python-3.13", python="3.13"),
    Setting("python-3.14", python="3.14"),
)


def find_python(version: str) -> str:
    """An interpreter of that version, on PATH or where pyenv and uv keep theirs; empty where there is none."""
    if not version:
        return sys.executable
    if found := shutil.which(f"python{version}"):
        return found
    kept = [Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"]
    kept.append(Path("~/.local/share/uv/python").expanduser())
    for folder in kept:
        # Another user's folder, named by a variable that was inherited, may not be listed.
        with contextlib.suppress(PermissionError):
            for found_at in sorted(folder.glob(f"*{version}.*/bin/python{version}"), reverse=True):
                return str(found_at)
    return ""


def reason_against(setting: Setting) -> str:
    """Why this machine can't give that setting; empty where it can."""
    if setting.ordinary and os.getuid() != 0:
        return "we are an ordinary user: `plain` says it"
    if setting.ordinary and not others_python():
        return "other users have no Python 3.11 or newer here"
    if not find_python(setting.python):
        return f"there is no Python {setting.python} here"
    if setting.before and subprocess.run([*setting.before, "true"], cwd=ROOT, capture_output=True).returncode:
        return f"`{' '.join(setting.before[:2])}` is not allowed or not there"
    return ""


def others_python() -> str:
    """The interpreter that an ordinary user finds, since root's own may lie in root's home."""
    for found in ("/usr/bin/python3", "/usr/local/bin/python3"):
        new = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"
        if os.path.exists(found) and not subprocess.run([found, "-c", new], capture_output=True).returncode:
            return found
    return ""


def variables(setting: Setting, scratch: Path) -> dict[str, str]:
    """The environment of a run there."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "METIER_"))}
    if setting.ordinary:
        found["HOME"] = str(scratch / "home")
    for name, value in setting.env.items():
        found.pop(name, None)
        if value is not None:
            found[name] = value.replace("{scratch}", str(scratch))
    return found


def make_clone(folder: Path) -> None:
    """What is committed, with what the working tree has changed since: the state that is to be judged."""
    if not (ROOT / ".git").exists():  # an unpacked source distribution
        shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".*_cache", "__pycache__"))
        return
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    changed = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    listed = subprocess.run(changed, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        if os.path.lexists(ROOT / name):
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def lend_packages(folder: Path) -> None:
    """A .venv of this interpreter in a clone, with our packages and the clone's metier: in a second, and offline."""
    made = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    [packages] = made.glob("lib/python*/site-packages")
    # Folders in a .pth file are searched, but the .pth files in them are not read: our own metier stays unseen.
    lines = [str(folder / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    # The interpreter reads it in the locale's encoding up to 3.12, in UTF-8 from 3.13 on: this is both.
    lent = "".join(f"import sys; sys.path.append({line!a})\n" for line in lines)
    (packages / "lent.pth").write_text(lent, encoding="ascii")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    scripts = {entry.name: entry.value for entry in entry_points(group="console_scripts")} | project["scripts"]
    for name, place in scripts.items():
        script, (module, _, function) = made / "bin" / name, place.partition(":")
        # A `#!` line can't name a path with spaces, so a shell finds the interpreter.
        start = "#!/bin/sh\n'''exec' \"$(dirname \"$0\")/python\" \"$0\" \"$@\"\n' '''\n"
        script.write_text(f"{start}import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        script.chmod(0o755)
    (made / ".made").touch()


def account_of(setting: Setting) -> Account:
    """Whom the run belongs to, for `subprocess`."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if setting.ordinary else {}


def make_venv(setting: Setting, folder: Path, env: Mapping[str, str]) -> None:
    """The clone's .venv: lent where this interpreter will do, by `make venv` where it takes another."""
    if not setting.python and not setting.ordinary:
        lend_packages(folder)
        return
    python = others_python() if setting.ordinary else find_python(setting.python)
    done = subprocess.run(
        ["make", "venv", f"PYTHON={python}"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **account_of(setting),
    )
    if done.returncode:
        raise SettingFailed(f"`make venv` failed: {(done.stdout.strip().splitlines() or ['it said nothing'])[-1]}")


def give_away(tree: Path) -> None:
    """Make a folder and all in it the ordinary user's."""
    for at, folders, files in os.walk(tree):
        for name in (".", *folders, *files):
            os.chown(os.path.join(at, name), NOBODY, NOBODY, follow_symlinks=False)


@contextlib.contextmanager
def busy_machine(busy: bool) -> Iterator[None]:
    """Three programs for each core that do nothing but run."""
    count = 3 * (os.cpu_count() or 1) if busy else 0
    running = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def prepare(setting: Setting, scratch: Path) -> tuple[list[Path], dict[str, str]]:
    """The clones of a setting, with all they need, and the environment to run them in."""
    scratch.chmod(0o755)  # the clones' own folder decides who may look
    env = variables(setting, scratch)
    if "TMPDIR" in setting.env:
        Path(env["TMPDIR"]).mkdir(parents=True)
    above = scratch / "in"
    above.mkdir(mode=0o755)
    (scratch / "home").mkdir()
    clones = [above / (setting.folder + ("" if number == 0 else f"-{number}")) for number in range(setting.copies)]
    for clone in clones:
        clone.parent.mkdir(parents=True, exist_ok=True)
        make_clone(clone)
    if setting.ordinary:
        give_away(scratch)
    for clone in clones:
        make_venv(setting, clone, env)
    above.chmod(setting.mode)
    return clones, env


def run_setting(setting: Setting, tests: Sequence[str], scratch: Path, workers: int) -> str:
    """Run tests in a setting: the last line of what pytest said.  What failed is an error with its log's place."""
    clones, env = prepare(setting, scratch)
    words = [*setting.before, ".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", "--dist", "worksteal"]
    words += ["-n", str(workers), *tests] if workers else list(tests)
    logs = [scratch / f"log-{number}" for number in range(len(clones))]
    with busy_machine(setting.busy), contextlib.ExitStack() as stack:
        running = []
        for clone, log in zip(clones, logs, strict=True):
            out = stack.enter_context(log.open("wb"))
            account = account_of(setting)
            running.append(subprocess.Popen(words, cwd=clone, env=env, stdout=out, stderr=out, **account))
        try:
            codes = [one.wait(LIMIT) for one in running]
        finally:
            for one in running:
                one.kill()
    said = [last_lines(log) for log in logs]
    if any(codes):
        failed = next(number for number, code in enumerate(codes) if code)
        raise SettingFailed(f"{said[failed]}: {logs[failed]}")
    return "; ".join(said)


def last_lines(log: Path) -> str:
    """How pytest sums a run up, or the last that was said where it never came to that."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error)", line)), lines[-1])


def remove(scratch: Path) -> None:
    """All of a scratch folder; tests that take rights away from a folder may have left one so."""
    for at, folders, _ in os.walk(scratch):
        for name in folders:
            if not os.path.islink(os.path.join(at, name)):
                os.chmod(os.path.join(at, name), 0o700)
    shutil.rmtree(scratch, ignore_errors=True)


def chosen(names: Sequence[str]) -> list[Setting]:
    """The settings of these names; all where none is named."""
    known = {one.name: one for one in SETTINGS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no setting `{unknown[0]}`. There are: {', '.join(known)}")
    return [known[name] for name in names] or list(SETTINGS)


def try_setting(setting: Setting, tests: Sequence[str], workers: int, base: Path | None = None) -> bool:
    """Run one and print its line; whether it held.  A scratch folder stays only where its log is needed."""
    if reason := reason_against(setting):
        print(f"{setting.name:20} not here  {reason}", flush=True)
        return True
    scratch, began = Path(tempfile.mkdtemp(prefix="everywhere-", dir=base)), time.monotonic()
    try:
        said, held = run_setting(setting, tests, scratch, workers), True
    except (SettingFailed, subprocess.SubprocessError) as error:
        said, held = str(error), False
    if held:
        remove(scratch)
    word = "held" if held else "FAILED"
    print(f"{setting.name:20} {word:8}  {time.monotonic() - began:5.0f} s  {said.strip('= ')}", flush=True)
    return held


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make test-everywhere", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SETTING")
    parser.add_argument("--list", action="store_true", help="print the settings and whether this machine has them")
    parser.add_argument("--sample", action="store_true", help="run a sample of the tests in each")
    asked = parser.parse_args(words)
    settings = chosen(asked.names)
    if asked.list:
        for one in settings:
            print(f"{one.name:20} {reason_against(one) or 'can be tried here'}")
        return 0
    workers = (os.cpu_count() or 1) + 2
    held = [try_setting(one, SAMPLE if asked.sample else (), workers) for one in settings]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
