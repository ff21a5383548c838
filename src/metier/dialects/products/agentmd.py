"""Agent.md: skills that an agent's own file allows by name, used through three tools."""

from __future__ import annotations

from ...types.dialect import (
    ArgumentRules,
    AuthoringRules,
    CommandRules,
    Dialect,
    ListingRules,
    RootSpec,
    ServingRules,
    ShellRules,
)
from ..common import COMMON_FIELDS, VENDOR_KEYS

WORKSPACE = RootSpec("workspace-agentmd", "{ancestor}/workspace/agents/skills", "project", "agentmd", depth=1)

DIALECT = Dialect(
    name="agentmd",
    title="Agent.md",
    precedence=3,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS,
        name_rule="word",
        description="optional",
        requires_at=("metier", *VENDOR_KEYS),
        user_invocable_hides=True,
        arguments=ArgumentRules(first=0, splitting="blanks", joint="\n", bracketed=True, single_digit=True),
        shell=ShellRules(fenced=False, anchored=False, cwd="skill", on_failure="stderr", output="both"),
        variables=("SKILL_DIR", "CLAUDE_SKILL_DIR"),
    ),
    serving=ServingRules(
        roots=(WORKSPACE,),
        listing=ListingRules("available", description_cut=1_536),
        delivery="skill-context",
        commands=CommandRules(),
        plugins=False,
        unlisted_agent="none",
    ),
)
