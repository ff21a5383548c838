"""Who may call what: rules by pattern, what active skills are granted, and what holds otherwise."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ..types.activation import ToolCall
from ..types.text import points_of
from .commandline import Line, covered, may_be_named, named, read, text_of_command
from .rules import ALIASES

Say: TypeAlias = Literal["allow", "ask", "deny"]

HARMLESS = frozenset(
    {
        "skill_use", "run_skill", "skill_search", "skill_read_file", "skill_run_script", "read", "read_file",
        "list_files", "find_files", "search_files", "ask_user", "delegate", "git_log", "list_schedule",
    }
)  # fmt: skip
"""What is allowed where nobody said otherwise: it reads, it asks, or it runs inside the skill's own boundary."""
KNOWN = HARMLESS | {"write_file", "edit_file", "run_command", "git_rollback", "add_schedule", "remove_schedule"}
"""The tools that there are, where an agent has them; servers bring more."""
UNGRANTED = frozenset({"add_schedule", "patch_schedule", "remove_schedule", "git_rollback"})
"""What no skill is granted, whatever it says: it lasts beyond the conversation, and runs when nobody watches."""
_private = re.compile(
    r"(?:^|/)(?:\.env(?:\..*)?|id_(?:rsa|dsa|ecdsa|ed25519)|[^/]*\.(?:pem|key|p12)|\.netrc|\.npmrc|\.pypirc)$"
    r"|(?:^|/)\.(?:ssh|aws|gnupg|kube|docker)/",
    re.IGNORECASE,
).search
"""Files that hold secrets more often than not."""
PRIVATE_FILES = (
    ".env", ".env.*", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", ".netrc", ".npmrc",
    ".pypirc",
)  # fmt: skip
PRIVATE_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".docker")
_FOLDERS = frozenset({"list_files", "find_files", "search_files"})
_FILES = frozenset({"read_file", "write_file", "edit_file"}) | _FOLDERS
_PATHS = _FILES | {"read"}
_WRITES = frozenset({"write_file", "edit_file"})
_grantable = re.compile(r"[^*?\[]+(?:__\*)?").fullmatch
"""A tool by its name, or all of one server: `*` and the like would be everything there ever is."""
_control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]").search
_pattern = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL).fullmatch


class Rule(NamedTuple):
    """`run_command(git *)`: a tool and what it is called with."""

    tool: str
    about: str = ""
    """A pattern for the subject of the call; empty is any."""


class Spot(NamedTuple):
    """What a call is about, by each of its names."""

    real: tuple[str, ...]
    """Where a path leads, links followed: inside the working folder, and from the root."""
    spelled: tuple[str, ...]
    """The same, as it was asked for."""
    orders: str = ""
    """The name in it that other programs take orders from."""


class Aim(NamedTuple):
    """A call as rules look at it."""

    name: str
    text: str
    spot: Spot
    line: Line | None = None
    """The commands of a call that runs some."""


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

    def says(self, call: ToolCall, granted: Sequence[str] = (), spot: Spot | None = None) -> tuple[Say, str]:
        """What holds for a call, and why."""
        aim = aim_of(call, spot)
        if aim.line is not None and (unseen := _control(aim.text)):
            return "deny", f"metier: nobody could see {points_of(unseen[0])} in it; write such a character as an escape"
        for say, rules in (("deny", self.deny), ("ask", self.ask)):
            for rule in rules:
                if names(rule, aim):
                    return _SAYS[say], f"your rule `{written(rule)}`"
        for rule in (*self.deny, *self.ask):
            if _may_name(rule, aim):
                return "ask", f"it can't be told beforehand whether your rule `{written(rule)}` speaks of it"
        own = allowing(self.allow, aim)
        if call.name in _WRITES and aim.spot.orders and not (own and _says_so(own, aim.spot)):
            return "ask", "other programs take orders from what is in that file"
        if own is not None:
            return "allow", f"your rule `{written(own)}`"
        if call.name in ("read_file", "search_files") and is_private(aim.spot, call):
            return "ask", "it is a private file"
        grant = allowing(_grants(granted), aim) if call.name not in UNGRANTED else None
        if grant is not None:
            return "allow", f"granted to an active skill: `{written(grant)}`"
        return ("allow", "harmless") if call.name in HARMLESS else (self.otherwise, "nobody has allowed it")


_SAYS: Mapping[str, Say] = {"deny": "deny", "ask": "ask", "allow": "allow"}


def written(rule: Rule) -> str:
    return f"{rule.tool}({rule.about})" if rule.about else rule.tool


def narrowest(call: ToolCall) -> str:
    """The rule that allows this call and as little else as can be."""
    about = subject(call)
    fits = call.name == "run_command" or takes_path(call)
    return f"{call.name}({about})" if fits and about.isprintable() and len(about) <= 200 else call.name


def aim_of(call: ToolCall, spot: Spot | None = None) -> Aim:
    text = subject(call)
    line = read(text) if call.name == "run_command" else None
    return Aim(call.name, text, spot or spot_of(call), line)


def spot_of(call: ToolCall) -> Spot:
    """Where a path leads by its letters alone."""
    if call.name in _FILES:
        path = posixpath.normpath(path_of(call))
        return Spot((path,), (path,))
    about = subject(call)
    if call.name == "skill_run_script":
        about = posixpath.normpath(about)
    return Spot((about,), (about, *(one for one in call.arguments.values() if isinstance(one, str))))


def path_of(call: ToolCall) -> str:
    """The path that a tool for files is given; where it is left out, the working folder."""
    given = call.arguments.get("path")
    return given if isinstance(given, str) and given else "."


def takes_path(call: ToolCall) -> bool:
    return call.name in _FILES


def names(rule: Rule, aim: Aim) -> bool:
    """Whether a rule that holds back speaks of a call, however what it is about is spelled."""
    if not fnmatchcase(aim.name, rule.tool):
        return False
    if not rule.about or rule.about == aim.text:
        return True
    if aim.line is not None:
        return named(rule.about, aim.line)
    wanted = rule.about.removeprefix("./")
    spelled = {*aim.spot.real, *aim.spot.spelled}
    if aim.name in _FOLDERS:
        spelled |= {f"{one}/" for one in spelled}
    return any(fnmatchcase(one, wanted) for one in spelled)


def allowing(rules: Sequence[Rule], aim: Aim) -> Rule | None:
    """The rule that covers a call.  Of several commands in a row each must be covered, and a path where it leads."""
    about = [rule for rule in rules if fnmatchcase(aim.name, rule.tool)]
    for rule in about:
        if not rule.about or (aim.line is not None and rule.about == aim.text):
            return rule
        if aim.line is None and any(fnmatchcase(one, rule.about.removeprefix("./")) for one in aim.spot.real):
            return rule
    if aim.line is None or not aim.line.plain or not aim.line.parts:
        return None
    found = [next((rule for rule in about if covered(rule.about, part)), None) for part in aim.line.parts]
    return found[0] if all(found) else None


def _grants(texts: Sequence[str]) -> list[Rule]:
    return [one for text in texts if (one := rule_of(text)) is not None and _grantable(one.tool)]


def _may_name(rule: Rule, aim: Aim) -> bool:
    return (
        aim.line is not None
        and bool(rule.about)
        and fnmatchcase(aim.name, rule.tool)
        and may_be_named(rule.about, aim.line)
    )


def _says_so(rule: Rule, spot: Spot) -> bool:
    """Whether a rule names what others take orders from, rather than anything at all."""
    return f"/{spot.orders}/" in f"/{rule.about}/"


def is_private(spot: Spot, call: ToolCall) -> bool:
    """Whether a call names what holds secrets, by any of its names."""
    glob = call.arguments.get("glob") if call.name == "search_files" else None
    after = "/" if call.name in _FOLDERS else ""
    found = [f"{one}{end}" for one in (*spot.real, *spot.spelled) for end in {"", after}]
    return any(map(_private, [*found, glob] if isinstance(glob, str) else found))


def subject(call: ToolCall) -> str:
    """What a call is about, in one line: the command, the path, the script, or its arguments."""
    given = call.arguments
    match call.name:
        case "run_command":
            return text_of_command(given.get("command"))
        case "skill_run_script":
            return f"{given.get('skill_name', '')}/{given.get('script_name', '')}"
        case "skill_use" | "run_skill":
            return str(given.get("skill_name", given.get("skill", "")))
        case "delegate":
            return str(given.get("agent", ""))
        case "search_files" if isinstance(given.get("glob"), str) and given["glob"]:
            return f"{given['glob']} in {path_of(call)}"
    if call.name in _PATHS and isinstance(given.get("path"), str):  # elsewhere it is one argument of many
        return str(given["path"])
    return dumps(dict(given), ensure_ascii=False, sort_keys=True, default=str)
