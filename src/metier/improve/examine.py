"""Examine a skill for improvement: its files, what they say, what they are able to do, and who wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..diagnose.notice import ObservedSkill, ToolEnvironment
from ..diagnose.texts import PROSE_SUFFIXES, SKILL_FILE, prose_bodies
from ..host import files, paths, trees
from ..host.facts import which
from ..install.inspect import SkillFolderContents, inspect_skill, reach_of
from ..library.grants import plain_environment
from ..library.locks import was_installed
from ..parse.reader import parse
from ..record.trace import Trace
from ..sources.skill_files import SkillFile, SkillFiles, manifest_digest
from ..types.dialect import ImprovementMode
from ..types.errors import MetierError
from ..types.event import Used
from ..types.installed import FileRecord
from ..types.skill import Found, Skill
from .gates import SkillInspection

if TYPE_CHECKING:
    from ..library.library import Library

_LARGEST = 256_000
"""Bytes of a file that is read; larger ones are no text that an improver edits."""
_FILE_TOOLS = ("skill_search", "read_file", "write_file", "edit_file", "list_files", "find_files", "search_files")
_OTHER_TOOLS = ("run_command", "ask_user", "delegate")
_USER_SOURCES = frozenset({"user", "path", "configured"})


class FolderContents(NamedTuple):
    """The files of a folder: the content of those that could be read, and a record of each."""

    files: SkillFiles
    marks: Mapping[str, FileRecord]

    @property
    def texts(self) -> dict[str, str]:
        """Those that are valid UTF-8 text, unchanged to the byte."""
        return self.files.texts

    @property
    def digest(self) -> str:
        return manifest_digest(self.marks)


def read_contents(folder: str) -> FolderContents:
    """Read a folder; links that leave it and files that are too large are recorded but not read."""
    marks = trees.file_marks(folder)
    contents = {}
    for path, mark in marks.items():
        try:
            data = files.read_skill_file(folder, path, _LARGEST)[1]
        except (OSError, MetierError):
            continue
        contents[path] = SkillFile(int(mark.mode, 8) if mark.mode.isdecimal() else 0o644, data)
    return FolderContents(SkillFiles(contents), marks)


def improve_mode(library: Library, skill: Skill) -> ImprovementMode:
    """The configured mode, or that of the skill's dialect."""
    configured = library.settings.own("improve.mode")
    if configured == "auto" or configured == "review" or configured == "off":
        return configured
    return skill.origin.dialect.serving.improving


def is_user_written(library: Library, skill: Skill) -> bool:
    """Whether the user wrote a skill: it is not installed, not bundled with a program, and not of a project."""
    # `.system` is where other products put the skills they ship.
    shipped = skill.path in library.bundled or skill.origin.path.endswith("/.system")
    return skill.origin.source in _USER_SOURCES and not shipped and not was_installed(library, skill)


def observe_skill(library: Library, skill: Skill, texts: Mapping[str, str]) -> ObservedSkill:
    """A skill with these texts, as blame sees it."""
    authoring = skill.origin.dialect.authoring
    names = {"ARGUMENTS", *skill.arguments} if authoring.arguments is not None else set[str]()
    lacking = any(not check.met and check.kind in ("env", "binary") for check in library.checks(skill))
    marks = trees.file_marks(skill.directory)
    return ObservedSkill(
        skill.name,
        skill.directory,
        prose_bodies(texts),
        frozenset(marks),
        frozenset({*names, *authoring.variables}),
        lacking,
        {path: text for path, text in texts.items() if not path.lower().endswith(PROSE_SUFFIXES)},
    )


def tool_environment(library: Library, traces: Sequence[Trace] = ()) -> ToolEnvironment:
    """The tools that exist, and a test for what goes beyond the machine."""
    from ..agent.permissions import TOOL_ALIASES

    # A tool that answered exists, even if it is not offered here, such as one of an MCP server.
    used = {
        event.call.name
        for trace in traces
        for event in trace.events
        if isinstance(event, Used) and not event.failed and event.call.name not in TOOL_ALIASES
    }
    env = library.place.env

    def goes_out(runs: str) -> bool:
        text = (paths.read_text_file(runs) or "") if runs.startswith("/") and paths.is_file(runs) else runs
        reach = reach_of([text])
        return bool(reach.network) or any(name not in env for name in reach.env)

    path = plain_environment(library)["PATH"]
    tools = frozenset({*_FILE_TOOLS, *_OTHER_TOOLS, *library.dialect.serving.tools, *used})
    return ToolEnvironment(tools, goes_out, paths.is_folder, lambda name: bool(which(name, path)))


def inspect_texts(skill: Skill, texts: Mapping[str, str], marks: Mapping[str, FileRecord]) -> SkillInspection:
    """Inspect a skill with these texts."""
    folder = SkillFolderContents("", skill.id, marks, texts, {})
    inspected = inspect_skill(folder, skill.origin.dialect, ())
    return SkillInspection(
        inspected.loads and SKILL_FILE in texts,
        frozenset(fault.code for fault in inspected.faults),
        frozenset(finding.code for finding in inspected.findings),
        inspected.powers,
        reach_of([*texts.values()]),
    )


def parse_edited_skill(library: Library, skill: Skill, text: str) -> Skill | None:
    """The skill with this text as its SKILL.md; None if it does not load."""
    data = text.encode("utf-8", "surrogatepass")
    parsed = parse(Found(skill.origin, skill.id, skill.path, skill.key, data, True), library.dialects)
    return parsed if isinstance(parsed, Skill) else None
