"""What a file's head says, where it came from, and what it asks of the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from .dialect import Authoring, Dialect
from .problem import Mark, Problem, problem, unpack
from .tools import allowed_tools
from .tree import EMPTY, Raw, Tree, Value

StatKey: TypeAlias = tuple[int, int, int, int]
"""Inode, modification time, change time and size: while these hold, the file is the same."""

NO_KEY: StatKey = (0, 0, 0, 0)

Source: TypeAlias = Literal["path", "project", "configured", "user", "bundled", "plugin"]


@dataclass(frozen=True)
class Origin:
    """The root a skill came from.  A higher rank shadows a lower one."""

    source: Source
    rank: int
    root: str
    """A short label, unique in a library: what stands behind the `@` of `name@root`."""
    path: str
    dialect: Dialect
    trusted: bool = True
    tier: str = ""
    """The product's own word for the source; roots of one tier share its limit."""
    namespace: str = ""
    """Set for plugins whose skills are called `plugin:skill`."""


class Found(NamedTuple):
    """A SKILL.md that a source hands on: its head, read but not yet understood."""

    origin: Origin
    id: str
    path: str
    key: StatKey
    head: bytes
    whole: bool
    """True when the head is the entire file."""
    marks: tuple[Mark, ...] = ()
    """What was wrong with the file itself."""
    lasting: bool = True
    """False for what is reached by a link or under another name: that is looked at anew each time."""


@dataclass(frozen=True)
class Requirements:
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


@dataclass(frozen=True)
class Recipe:
    """One way to install what a skill needs."""

    id: str
    kind: str
    package: str = ""
    label: str = ""
    platforms: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    options: Tree = EMPTY

    @property
    def cask(self) -> bool:
        """Whether Homebrew has the package as a cask."""
        written = self.options.text("cask").strip()
        return written.lower() in _YES or (written.lower() not in _NO and written == self.package)


_PACKAGE_KEYS = ("package", "formula", "cask", "module", "url")
ASKING = frozenset(
    {"requires", "platforms", "os", "always", "primaryEnv", "skillKey", "requiresBinaries", "requiresEnv", "install"}
)
"""Keys of `metadata` itself that ask for something."""
_YES, _NO = ("true", "yes", "on", "1"), ("", "false", "no", "off", "0")


def recipes(written: Value) -> tuple[Recipe, ...]:
    """The ways to install what is missing; an entry that is not a map with a kind is passed over."""
    found = []
    for number, item in enumerate(written if isinstance(written, tuple) else ()):
        kind = item.text("kind") or item.text("type") if isinstance(item, Tree) else ""
        if not isinstance(item, Tree) or not kind:
            continue
        found.append(
            Recipe(
                id=item.text("id") or f"{kind}-{number}",
                kind="npm" if kind == "node" else kind,
                package=_package(item),
                label=item.text("label"),
                platforms=item.words("platforms") or item.words("os"),
                binaries=item.words("bins"),
                options=item,
            )
        )
    return tuple(found)


def _package(item: Tree) -> str:
    """`cask: true` says what a package is; any other `cask` is its name."""
    for key in _PACKAGE_KEYS:
        text = item.text(key).strip()
        if text and not (key == "cask" and text.lower() in _YES + _NO):
            return text
    return ""


def needs_block(extra: Tree, authoring: Authoring) -> Tree:
    """Where in its metadata a skill keeps its requirements."""
    metadata = extra.branch("metadata")
    for key in authoring.requires_at:
        if key and isinstance(metadata.get(key), Tree):
            return metadata.branch(key)
        if not key and not ASKING.isdisjoint(metadata):
            return metadata
    return metadata if "" in authoring.requires_at else EMPTY


@dataclass(frozen=True)
class Dispatch:
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
    rest: Tree | dict[str, Raw] | str = EMPTY
    """All other frontmatter; `extra` is the way to read it."""
    noted: str | tuple[Mark, ...] = ()
    """What was noticed while reading, packed if it comes from the index; `marks` spells it out."""
    tidy: bool = False
    """Name and description are known to be one clean line each."""

    def __eq__(self, other: object) -> bool:
        """By what they say: whether frontmatter was read, waits or comes from the index makes no difference."""
        return isinstance(other, Skill) and self._said() == other._said()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.path, self.key))

    def _said(self) -> tuple[object, ...]:
        return (*self[:11], self.extra.plain(), self.marks)

    @property
    def extra(self) -> Tree:
        """All other frontmatter, so that nothing an author wrote is lost."""
        return self.rest if isinstance(self.rest, Tree) else Tree(self.rest)

    @property
    def directory(self) -> str:
        """Its folder: what relative paths in its body are relative to."""
        return self.path.rpartition("/")[0]

    @property
    def marks(self) -> tuple[Mark, ...]:
        return unpack(self.noted) if isinstance(self.noted, str) else self.noted

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple([problem(mark, self.path) for mark in self.marks]) if self.noted else ()

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
        return tuple(name for word in self.extra.words("arguments") for name in word.replace(",", " ").split())

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The tools its author asks for."""
        written = self.extra.get("allowed-tools", "")
        return allowed_tools(written if isinstance(written, str) else self.extra.words("allowed-tools")) or ()

    @property
    def options(self) -> Tree:
        """`config.options`, as its author wrote them."""
        return self.extra.branch("config", "options")

    @property
    def dispatch(self) -> Dispatch | None:
        """The tool its author names for its command, if there is one."""
        tool = self.extra.text("command-tool").strip()
        return Dispatch(tool) if tool and self.extra.text("command-dispatch") == "tool" else None

    @property
    def install(self) -> tuple[Recipe, ...]:
        """The ways to install what it needs, at the top level or beside its requirements."""
        authoring = self.origin.dialect.authoring
        return recipes(self.extra.get("install") or needs_block(self.extra, authoring).get("install") or ())


def reading(*names: str) -> Callable[[Skill], Any]:
    """What reads these fields of a skill: the quick way, with `map`, for the same of ten thousand."""
    return itemgetter(*map(Skill._fields.index, names))


@dataclass(frozen=True)
class Broken:
    """A skill that does not load; listed, with the reason, and never used."""

    id: str
    path: str
    key: StatKey
    origin: Origin
    marks: tuple[Mark, ...]
    name: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem(mark, self.path) for mark in self.marks)


@dataclass(frozen=True)
class Body:
    """A skill's instructions, read when they were needed."""

    skill: Skill
    text: str
    """Everything after the frontmatter, without white space around it."""
    digest: str
    """Of the whole SKILL.md, as `sha256:…`."""
    marks: tuple[Mark, ...] = field(default=())
