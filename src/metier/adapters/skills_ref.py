"""A drop-in replacement for the functions of `skills-ref`: the same names, verdicts and messages.

It differs only where the original loses text, raises an undeclared exception or returns another type than it declares.
"""

from __future__ import annotations

import html
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ..host import files, paths
from ..parse import frontmatter
from ..parse.document import split_frontmatter
from ..parse.fields import LONGEST_COMPATIBILITY, LONGEST_DESCRIPTION, LONGEST_NAME
from ..parse.frontmatter import BadYaml
from ..types.errors import OutsideSkill
from ..types.tree import RawValue

__all__ = [
    "ParseError",
    "SkillError",
    "SkillProperties",
    "ValidationError",
    "find_skill_md",
    "parse_frontmatter",
    "read_properties",
    "to_prompt",
    "validate",
    "validate_metadata",
]

# Names, messages and their order are those of skills-ref: programs compare them.
ALLOWED_FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
_LARGEST_FILE = 16_777_216
SkillDir: TypeAlias = str | os.PathLike[str]


# --- Errors and properties ---


class SkillsRefError(Exception):
    """Base of the errors of this module."""


SkillError = SkillsRefError
"""Its name in skills-ref."""


class ParseError(SkillsRefError):
    """The file is missing, or can't be read as a skill."""


class ValidationError(SkillsRefError):
    """A required field is missing or empty; `errors` has the messages."""

    def __init__(self, message: str, errors: list[str] | None = None) -> None:
        super().__init__(message)
        self.errors = [message] if errors is None else errors


@dataclass
class SkillProperties:
    """What the frontmatter says."""

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The properties by their keys in the file, without those that are not set."""
        fields: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "license": self.license,
            "compatibility": self.compatibility,
            "allowed-tools": self.allowed_tools,
            "metadata": self.metadata or None,
        }
        return {key: value for key, value in fields.items() if value is not None}


# --- Reading ---


def find_skill_md(skill_dir: SkillDir) -> Path | None:
    """The path of SKILL.md or, failing that, of skill.md."""
    for name in ("SKILL.md", "skill.md"):
        path = Path(skill_dir) / name
        if path.exists():
            return path
    return None


def parse_frontmatter(content: str) -> tuple[dict[str, RawValue], str]:
    """The frontmatter, its scalars as text, and the body."""
    text = content.replace("\r\n", "\n").replace("\r", "\n")
    block, body, opened, _ = split_frontmatter(text)
    if block is None and not opened:
        raise ParseError("SKILL.md must start with YAML frontmatter (---)")
    if block is None:
        raise ParseError("SKILL.md frontmatter not properly closed with ---")
    try:
        reading = frontmatter.read_yaml(block)
    except BadYaml as fault:
        # Lines of the block count from 0, and it begins on the second line of the file.
        raise ParseError(f"Invalid YAML in frontmatter: {fault.reason} (line {fault.line + 2})") from fault
    if reading.kind:
        raise ParseError("SKILL.md frontmatter must be a YAML mapping")
    if reading.twice:
        key, line = reading.twice[0]
        raise ParseError(f"Invalid YAML in frontmatter: duplicate key '{key}' (line {line + 2})")
    if reading.flow is not None:
        raise ParseError(f"Invalid YAML in frontmatter: flow style is not allowed (line {reading.flow + 2})")
    return reading.tree, body.strip()


def _read_skill_md(skill_dir: SkillDir, skill_md: Path) -> str:
    try:
        _, data = files.read_skill_file(str(skill_dir), skill_md.name, _LARGEST_FILE)
    except (OSError, OutsideSkill) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParseError(f"SKILL.md can't be read: {reason}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"SKILL.md is not UTF-8: {error.reason} at byte {error.start}") from error


def read_properties(skill_dir: SkillDir) -> SkillProperties:
    """The properties in a skill's frontmatter; only a name and a description are required."""
    skill_md = find_skill_md(skill_dir)
    if skill_md is None:
        raise ParseError(f"SKILL.md not found in {Path(skill_dir)}")
    metadata, _ = parse_frontmatter(_read_skill_md(skill_dir, skill_md))
    for key in ("name", "description"):
        if key not in metadata:
            raise ValidationError(f"Missing required field in frontmatter: {key}")
    return SkillProperties(
        _required_text(metadata, "name"),
        _required_text(metadata, "description"),
        license=_optional_text(metadata.get("license")),
        compatibility=_optional_text(metadata.get("compatibility")),
        allowed_tools=_optional_text(metadata.get("allowed-tools")),
        metadata=_metadata_pairs(metadata.get("metadata")),
    )


def _required_text(metadata: Mapping[str, RawValue], key: str) -> str:
    value = metadata[key]
    if not isinstance(value, str) or not value.strip():
        raise ValidationError(f"Field '{key}' must be a non-empty string")
    return value.strip()


def _optional_text(value: RawValue | None) -> str | None:
    """Text as it is, a list as words, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def _metadata_pairs(value: RawValue | None) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for key, item in value.items()}


# --- Validation ---


def validate(skill_dir: SkillDir) -> list[str]:
    """The validation errors of a skill; empty if it is valid."""
    folder = Path(skill_dir)
    if not folder.exists():
        return [f"Path does not exist: {folder}"]
    if not folder.is_dir():
        return [f"Not a directory: {folder}"]
    skill_md = find_skill_md(folder)
    if skill_md is None:
        return ["Missing required file: SKILL.md"]
    try:
        metadata, _ = parse_frontmatter(_read_skill_md(folder, skill_md))
    except ParseError as error:
        return [str(error)]
    return validate_metadata(metadata, folder)


def validate_metadata(metadata: Mapping[str, object], skill_dir: SkillDir | None = None) -> list[str]:
    """The validation errors of parsed frontmatter; with a folder, its name must be the skill's."""
    errors = []
    unknown = sorted(set(metadata) - ALLOWED_FIELDS)
    if unknown:
        errors.append(
            f"Unexpected fields in frontmatter: {', '.join(unknown)}. Only {sorted(ALLOWED_FIELDS)} are allowed."
        )
    directory = None if skill_dir is None else paths.real_name(str(skill_dir))
    missing = "Missing required field in frontmatter: {}"
    errors += _name_errors(metadata["name"], directory) if "name" in metadata else [missing.format("name")]
    described = "description" in metadata
    errors += _description_errors(metadata["description"]) if described else [missing.format("description")]
    if "compatibility" in metadata:
        errors += _compatibility_errors(metadata["compatibility"])
    return errors


def _name_errors(value: object, directory: str | None) -> list[str]:
    if not isinstance(value, str) or not value.strip():
        return ["Field 'name' must be a non-empty string"]
    # As skills-ref does: a file system may store a name in another form than the author typed.
    name = unicodedata.normalize("NFKC", value.strip())
    # A dictionary keeps its order, which is the order of the messages.
    faults = {
        f"Skill name '{name}' exceeds {LONGEST_NAME} character limit ({len(name)} chars)": len(name) > LONGEST_NAME,
        f"Skill name '{name}' must be lowercase": name != name.lower(),
        "Skill name cannot start or end with a hyphen": name.startswith("-") or name.endswith("-"),
        "Skill name cannot contain consecutive hyphens": "--" in name,
        f"Skill name '{name}' contains invalid characters. Only letters, digits, and hyphens are allowed.": not all(
            character.isalnum() or character == "-" for character in name
        ),
        f"Directory name '{directory}' must match skill name '{name}'": directory is not None
        and unicodedata.normalize("NFKC", directory) != name,
    }
    return [message for message, true in faults.items() if true]


def _description_errors(value: object) -> list[str]:
    if not isinstance(value, str) or not value.strip():
        return ["Field 'description' must be a non-empty string"]
    if len(value) > LONGEST_DESCRIPTION:
        return [f"Description exceeds {LONGEST_DESCRIPTION} character limit ({len(value)} chars)"]
    return []


def _compatibility_errors(value: object) -> list[str]:
    if not isinstance(value, str):
        return ["Field 'compatibility' must be a string"]
    if len(value) > LONGEST_COMPATIBILITY:
        return [f"Compatibility exceeds {LONGEST_COMPATIBILITY} character limit ({len(value)} chars)"]
    return []


def to_prompt(skill_dirs: Iterable[SkillDir]) -> str:
    """The `<available_skills>` block for a system prompt."""
    lines = ["<available_skills>"]
    for skill_dir in skill_dirs:
        folder = paths.real_path(str(skill_dir))
        properties = read_properties(folder)
        location = str(find_skill_md(folder))
        lines.append("<skill>")
        for tag, text in (
            ("name", properties.name),
            ("description", properties.description),
            ("location", location),
        ):
            lines += [f"<{tag}>", html.escape(text), f"</{tag}>"]
        lines.append("</skill>")
    return "\n".join([*lines, "</available_skills>"])
