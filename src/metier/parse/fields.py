"""A tree of text becomes a Skill: spellings, defaults, fallbacks and the rules of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..types.dialect import Authoring, Dialect
from ..types.problem import Code, Mark
from ..types.skill import NOTHING_REQUIRED, Found, Origin, Skill
from ..types.text import unhidden
from ..types.tools import allowed_tools
from ..types.tree import EMPTY, Raw
from .needs import may_require, requirements_of
from .text import Refusal

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_LONGEST_FALLBACK = 200

_kebab = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*").fullmatch
flat_brackets = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*").fullmatch
_word = re.compile(r"[A-Za-z0-9_-]+").fullmatch

BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

_HYPHENATED = (
    "argument-hint", "user-invocable", "disable-model-invocation", "allowed-tools", "disallowed-tools",
    "command-dispatch", "command-tool", "command-arg-mode",
)  # fmt: skip


_CONTROLS = frozenset({"user-invocable", "disable-model-invocation", "argument-hint"})


def _spellings() -> dict[str, str]:
    found = {"when-to-use": "when_to_use", "whenToUse": "when_to_use"}
    for key in _HYPHENATED:
        first, *rest = key.split("-")
        found[key.replace("-", "_")] = key
        found[first + "".join(part.capitalize() for part in rest)] = key
    return found


SPELLINGS = _spellings()
"""Other ways to write a key, and the key."""
_SPELLED = frozenset(SPELLINGS)


class Head(NamedTuple):
    tree: dict[str, Raw]
    sources: dict[str, str]
    body: str
    block: str


def dialect_named(tree: Mapping[str, Raw], dialects: Mapping[str, Dialect]) -> Dialect | None:
    """The dialect that the frontmatter itself asks for."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name = metadata.get("dialect")
    return dialects.get(name) if isinstance(name, str) else None


def settle(found: Found, origin: Origin, head: Head, marks: list[Mark]) -> Skill:
    """Everything the frontmatter says, or a Refusal."""
    tree, authoring = head.tree, origin.dialect.authoring
    if not tree.keys() <= authoring.fields:
        spell(head, authoring, marks)
    name = _name(head, found.id, authoring, marks)
    written = tree.pop("description", "")
    if not isinstance(written, str):
        _refuse_type("description", head, authoring, marks, name)
        written = ""
    description = written.strip()
    if not description:
        description = _fallback(head, authoring, marks, name)
    if len(description) > LONGEST_DESCRIPTION:
        marks.append(Mark("description-too-long", line_of("description", head.block), (str(len(description)),)))
    return complete(found, origin, head, marks, name, description)


def complete(found: Found, origin: Origin, head: Head, marks: list[Mark], name: str, description: str) -> Skill:
    """A skill with all that its frontmatter holds beside a name and a description."""
    tree, authoring = head.tree, origin.dialect.authoring
    user = model = True
    hint = ""
    if not _CONTROLS.isdisjoint(tree):
        user = _boolean(tree.pop("user-invocable", ""), True)
        model = not _boolean(tree.pop("disable-model-invocation", ""), False)
        hint = _source(tree.pop("argument-hint", ""), head.sources.get("argument-hint", ""))
    if "allowed-tools" in tree:
        _check_tools(tree["allowed-tools"], head, marks)
    if "compatibility" in tree:
        _check_compatibility(tree["compatibility"], head, authoring, marks)
    needs, enabled = NOTHING_REQUIRED, user or model
    if authoring.json_metadata and "metadata" in tree:
        _read_json_metadata(tree, head.sources.get("metadata", ""))
    if may_require(tree):
        needs = requirements_of(tree, authoring)
        config = tree.get("config")
        enabled = enabled and _boolean(config.get("enabled", "") if isinstance(config, dict) else "", True)
    return Skill(
        found.id, name, description, found.path, found.key, origin, hint, user, model, enabled, needs, tree or EMPTY,
        tuple(marks),
    )  # fmt: skip


def spell(head: Head, authoring: Authoring, marks: list[Mark]) -> None:
    """Give keys their usual spelling; name those the dialect does not know."""
    tree, fields = head.tree, authoring.fields
    unknown = [key for key in tree if key not in fields]
    if not _SPELLED.isdisjoint(unknown):
        for key in [key for key in unknown if key in SPELLINGS and SPELLINGS[key] not in tree]:
            usual = SPELLINGS[key]
            tree[usual] = tree.pop(key)
            if key in head.sources:
                head.sources[usual] = head.sources[key]
        unknown = [key for key in unknown if SPELLINGS.get(key, key) not in fields]
    if unknown:
        marks.append(Mark("unknown-field", line_of(unknown[0], head.block), (", ".join(unknown),)))


def line_of(key: str, block: str, absent: int = 2) -> int:
    """The line in the file that a key of the block stands on, however it is spelled or quoted."""
    at = block.find(f"\n{key}:")
    if at >= 0:
        return block.count("\n", 0, at) + 3
    spelled = "|".join(re.escape(one) for one in (key, *(other for other in SPELLINGS if SPELLINGS[other] == key)))
    found = re.search(rf"^[ ]*[\"']?(?:{spelled})[\"']?[ \t]*:", block, re.MULTILINE)
    return absent if found is None else block.count("\n", 0, found.start()) + 2


def _name(head: Head, id: str, authoring: Authoring, marks: list[Mark]) -> str:
    value = head.tree.pop("name", "")
    if not isinstance(value, str):
        _refuse_type("name", head, authoring, marks, id)
        value = ""
    name = value.strip()
    if not name:
        marks.append(Mark("missing-name", line_of("name", head.block, 1), (id,), fatal=authoring.name_required))
        if authoring.name_required:
            raise Refusal(marks, id)
        name = id
    rule = authoring.name_rule
    if rule == "free":
        return name
    if rule == "word":
        if not _word(name):
            line = line_of("name", head.block, 1)
            marks.append(Mark("name-invalid", line, (name, "letters, digits, `-` and `_`"), fatal=True))
            raise Refusal(marks, name)
    elif rule == "kebab" and not _kebab(name):
        line = line_of("name", head.block, 1)
        marks.append(Mark("name-invalid", line, (name, "small letters, digits and single hyphens inside")))
    elif rule == "standard" and name != id and not _same_name(name, id):
        marks.append(Mark("name-mismatch", line_of("name", head.block, 1), (name, id)))
    if len(name) > LONGEST_NAME:
        marks.append(Mark("name-too-long", line_of("name", head.block, 1), (str(len(name)),)))
    return name


def _same_name(one: str, other: str) -> bool:
    if one.isascii() and other.isascii():
        return one == other
    import unicodedata  # only names that are not ASCII need it

    return unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other)


def _refuse_type(key: str, head: Head, authoring: Authoring, marks: list[Mark], name: str) -> None:
    fatal = authoring.frontmatter_required
    marks.append(Mark("field-type", line_of(key, head.block), (key,), fatal=fatal))
    if fatal:
        raise Refusal(marks, name)


def _fallback(head: Head, authoring: Authoring, marks: list[Mark], name: str) -> str:
    """A description for a skill that gives none."""
    wanted = authoring.description
    if wanted == "optional":
        return ""
    text = ""
    if wanted == "first-line":
        text = _first_line(head.body)[:_LONGEST_FALLBACK].rstrip()
    elif wanted == "first-paragraph":
        text = first_paragraph(head.body)
    if text:
        marks.append(Mark("description-from-body", 1))
        return text
    if wanted == "first-paragraph":
        return ""
    code: Code = "missing-description"
    marks.append(Mark(code, line_of("description", head.block, 1), fatal=True))
    raise Refusal(marks, name)


def _first_line(body: str) -> str:
    """The first line with text in it, without its heading marks."""
    texts = (unhidden(line).strip().lstrip("#").strip() for line in body.split("\n"))
    return next(filter(None, texts), "")


def first_paragraph(body: str) -> str:
    """The first lines that are no heading, as one; the first heading where there is nothing else."""
    found: list[str] = []
    for line in body.split("\n"):
        text = unhidden(line).strip()
        if text and not text.startswith("#"):
            found.append(text)
        elif found:
            break
    return " ".join(" ".join(found).split()) or _first_line(body)


def _boolean(value: Raw, default: bool) -> bool:
    return BOOLEANS.get(value.strip().lower(), default) if isinstance(value, str) and value else default


def _source(value: Raw, source: str) -> str:
    return value.strip() if isinstance(value, str) else source


def _check_tools(value: Raw, head: Head, marks: list[Mark]) -> None:
    if isinstance(value, str) and flat_brackets(value):
        return
    texts = value if isinstance(value, str) else [item for item in value if isinstance(item, str)]
    if allowed_tools(texts) is None:
        marks.append(Mark("tools-invalid", line_of("allowed-tools", head.block)))


def _check_compatibility(value: Raw, head: Head, authoring: Authoring, marks: list[Mark]) -> None:
    if "compatibility" not in authoring.fields or not isinstance(value, str):
        return
    line = line_of("compatibility", head.block)
    if not value.strip():
        marks.append(Mark("compatibility-empty", line))
    elif len(value) > LONGEST_COMPATIBILITY:
        marks.append(Mark("compatibility-too-long", line, (str(len(value)),)))


def _read_json_metadata(tree: dict[str, Raw], source: str) -> None:
    """Metadata written as JSON or JSON5, in quotes or not, is what that text says."""
    metadata = tree.get("metadata")
    text = metadata.strip() if isinstance(metadata, str) else source
    if text.startswith("{"):
        from .json5 import read  # rare

        found = read(text)
        if found is not None:
            tree["metadata"] = found
