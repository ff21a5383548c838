"""The rules of frontmatter as JSON Schema, for editors and other programs that check a SKILL.md without metier.

A schema sees the values that a YAML reader makes, one file at a time. What it can't see is named in `NOT_IN_SCHEMA`,
which every schema carries as its comment: where metier and a schema disagree, it is for one of those reasons.
"""

from __future__ import annotations

from ..dialects.standard import SPECIFIED_FIELDS
from ..light_typing import Any, TypeAlias
from ..types.dialect import AuthoringRules, Dialect
from .fields import LONGEST_COMPATIBILITY, LONGEST_DESCRIPTION, LONGEST_NAME

JsonSchema: TypeAlias = "dict[str, Any]"

META_SCHEMA = "https://json-schema.org/draft/2020-12/schema"
STRICT_PROFILE = "agentskills"
"""The name of the specification's own schema, which `metier validate` agrees with."""

NOT_IN_SCHEMA = {
    "file": "the file itself: its name, its encoding, its size, the `---` lines and the YAML between them",
    "folder": "the folder: a name must be the folder's, and a missing name may be taken from it",
    "body": "the body: some dialects take a missing description from it",
    "duplicates": "keys that are written twice: a YAML reader keeps one of them",
    "trimming": "white space at the ends of a text: it counts here, and is removed before metier counts",
    "scalars": "how a number, a boolean or `null` was written: for metier they are texts, as they stand",
    "scripts": "letters outside of Latin, Greek and Cyrillic: capitals, marks and compatibility forms pass",
    "dialect": "`metadata.dialect`, which has the file read by the rules of another dialect",
}
"""What metier sees and a schema does not."""

_TEXT = ["string", "number", "boolean"]
"""A scalar. metier keeps its text as it was written, so a description may be `2026`."""

# A letter or a digit, as a class of what is neither: patterns have no portable way to say "a small letter".
_NO_LETTER = (
    r"\s\u0000-/:-`{-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf-\u00d6\u00d7-\u00de\u00f7\u0130\u01c4\u01c5\u01c7\u01c8\u01ca\u01cb\u01f1\u01f2\u0391-\u03a9"
    r"\u0400-\u042f\u2000-\u206f\u2190-\u245f\u2500-\u2775\u2794-\u2bff\u3000-\u3004\u3008-\u3020\ufe00-\ufe0f\ufeff"
    "\U0001f000-\U0001fbef"
)
_STRICT_NAME = rf"^\s*[^{_NO_LETTER}]+(-[^{_NO_LETTER}]+)*\s*$"
_WORD_NAME = r"^\s*([A-Za-z0-9_-]+\s*)?$"
_SOME_TEXT = r"\S"

_MEANINGS = {
    "name": "The skill's name: the name of its folder.",
    "description": "What the skill does and when to use it. A model chooses skills by this text.",
    "license": "The license, or the name of a license file in the folder.",
    "compatibility": "What the skill needs from its environment: a product, programs, network access.",
    "metadata": "Further values, by name.",
    "allowed-tools": "Tools that may be used without asking, separated by spaces or as a list.",
    "disallowed-tools": "Tools that must not be used while the skill is active.",
    "argument-hint": "What to type after the command, shown when it is completed.",
    "arguments": "Names for the arguments, usable as `$name` in the body.",
    "user-invocable": "Whether people may call the skill as a slash command.",
    "disable-model-invocation": "Whether the skill is kept from the model, so that only people call it.",
    "when_to_use": "More about when to use the skill, after the description.",
    "version": "The version of the skill.",
    "homepage": "Where the skill is documented.",
    "model": "The model to use while the skill is active.",
    "config": "Settings of the skill, and whether it is enabled.",
    "install": "How to install the programs the skill needs.",
}
_DEFAULTS = {"user-invocable": True, "disable-model-invocation": False}


def strict_schema() -> JsonSchema:
    """The schema of the specification: what it refuses, `metier validate` refuses."""
    properties = {field: _property(field) for field in sorted(SPECIFIED_FIELDS)}
    # A negative number would begin with a hyphen.
    properties["name"] |= {
        "type": ["string", "integer", "boolean"],
        "minimum": 0,
        "maxLength": LONGEST_NAME,
        "pattern": _STRICT_NAME,
    }
    properties["description"] |= {"type": _TEXT, "maxLength": LONGEST_DESCRIPTION, "pattern": _SOME_TEXT}
    properties["compatibility"] |= {"type": _TEXT, "maxLength": LONGEST_COMPATIBILITY, "pattern": _SOME_TEXT}
    schema = _schema_head(STRICT_PROFILE, "Agent Skills specification")
    return schema | {
        "type": "object",
        "properties": properties,
        "required": ["name", "description"],
        "additionalProperties": False,
    }


def dialect_schema(dialect: Dialect) -> JsonSchema:
    """The schema of a dialect: what it refuses, the dialect does not load."""
    authoring = dialect.authoring
    properties = {field: _property(field) for field in sorted(authoring.fields)}
    properties["name"] |= _name_rules(authoring)
    properties["description"] |= _description_rules(authoring)
    required = ["name"] * authoring.name_required + ["description"] * (authoring.description == "required")
    schema = _schema_head(dialect.name, dialect.title) | {"properties": properties}
    if required:
        schema["required"] = required
    if not authoring.broken_yaml_is_empty:
        schema["type"] = "object"
    # Fields that a dialect does not know are a warning of `metier lint`, and never a reason not to load.
    return schema


def _schema_head(name: str, title: str) -> JsonSchema:
    return {
        "$schema": META_SCHEMA,
        "$id": f"urn:metier:frontmatter:{name}",
        "title": f"SKILL.md frontmatter: {title}",
        "$comment": "Not checked here: " + "; ".join(NOT_IN_SCHEMA.values()),
    }


def _property(field: str) -> JsonSchema:
    meaning: JsonSchema = {"description": _MEANINGS[field]} if field in _MEANINGS else {}
    return meaning | ({"default": _DEFAULTS[field]} if field in _DEFAULTS else {})


def _name_rules(authoring: AuthoringRules) -> JsonSchema:
    if not authoring.frontmatter_required:  # then the folder's name replaces what is no name
        return {}
    if authoring.name_rule == "word":
        return {"type": ["string", "integer", "boolean", "null"], "pattern": _WORD_NAME}
    if authoring.name_required:
        return {"type": _TEXT, "pattern": _SOME_TEXT}
    return {"type": [*_TEXT, "null"]}


def _description_rules(authoring: AuthoringRules) -> JsonSchema:
    if authoring.description == "required":
        return {"type": _TEXT, "pattern": _SOME_TEXT}
    return {"type": [*_TEXT, "null"]} if authoring.frontmatter_required else {}
