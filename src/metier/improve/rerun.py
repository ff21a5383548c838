"""Run a skill's own script again, for real: in the sandbox, without network, on copies of the skill and the project.

A recording can't show whether a repaired script works, as it only has the old answer.  The copies have the inputs as
they are now, and whatever the script writes is gone afterwards.  Nothing but the skill's own scripts runs: any other
command may have effects that a copy does not contain.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..diagnose.scripts import find_own_script, interpreter_of
from ..diagnose.steps import inner_path
from ..host import fs, paths, trees
from ..library.grants import plain_environment, run_program
from ..types.errors import HostError, MetierError
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec
from ..types.skill import Skill
from .examine import FolderContents

if TYPE_CHECKING:
    from ..library.library import Library

_SECONDS = 30.0
_MOST_FILES, _MOST_BYTES = 2_000, 20_000_000
"""Of a project that is copied; in a larger one the scripts run without its files."""
_PLAIN = frozenset(";|&<>`()\n")
"""What makes a command more than the start of one program."""


class RerunCall(NamedTuple):
    """A call of a program that was recorded, or that a changed text leads to."""

    command: str
    tool: str
    cwd: str
    """The working folder of the run."""


class RerunResult(NamedTuple):
    """How it ended this time."""

    status: int | None
    cause: str = ""
    """What of the machine made it fail: a replay has no network, and says nothing about what needs one."""
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.status == 0

    @property
    def decided(self) -> bool:
        """Whether it shows anything about the skill."""
        return self.status is not None and not (self.status and self.cause and self.status not in (126, 127))


def starts_own_script(command: str, folder: str, files: Mapping[str, str]) -> bool:
    """Whether a command does nothing but start one of the skill's scripts."""
    words = _split(command)
    return bool(words) and not _PLAIN & set(command) and find_own_script(words, folder, files) is not None


def rerun_call(
    library: Library, skill: Skill, contents: FolderContents, texts: Mapping[str, str], call: RerunCall
) -> RerunResult:
    """Run a call of the skill's own script with these texts in its files."""
    try:
        with _copied(skill, contents, texts, call.cwd) as (folder, project):
            return _run(library, skill, texts, call, (folder, project))
    except (MetierError, OSError) as error:
        return RerunResult(None, text=str(error))


def _run(
    library: Library, skill: Skill, texts: Mapping[str, str], call: RerunCall, copies: tuple[str, str]
) -> RerunResult:
    folder, project = copies
    words = _split(call.command)
    script = find_own_script(words, skill.directory, texts)
    moved = [_moved(word, skill, call.cwd, copies, texts) for word in words]
    if call.tool == "skill_run_script" and script is not None and not script.at:
        moved = [interpreter_of(script.path, texts[script.path]) or "sh", *moved]
    env = plain_environment(library) | {"SKILL_DIR": folder, "CLAUDE_SKILL_DIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    # Through a shell, which has statuses for what can't be started.
    argv = ("bash", "--noprofile", "--norc", "-c", shlex.join(moved))
    cwd = folder if call.tool == "skill_run_script" else project
    work = folder.rpartition("/")[0]
    spec = SandboxSpec(
        "require", work=work, permissions=SandboxPermissions(read=(work,)), hidden=(library.place.state,)
    )
    result: ProcessResult = run_program(library, ProgramSpec(argv, cwd, env, _SECONDS, merged=True), spec)
    return RerunResult(None if result.timed_out else result.status, result.cause, result.stdout)


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _moved(word: str, skill: Skill, cwd: str, copies: tuple[str, str], texts: Mapping[str, str]) -> str:
    """A word of a command with the paths of the copies in it."""
    inner = inner_path(word, skill.directory)
    if inner in texts or word.startswith(f"{skill.directory}/"):
        return f"{copies[0]}/{inner}"
    if cwd and (word == cwd or word.startswith(f"{cwd}/")):
        return copies[1] + word[len(cwd) :]
    return word


@contextmanager
def _copied(skill: Skill, contents: FolderContents, texts: Mapping[str, str], cwd: str) -> Iterator[tuple[str, str]]:
    with trees.temporary_folder() as outer:
        folder, project = f"{outer}/{skill.directory.rpartition('/')[2]}", f"{outer}/project"
        for path, (mode, data) in contents.files.items():
            text = texts.get(path)
            trees.put_bytes(f"{folder}/{path}", data if text is None else text.encode("utf-8", "surrogatepass"), mode)
        trees.make_folders(project)
        # A home folder is no project, and what is private in it is no input.
        if cwd and paths.is_folder(cwd) and not paths.is_inside(paths.home_folder(), cwd):
            _copy_project(cwd, project)
        yield folder, project


def _copy_project(cwd: str, project: str) -> None:
    """Copy the files of a project, unless it is large."""
    tree = [(path, found) for path, found in paths.tree_of(cwd, _MOST_FILES + 1) if stat.S_ISREG(found.st_mode)]
    if len(tree) > _MOST_FILES or sum(found.st_size for _, found in tree) > _MOST_BYTES:
        return
    for path, found in tree:
        # What tests and editors make is of no use here, and keys are nobody's input.
        if not {*fs.IGNORED_FOLDERS} & set(path.split("/")) and not path.rpartition("/")[2].startswith(".env"):
            try:
                data = trees.read_first_bytes(f"{cwd}/{path}", found.st_size)
            except (HostError, OSError):
                continue
            trees.put_bytes(f"{project}/{path}", data, found.st_mode & 0o777)


def describe(result: RerunResult) -> str:
    """How a rerun ended, in words."""
    if result.status is None:
        return result.text or "it did not end"
    return f"status {result.status}" + (f" ({result.cause})" if result.cause else "")


def fails_by_itself(library: Library, skill: Skill, contents: FolderContents, call: RerunCall, text: str) -> bool:
    """Whether a script fails in an empty project just as it did: then no input of the user's was the reason."""
    again = rerun_call(library, skill, contents, contents.texts, call._replace(cwd=""))
    if not again.status or again.cause or not again.decided or _MISSING_INPUT in again.text:
        return False
    return _last_line(again.text) == _last_line(text)


_MISSING_INPUT = "No such file or directory"


def _last_line(text: str) -> str:
    """The last line that a program printed; what a tool adds about its status is not part of that."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("[exit code:")]
    return lines[-1] if lines else ""
