"""super-multica: free display names, requirements with seven diagnostics, managed and profile roots."""

from __future__ import annotations

from ...types.dialect import AuthoringRules, CommandRules, Dialect, ListingRules, RootSpec, ServingRules
from ..common import BUNDLED, COMMON_FIELDS, RAW_ARGUMENTS, VENDOR_KEYS

PROFILE = RootSpec(
    "profile", "~/.super-multica/agent-profiles/{profile}/skills", "user", "multica", depth=4, links="follow"
)
MANAGED = RootSpec(
    "managed-multica", "~/.super-multica/skills", "user", "multica", depth=4, links="follow", tier="managed"
)

DIALECT = Dialect(
    name="multica",
    title="super-multica",
    precedence=6,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS
        | {
            "version",
            "homepage",
            "config",
            "install",
            "command-dispatch",
            "command-tool",
            "command-arg-mode",
        },
        name_required=True,
        description="optional",
        identity="directory",
        requires_at=("", "metier", *VENDOR_KEYS),
        empty_env_counts=True,
        unused="User request: ",
        unused_when="always",
        unsupported=RAW_ARGUMENTS,
    ),
    serving=ServingRules(
        roots=(PROFILE, MANAGED, BUNDLED),
        listing=ListingRules("emoji", description_cut=1_536),
        delivery="user-message",
        preface="label",
        commands=CommandRules(form="hyphen", matching="loose"),
        plugins=False,
    ),
)
