"""2. parse: Found -> Skill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..types.dialect import Authoring, Dialect
from ..types.problem import Mark
from ..types.skill import Broken, Found, Skill
from . import events, lines
from .events import BadYaml
from .fences import cut
from .fields import Head, dialect_named, settle
from .repair import repair, repair_colons
from .simple import Simple, simple
from .text import Refusal, text_of

__all__ = ["Simple", "head_of", "parse", "parse_any", "text_of"]


def parse(found: Found, dialects: Mapping[str, Dialect]) -> Skill | Broken:
    """Read the head of a SKILL.md.  One that does not load comes back as Broken, with every reason."""
    return simple(found) or parse_any(found, dialects)


def parse_any(found: Found, dialects: Mapping[str, Dialect]) -> Skill | Broken:
    """The same by the long way, which reads whatever the short one does not."""
    marks = list(found.marks)
    origin = found.origin
    try:
        text = text_of(found.head, found.whole, marks)
        noticed = len(marks)
        head = head_of(text, origin.dialect.authoring, marks, found.whole)
        other = dialect_named(head.tree, dialects) if "metadata" in head.tree else None
        if other is not None and other is not origin.dialect:
            origin = replace(origin, dialect=other)
            del marks[noticed:]
            head = head_of(text, other.authoring, marks, found.whole)
        return settle(found, origin, head, marks)
    except Refusal as refusal:
        return Broken(found.id, found.path, found.key, origin, tuple(refusal.marks), refusal.name or found.id)


def head_of(text: str, authoring: Authoring, marks: list[Mark], whole: bool = True) -> Head:
    """The frontmatter as a tree of text, and the body that follows it."""
    block, body, opened, _ = cut(text, authoring.indented)
    if block is None:
        if opened and not whole:
            return _endless_head(authoring, marks)
        loads = authoring.unclosed_is_body if opened else not authoring.frontmatter_required
        marks.append(Mark("unclosed-frontmatter" if opened else "no-frontmatter", 1, fatal=not loads))
        if not loads:
            raise Refusal(marks)
        return Head({}, {}, text, "")
    tree = lines.read(block)
    if tree:
        return Head(tree, {}, body, block)
    return _slow_head(block, body, authoring, marks)


def _endless_head(authoring: Authoring, marks: list[Mark]) -> Head:
    """Frontmatter that does not end where the longest that is read must."""
    loads = authoring.broken_yaml_is_empty
    reason = f"no closing `---` within {events.LONGEST} characters"
    marks.append(Mark("invalid-yaml", 1, (reason, "close it with a line `---`, or shorten it"), fatal=not loads))
    if not loads:
        raise Refusal(marks)
    return Head({}, {}, "", "")


def _slow_head(block: str, body: str, authoring: Authoring, marks: list[Mark]) -> Head:
    """The frontmatter by way of YAML, mended where it can be."""
    loads = authoring.broken_yaml_is_empty
    quick = repair_colons(block)
    if quick is not None:
        marks.extend(Mark("yaml-repaired", line + 2, (what,)) for what, line in quick.what)
        return Head(quick.reading.tree, {}, body, block)
    try:
        reading = events.read(block)
    except BadYaml as fault:
        if authoring.json_metadata and len(block) <= events.LONGEST:
            from .json5 import lift  # rare

            lifted = lift(block)
            if lifted is not None:
                head = _slow_head(lifted.block, body, replace(authoring, json_metadata=False), marks)
                head.tree["metadata"] = lifted.metadata
                return head._replace(block=block)
        try:
            reading, mended = repair(block, fault)
        except BadYaml:
            marks.append(Mark("invalid-yaml", fault.line + 2, (fault.reason, fault.cure), fatal=not loads))
            if not loads:
                raise Refusal(marks) from None
            return Head({}, {}, body, block)
        marks.extend(Mark("yaml-repaired", line + 2, (what,)) for what, line in mended)
    if reading.kind:
        marks.append(Mark("not-a-mapping", 2, (reading.kind,), fatal=not loads))
        if not loads:
            raise Refusal(marks)
    marks.extend(Mark("duplicate-key", line + 2, (key,)) for key, line in reading.twice)
    return Head(reading.tree, reading.sources, body, block)
