"""A project's instructions for agents: AGENTS.md, nearest first, with the files that it imports.

Whoever wrote the project wrote these, so they are read by a handle on the project: no link and no `@import` leads
outside it.  Only text that is meant to be read is imported (`.md`, `.txt`): `@.env` would send a secret to a model.
A hard link is not imported either: the file may have its other name outside.  The user's rules for reading files are
the agent's to know, and come in as a function.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ..host import files, paths
from ..parse.markers import fenced_code
from ..types.errors import MetierError
from ..types.place import Place
from ..types.settings import Settings
from ..types.text import neutralize_frames, split_hidden_orders

DEFAULT_NAMES = ("AGENTS.md",)
MAX_FILE_BYTES = 32_768
"""Of one file; what is beyond is cut, and the cut is said."""
MAX_CHARACTERS = 65_536
"""Of all of them together."""
_MAX_IMPORTS, _MAX_DEPTH = 20, 4
_IMPORTABLE = (".md", ".mdc", ".txt", ".rst")
_import = re.compile(r"(?<![\w`@/.])@([\w.-][\w./-]*)")
_code_span = re.compile(r"`[^`\n]+`")
_CUT_NOTE = "\n[cut here: the rest does not fit]"


ReadingRule: TypeAlias = Callable[[str], str]
"""What the user's rules say about reading a path: `allow`, `ask` or `deny`."""


def _allow_reading(_: str) -> str:
    return "allow"


class InstructionFile(NamedTuple):
    """One file of instructions, as the model gets it."""

    path: str
    """Within the project."""
    text: str
    imports: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Imports that were left as they stand, each with the reason."""
    cut: bool = False


def instruction_names(settings: Settings) -> tuple[str, ...]:
    """The names to look for; a project can't choose them."""
    chosen = settings.own("instructions")
    return tuple(map(str, chosen)) if isinstance(chosen, list) else DEFAULT_NAMES


def read_instructions(
    place: Place, names: Sequence[str], most: int = MAX_CHARACTERS, rule_for: ReadingRule = _allow_reading
) -> tuple[InstructionFile, ...]:
    """The instructions from the working folder up to the project's root, nearest first, within a limit."""
    found: list[InstructionFile] = []
    seen: set[str] = set()
    for relative in _candidates(place, names):
        if rule_for(f"{place.project}/{relative}") == "deny":
            continue
        try:
            first = _ImportReader(place.project, rule_for).read(relative)
        except (OSError, MetierError):
            continue
        # CLAUDE.md is often a link to AGENTS.md, or the same text.
        if not first.text.strip() or first.text in seen:
            continue
        seen.add(first.text)
        if len(first.text) > most:
            first = first._replace(text=first.text[: max(0, most - len(_CUT_NOTE))] + _CUT_NOTE, cut=True)
        most -= len(first.text)
        found.append(first)
        if most <= 0:
            break
    return tuple(found)


def _candidates(place: Place, names: Sequence[str]) -> Iterator[str]:
    for folder in place.ancestors:
        inner = paths.relative_path(folder, place.project)
        for name in names:
            if paths.exists(f"{folder}/{name}"):
                yield name if inner == "." else f"{inner}/{name}"


class _ImportReader:
    """Reads one file and what it imports, each at most once."""

    def __init__(self, project: str, rule_for: ReadingRule) -> None:
        self.project, self.rule_for = project, rule_for
        self.imports: list[str] = []
        self.refused: dict[str, str] = {}
        self.cut = False

    def read(self, relative: str) -> InstructionFile:
        text = self._expand(relative, (relative,))
        refused = tuple(f"@{name}: {why}" for name, why in self.refused.items())
        return InstructionFile(relative, text, tuple(self.imports), refused, self.cut)

    def _expand(self, relative: str, chain: tuple[str, ...]) -> str:
        text = self._text_of(relative, imported=len(chain) > 1)
        code = [*fenced_code(text), *(match.span() for match in _code_span.finditer(text))]
        written, last = [], 0
        for match in _import.finditer(text):
            if any(start <= match.start() < end for start, end in code):
                continue
            inserted = self._import(match[1].rstrip("."), posixpath.dirname(relative), chain)
            if inserted is not None:
                end = match.start() + 1 + len(match[1].rstrip("."))
                written += [text[last : match.start()], inserted]
                last = end
        return "".join((*written, text[last:]))

    def _import(self, name: str, folder: str, chain: tuple[str, ...]) -> str | None:
        """The text of an imported file; None where the words stay as they stand."""
        target = posixpath.normpath(posixpath.join(folder, name))
        if not name.endswith(_IMPORTABLE):
            return None  # most `@words` are names of people and packages
        if target.startswith("../") or target == "..":
            self.refused[name] = "it is outside the project"
        elif target in chain or target in self.imports:
            self.refused[name] = "it is included already"
        elif len(chain) > _MAX_DEPTH or len(self.imports) >= _MAX_IMPORTS:
            self.refused[name] = "too many imports"
        # Nobody can be asked here: the words stay, and the model may ask to read the file.
        elif self.rule_for(f"{self.project}/{target}") != "allow":
            self.refused[name] = "your rules do not allow it to be read"
        else:
            try:
                text = self._expand(target, (*chain, target))
            except FileNotFoundError:
                self.refused[name] = "there is no such file"
            except files.NotRegular as error:
                self.refused[name] = f"it is a {error}"
            except (OSError, MetierError):
                self.refused[name] = "it can't be read, or is outside the project"
            else:
                self.imports.append(target)
                return text.strip("\n")
        return None

    def _text_of(self, relative: str, imported: bool) -> str:
        """A file of the project as a model may read it: no hidden characters, no tags that look like metier's own."""
        try:
            _, data = files.read_skill_file(self.project, relative, MAX_FILE_BYTES, one_name=imported)
        except files.TooLarge:
            _, data = files.read_part(self.project, relative, 0, MAX_FILE_BYTES)
            self.cut = True
            data += _CUT_NOTE.encode()
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        return neutralize_frames("".join(stays for stays, _ in split_hidden_orders(text)))


def instructions_section(found: Sequence[InstructionFile]) -> str:
    """The part of a system prompt that holds them."""
    if not found:
        return ""
    head = (
        "## Project instructions\n\nThe user trusts this project, and it asks all who work in it to follow these. "
        "A nearer file wins over one further up, and what the user says here wins over all of them."
    )
    return "\n\n".join((head, *(f"### {one.path}\n\n{one.text.strip()}" for one in found)))
