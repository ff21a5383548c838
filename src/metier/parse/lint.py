"""`metier lint`: what is suspicious about a SKILL.md that loads.

Hidden characters, misspelled fields, constructs of another dialect that do nothing here, and dollar signs that will be
replaced although they were meant as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from heapq import merge
from operator import itemgetter

from ..types.dialect import AuthoringRules, Dialect, ShellRules
from ..types.problem import Finding
from ..types.skill import PERMISSIONS
from ..types.text import hidden_characters_in, hides_nothing
from . import frontmatter, plain_yaml
from .document import split_frontmatter
from .fields import SPELLINGS, line_of_key
from .fix import KEY_TYPOS
from .frontmatter import BadYaml
from .markers import ANY_DIALECT, fenced_code, find_markers

_variable = re.compile(r"\$\{(?:SKILL_DIR|CLAUDE_SKILL_DIR|CLAUDE_PROJECT_DIR|CLAUDE_SESSION_ID|CLAUDE_EFFORT)\}")
_word = re.compile(r"\$ARGUMENTS\[[0-9]+\]")
_slice = re.compile(r"\$\{@:[0-9]+(?::[0-9]+)?\}")
_whole = re.compile(r"\$ARGUMENTS\b(?!\[)")
_BLOCK, _MARKER = "```!", "!`…`"


def foreign_constructs(body: str, dialect: Dialect, names: Iterable[str] = (), before: int = 0) -> list[Finding]:
    """The first of each construct that means something elsewhere and nothing here; `names` are declared arguments."""
    first: dict[str, Finding] = {}
    if "$" not in body and "!" not in body:  # then there is none of them
        return []
    for number, kind, source, cure in _find_constructs(body, dialect.authoring, tuple(names)):
        first.setdefault(kind, Finding("foreign-construct", before + number, (source, dialect.title, cure)))
    return list(first.values())


def _find_constructs(
    body: str, authoring: AuthoringRules, names: tuple[str, ...]
) -> Iterator[tuple[int, str, str, str]]:
    """Line, kind, what stands there, and what to do; in order of lines."""
    patterns = list(_foreign_patterns(authoring, names))
    placeholders = (
        (number, kind, match[0], cure)
        for number, line in enumerate(body.split("\n"), 1)
        for kind, pattern, cure in patterns
        for match in pattern.finditer(line)
        if match[0][2:-1] not in authoring.variables
    )
    return merge(placeholders, _foreign_commands(body, authoring.shell), key=itemgetter(0))


def _foreign_commands(body: str, shell: ShellRules | None) -> Iterator[tuple[int, str, str, str]]:
    """Commands that some dialect runs and this one does not."""
    line, counted = 1, 0
    for marker in find_markers(body, ANY_DIALECT):
        line, counted = line + body.count("\n", counted, marker.start), marker.start
        if marker.block and not (shell and shell.fenced):
            inline = "write it as an inline command" if shell else "put it into a script"
            yield line, _BLOCK, _BLOCK, f"no block of commands runs in this dialect: {inline}"
        elif not marker.block and shell is None:
            source = body[marker.start : marker.end]
            yield line, _MARKER, source, "no command in a body runs in this dialect: put it into a script"


def _foreign_patterns(authoring: AuthoringRules, names: tuple[str, ...]) -> Iterator[tuple[str, re.Pattern[str], str]]:
    arguments = authoring.arguments
    yield "variable", _variable, "write a path that is relative to the skill's folder"
    if arguments is None:
        yield "arguments", re.compile(rf"{_whole.pattern}|{_word.pattern}|{_slice.pattern}"), "leave it out"
        return
    if not arguments.bracketed:
        yield "word", _word, f"write `${arguments.first}` for the first word"
    if not arguments.slices:
        yield "slice", _slice, "write `$ARGUMENTS` for all words"
    if names and not arguments.named:
        longest = sorted(names, key=len, reverse=True)
        pattern = re.compile(r"\$(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)")
        yield "name", pattern, f"write its number, from `${arguments.first}` on"


# Bounded repeats: a line may be as long as the file.
_awk = re.compile(r"\bawk\b[^\n`'\"]{0,200}['\"][^'\"\n$]{0,400}(\$[0-9])")
_awk_alone = re.compile(_awk.pattern + r"(?=[\s,;)])")
_LONGEST_KEY, _MOST_KEYS = 40, 100
_price = re.compile(r"(?<![\w$\\])(\$[0-9][0-9,]*(?:\.[0-9]+)?(?:,[0-9]{3}|\.[0-9]{2}|[0-9]{2,}))")

_NO_ESCAPE = "if it is meant literally, write it in words: this dialect has no escape"


def lint(text: str, dialect: Dialect) -> list[Finding]:
    """Hidden characters, misspelled fields, what the dialect lacks, and what looks like a placeholder but is none."""
    findings = _check_hidden(text)
    block, body, _, _ = split_frontmatter(text, dialect.authoring.indented, dialect.authoring.starred)
    reading = _read_block(block, dialect)
    if reading is not None:
        findings += [*_check_typos(reading, dialect), *_check_permissions(reading, block or "")]
    before = text.count("\n") - body.count("\n")
    findings += foreign_constructs(body, dialect, _argument_names(reading), before)
    return findings + _check_hazards(body, dialect, before) + _check_template(text)


# A path into one of the folders that the standard gives a skill, as instructions write it: alone, in code or a link.
_own_path = re.compile(
    r"(?P<before>\$\{(?:SKILL_DIR|CLAUDE_SKILL_DIR)\}/|\{baseDir\}/|\]\((?:\./)?|(?<![\w./~*}>-])(?:\./)?)"
    r"(?P<path>(?:scripts|references|assets)/[\w][\w./-]*\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/*{<-])"
)


def named_files(text: str, dialect: Dialect) -> Iterator[tuple[int, str, bool]]:
    """The files of its own that a skill's instructions name: the line, the path, and whether it can only be its own.

    A bare `scripts/build.sh` may be the project's; one behind the skill's folder, or in a link, is the skill's.
    """
    _, body, _, _ = split_frontmatter(text, dialect.authoring.indented, dialect.authoring.starred)
    before = text.count("\n") - body.count("\n")
    for number, line in enumerate(body.split("\n"), before + 1):
        for match in _own_path.finditer(line):
            yield number, match["path"], match["before"].startswith(("$", "{", "]"))


_TEMPLATE_LINES = frozenset(
    {
        "Say in one sentence what this skill is for.",
        "1. Describe the first step.",
        "2. Describe the next step, and what to do if it fails.",
        "Describe the result, with a short example.",
    }
)
"""What `metier new` writes for the author to replace."""


def _check_template(text: str) -> list[Finding]:
    """The first line that `metier new` left for the author: the others follow it, and one reminder is enough."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() in _TEMPLATE_LINES or line.startswith(('description: "TODO: say', "description: TODO")):
            return [Finding("template-text", number, (line.strip()[:60],))]
    return []


def _read_block(block: str | None, dialect: Dialect) -> frontmatter.FrontmatterReading | None:
    """The frontmatter; where the plain reader knows it, with the lines of only those fields that may be typos."""
    if block is None:
        return None
    plain = plain_yaml.read_plain(block)
    if plain:
        unknown = [key for key in plain if not _is_field(key, dialect)]
        return frontmatter.FrontmatterReading(
            plain, lines={key: line_of_key(key, block) - 2 for key in unknown[:_MOST_KEYS]}
        )
    try:
        return frontmatter.read_yaml(block)
    except BadYaml:
        return None


def _argument_names(reading: frontmatter.FrontmatterReading | None) -> list[str]:
    """The arguments that the frontmatter declares."""
    written = reading.tree.get("arguments", "") if reading is not None else ""
    values = written if isinstance(written, list) else [written]
    return [name for value in values if isinstance(value, str) for name in value.replace(",", " ").split()][:_MOST_KEYS]


def _check_hidden(text: str) -> list[Finding]:
    if hides_nothing(text):
        return []
    return [
        Finding("hidden-text", number, (", ".join(hidden),))
        for number, line in enumerate(text.split("\n"), 1)
        if (hidden := hidden_characters_in(line))
    ]


def _check_typos(reading: frontmatter.FrontmatterReading, dialect: Dialect) -> list[Finding]:
    fields = dialect.authoring.fields
    findings = []
    for key, line in list(reading.lines.items())[:_MOST_KEYS]:
        if len(key) > _LONGEST_KEY or _is_field(key, dialect):
            continue
        suggestion = KEY_TYPOS.get(key) or next(iter(get_close_matches(key, fields, 1, 0.85)), None)
        if suggestion and suggestion not in reading.tree:
            findings.append(Finding("field-typo", line + 2, (key, suggestion)))
    return findings


def _check_permissions(reading: frontmatter.FrontmatterReading, block: str) -> list[Finding]:
    """Permissions with a name that grants nothing."""
    permissions: object = reading.tree
    for key in ("metadata", "metier", "permissions"):
        permissions = permissions.get(key) if isinstance(permissions, dict) else None
    unknown = [key for key in permissions if key not in PERMISSIONS] if isinstance(permissions, dict) else []
    rows = block.split("\n")
    findings = []
    for key in unknown[:_MOST_KEYS]:
        suggestion = next(iter(get_close_matches(key[:_LONGEST_KEY], PERMISSIONS, 1, 0.6)), "`, `".join(PERMISSIONS))
        line = next((number for number, row in enumerate(rows, 2) if f"{key}:" in row), 0)
        findings.append(Finding("field-typo", line, (f"metadata.metier.permissions.{key[:_LONGEST_KEY]}", suggestion)))
    return findings


def _is_field(key: str, dialect: Dialect) -> bool:
    fields = dialect.authoring.fields
    return key in fields or SPELLINGS.get(key, key) in fields


def _check_hazards(body: str, dialect: Dialect, before: int) -> list[Finding]:
    """`$1` of awk and sums of money, in a dialect where `$1` is an argument."""
    arguments = dialect.authoring.arguments
    if arguments is None:
        return []
    findings = []
    # Where `$1` must stand alone and outside code, prices and most of awk are no placeholders.
    patterns = (_awk_alone,) if arguments.alone else (_awk, _price)
    for number, line in _lines_of_text(body, arguments.alone) if "$" in body else ():
        for placeholder in (found for pattern in patterns for found in pattern.findall(line)):
            cure = f"write `\\{placeholder}` if it is meant literally" if arguments.escape else _NO_ESCAPE
            findings.append(Finding("placeholder-hazard", before + number, (placeholder, cure)))
            break
    return findings


def _lines_of_text(body: str, without_code: bool) -> Iterator[tuple[int, str]]:
    """The numbered lines of a body, without those in fenced code if that is no place for what is looked for."""
    blocks = fenced_code(body) if without_code else iter(())
    block = next(blocks, None)
    at = 0
    for number, line in enumerate(body.split("\n"), 1):
        while block is not None and block[1] <= at:
            block = next(blocks, None)
        if block is None or at < block[0]:
            yield number, line
        at += len(line) + 1
