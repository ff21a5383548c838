"""What was installed: its source, every file, what it can do, and who approved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, TypeAlias

from .problem import Problem

ReferenceKind: TypeAlias = Literal["github", "git", "archive", "folder", "index", "registry"]


@dataclass(frozen=True)
class SourceReference:
    """Where skills are to come from."""

    kind: ReferenceKind
    spec: str
    """As it was written, without a password."""
    url: str
    path: str = ""
    """The folder inside that is wanted; empty for all of it."""
    ref: str = ""
    owner: str = ""
    repo: str = ""
    """What to call a whole repository or archive."""
    # Neither in repr nor in comparisons: a password must not get into a log or a lock file.
    secret: str = field(default="", repr=False, compare=False)
    """`user:password` of a URL: used, but never printed or stored."""


class FileRecord(NamedTuple):
    """A file as it was: the digest of its bytes, and whether it may be run."""

    digest: str
    mode: str


FileManifest: TypeAlias = Mapping[str, FileRecord]
"""By path inside a folder."""


@dataclass(frozen=True)
class SkillPowers:
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
    """What it asks to access outside its own folder, and the variables it gets."""

    def beyond(self, before: SkillPowers) -> SkillPowers:
        """What is new compared with an earlier version."""
        return SkillPowers(
            **{
                power.name: tuple(item for item in getattr(self, power.name) if item not in getattr(before, power.name))
                for power in fields(self)
            }
        )

    @property
    def nothing(self) -> bool:
        return not any(getattr(self, power.name) for power in fields(self))

    def named(self) -> dict[str, tuple[str, ...]]:
        return {power.name: getattr(self, power.name) for power in fields(self)}


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
    version: str = ""
    """The version that a registry resolved to."""
    origin: str = ""
    """Where the registry has it from, as `host/path`."""


@dataclass(frozen=True)
class SkillApproval:
    """A person's approval of exactly this content."""

    digest: str
    at: str
    by: str = "user"
    runs: tuple[str, ...] = ()
    """A digest for each thing that can run: prose may change, these may not."""


@dataclass(frozen=True)
class LockEntry:
    """One skill in a lock."""

    name: str
    folder: str
    """The installed folder it lies in: the first step of its place in the root."""
    provenance: Provenance
    files: FileManifest
    """As they were placed, by path inside the skill's folder."""
    base: Mapping[str, FileRecord | None] = field(default_factory=dict)
    """Where upstream's file is another one than the one placed; None where upstream has none."""
    powers: SkillPowers = field(default_factory=SkillPowers)
    findings: tuple[str, ...] = ()
    approval: SkillApproval | None = None
    frozen: bool = False
    previous: str = ""
    """The digest before the last update."""
    edits: Mapping[str, str] = field(default_factory=dict)
    """The texts of `files` that upstream does not have, where they are small enough for a lock."""


@dataclass(frozen=True)
class FolderEntry:
    """The files of an installed folder that belong to none of its skills."""

    provenance: Provenance
    files: FileManifest
    base: Mapping[str, FileRecord | None] = field(default_factory=dict)
    edits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lockfile:
    """What a root's lock holds."""

    skills: Mapping[str, LockEntry] = field(default_factory=dict)
    """By the skill's place in the root."""
    folders: Mapping[str, FolderEntry] = field(default_factory=dict)
    """By the folder's name in the root."""


@dataclass(frozen=True)
class InspectedSkill:
    """A skill, inspected before it is installed."""

    place: str
    """Inside what was fetched; empty for a skill that is the whole of it."""
    name: str
    description: str
    faults: tuple[Problem, ...]
    """What strict validation says."""
    findings: tuple[Problem, ...]
    powers: SkillPowers
    loads: bool = True

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")
