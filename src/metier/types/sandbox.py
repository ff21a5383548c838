"""Running a program in a sandbox: what is to run, what it may touch, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

SandboxTier: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "docker", "podman", "gvisor", "none"]
"""The sandbox of a program; `none` has a session of its own and limits, but no boundary."""
SandboxNeed: TypeAlias = Literal["require", "prefer", "off"]
"""`require`: a boundary or a refusal; `prefer`: a boundary where there is one; `off`: none is asked for."""

CONTAINER_TIERS: tuple[SandboxTier, ...] = ("docker", "podman", "gvisor")
"""The tiers that are never chosen by themselves: they need an image, which only the user's configuration names."""
is_pinned_image = re.compile(r"(?:[a-z0-9][A-Za-z0-9._:/-]*@)?sha256:[0-9a-f]{64}").fullmatch
"""Whether an image is named by its digest: a tag could mean another image tomorrow."""

FailureCause: TypeAlias = Literal[
    "",
    "no-space",
    "read-only",
    "denied",
    "no-network",
    "no-program",
    "no-key",
    "no-login",
    "memory",
    "limit",
    "signal",
    "timeout",
    "busy",
]
"""What of the machine made a program fail; empty if nothing of it is known to."""

SCRIPT_SUFFIXES = (".py", ".sh", ".bash", ".js")
"""The suffixes of scripts that can be run."""


@dataclass(frozen=True)
class SandboxPermissions:
    """What a program may reach outside its own folder; paths are absolute."""

    network: bool = False
    hosts: tuple[str, ...] = ()
    """Only these hosts; refused where the tier can't filter them."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramSpec:
    """A program to run.  Its environment is given whole: nothing is inherited."""

    argv: tuple[str, ...]
    cwd: str
    # Not in repr: it may hold keys.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = 30.0
    output: int = 64_000
    """Bytes kept of each stream: the head and the tail."""
    merged: bool = False
    """Standard error goes into standard output, in the order it was written."""


@dataclass(frozen=True)
class SandboxLimits:
    """How much a sandboxed program and its children may use; exceeding one ends it, and the note says which."""

    # Generous for a script: they exist to end a fork bomb or a runaway write, not to ration.
    processes: int = 256
    memory: int = 2 << 30
    """Bytes in memory, its private temporary folder included."""
    scratch: int = 256 << 20
    """Bytes in the private temporary folder."""
    file: int = 1 << 30
    """Bytes in any one file it writes."""
    disk: int = 2 << 30
    """Bytes in its work folder."""
    files: int = 100_000
    """Files in its work folder."""


@dataclass(frozen=True)
class SandboxSpec:
    """The boundary asked for: the skill's folder is readable, the work folder writable, both at their own paths."""

    need: SandboxNeed
    skill: str = ""
    work: str = ""
    """A private folder to write in; empty asks for one that goes when the program ends."""
    permissions: SandboxPermissions = field(default_factory=SandboxPermissions)
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    hidden: tuple[str, ...] = ()
    """Paths that stay hidden although a folder around them may be read."""
    kept: tuple[str, ...] = ()
    """Paths that stay read-only although a folder around them may be written."""
    protected: tuple[str, ...] = ()
    """Names that stay read-only in every writable folder, in addition to those the sandbox always protects."""
    strict: bool = True
    """Whether new files that people ask agents to write, such as a Makefile, are moved away too: nobody approved it."""
    allowed: tuple[str, ...] = ()
    """Names that other programs obey and that may stay if the program makes them."""
    sealed: str = ""
    """A copy of the skill's folder that is seen in its place: nobody can change it between the check and the run."""


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended."""

    status: int | None
    """Its exit status, negative for a signal; None when it could not start."""
    stdout: str
    stderr: str = ""
    timed_out: bool = False
    left_out: int = 0
    """Bytes of output that were not kept."""
    tier: SandboxTier = "none"
    note: str = ""
    """For the person: a missing boundary, why it could not start, which limit ended it."""
    swept: tuple[str, ...] = ()
    """What it made that other programs obey, where it was moved, and how to let it stay; for the model too."""
    cause: FailureCause = ""
    """What of the machine made it fail, as far as that is known."""


@dataclass(frozen=True)
class BoundaryCheck:
    """One thing that was tried from inside a boundary, and whether it went as it must."""

    name: str
    held: bool
    note: str = ""


@dataclass(frozen=True)
class SandboxSupport:
    """What boundary this machine gives, found by trying it."""

    tier: SandboxTier
    reason: str
    """Why it is this tier and no better one; empty for the best."""
    checks: tuple[BoundaryCheck, ...] = ()
    interpreter: str = ""
    """The Python that the trial was run with, as scripts are."""
    bwrap: str = ""
    closes_users: bool = False
    """Whether bubblewrap can forbid further user namespaces."""
    binds_open: bool = False
    """Whether bubblewrap mounts folders by descriptors, which nobody can exchange in between."""
    abi: int = 0
    """The version of Landlock."""
    engine: str = ""
    """The client of the container engine, or the `sandbox-exec`."""
    image: str = ""
    rootless: bool = False
    """Whether the container engine runs as the user: root inside is then the user."""
    broker: bool = False
    """Whether Landlock has a broker for calls that write, which keeps what is protected in a writable folder."""
    source: str = ""
    """Where the program or the feature came from that the tier is made of."""
    limits: str = ""
    """What keeps memory and processes within limits."""

    @property
    def protects(self) -> bool:
        """Whether what is protected stays so inside a writable folder."""
        return self.tier != "none" and (self.tier != "landlock" or self.broker)
