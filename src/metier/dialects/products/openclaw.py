"""OpenClaw: six tiers of roots, hard limits, and a mandatory block that the model reads files from."""

from __future__ import annotations

from ...types.dialect import (
    AuthoringRules,
    CommandRules,
    Dialect,
    LibraryLimits,
    ListingRules,
    PluginManifest,
    ProductSettings,
    RootSpec,
    ServingRules,
)
from ..common import COMMON_FIELDS, RAW_ARGUMENTS, VENDOR_KEYS

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
    "$OPENCLAW_BUNDLED_SKILLS_DIR",
    "bundled",
    "openclaw",
    depth=2,
    nested=True,
    itself=True,
    tier="bundled",
)

DIALECT = Dialect(
    name="openclaw",
    title="OpenClaw",
    precedence=4,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS
        | {"homepage", "command-dispatch", "command-tool", "command-arg-mode", "license", "allowed-tools"},
        name_rule="kebab",
        json_metadata=True,
        requires_at=VENDOR_KEYS,
        config_defaults=frozenset({"browser.enabled", "browser.evaluateEnabled"}),
        unsupported=RAW_ARGUMENTS,
    ),
    serving=ServingRules(
        roots=(
            WORKSPACE,
            # The standard's folders, read by OpenClaw's own rules.
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
        listing=ListingRules("mandatory", paths="home", policy="prefix"),
        delivery="model-reads",
        tools=("read", "skill_run_script"),
        commands=CommandRules(form="underscore", matching="loose"),
        limits=LibraryLimits(candidates=300, skills=200, listed=150, characters=30_000),
        settings=ProductSettings("~/.openclaw/openclaw.json", "OPENCLAW_CONFIG_PATH", ("skills", "load", "extraDirs")),
    ),
    manifest=PluginManifest("openclaw.plugin.json", replaces_default=True),
)
