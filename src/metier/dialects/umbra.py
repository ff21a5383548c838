"""Umbra: slash commands with 1-based arguments and shell markers; an XML listing with absolute paths."""

from __future__ import annotations

from ..types.dialect import Arguments, Authoring, Commands, Dialect, Listing, RootSpec, Serving, Shell
from .common import FIELDS, VENDORS

PROJECT = RootSpec("project-umbra", "{ancestor}/.umbra/skills", "project", "umbra", itself=True)
USER = RootSpec("user-umbra", "~/.umbra/skills", "user", "umbra", links="follow", itself=True)

UMBRA = Dialect(
    name="umbra",
    title="Umbra",
    authoring=Authoring(
        fields=FIELDS,
        name_rule="kebab",
        description="first-line",
        frontmatter_required=False,
        broken_yaml_is_empty=True,
        indented=True,
        requires_at=("metier", *VENDORS),
        arguments=Arguments(first=1, splitting="quotes", whole="joined", slices=True),
        shell=Shell(fenced=True, anchored=True, cwd="agent", on_failure="error"),
    ),
    serving=Serving(
        roots=(PROJECT, USER),
        listing=Listing("xml"),
        delivery="user-message",
        preface="ran",
        tools=("read", "skill_run_script"),
        commands=Commands(alphabetical=True),
        plugins=False,
    ),
)
