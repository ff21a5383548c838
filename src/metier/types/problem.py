"""A finding: what is wrong, where, and what to do next.  The codes are a closed set."""

# No `from __future__ import annotations`: NamedTuple would compile every annotation again at import.
import re
from typing import Literal, NamedTuple, TypeAlias, get_args

Severity: TypeAlias = Literal["error", "warning", "info"]

ParseCode: TypeAlias = Literal[
    "not-found",
    "not-a-directory",
    "missing-skill-md",
    "too-large",
    "not-utf8",
    "nul-byte",
    "bom-stripped",
    "no-frontmatter",
    "unclosed-frontmatter",
    "invalid-yaml",
    "yaml-repaired",
    "not-a-mapping",
    "duplicate-key",
    "field-type",
    "missing-name",
    "name-invalid",
    "name-too-long",
    "name-mismatch",
    "missing-description",
    "description-from-body",
    "description-too-long",
    "compatibility-empty",
    "compatibility-too-long",
    "unknown-field",
]
FileCode: TypeAlias = Literal["file-case", "not-a-file", "unreadable", "link-outside", "link-broken", "reader-fault"]
LintCode: TypeAlias = Literal[
    "hidden-text",
    "placeholder-hazard",
    "foreign-construct",
    "field-typo",
    "tools-invalid",
    "stuffed-description",
    "trigger-interference",
]
EligibilityCode: TypeAlias = Literal[
    "disabled", "not_in_allowlist", "platform", "binary", "any_binary", "env", "config"
]
LimitCode: TypeAlias = Literal["limit-candidates", "limit-skills", "limit-depth", "limit-directories"]
StandingCode: TypeAlias = Literal[
    "shadowed",
    "untrusted",
    "changed-since-trust",
    "not-allowed",
    "unapproved",
    "changed-since-approval",
    "lock-unreadable",
]
InspectionCode: TypeAlias = Literal[
    "terminal-escape",
    "encoded-shell",
    "remote-shell",
    "reverse-shell",
    "credential-path",
    "secret-upload",
    "render-network",
    "argument-hazard",
    "install-hazard",
    "envelope-tag",
    "trigger-bait",
    "prompt-override",
    "hidden-words",
    "remote-instructions",
    "memory-write",
    "prerequisite-bait",
    "import-shadow",
    "compiled-code",
    "package-hooks",
    "nested-skill",
    "name-hazard",
    "looks-like",
    "trigger-overlap",
    "git-inside",
    "left-out",
    "lfs-pointer",
    "archive-inside",
    "scan-finding",
    "scan-failed",
]
IndexCode: TypeAlias = Literal["index-damaged", "index-locked", "index-unwritable"]
ConfigCode: TypeAlias = Literal["config-syntax", "config-unknown-key", "config-type", "plugin-invalid"]
ProblemCode: TypeAlias = (
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


class CodeMeaning(NamedTuple):
    """What a code says: the message and hint are filled with the finding's details."""

    severity: Severity
    message: str
    hint: str


def _codes_by_family() -> dict[str, tuple[str, ...]]:
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


CODE_MEANINGS: dict[ProblemCode, CodeMeaning] = {
    "not-found": CodeMeaning("error", "the path does not exist", "check the spelling of the path"),
    "not-a-directory": CodeMeaning("error", "the path is not a directory", "give the folder that holds SKILL.md"),
    "missing-skill-md": CodeMeaning("error", "the folder has no SKILL.md", "add a SKILL.md, or run `metier new`"),
    "too-large": CodeMeaning(
        "error",
        "the file has {0} bytes; at most {1} are read",
        "move long material to references/ and name it in the body",
    ),
    "not-utf8": CodeMeaning("error", "the bytes are not UTF-8 (first at byte {0})", "save the file as UTF-8"),
    "nul-byte": CodeMeaning("error", "the text contains a NUL character", "remove the NUL character"),
    "bom-stripped": CodeMeaning(
        "info", "a byte order mark was removed", "save the file as UTF-8 without a byte order mark"
    ),
    "no-frontmatter": CodeMeaning(
        "warning", "the first line is not `---`", "begin the file with `---`, a name, a description and `---`"
    ),
    "unclosed-frontmatter": CodeMeaning(
        "warning", "the frontmatter opened on line 1 is never closed", "add a line `---` before the body"
    ),
    "invalid-yaml": CodeMeaning(
        "error", "the frontmatter is not YAML that metier accepts: {0}", "{1}"
    ),
    "yaml-repaired": CodeMeaning(
        "warning",
        "the YAML does not parse as written and was repaired: {0}",
        "put the value in double quotes, and indent with spaces",
    ),
    "not-a-mapping": CodeMeaning(
        "error", "the frontmatter is {0}, not a list of `key: value` lines", "write `name:` and `description:`"
    ),
    "duplicate-key": CodeMeaning("warning", "`{0}` occurs twice; the last one counts", "keep one of them"),
    "field-type": CodeMeaning("error", "`{0}` is a list or a map", "write `{0}` as text"),
    "missing-name": CodeMeaning("warning", "`name` is missing; the folder's name is used", "add `name: {0}`"),
    "name-invalid": CodeMeaning(
        "warning", "the name `{0}` breaks the rule: {1}", "use small letters, digits and single hyphens"
    ),
    "name-too-long": CodeMeaning("warning", "the name has {0} characters; at most 64 are allowed", "shorten it"),
    "name-mismatch": CodeMeaning(
        "warning", "the name `{0}` differs from its folder `{1}`", "rename the folder or the skill"
    ),
    "missing-description": CodeMeaning(
        "error", "`description` is missing", "say what the skill does and when to use it"
    ),
    "description-from-body": CodeMeaning(
        "warning", "the description was taken from the body", "add `description:` to the frontmatter"
    ),
    "description-too-long": CodeMeaning(
        "warning", "the description has {0} characters; 1024 is the limit of the standard", "shorten it"
    ),
    "compatibility-empty": CodeMeaning("error", "`compatibility` is empty", "remove it, or say what is needed"),
    "compatibility-too-long": CodeMeaning(
        "warning", "`compatibility` has {0} characters; 500 is the limit", "shorten it"
    ),
    "unknown-field": CodeMeaning(
        "info", "not a field of this dialect: {0}", "it is kept and not used; `metadata:` is the place for extras"
    ),
    "file-case": CodeMeaning("warning", "the file is called `{0}`", "rename it to `SKILL.md`"),
    "not-a-file": CodeMeaning("error", "`{0}` is {1}, not a regular file", "replace it by a regular file"),
    "unreadable": CodeMeaning("error", "`{0}` can't be read: {1}", "check its permissions"),
    "reader-fault": CodeMeaning(
        "error", "metier failed at reading it ({0})", "this is a fault of metier's: report it with the file"
    ),
    "link-outside": CodeMeaning(
        "error",
        "`{0}` is a link that leads outside `{1}`",
        "copy the skill into the root, or move it to a user root, where links are followed",
    ),
    "link-broken": CodeMeaning("error", "`{0}` is a link that leads nowhere or in a circle", "mend or remove it"),
    "hidden-text": CodeMeaning(
        "warning", "invisible or control characters: {0}", "remove them; a reader can't see what they say"
    ),
    "placeholder-hazard": CodeMeaning(
        "warning", "`{0}` will be replaced by an argument", "{1}"
    ),
    "foreign-construct": CodeMeaning("warning", "`{0}` means nothing in {1} and stays as it is", "{2}"),
    "field-typo": CodeMeaning("warning", "`{0}` is not a field", "did you mean `{1}`?"),
    "stuffed-description": CodeMeaning(
        "warning",
        "the description is written to be found: {0}",
        "say what the skill does and when to use it, and no more",
    ),
    "trigger-interference": CodeMeaning(
        "warning",
        "it would be chosen before `{0}` for {1}",
        "say more narrowly what it is for, or what it is not for",
    ),
    "tools-invalid": CodeMeaning("warning", "`allowed-tools` has unbalanced brackets", "balance ( and )"),
    "disabled": CodeMeaning("error", "Skill disabled in config", "{0}"),
    "not_in_allowlist": CodeMeaning(
        "error",
        "Bundled skill not allowed",
        "Add to config.allowBundled array (skills.allowBundled in config.toml): {0}"
    ),
    "platform": CodeMeaning("error", "Platform mismatch: this is {0}", "Only works on: {1}"),
    "binary": CodeMeaning("error", "Missing required binary: {0}", "{1}"),
    "any_binary": CodeMeaning("error", "No alternative binary found: {0}", "Install any of: {0}"),
    "env": CodeMeaning("error", "Missing environment variable: {0}", "{1}"),
    "config": CodeMeaning("error", "Missing config value: {0}", "Set config path: {0}"),
    "limit-candidates": CodeMeaning(
        "warning",
        "{0} holds more than {1} skill folders; the rest were left out, from `{2}` on",
        "split the root, or raise `limits.candidates` in the configuration",
    ),
    "limit-skills": CodeMeaning(
        "warning",
        "source `{0}` has more than {1} skills; {2} were left out, from `{3}` on",
        "remove skills you do not use, or raise `limits.skills` in the configuration",
    ),
    "limit-depth": CodeMeaning(
        "info",
        "{0} is nested deeper than {1} levels and was not searched",
        "move the skill nearer to its root",
    ),
    "limit-directories": CodeMeaning(
        "warning",
        "{0} holds more than {1} folders that are not skills; the rest were not searched",
        "point the root at the folder that holds the skills",
    ),
    "shadowed": CodeMeaning("info", "shadowed by {0}", "address it as `{1}`, or rename one of the two"),
    "untrusted": CodeMeaning(
        "warning", "not trusted yet: it comes with the project", "read it, then run `metier trust {0}`"
    ),
    "changed-since-trust": CodeMeaning(
        "warning",
        "{1} changed since the project was trusted",
        "read what changed, then run `metier trust {0}`",
    ),
    "not-allowed": CodeMeaning("info", "not in this agent's list of skills", "add `{0}` to the agent's `skills:`"),
    "unapproved": CodeMeaning(
        "warning", "installed and not approved yet", "read it, then run `metier approve {0}`"
    ),
    "changed-since-approval": CodeMeaning(
        "warning",
        "changed since it was approved: {1}",
        "see `metier verify {0}`; then `metier approve {0}`, or `metier sync --force` to have it as it was",
    ),
    "lock-unreadable": CodeMeaning(
        "error", "the lock of its root can't be read: {0}", "mend it or bring back a copy; nothing was reset"
    ),
    "terminal-escape": CodeMeaning(
        "warning", "orders to a terminal: {0}", "do not use it before its author has taken them out"
    ),
    "encoded-shell": CodeMeaning("warning", "decodes hidden text and runs it: {0}",
        "decode it by hand and read it first"),
    "remote-shell": CodeMeaning(
        "warning", "runs what a server sends: {0}", "fetch the script, read it, then run that copy"
    ),
    "reverse-shell": CodeMeaning("warning", "hands a shell to somebody else: {0}", "do not use it"),
    "credential-path": CodeMeaning("warning", "reaches for credentials: {0}", "ask what it needs them for"),
    "secret-upload": CodeMeaning("warning", "sends the environment away: {0}", "do not use it"),
    "render-network": CodeMeaning(
        "warning", "goes to the network when it is only read: {0}", "it runs in the sandbox, without network"
    ),
    "argument-hazard": CodeMeaning(
        "warning", "an argument reaches a command: {0}", "metier passes it inert; other runtimes may not"
    ),
    "install-hazard": CodeMeaning("warning", "asks to install `{0}`: {1}",
        "`metier install` refuses it, or asks first"),
    "envelope-tag": CodeMeaning("warning", "imitates the frame around skills: {0}", "it is escaped in catalogs"),
    "trigger-bait": CodeMeaning(
        "warning", "its description wants to be chosen for everything: {0}", "a description says what it is for"
    ),
    "prompt-override": CodeMeaning("warning", "tells the model to disobey or to hide things: {0}", "read it in full"),
    "hidden-words": CodeMeaning("warning", "words where a reader does not see them: {0}",
        "read the source, not the page"),
    "remote-instructions": CodeMeaning(
        "warning", "takes its instructions from a server: {0}", "what it says there can change at any time"
    ),
    "memory-write": CodeMeaning(
        "warning", "writes where it would stay after the task: {0}", "look at what it would leave behind"
    ),
    "prerequisite-bait": CodeMeaning(
        "warning", "asks for something to be run or installed by hand: {0}", "get programs from where they are made"
    ),
    "import-shadow": CodeMeaning(
        "warning", "`{0}` would be imported in place of Python's own module", "rename it"
    ),
    "compiled-code": CodeMeaning("warning", "`{0}` is {1}: nobody can read what it does", "ask for the source"),
    "package-hooks": CodeMeaning("warning", "`{0}` runs by itself when the package is installed",
        "metier never runs it"),
    "nested-skill": CodeMeaning("warning", "`{0}` is a skill inside a skill; it is not loaded", "install it by itself"),
    "name-hazard": CodeMeaning("warning", "its name `{0}` is used as a path by some programs: {1}", "rename it"),
    "looks-like": CodeMeaning("warning", "its name looks like `{0}` and is another one",
        "make sure which one you want"),
    "trigger-overlap": CodeMeaning(
        "warning", "its description is nearly that of `{0}`", "a model may mistake one for the other"
    ),
    "git-inside": CodeMeaning("warning", "`{0}` is a git repository inside the skill",
        "git may run what its config says"),
    "left-out": CodeMeaning("info", "`{0}` is {1} and was left out", "nothing to do, unless the skill needs it"),
    "lfs-pointer": CodeMeaning("info", "`{0}` stands for a file kept elsewhere (git LFS), which was not fetched", ""),
    "archive-inside": CodeMeaning("info", "`{0}` is an archive, which was not looked into", "open it and look"),
    "scan-finding": CodeMeaning("warning", "skill-scanner: {0}", "read what it points at"),
    "scan-failed": CodeMeaning(
        "error", "skill-scanner did not finish: {0}", "a skill that was not scanned is not approved; run it again"
    ),
    "index-damaged": CodeMeaning("warning", "the index was damaged and is built anew", "nothing to do"),
    "index-locked": CodeMeaning("info", "the index is in use and was passed over", "nothing to do"),
    "index-unwritable": CodeMeaning("info", "the index can't be written: {0}", "check the permissions of {1}"),
    "config-syntax": CodeMeaning("error", "the configuration can't be read: {0}",
        "mend the line; nothing of it is used"),
    "config-unknown-key": CodeMeaning("warning", "`{0}` is not a setting", "{1}"),
    "config-type": CodeMeaning("warning", "`{0}` must be {1}; it is passed over", "write {1}"),
    "plugin-invalid": CodeMeaning("warning", "the plugin manifest is not valid: {0}", "mend the manifest"),
}  # fmt: skip

CODE_FAMILIES = _codes_by_family()
_replace_slots = re.compile(r"\{([0-9])\}").sub
_replace_separators = re.compile("[\x1e\x1f]").sub


class Finding(NamedTuple):
    """A finding in its small form: what the stages hand on, thousands at a time."""

    code: ProblemCode
    line: int = 0
    details: tuple[str, ...] = ()
    fatal: bool = False


class Problem(NamedTuple):
    """One finding, ready to be shown."""

    code: ProblemCode
    severity: Severity
    message: str
    hint: str = ""
    path: str = ""
    line: int = 0
    column: int = 0

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


def problem_from(mark: Finding, path: str = "") -> Problem:
    """A mark spelled out."""
    meaning = CODE_MEANINGS[mark.code]
    severity: Severity = "error" if mark.fatal else meaning.severity
    return Problem(
        mark.code,
        severity,
        _fill_template(meaning.message, mark.details),
        _fill_template(meaning.hint, mark.details),
        path,
        mark.line,
    )


def _fill_template(template: str, details: tuple[str, ...]) -> str:
    """The template with its details in place, in one pass: a detail that looks like a place is text."""
    return _replace_slots(lambda match: details[int(match[1])] if int(match[1]) < len(details) else "", template)


def pack_findings(marks: tuple[Finding, ...]) -> str:
    """Marks as one text, for the index."""
    return "\x1e".join(
        "\x1f".join((mark.code, str(mark.line), "1" if mark.fatal else "", *_without_separators(mark.details)))
        for mark in marks
    )


def _without_separators(details: tuple[str, ...]) -> tuple[str, ...]:
    """Details come from files, and may hold the very characters that keep packed marks apart."""
    return tuple(_replace_separators("\ufffd", detail) for detail in details)


def unpack_findings(packed: str) -> tuple[Finding, ...]:
    """What was packed; a code this version does not know is left out, and so is what was never packed."""
    marks = []
    for record in packed.split("\x1e"):
        code, *parts = record.split("\x1f")
        if code in CODE_MEANINGS and len(parts) >= 2 and parts[0].isdecimal():
            marks.append(Finding(code, int(parts[0]), tuple(parts[2:]), bool(parts[1])))
    return tuple(marks)
