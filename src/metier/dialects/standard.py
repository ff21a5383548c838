"""The open standard, read leniently; its serving looks in every root metier knows."""

from __future__ import annotations

from ..types.dialect import (
    ArgumentRules,
    AuthoringRules,
    CommandRules,
    Dialect,
    ListingRules,
    RootSpec,
    ServingRules,
    ShellRules,
)
from . import agentmd, agenvoy, multica, openclaw, umbra
from .common import COMMON_FIELDS, PROJECT_AGENTS, PROJECT_CLAUDE, USER_AGENTS, USER_CLAUDE, VENDOR_KEYS

SPECIFIED_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""The six fields of the specification: all that strict validation accepts."""

STANDARD = Dialect(
    name="standard",
    title="Agent Skills (agentskills.io)",
    authoring=AuthoringRules(
        fields=COMMON_FIELDS | SPECIFIED_FIELDS | {"arguments"},
        name_rule="standard",
        requires_at=("metier", *VENDOR_KEYS, ""),
        arguments=ArgumentRules(first=0, splitting="shell", missing="stays", bracketed=True, named=True, escape=True),
        shell=ShellRules(fenced=True, anchored=True, cwd="agent", on_failure="error", program="bash"),
        variables=("SKILL_DIR", "CLAUDE_SKILL_DIR"),
        unused="ARGUMENTS: ",
    ),
    serving=ServingRules(
        roots=(
            RootSpec("project", "{ancestor}/.metier/skills", "project", "standard"),
            PROJECT_AGENTS,
            PROJECT_CLAUDE,
            umbra.PROJECT,
            agentmd.WORKSPACE,
            openclaw.WORKSPACE,
            agenvoy.EXTENSIONS,
            RootSpec("user", "~/.metier/skills", "user", "standard", links="follow"),
            USER_AGENTS,
            USER_CLAUDE,
            umbra.USER,
            openclaw.MANAGED,
            agenvoy.SYSTEM,
            agenvoy.USER,
            multica.PROFILE,
            multica.MANAGED,
            openclaw.BUNDLED,
        ),
        listing=ListingRules("guided", description_cut=1_536),
        delivery="skill-context",
        commands=CommandRules(scheduled=True, stacks=True),
    ),
)
