"""The open standard, read leniently; its serving looks in every root metier knows."""

from __future__ import annotations

from ..types.dialect import Arguments, Authoring, Commands, Dialect, Listing, RootSpec, Serving, Shell
from . import agentmd, agenvoy, multica, openclaw, umbra
from .common import FIELDS, PROJECT_AGENTS, PROJECT_CLAUDE, USER_AGENTS, USER_CLAUDE, VENDORS

SPECIFIED = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""The six fields of the specification: all that strict validation accepts."""

STANDARD = Dialect(
    name="standard",
    title="Agent Skills (agentskills.io)",
    authoring=Authoring(
        fields=FIELDS | SPECIFIED | {"arguments"},
        name_rule="standard",
        requires_at=("metier", *VENDORS, ""),
        arguments=Arguments(first=0, splitting="shell", missing="stays", bracketed=True, named=True, escape=True),
        shell=Shell(fenced=True, anchored=True, cwd="agent", on_failure="error", program="bash"),
        variables=("SKILL_DIR", "CLAUDE_SKILL_DIR"),
        unused="ARGUMENTS: ",
    ),
    serving=Serving(
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
        listing=Listing("guided", description_cut=1_536),
        delivery="skill-context",
        commands=Commands(scheduled=True, stacks=True),
    ),
)
