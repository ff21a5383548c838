"""A user's own dialect, from configuration: a built-in one with some of its answers changed.

Its roots are those of the dialect it is like: a table can't add folders, so it can't add unprotected ones either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast, get_args

from ..types.dialect import (
    AuthoringRules,
    CommandForm,
    CommandRules,
    DescriptionRule,
    Dialect,
    ListingFormat,
    ListingRules,
    NameRule,
)
from ..types.problem import Finding

_is_dialect_name = re.compile(r"[a-z0-9][a-z0-9-]{0,31}").fullmatch
_PLAIN_CHOICES = {
    "name_rule": get_args(NameRule),
    "description": get_args(DescriptionRule),
    "identity": ("name", "directory"),
}
_FLAGS = tuple(name for name, kind in AuthoringRules.__annotations__.items() if "bool" in str(kind))
_KEYS = ("like", "fields", "format", "description_cut", "command_form", *_PLAIN_CHOICES, *_FLAGS)


def custom_dialect(
    name: str, table: Mapping[str, object], dialects: Mapping[str, Dialect], findings: list[Finding]
) -> Dialect | None:
    """The dialect a table describes, or None with a finding that says what is wrong with it."""
    where = f"dialects.{name}"
    if not _is_dialect_name(name):
        findings.append(Finding("config-type", 0, (where, "a name of small letters, digits and hyphens")))
        return None
    like = table.get("like", "standard")
    if not isinstance(like, str) or like not in dialects or name in dialects:
        reason = f"one of {', '.join(dialects)}" if name not in dialects else "a new name"
        findings.append(Finding("config-type", 0, (f"{where}.like" if name not in dialects else where, reason)))
        return None
    # Only answers that hold one value can be set; how bodies are read stays that of the base.
    base = dialects[like]
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            findings.append(Finding("config-unknown-key", 0, (f"{where}.{key}", "known here: " + ", ".join(_KEYS))))
        elif (key in _PLAIN_CHOICES and value in _PLAIN_CHOICES[key]) or (key in _FLAGS and isinstance(value, bool)):
            changes[key] = value
        elif key == "fields" and isinstance(value, list):
            changes[key] = base.authoring.fields | {str(item) for item in value}
        elif key in _PLAIN_CHOICES or key in _FLAGS or key == "fields":
            expected = "a list" if key == "fields" else " or ".join(_PLAIN_CHOICES.get(key, ("true", "false")))
            findings.append(Finding("config-type", 0, (f"{where}.{key}", expected)))
    serving = base.serving._replace(
        listing=_listing_rules(table, base.serving.listing, where, findings),
        commands=_command_rules(table, base.serving.commands, where, findings),
    )
    return Dialect(name, f"{name} (like {base.title})", base.authoring._replace(**changes), serving)


def _listing_rules(
    table: Mapping[str, object], base: ListingRules, where: str, findings: list[Finding]
) -> ListingRules:
    chosen = table.get("format", base.format)
    if chosen not in get_args(ListingFormat):
        findings.append(Finding("config-type", 0, (f"{where}.format", "one of " + ", ".join(get_args(ListingFormat)))))
        chosen = base.format
    cut = table.get("description_cut", base.description_cut)
    if cut is not None and (isinstance(cut, bool) or not isinstance(cut, int) or cut < 1):
        findings.append(Finding("config-type", 0, (f"{where}.description_cut", "a whole number")))
        cut = base.description_cut
    return base._replace(format=cast(ListingFormat, chosen), description_cut=cut)


def _command_rules(
    table: Mapping[str, object], base: CommandRules, where: str, findings: list[Finding]
) -> CommandRules:
    form = table.get("command_form", base.form)
    if form not in get_args(CommandForm):
        findings.append(
            Finding("config-type", 0, (f"{where}.command_form", "one of " + ", ".join(get_args(CommandForm))))
        )
        return base
    return base._replace(form=cast(CommandForm, form))
