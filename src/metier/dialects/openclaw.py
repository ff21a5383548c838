"""OpenClaw: six tiers of roots, hard limits, and a mandatory block that the model reads files from."""

from __future__ import annotations

from ..types.dialect import Authoring, Commands, Dialect, Limits, Listing, RootSpec, Serving
from .common import FIELDS, VENDORS

WORKSPACE = RootSpec(
    "workspace",
    "{ancestor}/skills",
    "project",
    "openclaw",
    depth=2,
    nested=True,
    itself=True,
    tier="workspace",
)
MANAGED = RootSpec(
    "managed-openclaw",
    "~/.openclaw/skills",
    "user",
    "openclaw",
    depth=2,
    links="follow",
    nested=True,
    itself=True,
    tier="managed",
)
BUNDLED = RootSpec(
    "bundled-openclaw",
    "{bundled}",
    "bundled",
    "openclaw",
    depth=2,
    nested=True,
    itself=True,
    tier="bundled",
)

OPENCLAW = Dialect(
    name="openclaw",
    title="OpenClaw",
    authoring=Authoring(
        fields=FIELDS
        | {"homepage", "command-dispatch", "command-tool", "command-arg-mode", "license", "allowed-tools"},
        name_rule="kebab",
        json_metadata=True,
        requires_at=VENDORS,
        config_defaults=frozenset({"browser.enabled", "browser.evaluateEnabled"}),
    ),
    serving=Serving(
        roots=(
            WORKSPACE,
            RootSpec(
                "project-agents",
                "{ancestor}/.agents/skills",
                "project",
                "openclaw",
                2,
                nested=True,
                tier="project",
            ),
            RootSpec(
                "user-agents",
                "~/.agents/skills",
                "user",
                "openclaw",
                2,
                links="follow",
                nested=True,
                tier="personal",
            ),
            MANAGED,
            BUNDLED,
        ),
        listing=Listing("mandatory", paths="home", policy="prefix"),
        delivery="model-reads",
        tools=("read", "skill_run_script"),
        commands=Commands(form="underscore", matching="loose"),
        limits=Limits(candidates=300, skills=200, listed=150, characters=30_000),
    ),
)
