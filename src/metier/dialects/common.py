"""Fields, keys and roots that several dialects share."""

from __future__ import annotations

from ..types.dialect import RootSpec, UnsupportedField

COMMON_FIELDS = frozenset(
    {"name", "description", "metadata", "argument-hint", "user-invocable", "disable-model-invocation"}
)
"""Fields that every dialect honours, also where its own documentation does not mention them."""

VENDOR_KEYS = ("openclaw", "clawdbot", "moltbot", "clawdis")
"""The keys under `metadata` that published skills keep their requirements in: OpenClaw and its former names."""

RAW_ARGUMENTS = (
    UnsupportedField("command-arg-mode", "the tool gets the arguments as they were typed", frozenset({"raw"})),
)
"""What the products with `command-dispatch` have beside the one mode of arguments that metier knows."""

PROJECT_AGENTS = RootSpec("project-agents", "{ancestor}/.agents/skills", "project", "standard", companions=True)
PROJECT_CLAUDE = RootSpec("project-claude", "{ancestor}/.claude/skills", "project", "claude", depth=1)
USER_AGENTS = RootSpec("user-agents", "~/.agents/skills", "user", "standard", links="follow", companions=True)
USER_CLAUDE = RootSpec("user-claude", "~/.claude/skills", "user", "claude", depth=1, links="follow")
BUNDLED = RootSpec("bundled", "~/.metier/skills", "bundled", "standard", depth=1, tier="bundled-metier", shared=False)
"""The skills that come with metier, for products that bring such skills; the user's own beside them are left out."""
