"""A finding: what is wrong, where, and what to do next.  The codes are a closed set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

Severity: TypeAlias = Literal["error", "warning", "info"]

ParseCode: TypeAlias = Literal[
    "not-found", "not-a-directory", "missing-skill-md", "too-large", "not-utf8", "nul-byte", "bom-stripped",
    "no-frontmatter", "unclosed-frontmatter", "invalid-yaml", "yaml-repaired", "not-a-mapping",
    "duplicate-key", "field-type", "missing-name", "name-invalid", "name-too-long", "name-mismatch",
    "missing-description", "description-from-body", "description-too-long", "compatibility-empty",
    "compatibility-too-long", "unknown-field",
]  # fmt: skip
FileCode: TypeAlias = Literal["file-case", "not-a-file", "unreadable", "link-outside", "link-broken", "reader-fault"]
LintCode: TypeAlias = Literal[
    "hidden-text", "placeholder-hazard", "foreign-construct", "field-typo", "tools-invalid", "stuffed-description",
    "trigger-interference",
]  # fmt: skip
EligibilityCode: TypeAlias = Literal[
    "disabled", "not_in_allowlist", "platform", "binary", "any_binary", "env", "config"
]
LimitCode: TypeAlias = Literal["limit-candidates", "limit-skills", "limit-depth", "limit-directories"]
StandingCode: TypeAlias = Literal[
    "shadowed", "untrusted", "changed-since-trust", "not-allowed", "unapproved", "changed-since-approval",
    "lock-unreadable",
]  # fmt: skip
InspectionCode: TypeAlias = Literal[
    "terminal-escape", "encoded-shell", "remote-shell", "reverse-shell", "credential-path", "secret-upload",
    "render-network", "argument-hazard", "install-hazard", "envelope-tag", "trigger-bait", "prompt-override",
    "hidden-words", "remote-instructions", "memory-write", "prerequisite-bait", "import-shadow", "compiled-code",
    "package-hooks", "nested-skill", "name-hazard", "looks-like", "trigger-overlap", "git-inside", "left-out",
    "lfs-pointer", "archive-inside", "scan-finding", "scan-failed",
]  # fmt: skip
IndexCode: TypeAlias = Literal["index-damaged", "index-locked", "index-unwritable"]
ConfigCode: TypeAlias = Literal["config-syntax", "config-unknown-key", "config-type", "plugin-invalid"]
Code: TypeAlias = (
    ParseCode
    | FileCode
    | LintCode
    | EligibilityCode
    | LimitCode
    | StandingCode
    | InspectionCode
    | IndexCode
    | ConfigCode
)


class Meaning(NamedTuple):
    """What a code says: the message and hint are filled with the finding's details."""

    severity: Severity
    message: str
    hint: str


def _families() -> dict[str, tuple[str, ...]]:
    return {
        "reading": get_args(ParseCode),
        "files": get_args(FileCode),
        "lint": get_args(LintCode),
        "eligibility": get_args(EligibilityCode),
        "limits": get_args(LimitCode),
        "standing": get_args(StandingCode),
        "inspection": get_args(InspectionCode),
        "index": get_args(IndexCode),
        "configuration": get_args(ConfigCode),
    }


MEANINGS: dict[Code, Meaning] = {
    "not-found": Meaning("error", "the path does not exist", "check the spelling of the path"),
    "not-a-directory": Meaning("error", "the path is not a directory", "give the folder that holds SKILL.md"),
    "missing-skill-md": Meaning("error", "the folder has no SKILL.md", "add a SKILL.md, or run `metier new`"),
    "too-large": Meaning(
        "error",
        "the file has {0} bytes; at most {1} are read",
        "move long material to references/ and name it in the body",
    ),
    "not-utf8": Meaning("error", "the bytes are not UTF-8 (first at byte {0})", "save the file as UTF-8"),
    "nul-byte": Meaning("error", "the text contains a NUL character", "remove the NUL character"),
    "bom-stripped": Meaning(
        "info", "a byte order mark was removed", "save the file as UTF-8 without a byte order mark"
    ),
    "no-frontmatter": Meaning(
        "warning", "the first line is not `---`", "begin the file with `---`, a name, a description and `---`"
    ),
    "unclosed-frontmatter": Meaning(
        "warning", "the frontmatter opened on line 1 is never closed", "add a line `---` before the body"
    ),
    "invalid-yaml": Meaning(
        "error", "the frontmatter is not YAML that metier accepts: {0}", "{1}"
    ),
    "yaml-repaired": Meaning(
        "warning",
        "the YAML does not parse as written and was repaired: {0}",
        "put the value in double quotes, and indent with spaces",
    ),
    "not-a-mapping": Meaning(
        "error", "the frontmatter is {0}, not a list of `key: value` lines", "write `name:` and `description:`"
    ),
    "duplicate-key": Meaning("warning", "`{0}` occurs twice; the last one counts", "keep one of them"),
    "field-type": Meaning("error", "`{0}` is a list or a map", "write `{0}` as text"),
    "missing-name": Meaning("warning", "`name` is missing; the folder's name is used", "add `name: {0}`"),
    "name-invalid": Meaning(
        "warning", "the name `{0}` breaks the rule: {1}", "use small letters, digits and single hyphens"
    ),
    "name-too-long": Meaning("warning", "the name has {0} characters; at most 64 are allowed", "shorten it"),
    "name-mismatch": Meaning(
        "warning", "the name `{0}` differs from its folder `{1}`", "rename the folder or the skill"
    ),
    "missing-description": Meaning(
        "error", "`description` is missing", "say what the skill does and when to use it"
    ),
    "description-from-body": Meaning(
        "warning", "the description was taken from the body", "add `description:` to the frontmatter"
    ),
    "description-too-long": Meaning(
        "warning", "the description has {0} characters; 1024 is the limit of the standard", "shorten it"
    ),
    "compatibility-empty": Meaning("error", "`compatibility` is empty", "remove it, or say what is needed"),
    "compatibility-too-long": Meaning(
        "warning", "`compatibility` has {0} characters; 500 is the limit", "shorten it"
    ),
    "unknown-field": Meaning(
        "info", "not a field of this dialect: {0}", "it is kept and not used; `metadata:` is the place for extras"
    ),
    "file-case": Meaning("warning", "the file is called `{0}`", "rename it to `SKILL.md`"),
    "not-a-file": Meaning("error", "`{0}` is {1}, not a regular file", "replace it by a regular file"),
    "unreadable": Meaning("error", "`{0}` can't be read: {1}", "check its permissions"),
    "reader-fault": Meaning(
        "error", "metier failed at reading it ({0})", "this is a fault of metier's: report it with the file"
    ),
    "link-outside": Meaning(
        "error",
        "`{0}` is a link that leads outside `{1}`",
        "copy the skill into the root, or move it to a user root, where links are followed",
    ),
    "link-broken": Meaning("error", "`{0}` is a link that leads nowhere or in a circle", "mend or remove it"),
    "hidden-text": Meaning(
        "warning", "invisible or control characters: {0}", "remove them; a reader can't see what they say"
    ),
    "placeholder-hazard": Meaning(
        "warning", "`{0}` will be replaced by an argument", "{1}"
    ),
    "foreign-construct": Meaning("warning", "`{0}` means nothing in {1} and stays as it is", "{2}"),
    "field-typo": Meaning("warning", "`{0}` is not a field", "did you mean `{1}`?"),
    "stuffed-description": Meaning(
        "warning",
        "the description is written to be found: {0}",
        "say what the skill does and when to use it, and no more",
    ),
    "trigger-interference": Meaning(
        "warning",
        "it would be chosen before `{0}` for {1}",
        "say more narrowly what it is for, or what it is not for",
    ),
    "tools-invalid": Meaning("warning", "`allowed-tools` has unbalanced brackets", "balance ( and )"),
    "disabled": Meaning("error", "Skill disabled in config", "{0}"),
    "not_in_allowlist": Meaning(
        "error",
        "Bundled skill not allowed",
        "Add to config.allowBundled array (skills.allowBundled in config.toml): {0}"
    ),
    "platform": Meaning("error", "Platform mismatch: this is {0}", "Only works on: {1}"),
    "binary": Meaning("error", "Missing required binary: {0}", "{1}"),
    "any_binary": Meaning("error", "No alternative binary found: {0}", "Install any of: {0}"),
    "env": Meaning("error", "Missing environment variable: {0}", "{1}"),
    "config": Meaning("error", "Missing config value: {0}", "Set config path: {0}"),
    "limit-candidates": Meaning(
        "warning",
        "{0} holds more than {1} skill folders; the rest were left out, from `{2}` on",
        "split the root, or raise `limits.candidates` in the configuration",
    ),
    "limit-skills": Meaning(
        "warning",
        "source `{0}` has more than {1} skills; {2} were left out, from `{3}` on",
        "remove skills you do not use, or raise `limits.skills` in the configuration",
    ),
    "limit-depth": Meaning(
        "info",
        "{0} is nested deeper than {1} levels and was not searched",
        "move the skill nearer to its root",
    ),
    "limit-directories": Meaning(
        "warning",
        "{0} holds more than {1} folders that are not skills; the rest were not searched",
        "point the root at the folder that holds the skills",
    ),
    "shadowed": Meaning("info", "shadowed by {0}", "address it as `{1}`, or rename one of the two"),
    "untrusted": Meaning(
        "warning", "not trusted yet: it comes with the project", "read it, then run `metier trust {0}`"
    ),
    "changed-since-trust": Meaning(
        "warning",
        "{1} changed since the project was trusted",
        "read what changed, then run `metier trust {0}`",
    ),
    "not-allowed": Meaning("info", "not in this agent's list of skills", "add `{0}` to the agent's `skills:`"),
    "unapproved": Meaning(
        "warning", "installed and not approved yet", "read it, then run `metier approve {0}`"
    ),
    "changed-since-approval": Meaning(
        "warning",
        "changed since it was approved: {1}",
        "see `metier verify {0}`; then `metier approve {0}`, or `metier sync --force` to have it as it was",
    ),
    "lock-unreadable": Meaning(
        "error", "the lock of its root can't be read: {0}", "mend it or bring back a copy; nothing was reset"
    ),
    "terminal-escape": Meaning(
        "warning", "orders to a terminal: {0}", "do not use it before its author has taken them out"
    ),
    "encoded-shell": Meaning("warning", "decodes hidden text and runs it: {0}", "decode it by hand and read it first"),
    "remote-shell": Meaning(
        "warning", "runs what a server sends: {0}", "fetch the script, read it, then run that copy"
    ),
    "reverse-shell": Meaning("warning", "hands a shell to somebody else: {0}", "do not use it"),
    "credential-path": Meaning("warning", "reaches for credentials: {0}", "ask what it needs them for"),
    "secret-upload": Meaning("warning", "sends the environment away: {0}", "do not use it"),
    "render-network": Meaning(
        "warning", "goes to the network when it is only read: {0}", "it runs in the sandbox, without network"
    ),
    "argument-hazard": Meaning(
        "warning", "an argument reaches a command: {0}", "metier passes it inert; other runtimes may not"
    ),
    "install-hazard": Meaning("warning", "asks to install `{0}`: {1}", "`metier install` refuses it, or asks first"),
    "envelope-tag": Meaning("warning", "imitates the frame around skills: {0}", "it is escaped in catalogs"),
    "trigger-bait": Meaning(
        "warning", "its description wants to be chosen for everything: {0}", "a description says what it is for"
    ),
    "prompt-override": Meaning("warning", "tells the model to disobey or to hide things: {0}", "read it in full"),
    "hidden-words": Meaning("warning", "words where a reader does not see them: {0}", "read the source, not the page"),
    "remote-instructions": Meaning(
        "warning", "takes its instructions from a server: {0}", "what it says there can change at any time"
    ),
    "memory-write": Meaning(
        "warning", "writes where it would stay after the task: {0}", "look at what it would leave behind"
    ),
    "prerequisite-bait": Meaning(
        "warning", "asks for something to be run or installed by hand: {0}", "get programs from where they are made"
    ),
    "import-shadow": Meaning(
        "warning", "`{0}` would be imported in place of Python's own module", "rename it"
    ),
    "compiled-code": Meaning("warning", "`{0}` is {1}: nobody can read what it does", "ask for the source"),
    "package-hooks": Meaning("warning", "`{0}` runs by itself when the package is installed", "metier never runs it"),
    "nested-skill": Meaning("warning", "`{0}` is a skill inside a skill; it is not loaded", "install it by itself"),
    "name-hazard": Meaning("warning", "its name `{0}` is used as a path by some programs: {1}", "rename it"),
    "looks-like": Meaning("warning", "its name looks like `{0}` and is another one", "make sure which one you want"),
    "trigger-overlap": Meaning(
        "warning", "its description is nearly that of `{0}`", "a model may mistake one for the other"
    ),
    "git-inside": Meaning("warning", "`{0}` is a git repository inside the skill", "git may run what its config says"),
    "left-out": Meaning("info", "`{0}` is {1} and was left out", "nothing to do, unless the skill needs it"),
    "lfs-pointer": Meaning("info", "`{0}` stands for a file kept elsewhere (git LFS), which was not fetched", ""),
    "archive-inside": Meaning("info", "`{0}` is an archive, which was not looked into", "open it and look"),
    "scan-finding": Meaning("warning", "skill-scanner: {0}", "read what it points at"),
    "scan-failed": Meaning(
        "error", "skill-scanner did not finish: {0}", "a skill that was not scanned is not approved; run it again"
    ),
    "index-damaged": Meaning("warning", "the index was damaged and is built anew", "nothing to do"),
    "index-locked": Meaning("info", "the index is in use and was passed over", "nothing to do"),
    "index-unwritable": Meaning("info", "the index can't be written: {0}", "check the permissions of {1}"),
    "config-syntax": Meaning("error", "the configuration can't be read: {0}", "mend the line; nothing of it is used"),
    "config-unknown-key": Meaning("warning", "`{0}` is not a setting", "{1}"),
    "config-type": Meaning("warning", "`{0}` must be {1}; it is passed over", "write {1}"),
    "plugin-invalid": Meaning("warning", "the plugin manifest is not valid: {0}", "mend the manifest"),
}  # fmt: skip

FAMILIES = _families()
_place = re.compile(r"\{([0-9])\}").sub
_separator = re.compile("[\x1e\x1f]").sub


class Mark(NamedTuple):
    """A finding in its small form: what the stages hand on, thousands at a time."""

    code: Code
    line: int = 0
    details: tuple[str, ...] = ()
    fatal: bool = False


@dataclass(frozen=True)
class Problem:
    """One finding, ready to be shown."""

    code: Code
    severity: Severity
    message: str
    hint: str = ""
    path: str = ""
    line: int = 0
    column: int = 0

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


def problem(mark: Mark, path: str = "") -> Problem:
    """A mark spelled out."""
    meaning = MEANINGS[mark.code]
    severity: Severity = "error" if mark.fatal else meaning.severity
    return Problem(
        mark.code,
        severity,
        _fill(meaning.message, mark.details),
        _fill(meaning.hint, mark.details),
        path,
        mark.line,
    )


def _fill(template: str, details: tuple[str, ...]) -> str:
    """The template with its details in place, in one pass: a detail that looks like a place is text."""
    return _place(lambda found: details[int(found[1])] if int(found[1]) < len(details) else "", template)


def pack(marks: tuple[Mark, ...]) -> str:
    """Marks as one text, for the index."""
    return "\x1e".join(
        "\x1f".join((mark.code, str(mark.line), "1" if mark.fatal else "", *_separable(mark.details))) for mark in marks
    )


def _separable(details: tuple[str, ...]) -> tuple[str, ...]:
    """Details come from files, and may hold the very characters that keep packed marks apart."""
    return tuple(_separator("\ufffd", detail) for detail in details)


def unpack(packed: str) -> tuple[Mark, ...]:
    """What was packed; a code this version does not know is left out, and so is what was never packed."""
    marks = []
    for one in packed.split("\x1e"):
        code, *rest = one.split("\x1f")
        if code in MEANINGS and len(rest) >= 2 and rest[0].isdecimal():
            marks.append(Mark(code, int(rest[0]), tuple(rest[2:]), bool(rest[1])))
    return tuple(marks)
