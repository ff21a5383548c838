"""What was installed: where it came from, every file of it, what it can do, and who said yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, TypeAlias

from .problem import Problem

Kind: TypeAlias = Literal["github", "git", "archive", "folder", "index"]


@dataclass(frozen=True)
class Reference:
    """Where skills are to come from."""

    kind: Kind
    spec: str
    """As it was written, without a password."""
    url: str
    path: str = ""
    """The folder inside that is wanted; empty for all of it."""
    ref: str = ""
    owner: str = ""
    repo: str = ""
    """What to call a whole repository or archive."""
    secret: str = field(default="", repr=False, compare=False)
    """`user:password` of a URL: used, and neither shown nor written down."""


class FileMark(NamedTuple):
    """A file as it was: the digest of its bytes, and whether it may be run."""

    digest: str
    mode: str


Files: TypeAlias = Mapping[str, FileMark]
"""By path inside a folder."""


@dataclass(frozen=True)
class Powers:
    """What a skill can do, in words: the capability summary that a person approves."""

    commands: tuple[str, ...] = ()
    """Commands in the body."""
    scripts: tuple[str, ...] = ()
    """Files that can run."""
    network: tuple[str, ...] = ()
    """Hosts that its commands and scripts name, and programs that go there."""
    env: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    """What it would install."""
    permissions: tuple[str, ...] = ()
    """What it asks to reach beside its own folder, and the variables it is given."""

    def beyond(self, before: Powers) -> Powers:
        """What is here and was not before."""
        return Powers(**{
            one.name: tuple(item for item in getattr(self, one.name) if item not in getattr(before, one.name))
            for one in fields(self)
        })  # fmt: skip

    @property
    def nothing(self) -> bool:
        return not any(getattr(self, one.name) for one in fields(self))

    def named(self) -> dict[str, tuple[str, ...]]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True)
class Provenance:
    """Where a folder came from, exactly enough to fetch it again."""

    kind: str
    source: str
    """The URL or path, without a password."""
    path: str = ""
    ref: str = ""
    commit: str = ""
    committed: int = 0
    """When the commit was made, in seconds: an older one is no update."""
    digest: str = ""
    """Of the archive, for what came as one."""


@dataclass(frozen=True)
class Approval:
    """A person's yes to exactly this content."""

    digest: str
    at: str
    by: str = "user"
    runs: tuple[str, ...] = ()
    """A digest for each thing that can run: prose may change, these may not."""


@dataclass(frozen=True)
class Entry:
    """One skill in a lock."""

    name: str
    folder: str
    """The installed folder it lies in: the first step of its place in the root."""
    provenance: Provenance
    files: Files
    """As they were placed, by path inside the skill's folder."""
    base: Mapping[str, FileMark | None] = field(default_factory=dict)
    """Where upstream's file is another one than the one placed; None where upstream has none."""
    powers: Powers = field(default_factory=Powers)
    findings: tuple[str, ...] = ()
    approval: Approval | None = None
    frozen: bool = False
    previous: str = ""
    """The digest before the last update."""
    edits: Mapping[str, str] = field(default_factory=dict)
    """The texts of `files` that upstream does not have, where they are small enough for a lock."""


@dataclass(frozen=True)
class Rest:
    """The files of an installed folder that belong to none of its skills."""

    provenance: Provenance
    files: Files
    base: Mapping[str, FileMark | None] = field(default_factory=dict)
    edits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lock:
    """What a root's lock holds."""

    skills: Mapping[str, Entry] = field(default_factory=dict)
    """By the skill's place in the root."""
    folders: Mapping[str, Rest] = field(default_factory=dict)
    """By the folder's name in the root."""


@dataclass(frozen=True)
class Inspected:
    """One skill looked at before it is placed."""

    place: str
    """Inside what was fetched; empty for a skill that is the whole of it."""
    name: str
    description: str
    faults: tuple[Problem, ...]
    """What strict validation says."""
    findings: tuple[Problem, ...]
    powers: Powers
    loads: bool = True

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")
