"""Write the tables of the dialects from their constants."""

from collections.abc import Callable

from scripts.docs_text import code, codes, page, table

from metier.dialects import DIALECTS
from metier.dialects.common import COMMON_FIELDS
from metier.types.dialect import AuthoringRules, Dialect, LibraryLimits, RootSpec, ServingRules

_NAME = {
    "kebab": "lowercase letters, digits and single hyphens, at most 64; otherwise a warning",
    "word": "letters, digits, `-` and `_`; otherwise it does not load",
    "standard": "the folder's name, at most 64; otherwise a warning",
    "free": "any text",
}
_DESCRIPTION = {
    "required": "it does not load",
    "optional": "empty",
    "first-line": "the first line of the body, up to 200 characters",
    "first-paragraph": "the first paragraph of the body",
}
_FORMAT = {
    "xml": "`<available_skills>`, one `<skill>` each",
    "mandatory": "`## Skills (mandatory)`, then `<available_skills>`",
    "available": "`## Available Skills`, one line each, with the argument hint",
    "policy": "`## Skills`, two sentences, then one line each",
    "emoji": "`# Available Skills`, one line each, with emoji and folder",
    "guided": "three sentences, then `<available_skills>`",
    "plain": "one sentence, then one line each",
}
_FORM = {
    "name": "the name",
    "directory": "the folder",
    "underscore": "the name in `a-z 0-9 _`, at most 32, with `_2` if it is taken",
    "hyphen": "the name in `a-z 0-9 _ -`, at most 32, with `_2` if it is taken",
}
_MATCHING = {
    "exact": "`/name`, exact",
    "loose": "`/name` and `/skill name`; case, spaces, `_` and `-` are ignored",
    "tail": "`/name`, exact; the rest of the line is the message",
}


ROOTS = """\
The roots of each dialect, highest precedence first. `{ancestor}` is the working folder and each folder above it up to
the project's root; a root below the project's root is labelled `label:folder`. `{profile}` needs `--profile`; a path
that starts with `$` is the folder that the variable names.

Folders in `METIER_PATH` come before all of them, configured folders after the project's and before your own, and
plugins last. `metier roots --all` prints the list for the current folder.
[Roots, precedence and shadowing](../concepts/roots.md) explains the order.
"""


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _requires(authoring: AuthoringRules) -> str:
    return codes("metadata" if not key else f"metadata.{key}" for key in authoring.requires_at)


def _placeholders(authoring: AuthoringRules) -> str:
    found = authoring.arguments
    if found is None:
        return "none"
    alone = ", where it stands alone and not in fenced code" if found.alone else ""
    forms = [f"`${found.first}` is the first word{alone}", "`$ARGUMENTS`"]
    forms += ["`$ARGUMENTS[N]`"] * found.bracketed + ["`$@`, `${@:2}`"] * found.slices + ["`$name`"] * found.named
    return ", ".join(forms) + ("; `\\$` is a literal `$`" if found.escape else "")


def _markers(authoring: AuthoringRules) -> str:
    if authoring.shell is None:
        return "none: plain text"
    return "`` !`…` ``" + (", and blocks that open with ```` ```! ````" if authoring.shell.fenced else "")


_CWD = {"agent": "the agent's working folder", "skill": "the skill's folder"}
_OUTPUT = {
    "end": "standard output, trailing whitespace stripped",
    "both": "standard output, whitespace stripped",
    "merged": "standard output and standard error",
}
_FAILURE = {
    "error": "`[shell error: …]` replaces it",
    "stderr": "its output is kept, with `[stderr: …]`; on timeout `[command timed out: …]`",
    "abort": "the skill is not activated",
}
_UNUSED = {
    "always": "{0} always",
    "no-whole": "{0} unless it has `$ARGUMENTS`",
    "no-argument": "{0} unless it has a placeholder",
}
_DELIVERY = {
    "user-message": "as the user's own message",
    "skill-context": "a confirmation, then a `<skill-context>` message",
    "tool-call": "a `run_skill` call and its result",
    "model-reads": "the model is told to read the file",
}


def _failing(authoring: AuthoringRules) -> str:
    if authoring.shell is None:
        return "-"
    quiet = f"; status 1 of {codes(sorted(authoring.shell.quiet))} is not a failure" if authoring.shell.quiet else ""
    return _FAILURE[authoring.shell.on_failure] + quiet


def _unused(authoring: AuthoringRules) -> str:
    if not authoring.unused:
        return "are not appended"
    return _UNUSED[authoring.unused_when].format(f"are appended as `{authoring.unused}…`,")


def _limited(limits: LibraryLimits) -> str:
    usual = LibraryLimits()
    own = [f"{name} {value:,}" for name, value in limits._asdict().items() if value != getattr(usual, name)]
    return ", ".join(own) or "none"


AUTHORING: dict[str, tuple[str, Callable[[AuthoringRules], str]]] = {
    "name_rule": ("a name is", lambda one: _NAME[one.name_rule]),
    "name_required": ("without a name", lambda one: "it does not load" if one.name_required else "the folder's name"),
    "identity": ("one skill shadows another by", lambda one: "name" if one.identity == "name" else "folder"),
    "description": ("without a description", lambda one: _DESCRIPTION[one.description]),
    "frontmatter_required": (
        "without frontmatter",
        lambda one: "it does not load" if one.frontmatter_required else "it is all body",
    ),
    "unclosed_is_body": (
        "unclosed frontmatter",
        lambda one: "it is all body" if one.unclosed_is_body else "it does not load",
    ),
    "broken_yaml_is_empty": (
        "invalid YAML",
        lambda one: "the frontmatter is empty" if one.broken_yaml_is_empty else "it does not load",
    ),
    "indented": ("the file may be indented", lambda one: _yes(one.indented)),
    "json_metadata": ("`metadata` may be JSON text", lambda one: _yes(one.json_metadata)),
    "requires_at": ("requirements are in", _requires),
    "empty_env_counts": (
        "an empty variable",
        lambda one: "counts as set" if one.empty_env_counts else "counts as missing",
    ),
    "config_defaults": ("settings that default to true", lambda one: codes(sorted(one.config_defaults)) or "none"),
    "user_invocable_hides": (
        "`user-invocable: false`",
        lambda one: "no command, and hidden from the model" if one.user_invocable_hides else "no command",
    ),
    "arguments": ("placeholders in the body", _placeholders),
    "shell": ("command markers in the body", _markers),
    "cwd": ("commands run in", lambda one: _CWD[one.shell.cwd] if one.shell else "-"),
    "program": ("shell", lambda one: code(one.shell.program) if one.shell else "-"),
    "output": ("command output", lambda one: _OUTPUT[one.shell.output] if one.shell else "-"),
    "on_failure": ("a command that fails", _failing),
    "seconds": ("command timeout", lambda one: f"{one.shell.seconds:g} seconds" if one.shell else "-"),
    "variables": ("variables in the body", lambda one: codes(f"${{{name}}}" for name in one.variables) or "none"),
    "rooted": (
        "paths prefixed with the skill's folder",
        lambda one: codes(f"{name}/" for name in one.rooted) or "none",
    ),
    "unused": ("arguments without a placeholder", _unused),
}
"""The label and the text of each rule; a rule that is not here is printed as its value."""

_IMPROVING = {"auto": "automatically", "review": "after review", "off": "never"}
SERVING: dict[str, tuple[str, Callable[[ServingRules], str]]] = {
    "listing": ("catalog", lambda one: _FORMAT[one.listing.format]),
    "order": ("order of the catalog", lambda one: "by name" if one.listing.alphabetical else "precedence, then path"),
    "paths": ("paths in the catalog", lambda one: "with `~`" if one.listing.paths == "home" else "absolute"),
    "cut": (
        "maximum length of a description",
        lambda one: "no limit" if one.listing.description_cut is None else f"{one.listing.description_cut:,}",
    ),
    "form": ("a slash command is", lambda one: _FORM[one.commands.form]),
    "matching": ("an input line calls a skill with", lambda one: _MATCHING[one.commands.matching]),
    "commands": ("order of commands", lambda one: "by name" if one.commands.alphabetical else "precedence"),
    "scheduled": ("`/sched-…` commands", lambda one: _yes(one.commands.scheduled)),
    "delivery": ("instructions are delivered", lambda one: _DELIVERY[one.delivery]),
    "tools": ("the model's tools", lambda one: codes(one.tools)),
    "limits": ("limits", lambda one: _limited(one.limits)),
    "history": ("`git_log` and `git_rollback`", lambda one: "yes" if one.history else "if an agent names them"),
    "plugins": ("plugin skills", lambda one: _yes(one.plugins)),
    "improving": ("failing skills are improved", lambda one: _IMPROVING[one.improving]),
    "unlisted_agent": ("an agent without a skill list gets", lambda one: one.unlisted_agent),
}

LATER = {"unused_when", "preface", "fields", "roots", "unsupported"}
"""Fields that are documented elsewhere."""


def rows_of(dialect: Dialect) -> dict[str, str]:
    """Each rule's label and text, in order."""
    found = {question: tell(dialect.authoring) for question, tell in AUTHORING.values()}
    for name, value in dialect.authoring._asdict().items():
        if name not in AUTHORING and name not in LATER:
            found[code(name)] = code(str(value))
    found |= {question: tell(dialect.serving) for question, tell in SERVING.values()}
    for name, value in dialect.serving._asdict().items():
        if name not in SERVING and name not in LATER:
            found[code(name)] = code(str(value))
    return found


def answers(name: str) -> str:
    return table(("", "rule"), rows_of(DIALECTS[name]).items())


def fields(name: str) -> str:
    own = DIALECTS[name].authoring.fields
    extra = f"In this dialect: {codes(sorted(own - COMMON_FIELDS))}." if own - COMMON_FIELDS else "No others."
    known = f"Known in every dialect: {codes(sorted(COMMON_FIELDS))}.\n{extra}\n"
    return known + _unsupported(DIALECTS[name].authoring)


def _unsupported(authoring: AuthoringRules) -> str:
    if not authoring.unsupported:
        return ""
    rows = [
        (code(field.name), codes(sorted(field.harmless)) or "none", field.instead) for field in authoring.unsupported
    ]
    return (
        "\nThese are kept and have no effect; a skill that has one gets the problem "
        "[`not-supported`](../reference/problems.md#reading), unless its value asks for nothing else:\n\n"
        + table(("field", "values that work", "what happens instead"), rows)
    )


def roots_of(name: str) -> str:
    head = ("", "label", "path", "read as", "searched", "links")
    return table(head, [_root(number, spec) for number, spec in enumerate(DIALECTS[name].serving.roots, 1)])


def _root(number: int, spec: RootSpec) -> tuple[str, ...]:
    notes = [f"{spec.depth} deep" if spec.depth > 1 else "1 deep"]
    notes += ["`skills/` inside"] * spec.nested + ["may itself be a skill"] * spec.itself
    notes += [f"not {code(one)}" for one in sorted(spec.skip)]
    links = "followed" if spec.links == "follow" else "stay inside"
    return str(number), code(spec.label), code(spec.path), spec.dialect, ", ".join(notes), links


def differences(_: str) -> str:
    """Only the rules in which dialects differ."""
    rows = {name: rows_of(dialect) for name, dialect in DIALECTS.items()}
    questions = dict.fromkeys(question for found in rows.values() for question in found)
    shown = [
        (question, *(rows[name][question] for name in DIALECTS))
        for question in questions
        if len({rows[name][question] for name in DIALECTS}) > 1
    ]
    return table(("", *(f"[{name}]({name}.md)" for name in DIALECTS)), shown)


def roots_page() -> str:
    parts = [ROOTS]
    for name, dialect in DIALECTS.items():
        parts += [f"## {name}", f"{dialect.title}: [details](../dialects/{name}.md).", roots_of(name)]
    return page("Roots", *parts)
