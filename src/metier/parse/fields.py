"""A tree of text becomes a Skill: spellings, defaults, fallbacks and the rules of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..dialects import DIALECTS
from ..light_typing import NamedTuple
from ..types.dialect import AuthoringRules, Dialect
from ..types.problem import Finding, ProblemCode
from ..types.skill import NOTHING_REQUIRED, REQUIREMENT_KEYS, Found, Origin, Requirements, Skill, allowed_tools
from ..types.text import strip_hidden
from ..types.tree import EMPTY_TREE, RawValue, TextTree
from .document import ParseRefusal

METADATA_REQUIREMENT_KEYS = REQUIREMENT_KEYS.union(
    *(filter(None, dialect.authoring.requires_at) for dialect in DIALECTS.values())
)
"""Keys under `metadata` that may ask for something."""
_EMPTY_MAP: dict[str, RawValue] = {}


def may_require(tree: dict[str, RawValue]) -> bool:
    """A quick no for the many skills that require nothing."""
    metadata = tree.get("metadata")
    return "config" in tree or (isinstance(metadata, dict) and not METADATA_REQUIREMENT_KEYS.isdisjoint(metadata))


def parse_requirements(tree: dict[str, RawValue], authoring: AuthoringRules) -> Requirements:
    block = _requirements_block(tree.get("metadata"), authoring)
    asks = _as_map(block.get("requires"))
    requirements = Requirements(
        _as_words(asks.get("platforms"))
        or _as_words(block.get("platforms"))
        or _as_words(block.get("os"))
        or _as_words(asks.get("os")),
        _as_words(asks.get("bins")) or _as_words(block.get("requiresBinaries")),
        _as_words(asks.get("anyBins")),
        _as_words(asks.get("env")) or _as_words(block.get("requiresEnv")),
        _as_words(_as_map(tree.get("config")).get("requiresConfig")) + _as_words(asks.get("config")),
        _as_text(block.get("always")).lower() in ("true", "yes", "on", "1"),
        _as_text(block.get("primaryEnv")),
        _as_text(block.get("skillKey")),
    )
    return NOTHING_REQUIRED if requirements == NOTHING_REQUIRED else requirements


def _requirements_block(metadata: RawValue | None, authoring: AuthoringRules) -> dict[str, RawValue]:
    if not isinstance(metadata, dict):
        return _EMPTY_MAP
    for key in authoring.requires_at:
        inner = metadata.get(key) if key else None
        if isinstance(inner, dict):
            return inner
        if not key and not REQUIREMENT_KEYS.isdisjoint(metadata):
            return metadata
    return _EMPTY_MAP


def _as_map(raw: RawValue | None) -> dict[str, RawValue]:
    return raw if isinstance(raw, dict) else _EMPTY_MAP


def _as_text(raw: RawValue | None) -> str:
    return raw.strip() if isinstance(raw, str) else ""


def _as_words(raw: RawValue | None) -> tuple[str, ...]:
    """A list of texts; a lone text is a list of one."""
    if isinstance(raw, list):
        return tuple([item for item in raw if isinstance(item, str) and item.strip()])
    return (raw,) if isinstance(raw, str) and raw.strip() else ()


# --- Fields ---

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
"""The limits of the specification."""
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
    "argument-hint",
    "user-invocable",
    "disable-model-invocation",
    "allowed-tools",
    "disallowed-tools",
    "command-dispatch",
    "command-tool",
    "command-arg-mode",
)

_CONTROLS = frozenset({"user-invocable", "disable-model-invocation", "argument-hint"})


def _build_spellings() -> dict[str, str]:
    spellings = {"when-to-use": "when_to_use", "whenToUse": "when_to_use"}
    for key in _HYPHENATED:
        first, *rest = key.split("-")
        spellings[key.replace("-", "_")] = key
        spellings[first + "".join(part.capitalize() for part in rest)] = key
    return spellings


SPELLINGS = _build_spellings()
"""Other ways to write a key, and the key."""
_SPELLED = frozenset(SPELLINGS)


class ParsedHead(NamedTuple):
    tree: dict[str, RawValue]
    sources: dict[str, str]
    body: str
    block: str


def dialect_named(tree: Mapping[str, RawValue], dialects: Mapping[str, Dialect]) -> Dialect | None:
    """The dialect that the frontmatter itself asks for."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name = metadata.get("dialect")
    return dialects.get(name) if isinstance(name, str) else None


def build_skill(candidate: Found, origin: Origin, head: ParsedHead, findings: list[Finding]) -> Skill:
    """Everything the frontmatter says; raises `ParseRefusal` where the dialect does not load it."""
    tree, authoring = head.tree, origin.dialect.authoring
    if not tree.keys() <= authoring.fields:
        normalize_keys(head, authoring, findings)
    name = _read_name(head, candidate.id, authoring, findings)
    written = tree.pop("description", "")
    if not isinstance(written, str):
        _refuse_type("description", head, authoring, findings, name)
        written = ""
    description = written.strip()
    if not description:
        description = _fallback_description(head, authoring, findings, name)
    if len(description) > LONGEST_DESCRIPTION:
        findings.append(
            Finding("description-too-long", line_of_key("description", head.block), (str(len(description)),))
        )
    return complete_skill(candidate, origin, head, findings, name, description)


def complete_skill(
    candidate: Found, origin: Origin, head: ParsedHead, findings: list[Finding], name: str, description: str
) -> Skill:
    """A skill with all that its frontmatter holds other than a name and a description."""
    tree, authoring = head.tree, origin.dialect.authoring
    user = model = True
    hint = ""
    if not _CONTROLS.isdisjoint(tree):
        user = _parse_boolean(tree.pop("user-invocable", ""), True)
        model = not _parse_boolean(tree.pop("disable-model-invocation", ""), False)
        hint = _source_text(tree.pop("argument-hint", ""), head.sources.get("argument-hint", ""))
    if "allowed-tools" in tree:
        _check_tools(tree["allowed-tools"], head, findings)
    if "compatibility" in tree:
        _check_compatibility(tree["compatibility"], head, authoring, findings)
    if authoring.unsupported:
        findings += unsupported_fields(head, authoring)
    # A skill that neither a person nor a model may call is off.
    needs, enabled = NOTHING_REQUIRED, user or model
    if authoring.json_metadata and "metadata" in tree:
        _read_json_metadata(tree, head.sources.get("metadata", ""))
    if may_require(tree):
        needs = parse_requirements(tree, authoring)
        config = tree.get("config")
        enabled = enabled and _parse_boolean(config.get("enabled", "") if isinstance(config, dict) else "", True)
    return Skill(
        candidate.id,
        name,
        description,
        candidate.path,
        candidate.key,
        origin,
        hint,
        user,
        model,
        enabled,
        needs,
        TextTree(tree) if tree else EMPTY_TREE,
        tuple(findings),
    )


def unsupported_fields(head: ParsedHead, authoring: AuthoringRules) -> list[Finding]:
    """A finding for each field that asks for something metier does not do: what an author wrote is never ignored."""
    return [
        Finding("not-supported", line_of_key(field.name, head.block), (field.name, field.instead))
        for field in authoring.unsupported
        if field.name in head.tree and not _asks_nothing(head.tree[field.name], field.harmless)
    ]


def _asks_nothing(value: RawValue, harmless: frozenset[str]) -> bool:
    return not value or (isinstance(value, str) and value.strip().lower() in ("", *harmless))


def normalize_keys(head: ParsedHead, authoring: AuthoringRules, findings: list[Finding]) -> None:
    """Give keys their usual spelling; report those the dialect does not know."""
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
        findings.append(Finding("unknown-field", line_of_key(unknown[0], head.block), (", ".join(unknown),)))


def line_of_key(key: str, block: str, absent: int = 2) -> int:
    """The line in the file that a key of the block stands on, however it is spelled or quoted."""
    # The plain spelling first: a search by pattern is rarely needed.
    at = block.find(f"\n{key}:")
    if at >= 0:
        return block.count("\n", 0, at) + 3
    spelled = "|".join(
        re.escape(spelling) for spelling in (key, *(variant for variant in SPELLINGS if SPELLINGS[variant] == key))
    )
    match = re.search(rf"^[ ]*[\"']?(?:{spelled})[\"']?[ \t]*:", block, re.MULTILINE)
    return absent if match is None else block.count("\n", 0, match.start()) + 2


def _read_name(head: ParsedHead, id: str, authoring: AuthoringRules, findings: list[Finding]) -> str:
    value = head.tree.pop("name", "")
    # A list or a map is no name; dialects that load anything fall back to the folder's.
    if not isinstance(value, str):
        _refuse_type("name", head, authoring, findings, id)
        value = ""
    name = value.strip()
    if not name:
        findings.append(
            Finding("missing-name", line_of_key("name", head.block, 1), (id,), fatal=authoring.name_required)
        )
        if authoring.name_required:
            raise ParseRefusal(findings, id)
        name = id
    rule = authoring.name_rule
    if rule == "free":
        return name
    if rule == "word":
        if not _word(name):
            line = line_of_key("name", head.block, 1)
            findings.append(Finding("name-invalid", line, (name, "letters, digits, `-` and `_`"), fatal=True))
            raise ParseRefusal(findings, name)
    elif rule == "kebab" and not _kebab(name):
        line = line_of_key("name", head.block, 1)
        findings.append(Finding("name-invalid", line, (name, "small letters, digits and single hyphens inside")))
    elif rule == "standard" and name != id and not _same_name(name, id):
        findings.append(Finding("name-mismatch", line_of_key("name", head.block, 1), (name, id)))
    if len(name) > LONGEST_NAME:
        findings.append(Finding("name-too-long", line_of_key("name", head.block, 1), (str(len(name)),)))
    return name


def _same_name(name: str, folder: str) -> bool:
    if name.isascii() and folder.isascii():
        return name == folder
    import unicodedata  # only names that are not ASCII need it

    return unicodedata.normalize("NFKC", name) == unicodedata.normalize("NFKC", folder)


def _refuse_type(key: str, head: ParsedHead, authoring: AuthoringRules, findings: list[Finding], name: str) -> None:
    fatal = authoring.frontmatter_required
    findings.append(Finding("field-type", line_of_key(key, head.block), (key,), fatal=fatal))
    if fatal:
        raise ParseRefusal(findings, name)


def _fallback_description(head: ParsedHead, authoring: AuthoringRules, findings: list[Finding], name: str) -> str:
    """A description for a skill that gives none."""
    rule = authoring.description
    if rule == "optional":
        return ""
    text = ""
    if rule == "first-line":
        text = _first_line(head.body)[:_LONGEST_FALLBACK].rstrip()
    elif rule == "first-paragraph":
        text = first_paragraph(head.body)
    if text:
        findings.append(Finding("description-from-body", 1))
        return text
    if rule == "first-paragraph":
        return ""
    code: ProblemCode = "missing-description"
    findings.append(Finding(code, line_of_key("description", head.block, 1), fatal=True))
    raise ParseRefusal(findings, name)


def _first_line(body: str) -> str:
    """The first line with text in it, without its heading marks."""
    texts = (strip_hidden(line).strip().lstrip("#").strip() for line in body.split("\n"))
    return next(filter(None, texts), "")


def first_paragraph(body: str) -> str:
    """The first lines that are no heading, as one; the first heading where there is nothing else."""
    paragraph: list[str] = []
    for line in body.split("\n"):
        text = strip_hidden(line).strip()
        if text and not text.startswith("#"):
            paragraph.append(text)
        elif paragraph:
            break
    return " ".join(" ".join(paragraph).split()) or _first_line(body)


def _parse_boolean(value: RawValue, default: bool) -> bool:
    return BOOLEANS.get(value.strip().lower(), default) if isinstance(value, str) and value else default


def _source_text(value: RawValue, source: str) -> str:
    return value.strip() if isinstance(value, str) else source


def _check_tools(value: RawValue, head: ParsedHead, findings: list[Finding]) -> None:
    if isinstance(value, str) and flat_brackets(value):
        return
    texts = value if isinstance(value, str) else [item for item in value if isinstance(item, str)]
    if allowed_tools(texts) is None:
        findings.append(Finding("tools-invalid", line_of_key("allowed-tools", head.block)))


def _check_compatibility(value: RawValue, head: ParsedHead, authoring: AuthoringRules, findings: list[Finding]) -> None:
    if "compatibility" not in authoring.fields or not isinstance(value, str):
        return
    line = line_of_key("compatibility", head.block)
    if not value.strip():
        findings.append(Finding("compatibility-empty", line))
    elif len(value) > LONGEST_COMPATIBILITY:
        findings.append(Finding("compatibility-too-long", line, (str(len(value)),)))


def _read_json_metadata(tree: dict[str, RawValue], source: str) -> None:
    """Metadata written as JSON or JSON5, in quotes or not, is what that text says."""
    metadata = tree.get("metadata")
    text = metadata.strip() if isinstance(metadata, str) else source
    if text.startswith("{"):
        from .jsonc import read_json5  # rare

        parsed = read_json5(text)
        if parsed is not None:
            tree["metadata"] = parsed
