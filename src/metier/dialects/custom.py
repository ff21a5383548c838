"""A user's own dialect, from configuration: one of ours with some of its answers changed."""

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
    name: str, table: Mapping[str, object], dialects: Mapping[str, Dialect], marks: list[Finding]
) -> Dialect | None:
    """The dialect a table describes, or None with a mark that says what is wrong with it."""
    where = f"dialects.{name}"
    if not _is_dialect_name(name):
        marks.append(Finding("config-type", 0, (where, "a name of small letters, digits and hyphens")))
        return None
    like = table.get("like", "standard")
    if not isinstance(like, str) or like not in dialects or name in dialects:
        reason = f"one of {', '.join(dialects)}" if name not in dialects else "a new name"
        marks.append(Finding("config-type", 0, (f"{where}.like" if name not in dialects else where, reason)))
        return None
    base = dialects[like]
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            marks.append(Finding("config-unknown-key", 0, (f"{where}.{key}", "known here: " + ", ".join(_KEYS))))
        elif (key in _PLAIN_CHOICES and value in _PLAIN_CHOICES[key]) or (key in _FLAGS and isinstance(value, bool)):
            changes[key] = value
        elif key == "fields" and isinstance(value, list):
            changes[key] = base.authoring.fields | {str(item) for item in value}
        elif key in _PLAIN_CHOICES or key in _FLAGS or key == "fields":
            expected = "a list" if key == "fields" else " or ".join(_PLAIN_CHOICES.get(key, ("true", "false")))
            marks.append(Finding("config-type", 0, (f"{where}.{key}", expected)))
    serving = base.serving._replace(
        listing=_listing_rules(table, base.serving.listing, where, marks),
        commands=_command_rules(table, base.serving.commands, where, marks),
    )
    return Dialect(name, f"{name} (like {base.title})", base.authoring._replace(**changes), serving)


def _listing_rules(table: Mapping[str, object], base: ListingRules, where: str, marks: list[Finding]) -> ListingRules:
    chosen = table.get("format", base.format)
    if chosen not in get_args(ListingFormat):
        marks.append(Finding("config-type", 0, (f"{where}.format", "one of " + ", ".join(get_args(ListingFormat)))))
        chosen = base.format
    cut = table.get("description_cut", base.description_cut)
    if cut is not None and (isinstance(cut, bool) or not isinstance(cut, int) or cut < 1):
        marks.append(Finding("config-type", 0, (f"{where}.description_cut", "a whole number")))
        cut = base.description_cut
    return base._replace(format=cast(ListingFormat, chosen), description_cut=cut)


def _command_rules(table: Mapping[str, object], base: CommandRules, where: str, marks: list[Finding]) -> CommandRules:
    form = table.get("command_form", base.form)
    if form not in get_args(CommandForm):
        marks.append(Finding("config-type", 0, (f"{where}.command_form", "one of " + ", ".join(get_args(CommandForm)))))
        return base
    return base._replace(form=cast(CommandForm, form))
