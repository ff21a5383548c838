"""Findings: what is wrong, where, and what to do next.

The codes are a closed set and a contract: programs match on them, so they stay when a message is reworded.  Stages pass
`Finding`, a small tuple without text; `problem_from` turns one into words when it is shown.
"""

from __future__ import annotations

from ..light_typing import Literal, NamedTuple, TypeAlias, get_args

# --- Codes ---


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
    "not-supported",
]
FileCode: TypeAlias = Literal["file-case", "not-a-file", "unreadable", "link-outside", "link-broken", "reader-fault"]
LintCode: TypeAlias = Literal[
    "hidden-text",
    "placeholder-hazard",
    "foreign-construct",
    "missing-file",
    "template-text",
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
    "package-unapproved",
    "changed-since-approval",
    "lock-unreadable",
    "lock-missing",
    "name-unusable",
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
    "registry-suspicious",
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


# --- Messages ---


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
    "not-a-directory": CodeMeaning("error", "the path is not a directory", "pass the folder that contains SKILL.md"),
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
    "invalid-yaml": CodeMeaning("error", "invalid YAML in the frontmatter: {0}", "{1}"),
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
        "warning", "invalid name `{0}`: {1}", "use lowercase letters, digits and single hyphens"
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
        "info", "not a field of this dialect: {0}", "other agents may ignore or reject it; put extras under `metadata:`"
    ),
    "not-supported": CodeMeaning(
        "info", "`{0}` has no effect here: {1}", "keep it for other agents; do not rely on it in metier"
    ),
    "file-case": CodeMeaning("warning", "the file is called `{0}`", "rename it to `SKILL.md`"),
    "not-a-file": CodeMeaning("error", "`{0}` is {1}, not a regular file", "replace it with a regular file"),
    "unreadable": CodeMeaning("error", "`{0}` can't be read: {1}", "check its permissions"),
    "reader-fault": CodeMeaning("error", "internal error while reading it: {0}", "please report this, with the file"),
    "link-outside": CodeMeaning(
        "error",
        "`{0}` is a link that points outside `{1}`",
        "copy the skill into the root, or move it to a user root, where links are followed",
    ),
    "link-broken": CodeMeaning("error", "`{0}` is a broken or circular link", "fix or remove it"),
    "hidden-text": CodeMeaning(
        "warning", "invisible or control characters: {0}", "remove them; a reader can't see what they say"
    ),
    "placeholder-hazard": CodeMeaning("warning", "`{0}` will be replaced by an argument", "{1}"),
    "foreign-construct": CodeMeaning("warning", "`{0}` has no meaning in {1} and is left as written", "{2}"),
    "missing-file": CodeMeaning(
        "warning",
        "the instructions name `{0}`, which is not in the skill's folder",
        "add the file, or correct the path",
    ),
    "template-text": CodeMeaning(
        "info", "`{0}` is still the text of the template", "write what belongs there, or remove the line"
    ),
    "field-typo": CodeMeaning("warning", "`{0}` is not a field", "did you mean `{1}`?"),
    "stuffed-description": CodeMeaning(
        "warning",
        "the description is stuffed with keywords: {0}",
        "say what the skill does and when to use it, nothing else",
    ),
    "trigger-interference": CodeMeaning(
        "warning",
        "it outranks `{0}` for {1}",
        "narrow the description, or say what the skill is not for",
    ),
    "tools-invalid": CodeMeaning("warning", "`allowed-tools` has unbalanced brackets", "balance ( and )"),
    # The eligibility messages are worded as in the product that has these checks, which its users may match on.
    "disabled": CodeMeaning("error", "Skill disabled in config", "{0}"),
    "not_in_allowlist": CodeMeaning(
        "error",
        "Bundled skill not allowed",
        "Add to config.allowBundled array (skills.allowBundled in config.toml): {0}",
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
    "shadowed": CodeMeaning("info", "shadowed by {0}", "use it as `{1}`, or rename one of the two"),
    "untrusted": CodeMeaning(
        "warning", "not trusted yet: it is part of the project", "read it, then run `metier trust {0}`"
    ),
    "changed-since-trust": CodeMeaning(
        "warning",
        "{1} changed since the project was trusted",
        "read what changed, then run `metier trust {0}`",
    ),
    "not-allowed": CodeMeaning("info", "not in this agent's list of skills", "add `{0}` to the agent's `skills:`"),
    "unapproved": CodeMeaning("warning", "installed but not approved yet", "read it, then run `metier approve {0}`"),
    "package-unapproved": CodeMeaning(
        "warning",
        "it comes with the package {0}, and nobody approved it as it is now",
        "read it, then run `metier approve {1}`, or `metier approve {0}` for all of the package",
    ),
    "changed-since-approval": CodeMeaning(
        "warning",
        "changed since it was approved: {1}",
        "see `metier verify {0}`; then `metier approve {0}`, or `metier sync --force` to restore it",
    ),
    "lock-unreadable": CodeMeaning(
        "error", "the lock file of its root can't be read: {0}", "fix it or restore a copy; nothing was reset"
    ),
    "lock-missing": CodeMeaning(
        "error",
        "`{0}` was installed, and {1} has no entry for it any more",
        "restore the lock from git or a backup, or review the skill and run `metier approve {0}`",
    ),
    "name-unusable": CodeMeaning("error", "its name `{0}` is not used: {1}", "rename it, or remove it"),
    "terminal-escape": CodeMeaning(
        "warning", "terminal escape sequences: {0}", "do not use it until its author removes them"
    ),
    "encoded-shell": CodeMeaning(
        "warning", "decodes hidden text and runs it: {0}", "decode it by hand and read it first"
    ),
    "remote-shell": CodeMeaning(
        "warning", "runs what a server sends: {0}", "fetch the script, read it, then run that copy"
    ),
    "reverse-shell": CodeMeaning("warning", "opens a reverse shell: {0}", "do not use it"),
    "credential-path": CodeMeaning("warning", "accesses credentials: {0}", "ask what it needs them for"),
    "secret-upload": CodeMeaning("warning", "uploads the environment: {0}", "do not use it"),
    "render-network": CodeMeaning(
        "warning", "uses the network while the skill is rendered: {0}", "it runs in the sandbox, without network"
    ),
    "argument-hazard": CodeMeaning(
        "warning", "an argument reaches a command: {0}", "metier passes it as data; other runtimes may not"
    ),
    "install-hazard": CodeMeaning(
        "warning", "asks to install `{0}`: {1}", "`metier install` refuses it, or asks first"
    ),
    "envelope-tag": CodeMeaning("warning", "imitates the tags around skills: {0}", "it is escaped in catalogs"),
    "trigger-bait": CodeMeaning(
        "warning", "its description claims every task: {0}", "a description should say what the skill is for"
    ),
    "prompt-override": CodeMeaning("warning", "tells the model to disobey or to hide things: {0}", "read it in full"),
    "hidden-words": CodeMeaning("warning", "text that a reader does not see: {0}", "read the source, not the page"),
    "remote-instructions": CodeMeaning(
        "warning", "loads instructions from a server: {0}", "they can change at any time"
    ),
    "memory-write": CodeMeaning("warning", "writes files that outlast the task: {0}", "check what it leaves behind"),
    "prerequisite-bait": CodeMeaning(
        "warning",
        "asks for something to be run or installed by hand: {0}",
        "install programs from their official source",
    ),
    "import-shadow": CodeMeaning("warning", "`{0}` would be imported in place of Python's own module", "rename it"),
    "compiled-code": CodeMeaning("warning", "`{0}` is {1}: what it does can't be reviewed", "ask for the source"),
    "package-hooks": CodeMeaning(
        "warning", "`{0}` runs by itself when the package is installed", "metier never runs it"
    ),
    "nested-skill": CodeMeaning("warning", "`{0}` is a skill inside a skill; it is not loaded", "install it by itself"),
    "name-hazard": CodeMeaning("warning", "its name `{0}` is used as a path by some programs: {1}", "rename it"),
    "looks-like": CodeMeaning("warning", "its name looks like `{0}`, a different skill", "check which one you want"),
    "trigger-overlap": CodeMeaning(
        "warning", "its description is nearly the same as that of `{0}`", "a model may mistake one for the other"
    ),
    "git-inside": CodeMeaning(
        "warning", "`{0}` is a git repository inside the skill", "git may run what its config says"
    ),
    "registry-suspicious": CodeMeaning(
        "error", "{0} calls it suspicious: {1}", "read it in full before you install it"
    ),
    "left-out": CodeMeaning("info", "`{0}` is {1} and was left out", "nothing to do, unless the skill needs it"),
    "lfs-pointer": CodeMeaning("info", "`{0}` is a Git LFS pointer; the file itself was not fetched", ""),
    "archive-inside": CodeMeaning(
        "info", "`{0}` is an archive; its contents were not inspected", "extract it and look"
    ),
    "scan-finding": CodeMeaning("warning", "skill-scanner: {0}", "review what it reports"),
    "scan-failed": CodeMeaning(
        "error", "skill-scanner did not finish: {0}", "a skill that was not scanned is not approved; run it again"
    ),
    "index-damaged": CodeMeaning("warning", "the index was damaged and has been rebuilt", "nothing to do"),
    "index-locked": CodeMeaning("info", "the index is in use by another process and was skipped", "nothing to do"),
    "index-unwritable": CodeMeaning("info", "the index can't be written: {0}", "check the permissions of {1}"),
    "config-syntax": CodeMeaning(
        "error", "the configuration can't be read: {0}", "fix it; until then only commands that look work"
    ),
    "config-unknown-key": CodeMeaning("warning", "`{0}` is not a setting", "{1}"),
    "config-type": CodeMeaning("warning", "`{0}` must be {1}; it is ignored", "write {1}"),
    "plugin-invalid": CodeMeaning("warning", "the plugin manifest is not valid: {0}", "fix the manifest"),
}

CODE_FAMILIES = _codes_by_family()
_SLOT = r"\{([0-9])\}"  # a text: compiled at its first use, and `metier list` rarely has one


# --- Findings ---


class Finding(NamedTuple):
    """A finding without its text, small because the stages pass thousands of them."""

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


def problem_from(finding: Finding, path: str = "") -> Problem:
    """A finding with its message and hint."""
    meaning = CODE_MEANINGS[finding.code]
    severity: Severity = "error" if finding.fatal else meaning.severity
    return Problem(
        finding.code,
        severity,
        _fill_template(meaning.message, finding.details),
        _fill_template(meaning.hint, finding.details),
        path,
        finding.line,
    )


def _fill_template(template: str, details: tuple[str, ...]) -> str:
    """The template with its details in place, in one pass: a detail that looks like a slot stays text."""
    import re  # only a finding with details needs it, and every command imports this module

    return re.sub(_SLOT, lambda match: details[int(match[1])] if int(match[1]) < len(details) else "", template)
