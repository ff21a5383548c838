"""What a person sees before approving a skill, and the approval itself, bound to exactly that content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..install import add
from ..install import verify as install_verify
from ..install.inspect import inspect_skill
from ..install.managed import managed_skill
from ..install.operations import taken_names, trust_placed_skills
from ..library import lockfile
from ..library.library import Library
from ..library.lockfile import InstallRoot
from ..library.trust import approve_contents, approve_skills
from ..sources.roots import PACKAGE_TIER
from ..sources.skill_files import manifest_digest
from ..types.dialect import Dialect
from ..types.errors import BadRequest, Changed, NotInstalled
from ..types.installed import InspectedSkill, Lockfile
from ..types.place import Place
from ..types.problem import Problem
from ..types.skill import Skill

POWER_LABELS = {
    "commands": "commands in the body",
    "scripts": "can run",
    "network": "network",
    "env": "variables",
    "binaries": "programs",
    "tools": "tools",
    "recipes": "would install",
    "permissions": "asks for",
}


class ReviewedSkill(NamedTuple):
    """One skill as a person is shown it."""

    key: str
    """Its place in the root."""
    path: str
    inspected: InspectedSkill
    differences: tuple[tuple[str, str], ...]
    """The files that differ from what was approved before, and how."""
    digest: str
    """Of every file: an approval holds for this content and no other."""


def review_folder(
    path: str, key: str, dialect: Dialect, before: Lockfile | None, shared: bool = False
) -> ReviewedSkill:
    """Inspect a skill's folder as it is now."""
    now = lockfile.folder_manifest(path)
    inspected = inspect_skill(add.read_folder(path, "", key.rpartition("/")[2], now), dialect, ())
    old = before.skills[key].files if before is not None else now
    differences = tuple((file, str(how)) for file, how in lockfile.compare_files(old, now, shared))
    return ReviewedSkill(key, path, inspected, differences, manifest_digest(now))


def review_locked(
    install_root: InstallRoot, lock: Lockfile, keys: Sequence[str], dialect: Dialect
) -> list[ReviewedSkill]:
    """Inspect installed skills as they are now, against the lock."""
    root, shared = install_root.root, install_root.shared
    return [review_folder(f"{root}/{key}", key, dialect, lock, shared) for key in keys]


def names_taken_over(
    place: Place, install_root: InstallRoot, lock: Lockfile, keys: Sequence[str]
) -> list[tuple[str, str]]:
    """The skills that would no longer be used if these were approved: unapproved they shadowed nothing."""
    fresh = {
        key: add.NamedFolder(lock.skills[key].name, f"{install_root.root}/{key}")
        for key in keys
        if lock.skills[key].approval is None
    }
    return taken_names(place, install_root, fresh)


class SkillReview(NamedTuple):
    """All that an approval of one skill is about."""

    name: str
    skills: tuple[ReviewedSkill, ...]
    takes: tuple[tuple[str, str], ...] = ()
    """The skills that it would be used in place of: name and path."""
    install_root: InstallRoot | None = None
    """None for a skill of the user's own, which no lock holds."""

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(danger for reviewed in self.skills for danger in reviewed.inspected.dangers)

    @property
    def must_type_name(self) -> bool:
        """Whether a click is not enough: serious findings, or a skill that would be replaced."""
        return bool(self.dangers or self.takes)

    @property
    def digest(self) -> str:
        return " ".join(reviewed.digest for reviewed in self.skills)


def review_skill(library: Library, name: str) -> SkillReview:
    """What approving the skill of that name means."""
    skill = library.find(name).skill
    managed = managed_skill(library, skill)
    install_root = managed.install_root
    lock = lockfile.read_lock(install_root)
    if managed.key in lock.skills:
        reviewed = review_locked(install_root, lock, [managed.key], skill.origin.dialect)
        takes = names_taken_over(library.place, install_root, lock, [managed.key])
        return SkillReview(name, tuple(reviewed), tuple(takes), install_root)
    if skill.origin.source == "project":
        raise NotInstalled(name)  # such a skill is trusted with its project
    own = review_folder(skill.directory, skill.id, skill.origin.dialect, None)
    if own.inspected.powers.nothing and skill.origin.tier != PACKAGE_TIER:
        raise BadRequest(f"`{name}` needs no approval", "nothing in it runs, and it asks for nothing")
    return SkillReview(name, (own,))


def approve_reviewed(library: Library, review: SkillReview, digest: str) -> None:
    """Approve a skill if it still is what the digest says; a change in between is an error, and approves nothing."""
    skill = library.find(review.name).skill
    if review.digest != digest:
        raise Changed(f"`{review.name}` changed since it was shown", "read it again, then decide", skill.directory)
    if review.install_root is None:
        approve_own_skill(library, review.name, digest)
        return
    seen = {reviewed.key: reviewed.digest for reviewed in review.skills}
    install_verify.approve_skills(review.install_root, seen, skill.origin.dialect, seen)
    trust_placed_skills(library.place, review.install_root, list(seen))


def approve_own_skill(library: Library, name: str, digest: str) -> None:
    """Approve a skill that no lock holds, at the content of that digest."""
    approve_content(library, library.find(name).skill, digest)


def approve_content(library: Library, skill: Skill, digest: str) -> None:
    """Approve a skill at the content of that digest; one of a package wherever the same content lies."""

    def check_settled() -> None:
        if manifest_digest(lockfile.folder_manifest(skill.directory)) != digest:
            raise Changed(f"`{skill.name}` changed since it was shown", "read it again, then decide", skill.directory)

    if skill.origin.tier == PACKAGE_TIER:
        approve_contents(library.place.state, [skill], check_settled)
    approve_skills(library.place.state, [skill], library.limits.file_bytes, check_settled)
