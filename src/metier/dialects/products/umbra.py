"""Umbra: slash commands with 1-based arguments and shell markers; an XML listing with absolute paths."""

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

PROJECT = RootSpec("project-umbra", "{ancestor}/.umbra/skills", "project", "umbra", itself=True)
USER = RootSpec("user-umbra", "~/.umbra/skills", "user", "umbra", links="follow", itself=True)

DIALECT = Dialect(
    name="umbra",
    title="Umbra",
    precedence=2,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS,
        name_rule="kebab",
        description="first-line",
        frontmatter_required=False,
        broken_yaml_is_empty=True,
        indented=True,
        requires_at=("metier", *VENDOR_KEYS),
        arguments=ArgumentRules(first=1, splitting="quotes", whole="joined", slices=True),
        shell=ShellRules(fenced=True, anchored=True, cwd="agent", on_failure="error", one_line=True),
    ),
    serving=ServingRules(
        roots=(PROJECT, USER),
        listing=ListingRules("xml"),
        delivery="user-message",
        preface="ran",
        tools=("read", "skill_run_script"),
        commands=CommandRules(alphabetical=True),
        plugins=False,
    ),
)
