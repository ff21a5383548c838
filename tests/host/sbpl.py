"""Read a Seatbelt profile and answer what it allows, as macOS does: the last rule that matches decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Form: TypeAlias = "str | Text | list[Form]"

_TOKEN = re.compile(
    r'\s+|;[^\n]*|(?P<open>\()|(?P<close>\))|#"(?P<raw>[^"]*)"|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^\s()";#]+)'
)
_OPERATION = re.compile(r"(?:file|process|signal|sysctl|mach|network|system|default)[a-z-]*\*?").fullmatch
_PATH_FILTERS = {"literal", "subpath", "regex"}
_OTHER_FILTERS = {"target", "sysctl-name", "sysctl-name-prefix", "global-name", "remote", "local"}


@dataclass(frozen=True)
class Text:
    """A string, to tell it from a word."""

    value: str


def parse(text: str) -> list[Form]:
    """Every form of a profile; anything that is not its grammar is an error."""
    stack: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token, f"no token at {text[at : at + 40]!r}"
        at = token.end()
        if token["open"]:
            stack.append([])
        elif token["close"]:
            done = stack.pop()
            assert stack, "a parenthesis too many"
            stack[-1].append(done)
        elif token["raw"] is not None:
            stack[-1].append(Text(token["raw"]))
        elif token["text"] is not None:
            stack[-1].append(Text(re.sub(r"\\(.)", r"\1", token["text"])))
        elif token["word"]:
            stack[-1].append(token["word"])
    assert len(stack) == 1, "a parenthesis too few"
    return stack[0]


@dataclass(frozen=True)
class Rule:
    allows: bool
    operations: tuple[str, ...]
    filters: tuple[Form, ...]


class Profile:
    """A profile with its parameters."""

    def __init__(self, text: str, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters
        version, default, *forms = parse(text)
        assert version == ["version", "1"]
        assert default == ["deny", "default"]
        self.rules = [self._rule(form) for form in forms]

    def _rule(self, form: Form) -> Rule:
        assert isinstance(form, list)
        assert form[0] in ("allow", "deny"), form
        operations = tuple(part for part in form[1:] if isinstance(part, str))
        filters = tuple(part for part in form[1:] if isinstance(part, list))
        assert operations
        assert all(map(_OPERATION, operations)), operations
        assert len(operations) + len(filters) == len(form) - 1
        for part in filters:
            self._check_filter(part)
        return Rule(form[0] == "allow", operations, filters)

    def _check_filter(self, part: Form) -> None:
        assert isinstance(part, list)
        kind, *values = part
        if kind in ("require-all", "require-any", "require-not"):
            assert values
            for value in values:
                self._check_filter(value)
        else:
            assert kind in _PATH_FILTERS | _OTHER_FILTERS, kind
            if kind in _PATH_FILTERS:
                assert len(values) == 1
                assert self._value(values[0])
            if kind == "regex":
                re.compile(self._value(values[0]))

    def _value(self, form: Form) -> str:
        if isinstance(form, Text):
            return form.value
        assert isinstance(form, list)
        name, key = form
        assert name == "param"
        assert isinstance(key, Text)
        return self._parameters[key.value]

    def _matches(self, part: Form, path: str) -> bool:
        assert isinstance(part, list)
        kind, *values = part
        if kind == "require-all":
            return all(self._matches(value, path) for value in values)
        if kind == "require-any":
            return any(self._matches(value, path) for value in values)
        if kind == "require-not":
            return not any(self._matches(value, path) for value in values)
        if kind not in _PATH_FILTERS:
            return False
        value = self._value(values[0])
        if kind == "regex":
            return re.search(value, path, re.DOTALL) is not None
        return path == value or (kind == "subpath" and path.startswith(value.rstrip("/") + "/"))

    def allows(self, operation: str, path: str = "") -> bool:
        """Whether an operation on a path, or one without a path, is allowed."""
        decided = False
        for rule in self.rules:
            named = any(_covers(known, operation) for known in rule.operations)
            if named and (not rule.filters or any(self._matches(part, path) for part in rule.filters)):
                decided = rule.allows
        return decided

    def values(self, kind: str) -> Iterator[str]:
        """The values of every filter of a kind, in rules that allow."""
        for rule in self.rules:
            for part in rule.filters if rule.allows else ():
                if isinstance(part, list) and part[0] == kind:
                    yield self._value(part[1])


def _covers(known: str, operation: str) -> bool:
    return known == operation or (known.endswith("*") and operation.startswith(known[:-1]))
