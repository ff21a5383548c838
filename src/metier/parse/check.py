"""The strict profile: what `metier validate` asks of a SKILL.md, after agentskills.io."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from ..types.problem import Mark
from ..types.tree import Raw
from . import events
from .events import BadYaml
from .fences import cut
from .fields import LONGEST_COMPATIBILITY, LONGEST_DESCRIPTION, LONGEST_NAME
from .text import Refusal, text_of

SPECIFIED = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})


class _Sheet(NamedTuple):
    tree: dict[str, Raw]
    lines: dict[str, int]

    def line(self, key: str) -> int:
        return self.lines.get(key, -1) + 2


def check(data: bytes, directory: str) -> tuple[Mark, ...]:
    """Every way in which a file's bytes break the specification; nothing is repaired."""
    marks: list[Mark] = []
    try:
        text = text_of(data, True, marks)
    except Refusal as refusal:
        return tuple(refusal.marks)
    block, _, opened, _ = cut(text)
    if block is None:
        return (Mark("unclosed-frontmatter" if opened else "no-frontmatter", 1, fatal=True),)
    try:
        reading = events.read(block)
    except BadYaml as fault:
        return (Mark("invalid-yaml", fault.line + 2, (fault.reason, fault.cure), fatal=True),)
    if reading.kind:
        return (Mark("not-a-mapping", 2, (reading.kind,), fatal=True),)
    sheet = _Sheet(reading.tree, reading.lines)
    marks = [mark._replace(fatal=True) for mark in marks]
    marks += [Mark("duplicate-key", line + 2, (key,), fatal=True) for key, line in reading.twice]
    unknown = [key for key in sheet.tree if key not in SPECIFIED]
    if unknown:
        marks.append(Mark("unknown-field", sheet.line(unknown[0]), (", ".join(unknown),), fatal=True))
    marks += [*_name(sheet, directory), *_description(sheet), *_compatibility(sheet)]
    return tuple(marks)


def _name(sheet: _Sheet, directory: str) -> list[Mark]:
    value = sheet.tree.get("name", "")
    line = sheet.line("name")
    if not isinstance(value, str):
        return [Mark("field-type", line, ("name",), fatal=True)]
    name = unicodedata.normalize("NFKC", value.strip())
    if not name:
        return [Mark("missing-name", max(line, 1), (directory,), fatal=True)]
    marks = []
    if len(name) > LONGEST_NAME:
        marks.append(Mark("name-too-long", line, (str(len(name)),), fatal=True))
    reason = name_fault(name)
    if reason:
        marks.append(Mark("name-invalid", line, (name, reason), fatal=True))
    if name != unicodedata.normalize("NFKC", directory):
        marks.append(Mark("name-mismatch", line, (name, directory), fatal=True))
    return marks


def name_fault(name: str) -> str:
    """How a name breaks the rule of the specification, or nothing."""
    if name != name.lower():
        return "it must be lowercase"
    if name.startswith("-") or name.endswith("-"):
        return "it must not begin or end with a hyphen"
    if "--" in name:
        return "it must not hold two hyphens in a row"
    if not all(character.isalnum() or character == "-" for character in name):
        return "only letters, digits and hyphens are allowed"
    return ""


def _description(sheet: _Sheet) -> list[Mark]:
    value = sheet.tree.get("description", "")
    line = sheet.line("description")
    if not isinstance(value, str):
        return [Mark("field-type", line, ("description",), fatal=True)]
    if not value.strip():
        return [Mark("missing-description", max(line, 1), fatal=True)]
    if len(value.strip()) > LONGEST_DESCRIPTION:
        return [Mark("description-too-long", line, (str(len(value.strip())),), fatal=True)]
    return []


def _compatibility(sheet: _Sheet) -> list[Mark]:
    value = sheet.tree.get("compatibility")
    if value is None:
        return []
    line = sheet.line("compatibility")
    if not isinstance(value, str):
        return [Mark("field-type", line, ("compatibility",), fatal=True)]
    if not value.strip():
        return [Mark("compatibility-empty", line, fatal=True)]
    if len(value.strip()) > LONGEST_COMPATIBILITY:
        return [Mark("compatibility-too-long", line, (str(len(value.strip())),), fatal=True)]
    return []
