"""A user's own dialect, from configuration: one of ours with some of its answers changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast, get_args

from ..types.dialect import Authoring, CommandForm, Commands, Description, Dialect, Format, Listing, NameRule
from ..types.problem import Mark

_name = re.compile(r"[a-z0-9][a-z0-9-]{0,31}").fullmatch
_PLAIN = {
    "name_rule": get_args(NameRule),
    "description": get_args(Description),
    "identity": ("name", "directory"),
}
_FLAGS = tuple(field.name for field in fields(Authoring) if field.type == "bool")
_KEYS = ("like", "fields", "format", "description_cut", "command_form", *_PLAIN, *_FLAGS)


def custom(name: str, table: Mapping[str, object], known: Mapping[str, Dialect], marks: list[Mark]) -> Dialect | None:
    """The dialect a table describes, or None with a mark that says what is wrong with it."""
    where = f"dialects.{name}"
    if not _name(name):
        marks.append(Mark("config-type", 0, (where, "a name of small letters, digits and hyphens")))
        return None
    like = table.get("like", "standard")
    if not isinstance(like, str) or like not in known or name in known:
        reason = f"one of {', '.join(known)}" if name not in known else "a new name"
        marks.append(Mark("config-type", 0, (f"{where}.like" if name not in known else where, reason)))
        return None
    base = known[like]
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            marks.append(Mark("config-unknown-key", 0, (f"{where}.{key}", "known here: " + ", ".join(_KEYS))))
        elif (key in _PLAIN and value in _PLAIN[key]) or (key in _FLAGS and isinstance(value, bool)):
            changes[key] = value
        elif key == "fields" and isinstance(value, list):
            changes[key] = base.authoring.fields | {str(item) for item in value}
        elif key in _PLAIN or key in _FLAGS or key == "fields":
            words = "a list" if key == "fields" else " or ".join(_PLAIN.get(key, ("true", "false")))
            marks.append(Mark("config-type", 0, (f"{where}.{key}", words)))
    serving = replace(
        base.serving,
        listing=_listing(table, base.serving.listing, where, marks),
        commands=_commands(table, base.serving.commands, where, marks),
    )
    return Dialect(name, f"{name} (like {base.title})", replace(base.authoring, **changes), serving)


def _listing(table: Mapping[str, object], base: Listing, where: str, marks: list[Mark]) -> Listing:
    chosen = table.get("format", base.format)
    if chosen not in get_args(Format):
        marks.append(Mark("config-type", 0, (f"{where}.format", "one of " + ", ".join(get_args(Format)))))
        chosen = base.format
    cut = table.get("description_cut", base.description_cut)
    if cut is not None and (isinstance(cut, bool) or not isinstance(cut, int) or cut < 1):
        marks.append(Mark("config-type", 0, (f"{where}.description_cut", "a whole number")))
        cut = base.description_cut
    return replace(base, format=cast(Format, chosen), description_cut=cut)


def _commands(table: Mapping[str, object], base: Commands, where: str, marks: list[Mark]) -> Commands:
    form = table.get("command_form", base.form)
    if form not in get_args(CommandForm):
        marks.append(Mark("config-type", 0, (f"{where}.command_form", "one of " + ", ".join(get_args(CommandForm)))))
        return base
    return replace(base, form=cast(CommandForm, form))
