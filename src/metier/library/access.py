"""What one conversation may do with a library's skills: list, activate, read files, run scripts.

Every path that a model sends goes through here.  A path is judged twice: by its text, so that a refusal can name what
was asked, and by where it really leads, because a link or `..` may say something else than it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ..activate.deliver import skill_context, tool_result
from ..activate.render import CommandsOff, RenderOptions, render
from ..host import files, paths
from ..host.facts import monotonic, which
from ..record.redaction import hide_strings
from ..sandbox.profile import current_python as own_python
from ..types.activation import Activation, Call, InvokedBy, Message
from ..types.dialect import ShellRules
from ..types.errors import BadRequest, Changed, MetierError, NoFile, OutsideSkill, Refused, SkillError, UnknownSkill
from ..types.problem import problem_from
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxSpec
from ..types.skill import Skill
from ..types.text import bounded_field, neutralize_tags
from .grants import grants_for_skill, run_program, sandbox_for_skill, shell_program, skill_environment
from .locks import SkillBaseline, SkillVerifier, verify_installed
from .settings import require_whole_settings
from .skill_tools import SCRIPT_SECONDS, FilePage

if TYPE_CHECKING:
    from .library import Library

PAGE_BYTES = 64_000
"""How much of a file one read returns: about 16,000 tokens, so that a page does not flood a conversation."""
_MAX_NAMES = 50
"""Names that a refusal lists."""
_INTERPRETERS = {".py": ("python3", "python"), ".sh": ("bash", "sh"), ".bash": ("bash",), ".js": ("node", "nodejs")}
_private = re.compile(
    r"(?:^|/)(?:__pycache__|\.(?!\.?(?:/|$))[^/]*|#[^/]*#|[^/]*(?:~|\.swp|\.swo|\.orig|\.bak))(?:/|$)"
)
"""Files that are neither listed nor read: hidden ones, and what editors leave behind."""
_windows_path = re.compile(r"[A-Za-z]:|.*\\")


@dataclass(frozen=True)
class SkillAccess:
    """What one conversation may do with a library's skills."""

    library: Library
    cwd: str
    by: InvokedBy = "model"
    write: tuple[str, ...] = ()
    """More folders that scripts may write to."""
    variables: Mapping[str, str] = field(default_factory=dict)
    runner: Callable[[Library, ProgramSpec, SandboxSpec], ProcessResult] = run_program
    unattended: bool = False
    """No person is present: scripts run in a sandbox or not at all."""
    baseline: SkillBaseline | None = None
    """The skills as they were when the conversation began; None where no agent is at work."""

    def offered(self) -> Sequence[Skill]:
        """The skills that may be used here, in catalog order."""
        return [verdict.skill for verdict in self.library.in_order() if verdict.usable and self._may_use(verdict.skill)]

    def _may_use(self, skill: Skill) -> bool:
        if self.by == "user":
            return skill.user_may_invoke
        hides = skill.origin.dialect.authoring.user_invocable_hides and not skill.user_may_invoke
        return skill.model_may_invoke and not hides

    def skill(self, name: str) -> Skill:
        """The skill with that name, else with that folder name; a refusal lists the names available."""
        offered = self.offered()
        for attribute in ("name", "id", "qualified"):
            for skill in offered:
                if name == getattr(skill, attribute):
                    return skill
        raise self._refusal(name, [skill.name for skill in offered])

    def _refusal(self, name: str, names: list[str]) -> MetierError:
        omitted = len(names) - _MAX_NAMES
        shown = [neutralize_tags(bounded_field(candidate)) for candidate in names[:_MAX_NAMES]]
        listed = (", ".join(shown) or "none") + (f" and {omitted} more" if omitted > 0 else "")
        available = f"Available: {listed}"
        matching = [
            candidate
            for candidate in self.library.verdicts
            if name in (candidate.skill.name, candidate.skill.id, candidate.skill.qualified)
        ]
        listed_names = self.library.allowed.names
        if not matching:
            # Unknown and forbidden names are answered alike: a model can't probe for skills beyond its list.
            if listed_names is not None and name in listed_names:
                return BadRequest(f"Skill '{name}' not found", available)
            if self.by == "user" and listed_names is None:
                from .search import nearest_names  # only for a misspelled name

                return UnknownSkill(name, nearest_names(self.library, name))
            return Refused(f"Skill '{name}' is not enabled for this agent", available)
        verdict = matching[0]
        if any(finding.code == "not-allowed" for finding in verdict.findings):
            return Refused(f"Skill '{name}' is not enabled for this agent", available)
        if verdict.usable:
            who = "the model" if self.by != "user" else "people"
            return Refused(f"Skill '{name}' is not enabled for {who}", available)
        problems = [problem_from(finding, verdict.skill.path) for finding in verdict.findings]
        reasons = "; ".join(dict.fromkeys(problem.message for problem in problems)) or "it is not usable"
        hints = "; ".join(dict.fromkeys(problem.hint for problem in problems if problem.hint))
        hint = hints if self.by == "user" and hints else available
        return Refused(f"Skill '{name}' can't be used here: {reasons}", hint)

    def activate(self, skill: Skill, arguments: str | tuple[str, ...]) -> tuple[Activation, tuple[Message, ...]]:
        """Render a skill, and the message that carries it where a tool's answer does not."""
        activation = self.render(skill, Call(skill.name, arguments, self.by, self.cwd))
        return activation, (Message("user", skill_context(activation, self.resources(skill)), skill=skill.name),)

    def render(self, skill: Skill, call: Call, preview: bool = False) -> Activation:
        """A skill's instructions for a call.  Commands run only if the skill is usable and trusted."""
        library = self.library
        verdict = next((candidate for candidate in library.verdicts if candidate.skill.path == skill.path), None)
        usable = verdict is not None and verdict.usable
        there = self.baseline is None or self.baseline.covers(library, skill)
        off: CommandsOff = "" if usable and skill.origin.trusted and there else "untrusted"
        if library.settings.shell_off:
            off = "off"
        rooted = skill.origin.dialect.authoring.rooted
        # One look at the folder serves the body and every command in it.
        verifier = SkillVerifier(library, skill)
        verifier.check()
        options = RenderOptions(
            run=lambda source, env, shell, limit: self._command(verifier, skill, source, env, (shell, limit)),
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
        activation = render(skill, library.read(skill, verify=False).text, call, options)
        inserts = hide_strings(activation.inserts, library.hide)
        return replace(activation, text=library.hide(activation.text), inserts=inserts)

    def _command(
        self,
        verifier: SkillVerifier,
        skill: Skill,
        source: str,
        values: dict[str, str],
        bounds: tuple[ShellRules, float],
    ) -> ProcessResult:
        shell, limit = bounds
        require_whole_settings(self.library.problems)
        verifier.check(running=True)
        sealed = verifier.sealed()
        env = skill_environment(self.library, skill)
        own_name = ("",) if "$0" in source else ()  # `$0` without an argument is empty, not the shell's name
        argv = (*shell_program(shell, env), source, *own_name)
        cwd = skill.directory if shell.cwd == "skill" else self.cwd
        program = ProgramSpec(argv, cwd, env | values, limit, merged=shell.output == "merged")
        return self._run(program, skill, sealed)

    def _run(self, program: ProgramSpec, skill: Skill, sealed: str) -> ProcessResult:
        sandbox = sandbox_for_skill(self.library, skill, self.cwd, self.write, self.unattended or self.by == "schedule")
        sandbox = replace(sandbox, sealed=sealed)
        result = self.runner(self.library, program, sandbox)
        return replace(
            result, note="; ".join(filter(None, (result.note, *grants_for_skill(self.library, skill).notes)))
        )

    def result(self, activation: Activation) -> str:
        return tool_result(activation)

    def resources(self, skill: Skill) -> tuple[str, ...]:
        """The files of a skill that its instructions may refer to."""
        visible = (path for path, _ in paths.tree_of(skill.directory) if not _private.search(path))
        return tuple(path for path in visible if path != skill.path.rpartition("/")[2])

    def page(self, skill: Skill, path: str, offset: int) -> FilePage:
        """Part of a text file; any other path, file type or content is refused with a reason."""
        verify_installed(self.library, skill)
        with _refuse_private_paths(skill, path) as inside:
            size, data = files.read_part(skill.directory, inside, offset, PAGE_BYTES)
        page = _decode_page(path, offset, size, data)
        return page._replace(text=self.library.hide(page.text))

    def read_whole(self, skill: Skill, path: str, limit: int, verifier: SkillVerifier | None = None) -> bytes:
        """A whole file, text or not, of up to `limit` bytes; refuses what `page` refuses.

        To read many files of one skill, pass one verifier: its folder is then hashed once.
        """
        (verifier or SkillVerifier(self.library, skill)).check()
        with _refuse_private_paths(skill, path) as inside:
            return files.read_skill_file(skill.directory, inside, limit)[1]

    def locate(self, location: str) -> tuple[Skill, str]:
        """The skill that a location of the catalog lies in, and the path inside its folder."""
        home = self.library.place.home
        path = home + location[1:] if location.startswith("~/") else location
        if ".." not in path.split("/"):
            inside = [candidate for candidate in self.offered() if path.startswith(candidate.directory + "/")]
            if inside:
                skill = max(inside, key=lambda candidate: len(candidate.directory))
                return skill, path.removeprefix(skill.directory + "/")
        raise Refused(
            f"Access denied: '{location}' is not a file of a skill", "Take a location from the list of skills"
        )

    def scripts(self, skill: Skill) -> tuple[str, ...] | None:
        """The files below `scripts/`; None without such a folder.  Links that lead out of it are left out."""
        skill_folder = paths.real_path(skill.directory)
        folder = paths.real_path(f"{skill.directory}/scripts")
        if not paths.is_folder(folder) or folder == skill_folder or not paths.is_inside(folder, skill_folder):
            return None
        script_paths = []
        for path, status in paths.tree_of(folder):
            file_type = status.st_mode & 0o170000
            target = paths.real_path(f"{folder}/{path}") if file_type == 0o120000 else ""
            if file_type == 0o100000 or (target and paths.is_inside(target, folder) and paths.is_file(target)):
                script_paths.append(path)
        return tuple(script_paths)

    def script_path_kind(self, skill: Skill, path: str) -> Literal["", "folder", "elsewhere"]:
        """What a path that is no script is: a folder below `scripts/`, something outside it, or nothing."""
        if not paths.can_be_path(path):
            return ""
        folder = paths.real_path(f"{skill.directory}/scripts")
        target = paths.real_path(f"{folder}/{path}")
        if not paths.is_inside(target, folder):
            return "elsewhere"
        return "folder" if paths.is_folder(target) else ""

    def run(self, skill: Skill, script: str, words: tuple[str, ...]) -> ProcessResult:
        """Run a script that `scripts` lists, with the interpreter for its suffix."""
        # The verdict was about the file as it was: a changed SKILL.md may ask for other grants.
        if files.stat_key(skill.path) != skill.key and skill.path not in self.library.kept:
            raise Changed(f"{skill.path} changed since the library was opened", "reload the library", skill.path)
        require_whole_settings(self.library.problems)
        verifier = SkillVerifier(self.library, skill)
        verifier.check(running=True)
        sealed = verifier.sealed()
        if self.baseline is not None:
            self.baseline.check(self.library, skill)
        env = skill_environment(self.library, skill)
        suffix = script[script.rindex(".") :]
        interpreter = next((path for name in _INTERPRETERS[suffix] if (path := which(name, env["PATH"]))), "")
        if not interpreter and suffix == ".py":
            interpreter = own_python()
        if not interpreter:
            return ProcessResult(None, "", note=f"there is no {_INTERPRETERS[suffix][0]} on PATH")
        argv = (interpreter, f"{skill.directory}/scripts/{script}", *words)
        return self._run(ProgramSpec(argv, skill.directory, env, SCRIPT_SECONDS), skill, sealed)

    def search(self, query: str, limit: int) -> Sequence[Skill]:
        """The skills that match a request best, of those that may be used."""
        offered = {skill.path for skill in self.offered()}
        hits = self.library.search(query, limit=limit, audience="person" if self.by == "user" else "model")
        return [hit.skill for hit in hits if hit.skill.path in offered]


@contextmanager
def _refuse_private_paths(skill: Skill, path: str) -> Iterator[str]:
    """Refuse private paths and paths that lead out of the skill; turn errors of reading into refusals.

    Yields the path to open: the path as given, or where its `..` lead if that is inside the skill.
    """
    if path.startswith(("/", "~")) or _windows_path.match(path):
        raise Refused(f"Access denied: '{path}' is outside skill directory")
    real = paths.real_path(f"{skill.directory}/{path}") if paths.can_be_path(path) else path
    skill_folder = paths.real_path(skill.directory)
    inside = "." if real == skill_folder else real.removeprefix(f"{skill_folder}/")
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


def _decode_page(path: str, offset: int, size: int, data: bytes) -> FilePage:
    end = offset + len(data)
    if b"\0" in data:
        raise BadRequest(f"Not a text file: '{path}' holds binary data ({size:,} bytes)")
    for trimmed in range(4):  # a page may end inside a character, which has up to four bytes
        try:
            text = data[: len(data) - trimmed].decode("utf-8")
        except UnicodeDecodeError:
            if end >= size:
                break
            continue
        end -= trimmed
        return FilePage(text.removeprefix("\ufeff") if not offset else text, size, end if end < size else None)
    raise BadRequest(f"Not a text file: '{path}' is not UTF-8 ({size:,} bytes)")
