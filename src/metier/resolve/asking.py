"""What a skill's own frontmatter asks for beside its folder, as it is written there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..types.skill import PERMISSIONS, Skill


class Asked(NamedTuple):
    """A request: it is no grant before a person has seen it."""

    network: bool = False
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def asked_of(skill: Skill) -> Asked:
    """What it asks for."""
    tree = skill.extra.branch("metadata", "metier", "permissions")
    network = tree.text("network").strip().lower() in ("true", "yes", "on", "1")
    return Asked(network, *(tree.words(key) for key in PERMISSIONS[1:]))


def words_of(skill: Skill) -> tuple[str, ...]:
    """The same in words for whoever approves it, with the variables and the settings that are handed over."""
    return tuple(dict.fromkeys(_words(skill)))


def _words(skill: Skill) -> Iterator[str]:
    asked, needs = asked_of(skill), skill.requires
    if asked.network:
        yield "the network"
    yield from (f"the host {one}" for one in asked.hosts)
    yield from (f"reads {one}" for one in asked.read)
    yield from (f"writes {one}" for one in asked.write)
    yield from (f"is given {one}" for one in (*asked.env, *needs.env, needs.primary_env) if one)
    if skill.settings_key != skill.id:
        yield f"has the settings of {skill.settings_key}"
