"""Read the head of a SKILL.md: the short way where it is plain, the long way for everything else.

The long way tries the plain reader, then repairs of the most common mistake, then YAML, then repairs of what YAML
refuses; the first that succeeds counts.  What can't be read at all is a `BrokenSkill` with every reason, never an
exception: one bad file must not hide the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types.dialect import AuthoringRules, Dialect
from ..types.problem import Finding
from ..types.skill import BrokenSkill, Found, Skill
from ..types.tree import TextTree
from . import frontmatter, plain_yaml
from .document import ParseRefusal, decode_text, split_frontmatter
from .fastpath import parse_simple
from .fields import ParsedHead, build_skill, dialect_named
from .frontmatter import BadYaml
from .plain_yaml import repair_block, repair_colons


def parse(candidate: Found, dialects: Mapping[str, Dialect]) -> Skill | BrokenSkill:
    """Read the head of a SKILL.md.  One that does not load comes back as a `BrokenSkill`, with every reason."""
    return parse_simple(candidate) or parse_any(candidate, dialects)


def parse_any(candidate: Found, dialects: Mapping[str, Dialect]) -> Skill | BrokenSkill:
    """The same by the long way, which reads whatever the short one does not."""
    findings = list(candidate.findings)
    origin = candidate.origin
    try:
        text = decode_text(candidate.head, candidate.whole, findings)
        noticed = len(findings)
        head = parse_head(text, origin.dialect.authoring, findings, candidate.whole)
        named_dialect = dialect_named(head.tree, dialects) if "metadata" in head.tree else None
        if named_dialect is not None and named_dialect is not origin.dialect:
            # Read again: the named dialect may accept what the root's refuses, and the other way round.
            origin = origin._replace(dialect=named_dialect)
            del findings[noticed:]
            head = parse_head(text, named_dialect.authoring, findings, candidate.whole)
        return build_skill(candidate, origin, head, findings)
    except ParseRefusal as refusal:
        return BrokenSkill(
            candidate.id, candidate.path, candidate.key, origin, tuple(refusal.findings), refusal.name or candidate.id
        )


def parse_head(text: str, authoring: AuthoringRules, findings: list[Finding], entire_file: bool = True) -> ParsedHead:
    """The frontmatter as a tree of text, and the body that follows it."""
    block, body, opened, _ = split_frontmatter(text, authoring.indented, authoring.starred)
    if block is None:
        if opened and not entire_file:
            return _unclosed_head(authoring, findings)
        loads = authoring.unclosed_is_body if opened else not authoring.frontmatter_required
        findings.append(Finding("unclosed-frontmatter" if opened else "no-frontmatter", 1, fatal=not loads))
        if not loads:
            raise ParseRefusal(findings)
        return ParsedHead({}, {}, text, "")
    tree = plain_yaml.read_plain(block)
    if tree:
        return ParsedHead(tree, {}, body, block)
    return _parse_yaml_head(block, body, authoring, findings)


def _unclosed_head(authoring: AuthoringRules, findings: list[Finding]) -> ParsedHead:
    """Frontmatter that does not end where the longest that is read must."""
    loads = authoring.broken_yaml_is_empty
    reason = f"no closing `---` within {frontmatter.LONGEST_BLOCK} characters"
    findings.append(Finding("invalid-yaml", 1, (reason, "close it with a line `---`, or shorten it"), fatal=not loads))
    if not loads:
        raise ParseRefusal(findings)
    return ParsedHead({}, {}, "", "")


def _parse_yaml_head(block: str, body: str, authoring: AuthoringRules, findings: list[Finding]) -> ParsedHead:
    """The frontmatter by way of YAML, repaired where that is possible."""
    loads = authoring.broken_yaml_is_empty
    quick = repair_colons(block)
    if quick is not None:
        findings.extend(Finding("yaml-repaired", line + 2, (repair_note,)) for repair_note, line in quick.what)
        return ParsedHead(quick.reading.tree, {}, body, block)
    try:
        reading = frontmatter.read_yaml(block)
    except BadYaml as fault:
        if authoring.json_metadata and len(block) <= frontmatter.LONGEST_BLOCK:
            from .jsonc import lift_metadata  # rare

            lifted = lift_metadata(block)
            if lifted is not None:
                head = _parse_yaml_head(lifted.block, body, authoring._replace(json_metadata=False), findings)
                head.tree["metadata"] = lifted.metadata
                return head._replace(block=block)
        try:
            reading, repaired = repair_block(block, fault)
        except BadYaml:
            findings.append(Finding("invalid-yaml", fault.line + 2, (fault.reason, fault.cure), fatal=not loads))
            if not loads:
                raise ParseRefusal(findings) from None
            return ParsedHead({}, {}, body, block)
        findings.extend(Finding("yaml-repaired", line + 2, (repair_note,)) for repair_note, line in repaired)
    if reading.kind:
        findings.append(Finding("not-a-mapping", 2, (reading.kind,), fatal=not loads))
        if not loads:
            raise ParseRefusal(findings)
    findings.extend(Finding("duplicate-key", line + 2, (key,)) for key, line in reading.twice)
    return ParsedHead(reading.tree, reading.sources, body, block)


def parse_body(data: bytes, dialect: Dialect) -> tuple[str, tuple[Finding, ...]]:
    """The instructions in a whole file, and findings.  If the file does not load, the last finding is fatal."""
    findings: list[Finding] = []
    try:
        text = decode_text(data, True, findings)
        head = parse_head(text, dialect.authoring, findings)
    except ParseRefusal as refusal:
        return "", tuple(refusal.findings)
    return head.body.strip(), tuple(findings)


def agent_skills(text: str) -> tuple[bool, tuple[str, ...] | None]:
    """Whether an agent's file has frontmatter, and the skills it lists there: None is no list."""
    try:
        tree = TextTree(parse_head(text.replace("\r\n", "\n"), AuthoringRules(fields=frozenset()), []).tree)
    except ParseRefusal:
        return False, None
    return True, tree.words("skills") if "skills" in tree else None
