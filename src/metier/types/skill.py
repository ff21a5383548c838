"""A skill: what the head of its SKILL.md says, where it came from, and what it requires.

`Found` goes into `parse`, `Skill` or `BrokenSkill` comes out.  The body is not part of a `Skill`: it is read when it is
needed, as `SkillBody`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from ..light_typing import Any, Literal, NamedTuple, TypeAlias
from .dialect import AuthoringRules, Dialect
from .problem import Finding, Problem, problem_from
from .tree import EMPTY_TREE, TextTree, TreeValue


def allowed_tools(value: str | Sequence[str]) -> tuple[str, ...] | None:
    """The tools that a value names, or None when its brackets do not balance."""
    tools: list[str] = []
    for text in [value] if isinstance(value, str) else value:
        names = _split_tools(text)
        if names is None:
            return None
        tools.extend(names)
    return tuple(tools)


def _split_tools(text: str) -> list[str] | None:
    # Commas and blanks separate tools, but not inside `Bash(git log, git diff)`.
    if "(" not in text and ")" not in text:
        return text.replace(",", " ").split()
    names: list[str] = []
    depth = 0
    start = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                return None
        elif not depth and (character == "," or character.isspace()):
            names.append(text[start:at])
            start = at + 1
    if depth:
        return None
    names.append(text[start:])
    return [name for name in names if name]


StatKey: TypeAlias = tuple[int, int, int, int]
"""Inode, modification time, change time and size: while these hold, the file is the same."""

NO_STAT_KEY: StatKey = (0, 0, 0, 0)

OriginSource: TypeAlias = Literal["path", "project", "configured", "user", "bundled", "plugin"]


class Origin(NamedTuple):
    """The root a skill came from.  A higher rank shadows a lower one."""

    source: OriginSource
    rank: int
    root: str
    """A short label, unique in a library: the part after the `@` of `name@root`."""
    path: str
    dialect: Dialect
    trusted: bool = True
    tier: str = ""
    """The product's own word for the source; roots of one tier share its limit."""
    namespace: str = ""
    """Set for plugins whose skills are called `plugin:skill`."""


class Found(NamedTuple):
    """A SKILL.md that a source found: its head, read but not yet parsed."""

    origin: Origin
    id: str
    path: str
    key: StatKey
    head: bytes
    whole: bool
    """True when the head is the entire file."""
    findings: tuple[Finding, ...] = ()
    """What was wrong with the file itself."""
    lasting: bool = True
    """False for what is reached by a link or under another name: the index does not keep it."""


class Requirements(NamedTuple):
    """What a skill asks of the machine."""

    platforms: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    any_binary: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    always: bool = False
    primary_env: str = ""
    key: str = ""
    """The name its settings are kept under, when it is not the skill's own."""


NOTHING_REQUIRED = Requirements()
PERMISSIONS = ("network", "hosts", "read", "write", "env")
"""What a skill may ask for under `metadata.metier.permissions`."""


class InstallRecipe(NamedTuple):
    """One way to install what a skill needs."""

    id: str
    kind: str
    package: str = ""
    label: str = ""
    platforms: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    options: TextTree = EMPTY_TREE

    @property
    def cask(self) -> bool:
        """Whether Homebrew has the package as a cask."""
        # `cask: true` and `cask: NAME` are both in use; with a name, it must be the package itself.
        written = self.options.text("cask").strip()
        return written.lower() in _YES or (written.lower() not in _NO and written == self.package)


_PACKAGE_KEYS = ("package", "formula", "cask", "module", "url")
# Skills of several products are read, and each has its own key for the same thing.
REQUIREMENT_KEYS = frozenset(
    {"requires", "platforms", "os", "always", "primaryEnv", "skillKey", "requiresBinaries", "requiresEnv", "install"}
)
"""Keys of `metadata` itself that ask for something."""
_YES, _NO = ("true", "yes", "on", "1"), ("", "false", "no", "off", "0")


def parse_recipes(written: TreeValue) -> tuple[InstallRecipe, ...]:
    """The ways to install what is missing; an entry that is not a map with a kind is passed over."""
    entries = []
    for number, item in enumerate(written if isinstance(written, tuple) else ()):
        kind = item.text("kind") or item.text("type") if isinstance(item, TextTree) else ""
        if not isinstance(item, TextTree) or not kind:
            continue
        entries.append(
            InstallRecipe(
                id=item.text("id") or f"{kind}-{number}",
                kind="npm" if kind == "node" else kind,
                package=_package_name(item),
                label=item.text("label"),
                platforms=item.words("platforms") or item.words("os"),
                binaries=item.words("bins"),
                options=item,
            )
        )
    return tuple(entries)


def _package_name(item: TextTree) -> str:
    """`cask: true` says what a package is; any other `cask` is its name."""
    for key in _PACKAGE_KEYS:
        text = item.text(key).strip()
        if text and not (key == "cask" and text.lower() in _YES + _NO):
            return text
    return ""


def requirements_block(extra: TextTree, authoring: AuthoringRules) -> TextTree:
    """Where in its metadata a skill keeps its requirements."""
    metadata = extra.branch("metadata")
    for key in authoring.requires_at:
        if key and isinstance(metadata.get(key), TextTree):
            return metadata.branch(key)
        if not key and not REQUIREMENT_KEYS.isdisjoint(metadata):
            return metadata
    return metadata if "" in authoring.requires_at else EMPTY_TREE


class ToolDispatch(NamedTuple):
    """A command that goes straight to a tool."""

    tool: str
    arguments: Literal["raw"] = "raw"


class Skill(NamedTuple):
    """What the head of a SKILL.md says.  The body is read when it is needed.

    A tuple, because skills are made by the ten thousand: `tuple.__new__(Skill, (...))` is the quick way.
    """

    id: str
    """The name of its folder."""
    name: str
    description: str
    path: str
    key: StatKey
    origin: Origin
    argument_hint: str = ""
    user_may_invoke: bool = True
    """It has a slash command."""
    model_may_invoke: bool = True
    """It is in the catalog."""
    enabled: bool = True
    requires: Requirements = NOTHING_REQUIRED
    extra: TextTree = EMPTY_TREE
    """All other frontmatter, so that nothing an author wrote is lost."""
    findings: tuple[Finding, ...] = ()
    """What was noticed while reading."""
    tidy: bool = False
    """Name and description are known to be one clean line each."""

    def __eq__(self, other: object) -> bool:
        """Without `tidy`, which only says what a reader already checked."""
        return isinstance(other, Skill) and self[:-1] == other[:-1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        # A path and its stat key identify a file, and are cheap to hash; the rest is compared only on a match.
        return hash((self.path, self.key))

    @property
    def directory(self) -> str:
        """Its folder: what relative paths in its body are relative to."""
        return self.path.rpartition("/")[0]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple([problem_from(finding, self.path) for finding in self.findings])

    @property
    def identity(self) -> str:
        """What shadowing compares."""
        plain = self.id if self.origin.dialect.authoring.identity == "directory" else self.name
        return f"{self.origin.namespace}:{plain}" if self.origin.namespace else plain

    @property
    def qualified(self) -> str:
        """`name@root`: what finds it also when it is shadowed."""
        return f"{self.identity}@{self.origin.root}"

    @property
    def settings_key(self) -> str:
        """The key of its settings under `skills.entries`."""
        return self.requires.key or self.id

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments, where the author declared them."""
        return tuple(name for text in self.extra.words("arguments") for name in text.replace(",", " ").split())

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools its author asks for."""
        written = self.extra.get("allowed-tools", "")
        return allowed_tools(written if isinstance(written, str) else self.extra.words("allowed-tools")) or ()

    @property
    def disallowed_tools(self) -> tuple[str, ...]:
        """The tools that must not be called while it is active."""
        written = self.extra.get("disallowed-tools", "")
        return allowed_tools(written if isinstance(written, str) else self.extra.words("disallowed-tools")) or ()

    @property
    def options(self) -> TextTree:
        """`config.options`, as its author wrote them."""
        return self.extra.branch("config", "options")

    @property
    def dispatch(self) -> ToolDispatch | None:
        """The tool its author names for its command, if there is one."""
        tool = self.extra.text("command-tool").strip()
        return ToolDispatch(tool) if tool and self.extra.text("command-dispatch") == "tool" else None

    @property
    def install(self) -> tuple[InstallRecipe, ...]:
        """The ways to install what it needs, at the top level or next to its requirements."""
        authoring = self.origin.dialect.authoring
        return parse_recipes(
            self.extra.get("install") or requirements_block(self.extra, authoring).get("install") or ()
        )


def field_getter(*names: str) -> Callable[[Skill], Any]:
    """What reads these fields of a skill: the quick way, with `map`, for the same of ten thousand."""
    return itemgetter(*map(Skill._fields.index, names))


class BrokenSkill(NamedTuple):
    """A skill that does not load; listed, with the reason, and never used."""

    id: str
    path: str
    key: StatKey
    origin: Origin
    findings: tuple[Finding, ...]
    name: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem_from(finding, self.path) for finding in self.findings)


class SkillBody(NamedTuple):
    """A skill's instructions, read when they were needed."""

    skill: Skill
    text: str
    """Everything after the frontmatter, without white space around it."""
    digest: str
    """Of the whole SKILL.md, as `sha256:…`."""
    findings: tuple[Finding, ...] = ()
