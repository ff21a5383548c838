"""What a registry does: search, resolve a name to an immutable source, and judge what was installed from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..types.installed import SourceReference
from ..types.problem import Finding

VerdictState: TypeAlias = Literal["passed", "failed", "withdrawn", "unknown"]


def registry_source(registry: str, name: str) -> str:
    """What `metier add` takes for a name of a registry; one that a source brought itself ends with `#`."""
    return f"{registry}{name}" if registry.endswith("#") else f"{registry}:{name}"


class RegistryHit(NamedTuple):
    """A skill that a search found."""

    registry: str
    name: str
    """As the registry resolves it."""
    description: str = ""
    version: str = ""
    installs: int = 0

    @property
    def source(self) -> str:
        """What `metier add` takes."""
        return registry_source(self.registry, self.name)


@dataclass(frozen=True)
class ResolvedSource:
    """What a name stands for now: a commit, an archive or a folder, and the digests that were promised for it."""

    registry: str
    name: str
    version: str
    reference: SourceReference
    folder: str
    """The default name for its folder."""
    commit: str = ""
    """Of a repository: exactly this commit is fetched."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The promised sha256 of each file; empty if nothing is promised."""
    unlisted: frozenset[str] = frozenset()
    """Files that the registry puts into its archives and promises nothing for; they are left out."""
    digest: str = ""
    """The promised digest of the archive, as `sha256:…`."""
    keep: tuple[str, ...] = ()
    """The folders of the source that belong to it; empty for all."""
    private: bool = False
    """Whether its archive may lie at a private address, because a person named that server."""
    requires: tuple[str, ...] = ()
    """What else has to be installed for it, as `metier add` takes it."""
    notes: tuple[Finding, ...] = ()


class HeldSkill(NamedTuple):
    """What a lock holds of a registry."""

    name: str
    version: str
    commit: str = ""


class RegistryVerdict(NamedTuple):
    """What a registry says about a version now."""

    held: HeldSkill
    state: VerdictState
    reasons: tuple[str, ...] = ()
    url: str = ""


class Registry(Protocol):
    """A place that skills come from, by name."""

    name: str
    kind: str
    address: str

    def search(self, words: str, limit: int) -> Sequence[RegistryHit]:
        """The skills for these words, best first."""
        ...

    def resolve(self, name: str, version: str) -> ResolvedSource:
        """What a name stands for; without a version, the newest."""
        ...

    def verdicts(self, held: Sequence[HeldSkill]) -> Sequence[RegistryVerdict]:
        """What it says about versions that were installed from it, one for each."""
        ...


class RegistryLookup(Protocol):
    """The registries that may be asked."""

    @property
    def names(self) -> Sequence[str]:
        """The prefixes that `metier add` takes."""
        ...

    def find(self, prefix: str, body: str) -> tuple[Registry, str, str]:
        """The registry for a prefix, and the name and version that the rest of the source means."""
        ...


class RegistryAccess(NamedTuple):
    """How registries are reached."""

    env: Mapping[str, str] = {}
    cwd: str = "/"
    home: str = "/"
    insecure: bool = False
    seconds: float = 30.0

    def __repr__(self) -> str:
        """Without the environment: it holds secrets."""
        return f"RegistryAccess({self.cwd!r})"


class RegistryAddress(NamedTuple):
    """Where a registry is, as it was configured."""

    name: str
    kind: str
    url: str
    named: bool = False
    """A person wrote this address: it may be a private one."""
    path: str = ""
    """The folder of a repository that its skills are in."""
    git: str = ""
    """Where the repositories are that it names by owner and name; GitHub by default."""

    def repository(self, owner: str, repo: str) -> SourceReference:
        """The repository that it calls `owner/repo`."""
        spec = f"{self.name}:{owner}/{repo}"
        if not self.git:
            return SourceReference("github", spec, f"https://github.com/{owner}/{repo}.git", repo=repo)
        return SourceReference("git", spec, f"{self.git}/{owner}/{repo}.git", repo=repo)
