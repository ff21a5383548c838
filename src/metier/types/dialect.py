"""A dialect: one product's reading of SKILL.md, as data.

It has two halves.  Authoring rules belong to the file and follow it: how its frontmatter and body are read, whichever
product serves it. Serving rules belong to the product that runs the skills: where it looks, how it lists them, how it
delivers them to a model. So a skill written for one product works when another serves it.
"""

from __future__ import annotations

from ..light_typing import Literal, NamedTuple, TypeAlias

NameRule: TypeAlias = Literal["kebab", "word", "standard", "free"]
DescriptionRule: TypeAlias = Literal["required", "optional", "first-line", "first-paragraph"]
ListingFormat: TypeAlias = Literal["xml", "mandatory", "available", "policy", "emoji", "guided", "plain"]
PathStyle: TypeAlias = Literal["absolute", "home"]
DeliveryMode: TypeAlias = Literal["user-message", "skill-context", "tool-call", "model-reads"]
ToolName: TypeAlias = Literal["skill_use", "skill_read_file", "skill_run_script", "run_skill", "skill_search", "read"]
CommandForm: TypeAlias = Literal["name", "directory", "underscore", "hyphen"]
CommandMatching: TypeAlias = Literal["exact", "loose", "tail"]
RootSource: TypeAlias = Literal["project", "user", "bundled", "plugin"]
"""Whose skills a root holds; an earlier source shadows a later one."""
LinkPolicy: TypeAlias = Literal["follow", "contain"]
ArgumentSplitting: TypeAlias = Literal["quotes", "blanks", "shell", "none"]
ImprovementMode: TypeAlias = Literal["auto", "review", "off"]
"""Who decides about an improvement: it is applied, a person decides, or none is proposed."""
ListingPolicy: TypeAlias = Literal["ranked", "stable", "prefix"]
"""A listing that does not fit: a stable block and one ranked for the request, the stable block alone over the whole
limit, or the longest run from the front."""


# --- Authoring: how a file is read ---


class ArgumentRules(NamedTuple):
    """How `$` placeholders are read.  `first` is the number that means the first word."""

    first: Literal[0, 1]
    splitting: ArgumentSplitting
    whole: Literal["joined", "typed"] = "typed"
    """What `$ARGUMENTS` is: the words with one space between them, or the text as it was typed."""
    joint: str = " "
    """The separator of words that a program passes as a list."""
    missing: Literal["empty", "stays"] = "empty"
    """What becomes of `$3` when there are two words."""
    bracketed: bool = False
    """`$ARGUMENTS[N]` is a word."""
    slices: bool = False
    """`$@`, `${@:S}` and `${@:S:L}`."""
    named: bool = False
    """`$name` for the names the frontmatter declares."""
    escape: bool = False
    """One backslash before a placeholder makes it literal."""
    single_digit: bool = False
    """`$N` has one digit, and no letter, digit or `_` after it."""
    alone: bool = False
    """`$N` in text must stand alone, unlike a price, and outside fenced code; in a command it may stand anywhere."""


class ShellRules(NamedTuple):
    """How commands are written in a body, and where they run."""

    fenced: bool
    """A ` ```! ` block is a command too."""
    anchored: bool
    """An inline command must be at the start of a line or after white space."""
    cwd: Literal["skill", "agent"]
    on_failure: Literal["error", "stderr", "abort"]
    """`[shell error: …]` in its place, its output with `[stderr: …]`, or no activation at all."""
    output: Literal["end", "both", "merged"] = "end"
    """White space is taken off its end, or off both; merged, standard error is part of it."""
    program: Literal["sh", "bash"] = "sh"
    # A person waits for the skill to be rendered.
    seconds: float = 10.0
    one_line: bool = False
    """A block may open and close on one line: ` ```!command``` `."""
    quiet: frozenset[str] = frozenset()
    """Programs whose exit status 1 is an answer, not a failure."""


class UnsupportedField(NamedTuple):
    """A field that the product acts on and metier does not, except where its value asks for nothing else."""

    name: str
    instead: str
    """What happens here."""
    harmless: frozenset[str] = frozenset()
    """The values, in small letters, that ask for what happens here anyway."""


class AuthoringRules(NamedTuple):
    """What belongs to the file: what its frontmatter must hold and what its body means."""

    fields: frozenset[str]
    name_rule: NameRule = "free"
    name_required: bool = False
    description: DescriptionRule = "required"
    frontmatter_required: bool = True
    unclosed_is_body: bool = False
    broken_yaml_is_empty: bool = False
    indented: bool = False
    """The fences, and with them the whole file, may be evenly indented."""
    starred: bool = False
    """The fences may be `***` instead of `---`."""
    json_metadata: bool = False
    identity: Literal["name", "directory"] = "name"
    requires_at: tuple[str, ...] = ()
    """The keys under `metadata` that may hold requirements, first found wins; `""` is `metadata` itself."""
    empty_env_counts: bool = False
    config_defaults: frozenset[str] = frozenset()
    """Config paths that are true when they are not set."""
    user_invocable_hides: bool = False
    """`user-invocable: false` hides a skill from the model too."""
    arguments: ArgumentRules | None = None
    shell: ShellRules | None = None
    variables: tuple[str, ...] = ()
    rooted: tuple[str, ...] = ()
    """Folders of a skill; a path that begins with one gets the skill's folder in front."""
    unused: Literal["", "ARGUMENTS: ", "User request: "] = ""
    """How arguments that the body has no place for are put after it."""
    unused_when: Literal["always", "no-whole", "no-argument"] = "no-argument"
    """When that is: always, when the body has no `$ARGUMENTS`, or when it has no placeholder for one at all."""
    unsupported: tuple[UnsupportedField, ...] = ()
    """Fields of the product that are kept and have no effect: each is reported where a skill has it."""


# --- Serving: where skills are found, and how they are listed and called ---


class LibraryLimits(NamedTuple):
    """How much is looked at and listed; None is no limit."""

    candidates: int = 100_000
    skills: int = 100_000
    directories: int = 2_000
    """Folders that are not skills, searched in one root."""
    # More than a model could use of a SKILL.md; reading whole files of any size would slow a search of many.
    file_bytes: int = 256_000
    listed: int | None = None
    characters: int | None = None


class RootSpec(NamedTuple):
    """A place to look, as a template.

    `~`, `{project}`, `{ancestor}` and `{profile}` are filled in; `$NAME` is the folder that the variable holds.
    """

    label: str
    path: str
    source: RootSource
    dialect: str
    depth: int = 6
    links: LinkPolicy = "contain"
    nested: bool = False
    """A `skills/` folder inside that holds skills is the real root."""
    itself: bool = False
    """The root may itself be one skill."""
    skip: frozenset[str] = frozenset()
    tier: str = ""
    shared: bool = True
    """The standard's serving looks here too."""
    companions: bool = False
    """Codex keeps skills here: `agents/openai.yaml` in their folders counts."""


class ListingRules(NamedTuple):
    format: ListingFormat
    paths: PathStyle = "absolute"
    description_cut: int | None = None
    alphabetical: bool = False
    policy: ListingPolicy = "ranked"


MANUAL_RUN = (
    "[Running the existing scheduler skill: <name> · this is a manual trigger, not a new schedule]\n"
    "Follow the SKILL body below now, and give its result.\n"
    "**Do not** activate `scheduler-skill-creator`, **do not** run `init_scheduler_skill.py`, "
    "**do not** call add_schedule"
)


class CommandRules(NamedTuple):
    form: CommandForm = "name"
    alphabetical: bool = False
    matching: CommandMatching = "exact"
    scheduled: bool = False
    """Scheduler skills are listed at the end as `/sched-…`."""
    manual_run: str = MANUAL_RUN
    """The text before the body of a scheduler skill that a person runs."""
    manual_extra: str = "Further instructions: "
    stacks: bool = False
    """`/a /b words` calls both."""


class ProductSettings(NamedTuple):
    """The product's own settings file: what it says of skills counts below the user's configuration."""

    path: str
    """A JSON5 file; `~` is the home folder."""
    variable: str = ""
    """The variable that names another file."""
    roots_at: tuple[str, ...] = ()
    """The keys under which it lists more folders of skills."""


class ServingRules(NamedTuple):
    """What belongs to the product that runs the skills: where they are kept, how they are listed and called."""

    roots: tuple[RootSpec, ...]
    """In order of precedence: an earlier root shadows a later one."""
    listing: ListingRules
    delivery: DeliveryMode
    preface: Literal["ran", "label", "folder"] = "folder"
    """The text before the body in a user message: who ran it, its label, or the path of its folder."""
    tools: tuple[ToolName, ...] = ("skill_use", "skill_read_file", "skill_run_script")
    """The tools a model reaches skills with."""
    commands: CommandRules = CommandRules()
    limits: LibraryLimits = LibraryLimits()
    history: bool = False
    """Whether agents get the tools that look at what skills were, although their files do not name them."""
    plugins: bool = True
    improving: ImprovementMode = "review"
    """What happens to skills in its roots that fail, unless the configuration says otherwise."""
    unlisted_agent: Literal["all", "none"] = "all"
    """What an agent gets that names no skills."""
    settings: ProductSettings | None = None


# --- The whole ---


class PluginManifest(NamedTuple):
    """The file by which a product's plugins say that they bring skills."""

    file: str
    namespaced: bool = False
    """Its skills are called `plugin:skill`."""
    replaces_default: bool = False
    """The folders it lists are searched instead of `skills`, not as well."""


class Dialect(NamedTuple):
    """One product's reading of SKILL.md."""

    name: str
    title: str
    authoring: AuthoringRules
    serving: ServingRules
    precedence: int = 100
    """Its place among the products, lowest first: the order of their roots in the standard's serving."""
    manifest: PluginManifest | None = None
