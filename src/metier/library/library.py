"""A Library: the skills of a place as they were when it was opened.

A Library is a frozen value: it answers from what was seen, and says so (`Changed`) when the disk no longer agrees.
Whatever costs time is computed when it is first asked for and kept: facts, verdicts, catalogs, the finder.  Modules
that only some callers need are imported where they are used, because every command line pays for this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from ..host import files
from ..host.facts import gather_facts
from ..host.sqlite import IndexDatabase
from ..light_typing import TYPE_CHECKING, Any, NamedTuple, get_args
from ..resolve.resolver import AllowedSkills, ResolvePolicy, required_facts, resolve
from ..sources.roots import roots_with_lock
from ..sources.scan import skill_names
from ..types.catalog import Catalog, CommandMatch, SlashCommand, UsageHabits
from ..types.dialect import Dialect, LibraryLimits, ListingFormat, ListingPolicy
from ..types.errors import BadRequest, Changed, MetierError, UnknownSkill, Unloadable
from ..types.place import Place, SkillRoot
from ..types.problem import Finding, Problem
from ..types.settings import Settings
from ..types.skill import BrokenSkill, Skill, SkillBody, StatKey
from ..types.verdict import Facts, RequirementCheck, Verdict

if TYPE_CHECKING:
    from ..catalog.listing import PreparedCatalog
    from ..host.paths import StopSignal
    from ..record.redaction import Redactor
    from ..types.activation import Activation, InvokedBy
    from ..types.model import Tool
    from ..types.search import Audience, SearchHit
    from .access import SkillAccess
    from .open import OpenRequest
    from .sdk import Provider
    from .search import SkillFinder
    from .snapshot import Snapshot
    from .watch import Change


def _make_redactor(library: Library) -> Redactor:
    from ..record.redaction import Redactor  # most commands hide nothing
    from .grants import secret_values

    return Redactor(secret_values(library))


class Library:
    """What a place offers: skills, verdicts, the catalog, the commands.  `reload()` returns a new one."""

    place: Place
    """Where it was opened from."""
    request: OpenRequest
    dialect: Dialect
    """The dialect that these skills are served in."""
    limits: LibraryLimits
    roots: tuple[SkillRoot, ...]
    """Where skills were looked for, in order of precedence."""
    skills: Sequence[Skill]
    """Every skill that loads; a skill comes before those it shadows."""
    broken: tuple[BrokenSkill, ...]
    """Every skill that does not load, with the reasons."""
    problems: tuple[Problem, ...]
    """Problems with roots, limits, configuration and the index."""
    reopen: Callable[[Place, OpenRequest], Library]
    """Opens a place again; `open()` passes itself in, so that this module need not import it."""
    dialects: Mapping[str, Dialect]
    """Every dialect, including the user's own."""
    settings: Settings
    allowed: AllowedSkills
    bundled: frozenset[str]
    untrusted: Mapping[str, Finding]
    guards: tuple[tuple[str, StatKey | None], ...]
    database: IndexDatabase | None
    kept: Mapping[str, bytes]
    """The last good text of files that are broken now, by path; see `watch`."""

    def __init__(
        self,
        *,
        place: Place,
        request: OpenRequest,
        dialect: Dialect,
        limits: LibraryLimits,
        roots: tuple[SkillRoot, ...],
        skills: Sequence[Skill],
        broken: tuple[BrokenSkill, ...],
        problems: tuple[Problem, ...],
        reopen: Callable[[Place, OpenRequest], Library],
        dialects: Mapping[str, Dialect],
        settings: Settings,
        allowed: AllowedSkills,
        bundled: frozenset[str],
        untrusted: Mapping[str, Finding],
        guards: tuple[tuple[str, StatKey | None], ...],
        database: IndexDatabase | None,
        kept: Mapping[str, bytes] = {},
    ) -> None:
        # Not a dataclass: creating one imports `inspect`, a sixth of what `metier status` takes.
        values = locals()
        self.__dict__.update((name, values[name]) for name in _PARTS)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Library is frozen: can't set `{name}`")

    def replace(self, **changes: Any) -> Library:
        """The same library with other parts; everything derived from them is computed again."""
        return Library(**{name: self.__dict__[name] for name in _PARTS} | changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    def __hash__(self) -> int:
        return hash((self.place.cwd, self.dialect.name, tuple(skill.path for skill in self.skills)))

    def __repr__(self) -> str:
        """Without its parts: some of them hold secrets."""
        return f"<Library of {self.place.cwd}: {len(self.skills)} skills>"

    def close(self) -> None:
        """Close its index, for a program that opens many; what was read stays, only search needs it."""
        if self.database is not None:
            self.database.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every skill that loads, usable or not."""
        return skill_names(self.skills)

    @cached_property
    def facts(self) -> Facts:
        """What is true of this machine, as far as these skills need to know."""
        return gather_facts(*required_facts(self.skills), self.place.env, self.place.platform)

    hide = cached_property(_make_redactor)
    """Replaces in a text what is secret here."""

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What was decided about every skill."""
        # A name that deceives is withheld like a skill that is not trusted, and shadows nothing either.
        withheld = {**unusable_names(self.skills, self.names, self.untrusted), **self.untrusted}
        policy = ResolvePolicy(self.settings, self.allowed, self.bundled, withheld, partial(_same_content, self))
        return resolve(self.skills, self.facts, policy)

    def catalog(
        self,
        *,
        format: ListingFormat | None = None,
        max_skills: int | None = None,
        max_chars: int | None = None,
        policy: ListingPolicy | None = None,
        request: str = "",
        habits: UsageHabits | None = None,
    ) -> Catalog:
        """The listing for a system prompt, in the dialect's format and within its limits.

        `policy` decides what is left out when not everything fits (default: the dialect's).  `ranked` reserves a part
        of the limits for skills that match `request`; these belong at the end of the conversation.  `stable` reserves
        nothing.  `prefix` cuts from the end; its note about how many were left out comes on top of the limits.
        """
        options = CatalogOptions(format, max_skills, max_chars, policy, request, habits)
        if request or habits is not None:  # for one turn only: keeping these would grow without bound
            return library_catalog(self, options)
        if options not in self.kept_catalogs.whole:
            self.kept_catalogs.whole[options] = library_catalog(self, options)
        return self.kept_catalogs.whole[options]

    @cached_property
    def kept_catalogs(self) -> KeptCatalogs:
        """Listings made so far: a turn asks for the same one several times.  Not a field, so `replace()` drops it."""
        return KeptCatalogs({}, {})

    def search(self, query: str, *, limit: int = 10, audience: Audience = "model") -> tuple[SearchHit, ...]:
        """The skills that match a request, best first.  A model finds what its catalog may list, a person all."""
        return self.finder.search(query, limit, audience)

    @cached_property
    def finder(self) -> SkillFinder:
        """The search over these skills; the first use brings the index up to date."""
        from .search import open_finder

        return open_finder(self)

    def in_order(self) -> Sequence[Verdict]:
        """The verdicts, in the order of the agent's list if it has one."""
        names = self.allowed.names
        if not names:
            return self.verdicts
        order = {name: number for number, name in enumerate(names)}
        last = len(order)
        return sorted(
            self.verdicts,
            key=lambda verdict: order.get(verdict.skill.name, order.get(verdict.skill.id, last)),
        )

    def commands(self, prefix: str = "", reserved: Sequence[str] = ()) -> tuple[SlashCommand, ...]:
        """What a person may type after `/`; with `prefix`, the commands that start with it."""
        from ..catalog.commands import command_table

        # Not kept like catalogs: scheduler skills are looked up on disk each time.
        rules = self.dialect.serving.commands
        table = command_table(self.verdicts, rules, reserved, _scheduled_commands(self))
        start = prefix.removeprefix("/")
        return tuple(command for command in table if command.name.startswith(start)) if start else table

    def pick(self, typed: str, limit: int = 10) -> tuple[SlashCommand, ...]:
        """The commands that match what a person has typed so far, best first: by letters or by whole words."""
        from .search import matching_commands

        return matching_commands(self, typed, limit)

    def match(self, line: str) -> CommandMatch:
        """The command that a line of input calls, if any: `at` is its index in `commands()`."""
        return _match_line(self, line)

    def find(self, name: str) -> Verdict:
        """The skill with that name, or `name@root` for a shadowed one; a folder's name works too."""
        return _find_verdict(self, name)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Up to three names similar to a misspelled or half-remembered one."""
        from .search import nearest_names

        return nearest_names(self, name)

    def skill_access(self, *, cwd: str = "", by: InvokedBy = "model", write: Sequence[str] = ()) -> SkillAccess:
        """The skills as a model, a person or a schedule may use them; scripts may also write to `write`."""
        from .access import SkillAccess

        return SkillAccess(self, cwd or self.place.cwd, by, tuple(write))

    def activate(
        self, name: str, arguments: str | Sequence[str] = "", *, by: InvokedBy = "user", cwd: str = ""
    ) -> Activation:
        """A skill's instructions as a model gets them, with arguments, variables and commands filled in."""
        from ..types.activation import Call

        access = self.skill_access(cwd=cwd, by=by)
        call_arguments = arguments if isinstance(arguments, str) else tuple(arguments)
        return access.render(access.skill(name), Call(name, call_arguments, by, access.cwd))

    def tools(self, *, cwd: str = "", write: Sequence[str] = ()) -> tuple[Tool, ...]:
        """The tools through which a model uses these skills; none if it may use no skill."""
        from .skill_tools import tools_of

        access = self.skill_access(cwd=cwd, write=write)
        return tools_of(access, self.dialect.serving.tools) if access.offered() else ()

    def tools_for(self, provider: Provider) -> list[dict[str, Any]]:
        """The tools in the request format of `"anthropic"`, `"openai"` or `"openai-responses"`."""
        from .sdk import tools_for

        return tools_for(self, provider)

    def handle(self, call: object) -> dict[str, Any] | None:
        """Run a tool call from one of these SDKs and answer in its format; None for a tool that is not ours."""
        from .sdk import handle_call

        return handle_call(self, call)

    def checks(self, skill: Skill) -> tuple[RequirementCheck, ...]:
        """Every requirement of a skill, met or not."""
        from ..resolve.eligibility import requirement_checks

        return requirement_checks(skill, self.facts, self.settings)

    def read(self, skill: Skill | str, *, verify: bool = True) -> SkillBody:
        """A skill's instructions.  If the file is no longer the one that was judged, that is an error.

        `verify=False` is for a caller that has just compared the skill with its lock.
        """
        skill = self.find(skill).skill if isinstance(skill, str) else skill
        if verify and roots_with_lock(skill, self.place):
            from .locks import verify_installed  # only where something was installed

            verify_installed(self, skill)
        return _read_body(self, skill)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version of this content; it grows when content changes, and only then."""
        from .snapshot import snapshot_of

        return snapshot_of(self)

    def reload(self) -> Library:
        """Open the place again.  A broken file keeps the last good text that `watch` saved, and is listed as broken."""
        from .watch import reload_library

        return reload_library(self)

    def watch(self, stop: StopSignal | None = None) -> Iterator[Change]:
        """Wait for changes and yield each with the new library.  Ends when `stop` is set."""
        from .watch import watch_changes

        return watch_changes(self, stop)


_CONTROLS = dict.fromkeys((*range(32), 127))
_LONGEST_NAME = 64
"""What the standard allows."""


def unusable_names(
    skills: Sequence[Skill], names: Sequence[str], untrusted: Mapping[str, Finding]
) -> dict[str, Finding]:
    """The skills whose names are paths, empty, too long, or written to be taken for another's; by path."""
    # All names in one text: ten thousand plain ones are looked at in one go, and without a regular expression, whose
    # import would take as long as all of it.
    text = "".join(names)
    if text.isascii() and text.isprintable() and not any(_is_odd_name(name) for name in _telling_names(names, text)):
        return {}
    from ..catalog.similarity import deceptive_names

    found: dict[str, Finding] = {}
    for skill in skills:
        name = skill.name
        if _is_odd_name(name):
            long = len(name) > _LONGEST_NAME
            why = "it has more than 64 characters" if long else "it is empty, a path, or has control characters"
            found[skill.path] = Finding("name-unusable", 0, (name[:80], why))
    trusted = [skill.name for skill in skills if skill.path not in untrusted]
    like = deceptive_names(names, trusted)
    for skill in skills:
        if skill.name in like and skill.path not in found:
            found[skill.path] = Finding(
                "name-unusable", 0, (skill.name[:80], f"it looks like `{like[skill.name][:80]}`")
            )
    return found


def _telling_names(names: Sequence[str], text: str) -> Sequence[str]:
    """Those of many printable names that stand for all: every one if a path is among them, else the extremes."""
    if "/" in text or "\\" in text:
        return names
    return (*{"", ".", ".."}.intersection(names), max(names, key=len, default="none"))


def _is_odd_name(name: str) -> bool:
    """Whether it is a path, nothing, or more than the standard allows."""
    if name in ("", ".", "..") or len(name) > _LONGEST_NAME or "/" in name or "\\" in name:
        return True
    return not name.isprintable() and name.translate(_CONTROLS) != name


_PARTS = tuple(Library.__annotations__)
_COMPARED = tuple(name for name in _PARTS if name not in ("reopen", "guards", "database"))
"""What makes two libraries the same; how they were read does not."""


def _find_verdict(library: Library, name: str) -> Verdict:
    by_name = [verdict for verdict in library.verdicts if name in (verdict.skill.identity, verdict.skill.name)]
    for verdict in by_name:
        if verdict.usable:
            return verdict
    for verdict in library.verdicts:
        if name in (verdict.skill.qualified, f"{verdict.skill.name}@{verdict.skill.origin.root}"):
            return verdict
    matching = by_name or [verdict for verdict in library.verdicts if verdict.skill.id == name]
    if matching:
        return matching[0]
    # A skill that exists but does not load: say why, instead of "unknown".
    for broken in library.broken:
        if name in (broken.id, broken.name):
            raise unloadable_error(broken)
    raise UnknownSkill(name, library.nearest(name))


def unloadable_error(broken: BrokenSkill) -> Unloadable:
    last = broken.problems[-1]
    return Unloadable(f"{last.place or broken.path}: {last.message}", last.hint, broken.path)


def _match_line(library: Library, line: str) -> CommandMatch:
    from ..catalog.commands import NamedCommand, match_command

    names = [
        NamedCommand(
            command.name,
            command.skill.name if command.skill else command.name,
            command.skill.id if command.skill else command.name,
        )
        for command in library.commands()
    ]
    return match_command(line, names, library.dialect.serving.commands.matching)


def _scheduled_commands(library: Library) -> tuple[SlashCommand, ...]:
    """Scheduler skills are not skills of the library; only their commands are offered."""
    if not library.dialect.serving.commands.scheduled:
        return ()
    from .scheduled import COMMAND_PREFIX, scheduler_folders

    return tuple(
        SlashCommand(COMMAND_PREFIX + name, None, "run this scheduled skill now", scheduled=f"{folder}/SKILL.md")
        for name, folder in sorted(scheduler_folders(library.place).items())
    )


def _same_content(library: Library, first: Skill, second: Skill) -> bool:
    """Whether two skills with one name have the same files.  The cheap comparisons come first."""
    if first.key[3] != second.key[3]:  # the size of SKILL.md
        return False
    try:
        if library.read(first).digest != library.read(second).digest:
            return False
        from ..sources.skill_files import folder_digest

        return folder_digest(first.directory) == folder_digest(second.directory)  # scripts count as well
    except (MetierError, OSError):
        return False


def _read_body(library: Library, skill: Skill) -> SkillBody:
    from hashlib import sha256

    from ..parse.reader import parse_body

    data = library.kept[skill.path] if skill.path in library.kept else _read_bytes(library, skill)
    text, findings = parse_body(data, skill.origin.dialect)
    if findings and findings[-1].fatal:
        raise unloadable_error(BrokenSkill(skill.id, skill.path, skill.key, skill.origin, findings))
    return SkillBody(skill, text, "sha256:" + sha256(data).hexdigest(), findings)


def _read_bytes(library: Library, skill: Skill) -> bytes:
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


class CatalogOptions(NamedTuple):
    """The arguments of `catalog()`."""

    format: ListingFormat | None = None
    max_skills: int | None = None
    max_chars: int | None = None
    policy: ListingPolicy | None = None
    request: str = ""
    habits: UsageHabits | None = None


class KeptCatalogs(NamedTuple):
    """The catalogs of a library that were made so far."""

    whole: dict[CatalogOptions, Catalog]
    prepared: dict[CatalogOptions, Catalog | PreparedCatalog]
    """What of each kind of catalog does not depend on the request."""


def library_catalog(library: Library, options: CatalogOptions) -> Catalog:
    """Build a listing: whole if it fits, else as the policy says."""
    from ..catalog.fit import CatalogBudget, RankingHints
    from ..catalog.listing import ListingStyle, build_catalog, finish_catalog, prepare_catalog

    _check_options(options)
    listing = library.dialect.serving.listing
    limits = library.limits
    own_limit = library.request.room if limits.listed is None and limits.characters is None else limits.characters
    budget = CatalogBudget(
        limits.listed if options.max_skills is None else options.max_skills,
        own_limit if options.max_chars is None else options.max_chars,
    )
    style = ListingStyle(listing, library.place.home, options.format)
    usual = library.settings.policy or listing.policy
    # A caller without a ranked block leaves it to the settings whether a catalog is cut or folded.
    policy = usual if options.policy == "stable" and usual == "prefix" else options.policy or usual
    # Cutting from the end needs no ranking, and so neither an index nor a search.
    if policy == "prefix" or (budget.skills is None and budget.characters is None):
        return build_catalog(library.in_order(), style, budget)
    problems: list[Problem] = []

    def rank(most: int) -> Sequence[SearchHit]:
        finder = library.finder
        if finder.fault is None:
            return finder.search(options.request, most, "model")
        # Reported once: the library may have noticed the same fault of the index when it was opened.
        if finder.fault.code not in {problem.code for problem in library.problems}:
            problems.append(finder.fault)
        return ()

    habits = options.habits or library.request.habits
    hints = RankingHints(
        options.request,
        habits._replace(pinned=habits.pinned or library.settings.pinned),
        rank,
        library.dialect.serving.delivery == "model-reads",
        policy == "stable",
    )
    # All but the ranked block is the same for every request, and slow to make for tens of thousands of skills.
    lasting = options._replace(request="", policy=policy)
    prepared = library.kept_catalogs.prepared.get(lasting) if options.habits is None else None
    if prepared is None:
        prepared = prepare_catalog(library.in_order(), style, budget, hints)
        if options.habits is None:
            library.kept_catalogs.prepared[lasting] = prepared
    if isinstance(prepared, Catalog):
        return prepared
    catalog = finish_catalog(prepared, hints)
    if not problems:
        return catalog
    # Nothing could be ranked, and a stable block alone must be worth its limit.
    unranked = build_catalog(library.in_order(), style, budget, hints._replace(alone=True))
    return unranked._replace(problems=tuple(problems))


def _check_options(options: CatalogOptions) -> None:
    if options.format is not None and options.format not in get_args(ListingFormat):
        raise BadRequest(f"`{options.format}` is not a format", "one of: " + ", ".join(get_args(ListingFormat)))
    if options.policy is not None and options.policy not in get_args(ListingPolicy):
        raise BadRequest(f"`{options.policy}` is not a policy", "one of: " + ", ".join(get_args(ListingPolicy)))
    if min(options.max_skills or 0, options.max_chars or 0) < 0:
        raise BadRequest("max_skills and max_chars must be 0 or more", "pass None for no limit")
