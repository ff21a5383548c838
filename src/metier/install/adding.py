"""metier add: a wish is fetched, inspected, offered to whoever decides, and placed when they say yes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from ..dialects import ALL
from ..host import paths, swap
from ..host.clock import today
from ..host.writing import head_of
from ..parse import parse
from ..sources.trusted import runs_of
from ..types.dialect import Dialect
from ..types.errors import BadRequest, Refused
from ..types.installed import Approval, Entry, FileMark, Files, Inspected, Provenance, Reference, Rest
from ..types.problem import Problem, problem
from ..types.skill import Found, Origin, Skill
from . import place
from .fetch import fetch, local_kind
from .inspect import Folder, inspect
from .lockfile import tree_digest
from .names import folder_name, name_fault
from .outfit import Fetched, Outfit
from .place import Change, Ground, Staging
from .reference import reference
from .store import MOST, is_text, keep

_MOST_TEXT = 33_554_432
_DEEPEST = 5
_LIMIT = 256_000

Scan: TypeAlias = Callable[[str], tuple[Problem, ...]]
"""Another scanner's word on a folder; what it can't finish is an error of its own."""


@dataclass(frozen=True)
class Wish:
    """What somebody asked to add, and where to."""

    spec: str
    ground: Ground
    dialect: Dialect
    state: str
    skills: tuple[str, ...] = ()
    name: str = ""
    force: bool = False
    nearby: Sequence[tuple[str, str]] = ()
    """Names and descriptions of the skills that are there already."""
    scan: Scan | None = field(default=None, repr=False)


class Target(NamedTuple):
    """One folder that would be placed."""

    folder: str
    path: str
    provenance: Provenance
    files: Files
    skills: tuple[Inspected, ...]
    notes: tuple[Problem, ...] = ()

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(danger for skill in self.skills for danger in skill.dangers)


class Offer(NamedTuple):
    """What is ready to be placed, and waits for a yes."""

    wish: Wish
    targets: tuple[Target, ...]
    staging: Staging

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(danger for target in self.targets for danger in target.dangers)


def referred(spec: str, outfit: Outfit) -> Reference:
    """What a source means here: whether it is a path is a fact of this machine."""
    text = spec.strip()
    at = paths.absolute(text, outfit.cwd, outfit.home) if paths.can_be_path(text) else ""
    before = at.rpartition("@")[0]
    return reference(text, local_kind(at) if text and at else "", local_kind(before) if before else "", outfit.insecure)


@contextmanager
def offered(wish: Wish, outfit: Outfit) -> Iterator[Offer]:
    """Everything up to the question.  What is not accepted is gone afterwards."""
    wanted = referred(wish.spec, outfit)
    wish = replace(wish, spec=wanted.spec)  # without a password
    if wish.name:
        folder_name(wish.name)
    likely = wish.name or wanted.path.rpartition("/")[2] or wanted.repo
    if wanted.kind != "index" and not wish.skills and not name_fault(likely) and wanted.kind != "archive":
        _refuse_existing(wish, [likely])
    with place.staging(wish.ground) as staging:
        fetched = fetch(wanted, staging.inner, outfit)
        targets = tuple(_targets(wish, fetched))
        _refuse_existing(wish, [target.folder for target in targets])
        yield Offer(wish, targets, staging)


def _refuse_existing(wish: Wish, names: Sequence[str]) -> None:
    for name in names:
        there = f"{wish.ground.root}/{name}"
        if paths.exists(there) and not wish.force:
            place.recover(wish.ground)  # perhaps an add that did not come to its end: then it does now
            raise Refused(
                f"Skill '{name}' already exists at {there}. Use --force to overwrite.",
                "or name another folder with --name; the skill keeps its own name, and one of each name is used",
            )


def _targets(wish: Wish, fetched: Sequence[Fetched]) -> Iterator[Target]:
    places = {one.path: skill_places(one.path) for one in fetched}
    if not any(places.values()):
        raise BadRequest(
            f"No SKILL.md found in {wish.spec}. Is this a valid skill repository?",
            "give a path to the folder that holds one",
        )
    if wish.skills:
        chosen = _chosen(wish, fetched, places)
    else:
        chosen = [(one, one.path, wish.name or _name_of(one, places[one.path]), "") for one in fetched]
    if wish.name and len(chosen) != 1:
        raise BadRequest("--name is for one folder, and here are several", "leave it out, or choose one with --skill")
    for one, path, name, inside in chosen:
        source = one.provenance
        if inside:
            source = _deeper(source, inside)
        yield target_of(wish, one._replace(path=path, provenance=source), folder_name(wish.name or name))


def _deeper(source: Provenance, inside: str) -> Provenance:
    return replace(source, path=f"{source.path}/{inside}" if source.path else inside)


def _name_of(one: Fetched, places: Sequence[str]) -> str:
    """The name it came with; the skill's own where that can't be a folder's."""
    if not name_fault(one.name):
        return one.name
    if list(places) == [""]:
        read = read_skill(one.path, one.name, ALL["standard"])
        return read.name if read is not None else one.name
    return one.name


def _chosen(
    wish: Wish, fetched: Sequence[Fetched], places: Mapping[str, Sequence[str]]
) -> list[tuple[Fetched, str, str, str]]:
    """The skills that were picked by name, each as a folder of its own."""
    known: dict[str, tuple[Fetched, str, str, str]] = {}
    for one in fetched:
        for inside in places[one.path]:
            name = inside.rpartition("/")[2] or one.name
            path = f"{one.path}/{inside}" if inside else one.path
            read = read_skill(path, name, wish.dialect)
            for called in (name, *((read.name,) if read is not None else ())):
                if called in known and known[called][1] != path and called in wish.skills:
                    raise BadRequest(f"two skills are called `{called}`", f"give the path of one: {inside}")
                known.setdefault(called, (one, path, name, inside))
    for wanted in wish.skills:
        if wanted not in known:
            near = get_close_matches(wanted, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else "there are: " + ", ".join(sorted(known)[:30])
            raise BadRequest(f"{wish.spec} has no skill `{wanted}`", hint)
    return list(dict.fromkeys(known[wanted] for wanted in wish.skills))


def skill_places(path: str) -> list[str]:
    """Where skills lie in a folder: those not inside another, `` for the folder itself."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop(0)
        listed = paths.list_names(f"{path}/{inside}" if inside else path)
        if any(name.lower() == "skill.md" for name in listed.files):
            found.append(inside)
        elif inside.count("/") < _DEEPEST:
            names = [name for name in listed.folders if name[0] != "." and name not in ("node_modules", "__pycache__")]
            waiting += [f"{inside}/{name}" if inside else name for name in names]
    return sorted(found)


def target_of(wish: Wish, one: Fetched, folder: str) -> Target:
    """A fetched folder looked at, file by file."""
    files = swap.marks(one.path)
    places = skill_places(one.path)
    notes = tuple(problem(mark, path) for path, mark in one.notes)
    skills = []
    for inside in places:
        found = inspect(
            folder_at(one.path, inside, inside.rpartition("/")[2] or folder, files), wish.dialect, wish.nearby
        )
        if wish.scan is not None:
            said = wish.scan(f"{one.path}/{inside}" if inside else one.path)
            found = replace(found, findings=(*said, *found.findings))
        skills.append(found)
    return Target(folder, one.path, one.provenance, files, tuple(skills), notes)


def folder_at(path: str, inside: str, name: str, files: Files) -> Folder:
    """A skill's folder with its texts, as inspection wants it."""
    mine = within(files, inside)
    texts: dict[str, str] = {}
    heads: dict[str, bytes] = {}
    left = _MOST_TEXT
    for inner, mark in mine.items():
        if mark.mode in ("link", "special"):
            continue
        data = head_of(f"{path}/{inside}/{inner}" if inside else f"{path}/{inner}", min(left, MOST))
        left -= len(data)
        spelled = "SKILL.md" if inner.lower() == "skill.md" else inner
        if is_text(data) or spelled == "SKILL.md":
            texts[spelled] = data.decode("utf-8", "surrogateescape")
        else:
            heads[inner] = data[:16]
    return Folder(inside, name, mine, texts, heads)


def within(files: Files, inside: str) -> dict[str, FileMark]:
    """The files of a folder inside, by their paths in it."""
    if not inside:
        return dict(files)
    return {path[len(inside) + 1 :]: mark for path, mark in files.items() if path.startswith(inside + "/")}


def read_skill(path: str, name: str, dialect: Dialect) -> Skill | None:
    """The skill of a folder, as it would be read with that name; None when it does not load."""
    listed = paths.list_names(path)
    spelled = next((one for one in listed.files if one.lower() == "skill.md"), "SKILL.md")
    data = head_of(f"{path}/{spelled}", _LIMIT) if spelled in listed.files else b""
    origin = Origin("user", 1, "install", path, dialect)
    read = parse(Found(origin, name, f"{path}/{spelled}", (0, 0, 0, len(data)), data, True), ALL)
    return read if isinstance(read, Skill) else None


def entries_of(wish: Wish, target: Target, approve: bool, before: Mapping[str, Entry] | None = None) -> Change:
    """What the lock will say of a folder once it is placed."""
    skills: dict[str, Entry] = {}
    mine: set[str] = set()
    for one in target.skills:
        files = within(target.files, one.place)
        mine |= {f"{one.place}/{path}" if one.place else path for path in files}
        key = f"{target.folder}/{one.place}" if one.place else target.folder
        old = (before or {}).get(key)
        path = f"{target.path}/{one.place}" if one.place else target.path
        read = read_skill(path, key.rpartition("/")[2], wish.dialect)
        runs = tuple(sorted(runs_of(read, _LIMIT))) if read is not None else ()
        approval = Approval(tree_digest(files), today(), "user", runs) if approve else None
        codes = tuple(sorted({finding.code for finding in one.findings}))
        previous = tree_digest(old.files) if old is not None else ""
        frozen = old is not None and old.frozen
        skills[key] = Entry(
            one.name, target.folder, target.provenance, files, {}, one.powers, codes, approval, frozen, previous
        )
    rest = {path: mark for path, mark in target.files.items() if path not in mine}
    folders = {target.folder: Rest(target.provenance, rest)} if rest or len(target.skills) != 1 else {}
    return Change("place", target.folder, skills, folders, "add", came_from(target.provenance))


def came_from(source: Provenance) -> str:
    """Where a folder is from, for whoever reads its history."""
    inside = f" ({source.path})" if source.path else ""
    return f"from {source.source}{inside}" + (f" at {source.commit}" if source.commit else "")


def accept(offer: Offer, approve: bool = True, waiting: Callable[[], None] | None = None) -> tuple[Change, ...]:
    """Place what was offered; unapproved it lies there and is not used."""
    wish = offer.wish
    done = []
    with place.turn(wish.ground, [target.folder for target in offer.targets], waiting):
        _refuse_existing(wish, [target.folder for target in offer.targets])
        for target in offer.targets:
            change = entries_of(wish, target, approve)
            keep(wish.state, target.path, target.files)
            place.commit(offer.staging, change, target.path)
            done.append(change)
    return tuple(done)
