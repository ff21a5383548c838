"""What other dialects would read in a body, and this one leaves as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..types.dialect import Authoring, Dialect
from ..types.problem import Mark

_fence = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_inline = re.compile(r"(?<![\\\w`])!`[^`\n]+`")
_variable = re.compile(r"\$\{(?:SKILL_DIR|CLAUDE_SKILL_DIR|CLAUDE_PROJECT_DIR|CLAUDE_SESSION_ID|CLAUDE_EFFORT)\}")
_word = re.compile(r"\$ARGUMENTS\[[0-9]+\]")
_slice = re.compile(r"\$\{@:[0-9]+(?::[0-9]+)?\}")
_whole = re.compile(r"\$ARGUMENTS\b(?!\[)")
_BLOCK, _MARKER = "```!", "!`…`"


def foreign(body: str, dialect: Dialect, names: Iterable[str] = (), before: int = 0) -> list[Mark]:
    """The first of each construct that means something elsewhere and nothing here; `names` are declared arguments."""
    first: dict[str, Mark] = {}
    if "$" not in body and "!" not in body:  # then there is none of them
        return []
    for number, kind, source, cure in _found(body, dialect.authoring, tuple(names)):
        first.setdefault(kind, Mark("foreign-construct", before + number, (source, dialect.title, cure)))
    return list(first.values())


def _found(body: str, authoring: Authoring, names: tuple[str, ...]) -> Iterator[tuple[int, str, str, str]]:
    """Line, kind, what stands there, and what to do."""
    fence = ""
    patterns = list(_patterns(authoring, names))
    for number, line in enumerate(body.split("\n"), 1):
        for kind, pattern, cure in patterns:
            sources = (found[0] for found in pattern.finditer(line))
            yield from ((number, kind, one, cure) for one in sources if one[2:-1] not in authoring.variables)
        opened = _fence.match(line)
        if fence:
            if opened and opened["mark"].startswith(fence) and not opened["info"].strip():
                fence = ""
        elif opened:
            fence = opened["mark"]
            if opened["info"].strip() == "!" and fence[0] == "`" and not (authoring.shell and authoring.shell.fenced):
                inline = "write it as an inline command" if authoring.shell else "put it into a script"
                yield number, _BLOCK, _BLOCK, f"no block of commands runs in this dialect: {inline}"
        elif authoring.shell is None and (found := _inline.search(line)):
            yield number, _MARKER, found[0], "no command in a body runs in this dialect: put it into a script"


def _patterns(authoring: Authoring, names: tuple[str, ...]) -> Iterator[tuple[str, re.Pattern[str], str]]:
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
