"""What a skill asks for, and whether it can do more than when it was trusted.

Trust is kept as one digest for each thing that runs or is granted, not as one of the whole folder: an author may
improve the prose of a trusted skill, but every new command, script or grant asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..types.problem import Finding
from ..types.skill import PERMISSIONS, Skill


class RequestedPermissions(NamedTuple):
    """What a skill requests; nothing is granted until a person approves it."""

    network: bool = False
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def requested_permissions(skill: Skill) -> RequestedPermissions:
    """The permissions that the frontmatter requests under `metadata.metier.permissions`."""
    tree = skill.extra.branch("metadata", "metier", "permissions")
    network = tree.text("network").strip().lower() in ("true", "yes", "on", "1")
    return RequestedPermissions(network, *(tree.words(key) for key in PERMISSIONS[1:]))


def permission_lines(skill: Skill) -> tuple[str, ...]:
    """The same as lines for the person who approves it, with the variables and settings that the skill gets."""
    return tuple(dict.fromkeys(request.text for request in permission_requests(skill)))


class PermissionRequest(NamedTuple):
    """One thing that a skill asks for, in words."""

    text: str
    variable: str = ""
    """The variable of the caller's environment that it asks for, if it is one."""


def permission_requests(skill: Skill) -> Iterator[PermissionRequest]:
    """Everything that a skill asks for: permissions, variables, and another skill's settings."""
    requested, needs = requested_permissions(skill), skill.requires
    if requested.network:
        yield PermissionRequest("the network")
    yield from (PermissionRequest(f"the host {host}") for host in requested.hosts)
    yield from (PermissionRequest(f"reads {path}") for path in requested.read)
    yield from (PermissionRequest(f"writes {path}") for path in requested.write)
    names = filter(None, (*requested.env, *needs.env, needs.primary_env))
    yield from (PermissionRequest(f"is given {name}", name) for name in names)
    if skill.settings_key != skill.id:  # it reads another skill's settings, API key included
        yield PermissionRequest(f"has the settings of {skill.settings_key}")


class SkillCapabilities(NamedTuple):
    """What a skill can do beyond being read: commands in its body, files that run, what it asks for."""

    runs: frozenset[str] = frozenset()
    """One digest for each command, script and grant."""

    def widens(self, before: SkillCapabilities) -> bool:
        return not self.runs <= before.runs


class TrustRecord(NamedTuple):
    """What the project held when a person trusted it."""

    skills: Mapping[str, SkillCapabilities] = {}
    """By the path of the skill's folder within the project."""
    configuration: str = ""
    """The digest of the project's configuration."""
    agents: str = ""
    """The digest of its agent files."""
    whole: bool = True
    """The project was trusted, not only skills of it that the user wrote."""


def find_untrusted(
    skills: Iterable[tuple[Skill, str, SkillCapabilities]], record: TrustRecord | None, project: str
) -> dict[str, Finding]:
    """The project's skills that may not be used, and why.  Prose may change; what runs may only shrink."""
    findings: dict[str, Finding] = {}
    for skill, place, now in skills:
        if record is None or place not in record.skills:
            findings[skill.path] = Finding("untrusted", 0, (project,))
        elif now.widens(record.skills[place]):
            findings[skill.path] = Finding("changed-since-trust", 0, (project, "what it runs or is granted"))
    return findings
