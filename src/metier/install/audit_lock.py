"""metier audit: what registries and the configuration say now about what a lock holds.

Nothing is changed and nothing is downloaded.  Each installed folder gets one result: denied by `sources`, failed or
withdrawn by its registry, not checked because the registry did not answer, or fine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from ..library import lockfile
from ..library.lockfile import InstallRoot
from ..registries.protocol import HeldSkill, Registry, RegistryVerdict
from ..registries.source_policy import source_names
from ..types.errors import MetierError
from ..types.installed import Provenance
from .fetch_access import FetchOptions
from .update import installed_folders

AuditState: TypeAlias = Literal["passed", "failed", "withdrawn", "denied", "unchecked", "unknown"]
BAD_STATES: tuple[AuditState, ...] = ("failed", "withdrawn", "denied")


class AuditResult(NamedTuple):
    """What was found about one installed folder."""

    folder: str
    source: str
    version: str
    state: AuditState
    reasons: tuple[str, ...] = ()
    url: str = ""


def audit_root(install_root: InstallRoot, options: FetchOptions, offline: bool = False) -> Iterator[AuditResult]:
    """One result for each installed folder, in order of their names."""
    folders = installed_folders(lockfile.read_lock(install_root), ())
    verdicts = {} if offline else _ask_registries(folders, options)
    for name, source in folders.items():
        version = source.version or source.commit
        if fault := options.policy.fault(source_names(source)):
            yield AuditResult(name, source.source, version, "denied", (fault,))
        elif isinstance(found := verdicts.get(name), RegistryVerdict):
            yield AuditResult(name, source.source, version, found.state, found.reasons, found.url)
        elif found is not None:
            yield AuditResult(name, source.source, version, "unchecked", (found,))
        else:
            why = "no registry was asked" if offline else "no registry knows it"
            yield AuditResult(name, source.source, version, "unknown", (why,))


def _ask_registries(folders: Mapping[str, Provenance], options: FetchOptions) -> dict[str, RegistryVerdict | str]:
    """The verdict on each folder that came from a registry, or why there is none."""
    found: dict[str, RegistryVerdict | str] = {}
    asked: dict[str, tuple[Registry, dict[str, HeldSkill]]] = {}
    by_registry: dict[str, dict[str, HeldSkill]] = defaultdict(dict)
    for folder, source in folders.items():
        if source.kind != "registry" or options.registries is None:
            continue
        prefix, _, body = source.source.partition(":")
        try:
            registry, name, _ = options.registries.find(prefix, body)
        except MetierError as error:
            found[folder] = error.message
            continue
        by_registry[registry.name][folder] = HeldSkill(name, source.version, source.commit)
        asked[registry.name] = registry, by_registry[registry.name]
    for registry, held in asked.values():
        try:
            verdicts = registry.verdicts(list(held.values()))
        except MetierError as error:
            found |= dict.fromkeys(held, error.message)
            continue
        found |= dict(zip(held, verdicts, strict=True))
    return found
