"""Who may call what: rules by pattern, what active skills are granted, and what holds otherwise."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ..types.activation import ToolCall
from .rules import ALIASES

Say: TypeAlias = Literal["allow", "ask", "deny"]

HARMLESS = frozenset(
    {
        "skill_use", "run_skill", "skill_search", "skill_read_file", "skill_run_script", "read", "read_file",
        "list_files", "find_files", "search_files", "ask_user", "delegate", "git_log", "list_schedule",
    }
)  # fmt: skip
"""What is allowed where nobody said otherwise: it reads, it asks, or it runs inside the skill's own boundary."""
_private = re.compile(
    r"(?:^|/)(?:\.env(?:\..*)?|id_(?:rsa|dsa|ecdsa|ed25519)|[^/]*\.(?:pem|key|p12)|\.netrc|\.npmrc|\.pypirc)$"
    r"|(?:^|/)\.(?:ssh|aws|gnupg|kube|docker)/"
).search
"""Files that hold secrets more often than not."""
_compound = re.compile(r"[;&|<>`\n\r(){}]|\$\(")
_pattern = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL).fullmatch


class Rule(NamedTuple):
    """`run_command(git *)`: a tool and what it is called with."""

    tool: str
    about: str = ""
    """A pattern for the subject of the call; empty is any."""


def rule_of(text: str) -> Rule | None:
    """A rule as it is written, with a tool's name from anywhere; None for what is none."""
    found = _pattern(text.strip())
    if found is None:
        return None
    tool, about = found[1], (found[2] or "").strip()
    about = re.sub(r":\*$", " *", about)  # the other way to write "and whatever follows"
    return Rule(ALIASES.get(tool, tool), "" if about in ("*", "**") else about)


@dataclass(frozen=True)
class Permission:
    """The user's own rules.  A no counts before all, and a wish to be asked before a yes."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    otherwise: Say = "ask"
    """What holds for a tool that nobody spoke of and that is not harmless."""

    def says(self, call: ToolCall, granted: Sequence[str] = ()) -> tuple[Say, str]:
        """What holds for a call, and why."""
        for say, rules in (("deny", self.deny), ("ask", self.ask), ("allow", self.allow)):
            for rule in rules:
                if fits(rule, call, strict=say == "allow"):
                    return _SAYS[say], f"your rule `{written(rule)}`"
        for text in granted:
            grant = rule_of(text)
            if grant is not None and fits(grant, call, strict=True):
                return "allow", f"granted to an active skill: `{text}`"
        if call.name in HARMLESS:
            private = call.name == "read_file" and _private(subject(call))
            return ("ask", "it is a private file") if private else ("allow", "harmless")
        return self.otherwise, "nobody has allowed it"


_SAYS: Mapping[str, Say] = {"deny": "deny", "ask": "ask", "allow": "allow"}


def written(rule: Rule) -> str:
    return f"{rule.tool}({rule.about})" if rule.about else rule.tool


def fits(rule: Rule, call: ToolCall, strict: bool) -> bool:
    """Whether a rule speaks of a call.  Strictly, a pattern for one command does not cover several in a row."""
    if not fnmatchcase(call.name, rule.tool):
        return False
    if not rule.about:
        return True
    about = subject(call)
    if call.name == "run_command":
        return _fits_command(rule.about, about, strict)
    return fnmatchcase(about, rule.about)


def _fits_command(pattern: str, command: str, strict: bool) -> bool:
    if command == pattern:
        return True
    if strict:
        if _compound.search(command) or not _words(command):
            return False
        return _fits(pattern, " ".join(_words(command)))
    return any(_fits(pattern, " ".join(part.split())) for part in _compound.split(command))


def _fits(pattern: str, command: str) -> bool:
    return fnmatchcase(command, pattern) or (pattern.endswith(" *") and command == pattern[:-2])


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def subject(call: ToolCall) -> str:
    """What a call is about, in one line: the command, the path, the script, or its arguments."""
    given = call.arguments
    match call.name:
        case "run_command":
            return str(given.get("command", "")).strip()
        case "skill_run_script":
            return f"{given.get('skill_name', '')}/{given.get('script_name', '')}"
        case "skill_use" | "run_skill":
            return str(given.get("skill_name", given.get("skill", "")))
        case "delegate":
            return str(given.get("agent", ""))
    if isinstance(given.get("path"), str):
        return str(given["path"])
    return dumps(dict(given), ensure_ascii=False, sort_keys=True, default=str)
