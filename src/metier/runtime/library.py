"""A Library: the skills of a place as they were when it was opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..catalog import Named, command_table, match
from ..host import files
from ..host.database import Database
from ..host.memory import making_many
from ..host.place import facts
from ..resolve import Allowed, Terms, asked, resolve
from ..resolve.eligibility import checklist
from ..sources import Shelf
from ..types.catalog import Catalog, Command, Habits, Match
from ..types.dialect import Dialect, Format, Limits, Policy
from ..types.errors import Changed, MetierError, UnknownSkill, Unloadable
from ..types.place import Place, Root
from ..types.problem import Mark, Problem
from ..types.settings import Settings
from ..types.skill import Body, Broken, Skill, StatKey
from ..types.verdict import Check, Facts, Verdict
from .locking import locks_of

if TYPE_CHECKING:
    from ..types.activation import Activation, By
    from ..types.search import Audience, Hit
    from ..types.tool import Tool
    from .calling import Provider
    from .desk import LibraryDesk
    from .finding import Finder
    from .opening import Request
    from .versions import Snapshot
    from .watching import Change, Stop


@dataclass(frozen=True)
class Library:
    """What a place offers: skills, verdicts, the catalog, the commands.  `reload()` gives a new one."""

    place: Place
    """Where it looked from."""
    request: Request
    dialect: Dialect
    """Who serves these skills."""
    limits: Limits
    roots: tuple[Root, ...]
    """Where it looked, in order of precedence."""
    skills: Sequence[Skill]
    """Every skill that loads, the ones that shadow others first."""
    broken: tuple[Broken, ...]
    """Every skill that does not load, with the reasons."""
    problems: tuple[Problem, ...]
    """What there is to say about roots, limits, configuration and the index."""
    dialects: Mapping[str, Dialect] = field(default_factory=dict, repr=False)
    """Every dialect there is, the user's own among them."""
    settings: Settings = field(default_factory=Settings)
    allowed: Allowed = field(default_factory=Allowed)
    bundled: frozenset[str] = frozenset()
    untrusted: Mapping[str, Mark] = field(default_factory=dict)
    guards: tuple[tuple[str, StatKey | None], ...] = field(default=(), compare=False, repr=False)
    leaned_on: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Files and folders beside the skills that decided something: configuration, trust, plugins."""
    database: Database | None = field(default=None, compare=False, repr=False)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """The last good text of files that are broken now, by path."""

    def __hash__(self) -> int:
        return hash((self.place.cwd, self.dialect.name, tuple(skill.path for skill in self.skills)))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every skill that loads, whatever was decided about it."""
        return self.skills.names if isinstance(self.skills, Shelf) else tuple(skill.name for skill in self.skills)

    @cached_property
    def facts(self) -> Facts:
        """What is true of this machine, as far as these skills ask."""
        return facts(*asked(self.skills), self.place.env, self.place.platform)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What was decided about every skill."""
        terms = Terms(self.settings, self.allowed, self.bundled, self.untrusted, partial(_same, self))
        with making_many():
            return resolve(self.skills, self.facts, terms)

    def catalog(
        self,
        *,
        format: Format | None = None,
        max_skills: int | None = None,
        max_chars: int | None = None,
        policy: Policy | None = None,
        request: str = "",
        habits: Habits | None = None,
    ) -> Catalog:
        """The listing for a system prompt, in the dialect's form and within its limits.

        What does not fit is left out as the policy says, the dialect's own if none is given: `ranked` keeps a part
        of the limits for skills that answer `request`, which belong at the end of the conversation; `prefix` cuts
        from the end, and the note that then says how many were left out comes on top of the limits.
        """
        from .listing import Asked, catalog_of

        return catalog_of(self, Asked(format, max_skills, max_chars, policy, request, habits))

    def search(self, query: str, *, limit: int = 10, audience: Audience = "model") -> tuple[Hit, ...]:
        """The skills that answer a request, best first.  A model finds what its catalog may list, a person all."""
        return self.finder.search(query, limit, audience)

    @cached_property
    def finder(self) -> Finder:
        """What searches these skills; the index is brought up to date when it is first asked for."""
        from .finding import finder_of

        return finder_of(self)

    def in_order(self) -> Sequence[Verdict]:
        """An agent's own order where it has a list."""
        names = self.allowed.names
        if not names:
            return self.verdicts
        order = {name: number for number, name in enumerate(names)}
        last = len(order)
        return sorted(
            self.verdicts,
            key=lambda verdict: order.get(verdict.skill.name, order.get(verdict.skill.id, last)),
        )

    def commands(self, prefix: str = "", reserved: Sequence[str] = ()) -> tuple[Command, ...]:
        """What a person may type after `/`; with a prefix, the commands that begin with it."""
        rules = self.dialect.serving.commands
        table = command_table(self.verdicts, rules, reserved, _scheduled(self))
        begin = prefix.removeprefix("/")
        return tuple(command for command in table if command.name.startswith(begin)) if begin else table

    def pick(self, typed: str, limit: int = 10) -> tuple[Command, ...]:
        """The commands a person may mean by what they have typed so far, best first: letters or whole words."""
        from .finding import pick

        return pick(self, typed, limit)

    def match(self, line: str) -> Match:
        """What a line of input calls, if it calls anything: `at` is its place in `commands()`."""
        table = self.commands()
        known = [
            Named(one.name, one.skill.name if one.skill else one.name, one.skill.id if one.skill else one.name)
            for one in table
        ]
        return match(line, known, self.dialect.serving.commands.matching)

    def find(self, name: str) -> Verdict:
        """The skill of that name, `name@root` for one that is shadowed; a folder's name will do."""
        return _found(self, name)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Up to three names that a misspelled or half-remembered one may have meant."""
        from .finding import nearest

        return nearest(self, name)

    def desk(self, *, cwd: str = "", by: By = "model", write: Sequence[str] = ()) -> LibraryDesk:
        """The skills as a model, a person or a schedule may use them; `write` are folders that scripts may write in."""
        from .desk import LibraryDesk

        return LibraryDesk(self, cwd or self.place.cwd, by, tuple(write))

    def activate(self, name: str, arguments: str | Sequence[str] = "", *, by: By = "user", cwd: str = "") -> Activation:
        """A skill's instructions as a model gets them: arguments, variables and commands filled in."""
        from ..types.activation import Call

        desk = self.desk(cwd=cwd, by=by)
        given = arguments if isinstance(arguments, str) else tuple(arguments)
        return desk.render(desk.skill(name), Call(name, given, by, desk.cwd))

    def tools(self, *, cwd: str = "", write: Sequence[str] = ()) -> tuple[Tool, ...]:
        """The tools a model reaches these skills with; none where there is no skill for it."""
        from ..act.tools import tools_of

        desk = self.desk(cwd=cwd, write=write)
        return tools_of(desk, self.dialect.serving.tools) if desk.offered() else ()

    def tools_for(self, provider: Provider) -> list[dict[str, Any]]:
        """The tools as `"anthropic"`, `"openai"` or `"openai-responses"` takes them in a request."""
        from .calling import tools_for

        return tools_for(self, provider)

    def handle(self, call: object) -> dict[str, Any] | None:
        """Do what a call from one of their SDKs asks; the answer is in its form, None for a tool not of these."""
        from .calling import handle

        return handle(self, call)

    def checks(self, skill: Skill) -> tuple[Check, ...]:
        """Every requirement of a skill, met or not."""
        return checklist(skill, self.facts, self.settings)

    def read(self, skill: Skill | str) -> Body:
        """A skill's instructions.  If the file is no longer the one that was judged, that is an error."""
        from hashlib import sha256

        from ..parse.body import body_of

        skill = self.find(skill).skill if isinstance(skill, str) else skill
        if locks_of(skill, self.place):
            from .installed import vouch  # only where something was installed

            vouch(self, skill)
        data = self.kept[skill.path] if skill.path in self.kept else _bytes(self, skill)
        text, marks = body_of(data, skill.origin.dialect)
        if marks and marks[-1].fatal:
            raise unloadable(Broken(skill.id, skill.path, skill.key, skill.origin, marks))
        return Body(skill, text, "sha256:" + sha256(data).hexdigest(), marks)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version of this content: it grows when content changes, and only then."""
        from .versions import snapshot_of

        return snapshot_of(self)

    def reload(self) -> Library:
        """Look again.  What `watch` kept alive of a file that is broken stays, and is listed as broken too."""
        from .watching import reloaded

        return reloaded(self)

    def watch(self, stop: Stop | None = None) -> Iterator[Change]:
        """Wait for changes; each one comes with the library as it is then.  Ends when `stop` is set."""
        from .watching import changes

        return changes(self, stop)


def _found(library: Library, name: str) -> Verdict:
    by_name = [v for v in library.verdicts if name in (v.skill.identity, v.skill.name)]
    for verdict in by_name:
        if verdict.usable:
            return verdict
    for verdict in library.verdicts:
        if name in (verdict.skill.qualified, f"{verdict.skill.name}@{verdict.skill.origin.root}"):
            return verdict
    found = by_name or [verdict for verdict in library.verdicts if verdict.skill.id == name]
    if found:
        return found[0]
    for broken in library.broken:
        if name in (broken.id, broken.name):
            raise unloadable(broken)
    raise UnknownSkill(name, library.nearest(name))


def unloadable(broken: Broken) -> Unloadable:
    last = broken.problems[-1]
    return Unloadable(f"{last.place or broken.path}: {last.message}", last.hint, broken.path)


def _scheduled(library: Library) -> tuple[Command, ...]:
    """Scheduler skills are no skills of the library; they are offered by name alone."""
    if not library.dialect.serving.commands.scheduled:
        return ()
    from ..schedule.skills import PREFIX, folders

    return tuple(
        Command(PREFIX + name, None, "run this scheduled skill now", scheduled=f"{folder}/SKILL.md")
        for name, folder in sorted(folders(library.place).items())
    )


def _same(library: Library, one: Skill, other: Skill) -> bool:
    """Whether two skills of one name have the same bytes."""
    if one.key[3] != other.key[3]:
        return False
    try:
        if library.read(one).digest != library.read(other).digest:
            return False
        from ..sources.bundled import digest

        return digest(one.directory) == digest(other.directory)  # scripts count as well
    except (MetierError, OSError):
        return False


def _bytes(library: Library, skill: Skill) -> bytes:
    folder, _, name = skill.path.rpartition("/")
    try:
        key, data = files.read_skill_file(folder, name, library.limits.file_bytes)
    except OSError as error:
        raise Unloadable(
            f"{skill.path} can't be read: {error.strerror or 'too large'}",
            "reload the library",
            skill.path,
        ) from error
    if key != skill.key:
        raise Changed(f"{skill.path} changed since the library was opened", "reload the library", skill.path)
    return data
