"""The open standard, read leniently; its serving looks in the roots of every product.

The order of its roots is their precedence: a project's before the user's, and within each the standard's own, then the
products' in their order.
"""

from __future__ import annotations

from ..light_typing import get_args
from ..types.dialect import (
    ArgumentRules,
    AuthoringRules,
    CommandRules,
    Dialect,
    ListingRules,
    PluginManifest,
    RootSource,
    RootSpec,
    ServingRules,
    ShellRules,
)
from .common import COMMON_FIELDS, PROJECT_AGENTS, USER_AGENTS, VENDOR_KEYS
from .products import PRODUCTS

SPECIFIED_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""The six fields of the specification: all that strict validation accepts."""

_OWN_ROOTS = (
    RootSpec("project", "{ancestor}/.metier/skills", "project", "standard"),
    PROJECT_AGENTS,
    RootSpec("user", "~/.metier/skills", "user", "standard", links="follow"),
    USER_AGENTS,
)


def _every_root() -> tuple[RootSpec, ...]:
    """The standard's own roots and those of all products, each path once."""
    by_path: dict[str, RootSpec] = {}
    for root in (*_OWN_ROOTS, *(root for product in PRODUCTS for root in product.serving.roots if root.shared)):
        # Products look in each other's folders too; the first to name a path says how its files are read.
        by_path.setdefault(root.path, root)
    sources = get_args(RootSource)
    return tuple(sorted(by_path.values(), key=lambda root: sources.index(root.source)))


STANDARD = Dialect(
    name="standard",
    title="Agent Skills (agentskills.io)",
    authoring=AuthoringRules(
        fields=COMMON_FIELDS | SPECIFIED_FIELDS | {"arguments"},
        name_rule="standard",
        requires_at=("metier", *VENDOR_KEYS, ""),
        # The specification has no placeholders, so most `$1` in these bodies are sums of money and fields of awk.
        arguments=ArgumentRules(
            first=0, splitting="shell", missing="stays", bracketed=True, named=True, escape=True, alone=True
        ),
        shell=ShellRules(fenced=True, anchored=True, cwd="agent", on_failure="error", program="bash"),
        variables=("SKILL_DIR", "CLAUDE_SKILL_DIR"),
        unused="ARGUMENTS: ",
    ),
    serving=ServingRules(
        roots=_every_root(),
        listing=ListingRules("guided", description_cut=1_536),
        delivery="skill-context",
        commands=CommandRules(scheduled=True, stacks=True),
    ),
    manifest=PluginManifest("plugin.json"),
)
