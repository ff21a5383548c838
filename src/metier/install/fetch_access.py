"""How to fetch: the environment, the limits, the registries that may be asked, and the sources that are allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..host import git, paths
from ..host.archives import ArchiveBounds, Progress
from ..registries.protocol import RegistryLookup
from ..registries.source_policy import ANY_SOURCE, SourcePolicy, check_host_spelling, plain_name
from ..types.errors import BadRequest
from ..types.installed import SourceReference

INSECURE_SCHEMES = ("http://", "git://", "file://")


@dataclass(frozen=True)
class FetchOptions:
    """How to fetch: environment, limits, progress."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = "/"
    home: str = "/"
    insecure: bool = False
    bounds: ArchiveBounds = field(default_factory=ArchiveBounds)
    seconds: float = 300.0
    progress: Progress | None = None
    registries: RegistryLookup | None = field(default=None, repr=False)
    """The registries that may be asked; None for callers that know none."""
    policy: SourcePolicy = ANY_SOURCE
    known_as: tuple[str, ...] = ()
    """The registry's names of what is fetched: whoever allows these allows where the registry keeps its files."""

    def check_address(self, url: str, path: str = "") -> None:
        """Refuse an address that the rules for sources do not allow, one that a server leads to above all."""
        check_host_spelling(url)
        self.policy.check((plain_name(url, path), *self.known_as))


def git_access(reference: SourceReference, options: FetchOptions) -> tuple[str, git.GitAccess]:
    """The URL for git, and how it may connect."""
    url = reference.url
    protocols: tuple[str, ...] = ("https", "ssh", "http", "git", "file") if options.insecure else ("https", "ssh")
    if reference.kind == "git" and url.startswith(INSECURE_SCHEMES) and not options.insecure:
        raise BadRequest(
            f"`{url.partition(':')[0]}` is not secure: the skill was added with --allow-insecure",
            "pass --allow-insecure again to fetch it",
        )
    if reference.kind == "git" and url.startswith(("/", ".", "~")):
        url, protocols = paths.absolute_path(url, options.cwd, options.home), ("file",)
    return url, git.GitAccess(options.env, protocols, url, reference.secret, options.seconds)
