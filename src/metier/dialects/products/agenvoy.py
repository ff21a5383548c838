"""Agenvoy: skills activated by a tool call, listed in one policy block; scheduler skills kept apart."""

from __future__ import annotations

from ...types.dialect import AuthoringRules, CommandRules, Dialect, ListingRules, RootSpec, ServingRules
from ..common import BUNDLED, COMMON_FIELDS, USER_CLAUDE, VENDOR_KEYS

SCHEDULER = "scheduler"

EXTENSIONS = RootSpec("extensions", "{ancestor}/extensions/skills", "project", "agenvoy", depth=1)
SYSTEM = RootSpec("system-agenvoy", "~/.config/agenvoy/skills/.system", "user", "agenvoy", depth=1, links="follow")
USER = RootSpec(
    "user-agenvoy",
    "~/.config/agenvoy/skills",
    "user",
    "agenvoy",
    depth=1,
    links="follow",
    skip=frozenset({SCHEDULER}),
)

MANUAL_RUN = (
    "[執行已存在 scheduler skill: <name> · 此為手動 trigger,不是建立新 schedule]\n"
    "依下方 SKILL body instructions 立即執行並輸出結果。\n"
    "**禁止** activate `scheduler-skill-creator`、**禁止** 跑 `init_scheduler_skill.py`、**禁止** add_schedule"
)

DIALECT = Dialect(
    name="agenvoy",
    title="Agenvoy",
    precedence=5,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS | {"version"},
        description="optional",
        frontmatter_required=False,
        unclosed_is_body=True,
        starred=True,
        broken_yaml_is_empty=True,
        requires_at=("metier", *VENDOR_KEYS),
        rooted=("scripts", "templates", "assets"),
    ),
    serving=ServingRules(
        roots=(
            RootSpec("project-claude", "{ancestor}/.claude/skills", "project", "claude", depth=1),
            # Not shared: only Agenvoy itself looks here.
            RootSpec("project-skills", "{ancestor}/.skills", "project", "agenvoy", depth=1, shared=False),
            EXTENSIONS,
            SYSTEM,
            USER,
            USER_CLAUDE,
            BUNDLED,
        ),
        listing=ListingRules("policy", description_cut=512, alphabetical=True),
        delivery="tool-call",
        tools=("run_skill", "skill_read_file", "skill_run_script"),
        commands=CommandRules(matching="tail", scheduled=True, manual_run=MANUAL_RUN, manual_extra="附加指令："),
        history=True,
        plugins=False,
    ),
)
