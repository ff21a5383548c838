"""super-multica: free display names, requirements with seven diagnostics, managed and profile roots."""

from __future__ import annotations

from ..types.dialect import Authoring, Commands, Dialect, Listing, RootSpec, Serving
from .common import FIELDS, VENDORS

PROFILE = RootSpec(
    "profile", "~/.super-multica/agent-profiles/{profile}/skills", "user", "multica", depth=4, links="follow"
)
MANAGED = RootSpec(
    "managed-multica", "~/.super-multica/skills", "user", "multica", depth=4, links="follow", tier="managed"
)

MULTICA = Dialect(
    name="multica",
    title="super-multica",
    authoring=Authoring(
        fields=FIELDS
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
        requires_at=("", "metier", *VENDORS),
        empty_env_counts=True,
        unused="User request: ",
        unused_when="always",
    ),
    serving=Serving(
        roots=(PROFILE, MANAGED),
        listing=Listing("emoji", description_cut=1_536),
        delivery="user-message",
        preface="label",
        commands=Commands(form="hyphen", matching="loose"),
        plugins=False,
    ),
)
