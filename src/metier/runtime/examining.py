"""A skill looked at for improving it: its files, what they say, what they could do, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..host import files, paths, swap
from ..improve.check import Look
from ..improve.notice import Around, Known
from ..improve.texts import SKILL, proses
from ..install.inspect import Folder, inspect, reach_of
from ..install.lockfile import tree_digest
from ..parse import parse
from ..record.trace import Trace
from ..types.dialect import Improving
from ..types.errors import MetierError
from ..types.event import Used
from ..types.installed import FileMark
from ..types.skill import Found, Skill
from .installed import from_elsewhere

if TYPE_CHECKING:
    from .library import Library

_LARGEST = 256_000
_ALWAYS = ("skill_search", "read_file", "write_file", "edit_file", "list_files", "find_files", "search_files")
_AND = ("run_command", "ask_user", "delegate")
_OWN = frozenset({"user", "path", "configured"})


class Contents(NamedTuple):
    """The files of a folder."""

    bytes: Mapping[str, bytes]
    marks: Mapping[str, FileMark]

    @property
    def texts(self) -> dict[str, str]:
        """Those that are text, to the last byte."""
        found = {}
        for path, data in self.bytes.items():
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                continue
            if "\0" not in text:
                found[path] = text
        return found

    @property
    def digest(self) -> str:
        return tree_digest(self.marks)


def contents(folder: str) -> Contents:
    """Every file that is its own; links that leave the folder, and what is too large, are marked and not read."""
    marks = swap.marks(folder)
    found = {}
    for path in marks:
        try:
            found[path] = files.read_skill_file(folder, path, _LARGEST)[1]
        except (OSError, MetierError):
            continue
    return Contents(found, marks)


def mode_of(library: Library, skill: Skill) -> Improving:
    """As it is configured; else as the dialect of the skill's root has it."""
    said = library.settings.at("improve.mode")
    if said == "auto" or said == "review" or said == "off":
        return said
    return skill.origin.dialect.serving.improving


def owned(library: Library, skill: Skill) -> bool:
    """Whether the user wrote a skill: nobody installed it, it did not come with a program, and it is no project's."""
    shipped = skill.path in library.bundled or skill.origin.path.endswith("/.system")
    return skill.origin.source in _OWN and not shipped and not from_elsewhere(library, skill)


def known_of(library: Library, skill: Skill, texts: Mapping[str, str]) -> Known:
    """What is true of it, with these texts."""
    authoring = skill.origin.dialect.authoring
    names = {"ARGUMENTS", *skill.arguments} if authoring.arguments is not None else set[str]()
    lacking = any(not check.met and check.kind in ("env", "binary") for check in library.checks(skill))
    marks = swap.marks(skill.directory)
    return Known(
        skill.name, skill.directory, proses(texts), frozenset(marks), frozenset({*names, *authoring.variables}), lacking
    )


def around(library: Library, traces: Sequence[Trace] = ()) -> Around:
    """The tools there are, and what reaches beyond the machine."""
    from ..act.rules import ALIASES

    used = {
        one.call.name
        for trace in traces
        for one in trace.events
        if isinstance(one, Used) and not one.failed and one.call.name not in ALIASES
    }
    env = library.place.env

    def goes_out(runs: str) -> bool:
        text = (paths.read_text_file(runs) or "") if runs.startswith("/") and paths.is_file(runs) else runs
        reach = reach_of([text])
        return bool(reach.network) or any(name not in env for name in reach.env)

    return Around(frozenset({*_ALWAYS, *_AND, *library.dialect.serving.tools, *used}), goes_out)


def look(skill: Skill, texts: Mapping[str, str], marks: Mapping[str, FileMark]) -> Look:
    """What an inspection says of it, with these texts."""
    folder = Folder("", skill.id, marks, texts, {})
    found = inspect(folder, skill.origin.dialect, ())
    return Look(
        found.loads and SKILL in texts,
        frozenset(fault.code for fault in found.faults),
        frozenset(finding.code for finding in found.findings),
        found.powers,
        reach_of([*texts.values()]),
    )


def read_again(library: Library, skill: Skill, text: str) -> Skill | None:
    """The skill as this text would make it."""
    data = text.encode("utf-8", "surrogatepass")
    found = parse(Found(skill.origin, skill.id, skill.path, skill.key, data, True), library.dialects)
    return found if isinstance(found, Skill) else None
