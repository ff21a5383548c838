"""A desk: the skills of a library as somebody may use them, a person, a model or a schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ..act.tools import Page
from ..activate import Off, Terms, context, render, tool_result
from ..host import files, paths
from ..host.clock import monotonic
from ..host.memo import which
from ..host.sandbox.interpreter import python as own_python
from ..types.activation import Activation, By, Call, Message
from ..types.dialect import Shell
from ..types.errors import BadRequest, Changed, MetierError, NoFile, OutsideSkill, Refused, SkillError, UnknownSkill
from ..types.problem import problem
from ..types.running import Box, Program, Ran
from ..types.skill import Skill
from .granting import granted
from .installed import vouch
from .running import box, environment, run_program, shell_program

if TYPE_CHECKING:
    from .library import Library

PAGE = 64_000
"""Bytes of a file that are read at once."""
SCRIPT_SECONDS = 30.0
_MOST_NAMES = 50
_INTERPRETERS = {".py": ("python3", "python"), ".sh": ("bash", "sh"), ".bash": ("bash",), ".js": ("node", "nodejs")}
_private = re.compile(r"(?:^|/)(?:\.(?!\.?(?:/|$))[^/]*|#[^/]*#|[^/]*(?:~|\.swp|\.swo|\.orig|\.bak))(?:/|$)")
"""Files that are nobody's business: hidden ones, and what editors leave behind."""
_elsewhere = re.compile(r"[A-Za-z]:|.*\\")


@dataclass(frozen=True)
class LibraryDesk:
    """What one conversation may do with a library's skills."""

    library: Library
    cwd: str
    by: By = "model"
    write: tuple[str, ...] = ()
    """Folders that scripts may write in, beside their own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    runner: Callable[[Library, Program, Box], Ran] = run_program
    alone: bool = False
    """Nobody is there: a boundary is required."""

    def offered(self) -> Sequence[Skill]:
        """The skills that may be used here, in the catalog's order."""
        return [verdict.skill for verdict in self.library.in_order() if verdict.usable and self._may(verdict.skill)]

    def _may(self, skill: Skill) -> bool:
        if self.by == "user":
            return skill.user_may_invoke
        hides = skill.origin.dialect.authoring.user_invocable_hides and not skill.user_may_invoke
        return skill.model_may_invoke and not hides

    def skill(self, name: str) -> Skill:
        """The skill of that name or, failing that, of that folder; a refusal lists what there is."""
        offered = self.offered()
        for spelled in ("name", "id", "qualified"):
            for skill in offered:
                if name == getattr(skill, spelled):
                    return skill
        raise self._refusal(name, [skill.name for skill in offered])

    def _refusal(self, name: str, names: list[str]) -> MetierError:
        left = len(names) - _MOST_NAMES
        listed = (", ".join(names[:_MOST_NAMES]) or "none") + (f" and {left} more" if left > 0 else "")
        offer = f"Available: {listed}"
        known = [one for one in self.library.verdicts if name in (one.skill.name, one.skill.id, one.skill.qualified)]
        listed_names = self.library.allowed.names
        if not known:
            if listed_names is not None and name in listed_names:
                return BadRequest(f"Skill '{name}' not found", offer)
            if self.by == "user" and listed_names is None:
                from .finding import nearest  # only where somebody slipped

                return UnknownSkill(name, nearest(self.library, name))
            return Refused(f"Skill '{name}' is not enabled for this agent", offer)
        verdict = known[0]
        if any(mark.code == "not-allowed" for mark in verdict.marks):
            return Refused(f"Skill '{name}' is not enabled for this agent", offer)
        if verdict.usable:
            who = "the model" if self.by != "user" else "people"
            return Refused(f"Skill '{name}' is not enabled for {who}", offer)
        why = [problem(mark, verdict.skill.path) for mark in verdict.marks]
        told = "; ".join(dict.fromkeys(one.message for one in why)) or "it is not usable"
        cures = "; ".join(dict.fromkeys(one.hint for one in why if one.hint))
        return Refused(f"Skill '{name}' can't be used here: {told}", cures if self.by == "user" and cures else offer)

    def activate(self, skill: Skill, arguments: str | tuple[str, ...]) -> tuple[Activation, tuple[Message, ...]]:
        activation = self.render(skill, Call(skill.name, arguments, self.by, self.cwd))
        return activation, (Message("user", context(activation, self.resources(skill)), skill=skill.name),)

    def render(self, skill: Skill, call: Call, preview: bool = False) -> Activation:
        """A skill's instructions for a call.  Commands run only where the skill may be used and is trusted."""
        library = self.library
        verdict = next((one for one in library.verdicts if one.skill.path == skill.path), None)
        usable = verdict is not None and verdict.usable
        off: Off = "" if usable and skill.origin.trusted else "untrusted"
        if library.settings.shell_off:
            off = "off"
        rooted = skill.origin.dialect.authoring.rooted
        terms = Terms(
            run=lambda source, env, shell, limit: self._command(skill, source, env, (shell, limit)),
            off=off or ("preview" if preview else ""),
            variables={
                "SKILL_DIR": skill.directory,
                "CLAUDE_SKILL_DIR": skill.directory,
                "CLAUDE_PROJECT_DIR": library.place.project,
                **self.variables,
            },
            folders=frozenset(name for name in rooted if paths.is_folder(f"{skill.directory}/{name}")),
            has=lambda path: paths.is_file(f"{skill.directory}/{path}"),
            clock=monotonic,
        )
        return render(skill, library.read(skill).text, call, terms)

    def _command(self, skill: Skill, source: str, values: dict[str, str], bounds: tuple[Shell, float]) -> Ran:
        shell, limit = bounds
        vouch(self.library, skill, running=True)
        env = environment(self.library, skill)
        own_name = ("",) if "$0" in source else ()  # a word that was not given is no word, not the shell's name
        argv = (*shell_program(shell, env), source, *own_name)
        cwd = skill.directory if shell.cwd == "skill" else self.cwd
        program = Program(argv, cwd, env | values, limit, merged=shell.output == "merged")
        return self._run(program, skill)

    def _run(self, program: Program, skill: Skill) -> Ran:
        boundary = box(self.library, skill, self.cwd, self.write, self.alone or self.by == "schedule")
        ran = self.runner(self.library, program, boundary)
        return replace(ran, note="; ".join(filter(None, (ran.note, *granted(self.library, skill).notes))))

    def result(self, activation: Activation) -> str:
        return tool_result(activation)

    def resources(self, skill: Skill) -> tuple[str, ...]:
        """The files of a skill that its instructions may speak of."""
        found = (path for path, _ in paths.tree_of(skill.directory) if not _private.search(path))
        return tuple(path for path in found if path != skill.path.rpartition("/")[2])

    def page(self, skill: Skill, path: str, offset: int) -> Page:
        """Part of a text file; every other path, kind of file or content is refused in words."""
        vouch(self.library, skill)
        with _refusals(skill, path) as inside:
            size, data = files.read_part(skill.directory, inside, offset, PAGE)
        return _page(path, offset, size, data)

    def whole(self, skill: Skill, path: str, limit: int) -> bytes:
        """All of a file, text or not, if it has no more bytes than that; what is refused is refused as above."""
        vouch(self.library, skill)
        with _refusals(skill, path) as inside:
            return files.read_skill_file(skill.directory, inside, limit)[1]

    def located(self, location: str) -> tuple[Skill, str]:
        home = self.library.place.home
        path = home + location[1:] if location.startswith("~/") else location
        if ".." not in path.split("/"):
            inside = [one for one in self.offered() if path.startswith(one.directory + "/")]
            if inside:
                skill = max(inside, key=lambda one: len(one.directory))
                return skill, path.removeprefix(skill.directory + "/")
        raise Refused(
            f"Access denied: '{location}' is not a file of a skill", "Take a location from the list of skills"
        )

    def scripts(self, skill: Skill) -> tuple[str, ...] | None:
        """The files beneath `scripts/`; None where there is no such folder inside its own.  Links stay inside too."""
        own = paths.real_path(skill.directory)
        folder = paths.real_path(f"{skill.directory}/scripts")
        if not paths.is_folder(folder) or folder == own or not paths.is_inside(folder, own):
            return None
        found = []
        for path, status in paths.tree_of(folder):
            kind = status.st_mode & 0o170000
            leads = paths.real_path(f"{folder}/{path}") if kind == 0o120000 else ""
            if kind == 0o100000 or (leads and paths.is_inside(leads, folder) and paths.is_file(leads)):
                found.append(path)
        return tuple(found)

    def lies(self, skill: Skill, path: str) -> Literal["", "folder", "elsewhere"]:
        """A folder beneath `scripts/`, a link that leads out of it, or nothing at all."""
        if not paths.can_be_path(path):
            return ""
        folder = paths.real_path(f"{skill.directory}/scripts")
        leads = paths.real_path(f"{folder}/{path}")
        if not paths.is_inside(leads, folder):
            return "elsewhere"
        return "folder" if paths.is_folder(leads) else ""

    def run(self, skill: Skill, script: str, words: tuple[str, ...]) -> Ran:
        """Run a script that `scripts` names, by the interpreter of its kind."""
        current = files.stat_key(skill.path)
        if current != skill.key and skill.path not in self.library.kept:
            raise Changed(f"{skill.path} changed since the library was opened", "reload the library", skill.path)
        vouch(self.library, skill, running=True)
        env = environment(self.library, skill)
        kind = script[script.rindex(".") :]
        found = next((one for name in _INTERPRETERS[kind] if (one := which(name, env["PATH"]))), "")
        if not found and kind == ".py":
            found = own_python()
        if not found:
            return Ran(None, "", note=f"there is no {_INTERPRETERS[kind][0]} on PATH")
        argv = (found, f"{skill.directory}/scripts/{script}", *words)
        return self._run(Program(argv, skill.directory, env, SCRIPT_SECONDS), skill)

    def search(self, query: str, limit: int) -> Sequence[Skill]:
        offered = {skill.path for skill in self.offered()}
        hits = self.library.search(query, limit=limit, audience="person" if self.by == "user" else "model")
        return [hit.skill for hit in hits if hit.skill.path in offered]


@contextmanager
def _refusals(skill: Skill, path: str) -> Iterator[str]:
    """Paths that lead elsewhere or are nobody's business, and why a file can't be read.

    What is opened is the path itself, or where its `..` lead if that is inside.
    """
    if path.startswith(("/", "~")) or _elsewhere.match(path):
        raise Refused(f"Access denied: '{path}' is outside skill directory")
    real = paths.real_path(f"{skill.directory}/{path}") if paths.can_be_path(path) else path
    own = paths.real_path(skill.directory)
    inside = "." if real == own else real.removeprefix(f"{own}/")
    if _private.search(path.removeprefix("./")) or (inside != real and _private.search(inside)):
        raise Refused(f"Access denied: '{path}' is a private file")
    try:
        yield inside if inside != real and ".." in path.split("/") else path
    except OutsideSkill as error:
        raise Refused(f"Access denied: '{path}' is outside skill directory") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFile(f"File not found: '{path}' in skill '{skill.name}'") from error
    except files.NotRegular as error:
        raise BadRequest(f"Not a file: '{path}' is {error}") from error
    except files.TooLarge as error:
        raise BadRequest(f"Too large: '{path}' has {error.key[3]:,} bytes") from error
    except PermissionError as error:
        raise SkillError(f"Can't be read: '{path}' (permission denied)") from error


def _page(path: str, offset: int, size: int, data: bytes) -> Page:
    end = offset + len(data)
    if b"\0" in data:
        raise BadRequest(f"Not a text file: '{path}' holds binary data ({size:,} bytes)")
    for trimmed in range(4):
        try:
            text = data[: len(data) - trimmed].decode("utf-8")
        except UnicodeDecodeError:
            if end >= size:
                break
            continue
        end -= trimmed
        return Page(text.removeprefix("\ufeff") if not offset else text, size, end if end < size else None)
    raise BadRequest(f"Not a text file: '{path}' is not UTF-8 ({size:,} bytes)")
