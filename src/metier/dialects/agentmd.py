"""Agent.md: skills that an agent's own file allows by name, used through three tools."""

from __future__ import annotations

from ..types.dialect import Arguments, Authoring, Commands, Dialect, Listing, RootSpec, Serving, Shell
from .common import FIELDS, VENDORS

WORKSPACE = RootSpec("workspace-agentmd", "{ancestor}/workspace/agents/skills", "project", "agentmd", depth=1)

AGENTMD = Dialect(
    name="agentmd",
    title="Agent.md",
    authoring=Authoring(
        fields=FIELDS,
        name_rule="word",
        description="optional",
        requires_at=("metier", *VENDORS),
        user_invocable_hides=True,
        arguments=Arguments(first=0, splitting="blanks", joint="\n", bracketed=True, single_digit=True),
        shell=Shell(fenced=False, anchored=False, cwd="skill", on_failure="stderr", output="both"),
        variables=("SKILL_DIR", "CLAUDE_SKILL_DIR"),
    ),
    serving=Serving(
        roots=(WORKSPACE,),
        listing=Listing("available", description_cut=1_536),
        delivery="skill-context",
        commands=Commands(),
        plugins=False,
        unlisted_agent="none",
    ),
)
