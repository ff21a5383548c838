"""The strict profile: what `metier validate` asks of a SKILL.md, after agentskills.io."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from ..dialects.standard import SPECIFIED_FIELDS
from ..types.problem import Finding
from ..types.tree import RawValue
from . import frontmatter
from .document import ParseRefusal, decode_text, split_frontmatter
from .fields import LONGEST_COMPATIBILITY, LONGEST_DESCRIPTION, LONGEST_NAME
from .frontmatter import BadYaml


class _FieldSheet(NamedTuple):
    tree: dict[str, RawValue]
    lines: dict[str, int]

    def line(self, key: str) -> int:
        return self.lines.get(key, -1) + 2  # lines count from 0, after the opening `---`


def check_skill_file(data: bytes, directory: str) -> tuple[Finding, ...]:
    """Every way in which a file breaks the specification; nothing is repaired."""
    findings: list[Finding] = []
    try:
        text = decode_text(data, True, findings)
    except ParseRefusal as refusal:
        return tuple(refusal.findings)
    block, _, opened, _ = split_frontmatter(text)
    if block is None:
        return (Finding("unclosed-frontmatter" if opened else "no-frontmatter", 1, fatal=True),)
    try:
        reading = frontmatter.read_yaml(block)
    except BadYaml as fault:
        return (Finding("invalid-yaml", fault.line + 2, (fault.reason, fault.cure), fatal=True),)
    if reading.kind:
        return (Finding("not-a-mapping", 2, (reading.kind,), fatal=True),)
    sheet = _FieldSheet(reading.tree, reading.lines)
    findings = [finding._replace(fatal=True) for finding in findings]
    findings += [Finding("duplicate-key", line + 2, (key,), fatal=True) for key, line in reading.twice]
    unknown = [key for key in sheet.tree if key not in SPECIFIED_FIELDS]
    if unknown:
        findings.append(Finding("unknown-field", sheet.line(unknown[0]), (", ".join(unknown),), fatal=True))
    findings += [*_check_name(sheet, directory), *_check_description(sheet), *_check_compatibility(sheet)]
    return tuple(findings)


def _check_name(sheet: _FieldSheet, directory: str) -> list[Finding]:
    value = sheet.tree.get("name", "")
    line = sheet.line("name")
    if not isinstance(value, str):
        return [Finding("field-type", line, ("name",), fatal=True)]
    # The reference validator compares NFKC forms: a name typed on macOS may be decomposed.
    name = unicodedata.normalize("NFKC", value.strip())
    if not name:
        return [Finding("missing-name", max(line, 1), (directory,), fatal=True)]
    findings = []
    if len(name) > LONGEST_NAME:
        findings.append(Finding("name-too-long", line, (str(len(name)),), fatal=True))
    reason = name_fault(name)
    if reason:
        findings.append(Finding("name-invalid", line, (name, reason), fatal=True))
    if name != unicodedata.normalize("NFKC", directory):
        findings.append(Finding("name-mismatch", line, (name, directory), fatal=True))
    return findings


def name_fault(name: str) -> str:
    """How a name breaks the rule of the specification; empty if it does not."""
    if name != name.lower():
        return "it must be lowercase"
    if name.startswith("-") or name.endswith("-"):
        return "it must not begin or end with a hyphen"
    if "--" in name:
        return "it must not contain consecutive hyphens"
    if not all(character.isalnum() or character == "-" for character in name):
        return "only letters, digits and hyphens are allowed"
    return ""


def _check_description(sheet: _FieldSheet) -> list[Finding]:
    value = sheet.tree.get("description", "")
    line = sheet.line("description")
    if not isinstance(value, str):
        return [Finding("field-type", line, ("description",), fatal=True)]
    if not value.strip():
        return [Finding("missing-description", max(line, 1), fatal=True)]
    if len(value.strip()) > LONGEST_DESCRIPTION:
        return [Finding("description-too-long", line, (str(len(value.strip())),), fatal=True)]
    return []


def _check_compatibility(sheet: _FieldSheet) -> list[Finding]:
    value = sheet.tree.get("compatibility")
    if value is None:
        return []
    line = sheet.line("compatibility")
    if not isinstance(value, str):
        return [Finding("field-type", line, ("compatibility",), fatal=True)]
    if not value.strip():
        return [Finding("compatibility-empty", line, fatal=True)]
    if len(value.strip()) > LONGEST_COMPATIBILITY:
        return [Finding("compatibility-too-long", line, (str(len(value.strip())),), fatal=True)]
    return []
