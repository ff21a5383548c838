"""The commands: the table of all of them, and how the read-only ones are declared.

The table names each command's module, which is imported only when that command runs.

Importing click takes as long as starting Python three times, several times what `metier status` does once everything
is imported. So the commands that only read are declared here, in click's own style, as data: `parse_words` understands
a correct command line without click, and `group.to_click` turns the same declaration into a click command for
everything else (help, completion, usage errors, abbreviated options). The parser is strict: whatever it does not
recognise exactly it leaves to click, so there is one behaviour and click defines it. Caching what a command printed
was refused: it must be invalidated by everything the output depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...light_typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import click

# --- The table ---

COMMANDS = {
    "list": ("skills:list_skills", "List the available skills"),
    "status": ("status:status", "Show which skills are ready, and what the others lack"),
    "show": ("skills:show", "Show a skill's metadata and instructions"),
    "search": ("skills:search", "Search skills for a task"),
    "catalog": ("catalog:catalog", "Print the skill listing a model gets in its system prompt"),
    "commands": ("catalog:commands", "List the slash commands"),
    "render": ("render:render", "Print the exact messages a model gets when a skill is called"),
    "preview": ("render:preview", "Show what a skill costs and runs, without running anything"),
    "read": ("render:read", "Print a file of a skill"),
    "script": ("render:script", "Run a script of a skill in a sandbox"),
    "run": ("run:run", "Run a task with a model, or call a skill"),
    "runs": ("runs:runs", "List, show and replay recorded runs"),
    "eval": ("evals:evaluate", "Evaluate a skill: run its evals with and without it"),
    "stats": ("runs:stats", "Show how often each skill is listed, used and useful"),
    "models": ("doctor:models", "Manage local models"),
    "chat": ("..tui.command:chat", "Chat with an agent that uses your skills"),
    "web": ("..web.web_command:web", "Open a page in your browser: skills, runs, schedules and approvals"),
    "why": ("status:why", "Explain why a skill is or is not in the catalog"),
    "off": ("..reach.switch_commands:off", "Switch skills off, everywhere or in this project"),
    "on": ("..reach.switch_commands:on", "Switch skills on again"),
    "agents": ("..reach.agents_command:agents", "List other agents here, and the skills each would see"),
    "validate": ("lint:validate", "Check skills against the agentskills.io specification"),
    "lint": ("lint:lint", "Find and fix mistakes in skills"),
    "schema": ("..checks.schema_print:schema", "Print a JSON Schema of a skill's frontmatter"),
    "ci": ("..checks.ci_run:ci", "Check a repository of skills: verify, lint, evals, one exit code"),
    "improve": ("improve:improve", "Propose a fix for a skill that failed"),
    "proposals": ("improve:proposals", "Review proposed changes to skills"),
    "new": ("authoring:new", "Create a skill"),
    "add": ("add:add", "Install skills from a repository, archive, URL or folder"),
    "update": ("update:update", "Update installed skills"),
    "outdated": ("update:outdated", "List installed skills that have a newer version"),
    "remove": ("remove:remove", "Remove an installed skill, or list the installed ones"),
    "restore": ("remove:restore", "Restore a removed skill"),
    "clean": ("remove:clean", "Empty the trash and delete unreferenced data"),
    "history": ("history:history", "Show the change history of skills"),
    "diff": ("history:diff", "Show what changed in a skill since a version"),
    "rollback": ("history:rollback", "Restore an earlier version of a skill"),
    "blame": ("history:blame", "Show which change last touched each line of a skill"),
    "audit": ("..remote.audit:audit", "Check installed skills against registries and allowed sources"),
    "verify": ("verify:verify", "Compare installed skills with the lock file"),
    "freeze": ("verify:freeze", "Lock skills at their current content"),
    "approve": ("verify:approve", "Approve an installed skill at its current content"),
    "sync": ("verify:sync", "Make installed skills match the lock file"),
    "install": ("install:install", "Install the programs a skill requires"),
    "plugins": ("add:plugins", "List plugins, or install one"),
    "unpack": ("authoring:unpack", "Extract an archive safely"),
    "trust": ("trust:trust", "Trust the skills of a project"),
    "schedule": ("schedule:schedule", "Run skills on a schedule"),
    "batch": ("run:batch", "Run many calls through the schedule queue"),
    "daemon": ("servers:daemon", "Run the scheduler in the foreground"),
    "acp": ("servers:acp", "Serve an agent to an editor over the Agent Client Protocol"),
    "export": ("authoring:export", "Export skills as an archive, site, plugin or another dialect"),
    "mcp": ("servers:mcp", "Serve skills to MCP clients"),
    "roots": ("catalog:roots", "List the folders searched for skills, by precedence"),
    "doctor": ("doctor:doctor", "Check the metier installation"),
    "init": ("doctor:init", "Copy the bundled skills into your skills folder"),
    "conform": ("conform:conform", "Run the conformance cases"),
    "completion": ("doctor:completion", "Print a shell completion script"),
}
"""Where each command is (`module:function`, relative to this package), and its line in the help."""

SECTIONS = {
    "Inspect": "list status show search catalog commands why roots",
    "Use": "chat web run runs render preview read script models on off",
    "Write": "new lint validate schema ci trust",
    "Install": "add update outdated audit remove restore clean verify freeze approve sync install plugins unpack",
    "Improve": "eval stats improve proposals history diff rollback blame",
    "Schedule": "schedule batch daemon",
    "Integrate": "mcp acp export agents",
    "Maintain": "doctor init conform completion",
}
"""The sections of the help, in order."""

READ_ONLY = frozenset({"list", "status", "show", "search", "catalog", "commands", "why", "roots"})
"""The commands that are declared here, not with click."""

LOOKING = READ_ONLY | frozenset(
    {
        "preview",
        "read",
        "lint",
        "validate",
        "schema",
        "runs",
        "runs show",
        "runs replay",
        "stats",
        "models list",
        "proposals",
        "proposals show",
        "history",
        "diff",
        "blame",
        "outdated",
        "audit",
        "verify",
        "export",
        "schedule list",
        "schedule show",
        "schedule preview",
        "schedule history",
        "schedule pause",
        "schedule remove",
        "daemon status",
        "daemon stop",
        "daemon unit",
        "agents",
        "doctor",
        "conform",
        "completion",
    }
)
"""The commands that go on under a configuration that can't be read in full: they look, or stop what acts."""

COMMAND_ALIASES = {
    "untrust": "trust --remove",
    "uninstall": "remove",
    "rm": "remove",
    "delete": "remove",
    "undo": "rollback",
    "lock": "freeze",
    "unlock": "freeze --off",
    "upgrade": "update",
    "log": "history",
    "ls": "list",
    "serve": "mcp",
    "test": "eval",
    "download": "add",
    "get": "add",
    "create": "new",
    "ask": "run",
    "tui": "chat",
    "disable": "off",
    "enable": "on",
}
"""What other tools call our commands, for suggestions: the nearest spelling would often mislead."""


# --- Read-only commands ---

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[str]]"


class Argument(NamedTuple):
    """A positional argument."""

    field: str
    """The parameter of the command's function."""
    required: bool = True
    many: bool = False
    """It takes all remaining words, as a tuple."""
    complete: Completer | None = None


class Flag(NamedTuple):
    """An option without a value: False unless it is given."""

    field: str
    names: tuple[str, ...]
    help: str


class Option(NamedTuple):
    """An option with a value: a text, one of some choices, or an integer."""

    field: str
    names: tuple[str, ...]
    help: str | Callable[[], str]
    """A function if the text names what must first be loaded: help is rarely shown."""
    metavar: str | None = None
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    """The value is an integer, and at least this."""
    complete: Completer | None = None
    hidden: bool = False
    bare: str = ""
    """The value if the option stands without `=VALUE`; empty if it always takes the next word."""

    def convert(self, text: str) -> str | int | None:
        """The value that a word means; None if it is not a good one."""
        if self.minimum is not None:
            number = int(text) if text.isascii() and text.isdigit() else -1
            return number if number >= self.minimum else None
        return text if not self.choices or text in self.choices else None


CliParameter: TypeAlias = Argument | Flag | Option
CommandFunction: TypeAlias = "Callable[..., int | None]"
"""Takes the context and each parameter by name; returns the exit code, None for 0."""


class ReadOnlyCommand(NamedTuple):
    name: str
    parameters: tuple[CliParameter, ...]
    function: CommandFunction


JSON = Flag("as_json", ("--json",), "Print JSON")


def command(name: str, *parameters: CliParameter) -> Callable[[CommandFunction], ReadOnlyCommand]:
    """Declare a read-only command."""
    return lambda function: ReadOnlyCommand(name, parameters, function)


def load_command(name: str) -> ReadOnlyCommand | click.Command:
    """The command of that name; imports its module."""
    command: ReadOnlyCommand | click.Command = load_named(COMMANDS[name][0])
    return command


def load_named(target: str) -> Any:
    """What `module:function` names, relative to this package; imports its module."""
    written, _, function = target.partition(":")
    # A module of another face is given relative to the parent package, with its dots. Not `import_module`: importing
    # `importlib` takes longer than importing the command.
    module = written.lstrip(".")
    loaded = __import__(module, globals(), fromlist=(function,), level=len(written) - len(module) or 1)
    return getattr(loaded, function)


# --- The strict parser ---


def parse_options(
    parameters: Sequence[CliParameter], words: Sequence[str], interspersed: bool = True
) -> tuple[dict[str, object], list[str]] | None:
    """The values of flags and options, and the words that are neither; None where click has to decide.

    Options may come between the other words, or, with `interspersed=False`, only before them.
    """
    named = {name: item for item in parameters if not isinstance(item, Argument) for name in item.names}
    values: dict[str, object] = {
        item.field: False if isinstance(item, Flag) else item.default for item in named.values()
    }
    rest, others = list(words), list[str]()
    while rest:
        word = rest.pop(0)
        if not word:
            return None
        if not word.startswith("-"):
            others.append(word)
            if interspersed:
                continue
            break
        name, equals, text = word.partition("=")
        item = named.get(name)
        if isinstance(item, Flag) and not equals:
            values[item.field] = True
        elif isinstance(item, Option) and item.bare and not equals:
            values[item.field] = item.bare
        # `-C=DIR` is left to click: for a short option, the `=` may be part of the value.
        elif isinstance(item, Option) and (name.startswith("--") or not equals):
            text = text if equals else rest.pop(0) if rest else ""
            # An empty value is an error, and one that begins with `-` may be: click and its caller say so.
            value = item.convert(text) if text and not text.startswith("-") else None
            if value is None:
                return None
            values[item.field] = value
        else:
            return None
    return values, others + rest


def parse_words(parameters: Sequence[CliParameter], words: Sequence[str]) -> dict[str, object] | None:
    """The values of all of a command's parameters; None where click has to decide."""
    parsed = parse_options(parameters, words)
    if parsed is None:
        return None
    values, others = parsed
    for item in parameters:
        if not isinstance(item, Argument):
            continue
        if item.required and not others:
            return None
        if item.many:
            values[item.field], others = tuple(others), []
        else:
            values[item.field] = others.pop(0) if others else None
    return None if others else values
