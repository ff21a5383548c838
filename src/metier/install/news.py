"""metier outdated: whether upstream has something else than what was fetched last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..host import git, swap
from ..types.errors import BadRequest, MetierError
from ..types.installed import Lock, Provenance
from . import place
from .fetch import access_of
from .lockfile import tree_digest
from .outfit import Outfit
from .place import Ground
from .updating import again, fetched_before, folders, reference_of


class News(NamedTuple):
    """What upstream says about an installed folder."""

    folder: str
    source: str
    ref: str
    commit: str
    """The commit that is here; for what has none the digest of upstream's files, as they were fetched."""
    latest: str
    """The same of what upstream has now; empty where nobody could say."""
    fault: str = ""
    """Why nobody could."""

    @property
    def outdated(self) -> bool:
        return bool(self.latest) and self.latest != self.commit


def outdated(ground: Ground, names: Sequence[str], outfit: Outfit) -> Iterator[News]:
    """Whether upstream has moved on: git is asked for its commit; what has another, or none, is fetched to one side."""
    lock = place.read_lock(ground)
    for name, source in folders(lock, names).items():
        commit = source.commit or tree_digest(fetched_before(lock, name))
        try:
            latest, fault = _latest(ground, lock, name, source, outfit), ""
        except MetierError as error:
            latest, fault = "", error.message
        yield News(name, source.source, source.ref, commit, latest, fault)


def _latest(ground: Ground, lock: Lock, name: str, source: Provenance, outfit: Outfit) -> str:
    if source.kind in ("github", "git"):
        url, access = access_of(reference_of(source), outfit)
        latest = git.resolve(url, source.ref, access)
        return source.commit if latest == source.commit or _same(ground, lock, name, source, outfit) else latest
    with place.staging(ground) as staging:
        return tree_digest(swap.marks(again(source, staging, outfit).path))


def _same(ground: Ground, lock: Lock, name: str, source: Provenance, outfit: Outfit) -> bool:
    """Whether a repository moved on and left this folder as it was."""
    with place.staging(ground) as staging:
        try:
            return swap.marks(again(source, staging, outfit).path) == fetched_before(lock, name)
        except BadRequest:  # the folder is not there any more: that is news, and `metier update` says what
            return False
