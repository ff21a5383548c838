"""metier add: fetch what was requested, inspect it, offer it for approval, and place it once approved.

Fetching and inspecting happen in a staging folder on the same file system as the root.  The person who decides sees
exactly the bytes that are placed afterwards: accepting an offer moves the staged folder and fetches nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from ..dialects import DIALECTS
from ..host import paths, trees
from ..host.facts import utc_timestamp
from ..host.trees import read_first_bytes
from ..library.lockfile import InstallRoot
from ..library.trust import run_digests
from ..parse.reader import parse
from ..registries.reference import parse_reference
from ..sources.skill_files import manifest_digest
from ..types.dialect import Dialect
from ..types.errors import BadRequest, Refused
from ..types.installed import (
    FileManifest,
    FileRecord,
    FolderEntry,
    InspectedSkill,
    LockEntry,
    Provenance,
    SkillApproval,
    SourceReference,
)
from ..types.problem import Problem, problem_from
from ..types.skill import Found, Origin, Skill
from . import transaction
from .fetch import FetchedFolder, fetch_reference, local_kind
from .fetch_access import FetchOptions
from .inspect import SkillFolderContents, inspect_skill
from .merge import MAX_TEXT_BYTES, is_text, keep_texts
from .transaction import FolderChange, StagingArea, folder_name, name_fault

_MAX_TEXT_BYTES = 33_554_432
"""Of all texts of one skill that are inspected."""
_MAX_DEPTH = 5
"""Folders below the fetched one in which skills are looked for."""
_MAX_SKILL_BYTES = 256_000
"""Of one SKILL.md."""

FolderScanner: TypeAlias = Callable[[str], tuple[Problem, ...]]
"""An external scanner: its problems for a folder; a scan that fails is an error among them."""


@dataclass(frozen=True)
class AddRequest:
    """What to add, and where to."""

    spec: str
    install_root: InstallRoot
    dialect: Dialect
    state: str
    skills: tuple[str, ...] = ()
    name: str = ""
    force: bool = False
    nearby: Sequence[tuple[str, str]] = ()
    """Names and descriptions of the skills that exist already, to find lookalikes."""
    scan: FolderScanner | None = field(default=None, repr=False)


class NamedFolder(NamedTuple):
    """A skill's name, and the folder with its files as they are now."""

    name: str
    path: str


class InstallTarget(NamedTuple):
    """One folder that would be placed."""

    folder: str
    path: str
    provenance: Provenance
    files: FileManifest
    skills: tuple[InspectedSkill, ...]
    notes: tuple[Problem, ...] = ()

    @property
    def dangers(self) -> tuple[Problem, ...]:
        found = tuple(danger for skill in self.skills for danger in skill.dangers)
        return (*(note for note in self.notes if note.severity == "error"), *found)

    @property
    def names(self) -> dict[str, NamedFolder]:
        """The skills in it, by the place that each would have in the root."""
        return {
            f"{self.folder}/{skill.place}".rstrip("/"): NamedFolder(
                skill.name, f"{self.path}/{skill.place}".rstrip("/")
            )
            for skill in self.skills
        }


class InstallOffer(NamedTuple):
    """What is ready to be placed, and waits for approval."""

    request: AddRequest
    targets: tuple[InstallTarget, ...]
    staging: StagingArea

    @property
    def dangers(self) -> tuple[Problem, ...]:
        return tuple(danger for target in self.targets for danger in target.dangers)

    @property
    def names(self) -> dict[str, NamedFolder]:
        """The skills in it, by the place that each would have in the root."""
        return {key: named for target in self.targets for key, named in target.names.items()}


def resolve_reference(spec: str, options: FetchOptions) -> SourceReference:
    """Parse a source, knowing which paths exist on this machine."""
    text = spec.strip()
    path = paths.absolute_path(text, options.cwd, options.home) if paths.can_be_path(text) else ""
    before_at = path.rpartition("@")[0]
    return parse_reference(
        text,
        local_kind(path) if text and path else "",
        local_kind(before_at) if before_at else "",
        options.insecure,
        options.registries.names if options.registries is not None else None,
    )


@contextmanager
def open_offer(request: AddRequest, options: FetchOptions) -> Iterator[InstallOffer]:
    """Fetch and inspect, and yield the offer.  What is not accepted is deleted afterwards."""
    reference = resolve_reference(request.spec, options)
    request = replace(request, spec=reference.spec)  # from here on without a password
    if request.name:
        folder_name(request.name)
    # Refuse a name that is taken before fetching, as far as the name is known by then.
    path = "" if reference.kind == "registry" else reference.path
    likely = request.name or path.rpartition("/")[2] or reference.repo
    if reference.kind != "index" and not request.skills and not name_fault(likely) and reference.kind != "archive":
        _refuse_existing(request, [likely])
    with transaction.open_staging(request.install_root) as staging:
        fetched = fetch_reference(reference, staging.inner, options)
        targets = tuple(_build_targets(request, fetched))
        _refuse_existing(request, [target.folder for target in targets])
        yield InstallOffer(request, targets, staging)


def _refuse_existing(request: AddRequest, names: Sequence[str]) -> None:
    for name in names:
        target_path = f"{request.install_root.root}/{name}"
        if paths.exists(target_path) and not request.force:
            # It may be what an interrupted add left: finish that before saying what is there.
            transaction.recover_root(request.install_root)
            raise Refused(
                f"Skill '{name}' already exists at {target_path}. Use --force to overwrite.",
                "or choose another folder with --name; the skill keeps its name, and only one skill of a name is used",
            )


def _build_targets(request: AddRequest, fetched: Sequence[FetchedFolder]) -> Iterator[InstallTarget]:
    places = {fetched_folder.path: skill_places(fetched_folder.path) for fetched_folder in fetched}
    if not any(places.values()):
        raise BadRequest(
            f"No SKILL.md found in {request.spec}. Is this a valid skill repository?",
            "pass the path of the folder that contains one",
        )
    if request.skills:
        chosen = _choose_skills(request, fetched, places)
    else:
        chosen = [
            (
                fetched_folder,
                fetched_folder.path,
                request.name or _fetched_name(fetched_folder, places[fetched_folder.path]),
                "",
            )
            for fetched_folder in fetched
        ]
    if request.name and len(chosen) != 1:
        raise BadRequest("--name needs a single folder, but there are several", "omit it, or choose one with --skill")
    for fetched_folder, path, name, inside in chosen:
        source = fetched_folder.provenance
        if inside:
            source = _source_inside(source, inside)
        yield inspect_target(
            request, fetched_folder._replace(path=path, provenance=source), folder_name(request.name or name)
        )


def _source_inside(source: Provenance, inside: str) -> Provenance:
    return replace(source, path=f"{source.path}/{inside}" if source.path else inside)


def _fetched_name(fetched: FetchedFolder, places: Sequence[str]) -> str:
    """The name it was fetched with; the skill's own if that is not a valid folder name."""
    if not name_fault(fetched.name):
        return fetched.name
    if list(places) == [""]:
        read = read_skill(fetched.path, fetched.name, DIALECTS["standard"])
        return read.name if read is not None else fetched.name
    return fetched.name


def _choose_skills(
    request: AddRequest, fetched: Sequence[FetchedFolder], places: Mapping[str, Sequence[str]]
) -> list[tuple[FetchedFolder, str, str, str]]:
    """The skills that were chosen by name, each as a folder of its own."""
    candidates: dict[str, tuple[FetchedFolder, str, str, str]] = {}
    for fetched_folder in fetched:
        for inside in places[fetched_folder.path]:
            name = inside.rpartition("/")[2] or fetched_folder.name
            path = f"{fetched_folder.path}/{inside}" if inside else fetched_folder.path
            read = read_skill(path, name, request.dialect)
            for label in (name, *((read.name,) if read is not None else ())):
                if label in candidates and candidates[label][1] != path and label in request.skills:
                    raise BadRequest(f"two skills are called `{label}`", f"pass the path of one: {inside}")
                candidates.setdefault(label, (fetched_folder, path, name, inside))
    for skill_name in request.skills:
        if skill_name not in candidates:
            near = get_close_matches(skill_name, candidates, 1)
            hint = f"did you mean `{near[0]}`?" if near else "available: " + ", ".join(sorted(candidates)[:30])
            raise BadRequest(f"{request.spec} has no skill `{skill_name}`", hint)
    return list(dict.fromkeys(candidates[skill_name] for skill_name in request.skills))


def skill_places(path: str) -> list[str]:
    """Where skills lie in a folder; `` is the folder itself.  Skills inside another skill are part of it."""
    places: list[str] = []
    pending = [""]
    while pending:
        inside = pending.pop(0)
        listed = paths.list_names(f"{path}/{inside}" if inside else path)
        if any(name.lower() == "skill.md" for name in listed.files):
            places.append(inside)
        # Below a SKILL.md nothing is searched: what lies there belongs to that skill.
        elif inside.count("/") < _MAX_DEPTH:
            names = [name for name in listed.folders if name[0] != "." and name not in ("node_modules", "__pycache__")]
            pending += [f"{inside}/{name}" if inside else name for name in names]
    return sorted(places)


def inspect_target(request: AddRequest, fetched: FetchedFolder, folder: str) -> InstallTarget:
    """Inspect a fetched folder."""
    files = trees.file_marks(fetched.path)
    places = skill_places(fetched.path)
    notes = tuple(problem_from(finding, path) for path, finding in fetched.notes)
    skills = []
    for inside in places:
        inspected = inspect_skill(
            read_folder(fetched.path, inside, inside.rpartition("/")[2] or folder, files),
            request.dialect,
            request.nearby,
        )
        # The external scanner's findings come first, and never replace ours.
        if request.scan is not None:
            scan_findings = request.scan(f"{fetched.path}/{inside}" if inside else fetched.path)
            inspected = replace(inspected, findings=(*scan_findings, *inspected.findings))
        skills.append(inspected)
    return InstallTarget(folder, fetched.path, fetched.provenance, files, tuple(skills), notes)


def read_folder(path: str, inside: str, name: str, files: FileManifest) -> SkillFolderContents:
    """A skill's folder for inspection: its texts, and the first bytes of other files."""
    skill_files = files_inside(files, inside)
    texts: dict[str, str] = {}
    heads: dict[str, bytes] = {}
    remaining = _MAX_TEXT_BYTES
    for inner, record in skill_files.items():
        if record.mode in ("link", "special"):
            continue
        data = read_first_bytes(
            f"{path}/{inside}/{inner}" if inside else f"{path}/{inner}", min(remaining, MAX_TEXT_BYTES)
        )
        remaining -= len(data)
        canonical = "SKILL.md" if inner.lower() == "skill.md" else inner
        if is_text(data) or canonical == "SKILL.md":
            texts[canonical] = data.decode("utf-8", "surrogateescape")
        else:
            heads[inner] = data[:16]
    return SkillFolderContents(inside, name, skill_files, texts, heads)


def files_inside(files: FileManifest, inside: str) -> dict[str, FileRecord]:
    """The files of an inner folder, by their paths in it."""
    if not inside:
        return dict(files)
    return {path[len(inside) + 1 :]: record for path, record in files.items() if path.startswith(inside + "/")}


def read_skill(path: str, name: str, dialect: Dialect) -> Skill | None:
    """The skill in a folder, read as if the folder had that name; None if it does not load."""
    listed = paths.list_names(path)
    skill_file = next((file_name for file_name in listed.files if file_name.lower() == "skill.md"), "SKILL.md")
    data = read_first_bytes(f"{path}/{skill_file}", _MAX_SKILL_BYTES) if skill_file in listed.files else b""
    origin = Origin("user", 1, "install", path, dialect)
    read = parse(Found(origin, name, f"{path}/{skill_file}", (0, 0, 0, len(data)), data, True), DIALECTS)
    return read if isinstance(read, Skill) else None


def change_for_target(
    request: AddRequest, target: InstallTarget, approve: bool, before: Mapping[str, LockEntry] | None = None
) -> FolderChange:
    """The change that places a folder, with its new lock entries."""
    skills: dict[str, LockEntry] = {}
    skill_paths: set[str] = set()
    for skill in target.skills:
        files = files_inside(target.files, skill.place)
        skill_paths |= {f"{skill.place}/{path}" if skill.place else path for path in files}
        key = f"{target.folder}/{skill.place}" if skill.place else target.folder
        old = (before or {}).get(key)
        path = f"{target.path}/{skill.place}" if skill.place else target.path
        read = read_skill(path, key.rpartition("/")[2], request.dialect)
        runs = tuple(sorted(run_digests(read, _MAX_SKILL_BYTES))) if read is not None else ()
        # The digest says which bytes were approved, `runs` what may still run after prose is edited.
        approval = SkillApproval(manifest_digest(files), utc_timestamp(), "user", runs) if approve else None
        codes = tuple(sorted({finding.code for finding in skill.findings}))
        previous = manifest_digest(old.files) if old is not None else ""
        frozen = old is not None and old.frozen
        skills[key] = LockEntry(
            skill.name, target.folder, target.provenance, files, {}, skill.powers, codes, approval, frozen, previous
        )
    other_files = {path: record for path, record in target.files.items() if path not in skill_paths}
    folders = (
        {target.folder: FolderEntry(target.provenance, other_files)} if other_files or len(target.skills) != 1 else {}
    )
    return FolderChange("place", target.folder, skills, folders, "add", describe_source(target.provenance))


def describe_source(source: Provenance) -> str:
    """Where a folder comes from, for its history."""
    inside = f" ({source.path})" if source.path else ""
    version = source.commit or source.version
    return f"from {source.source}{inside}" + (f" at {version}" if version else "")


def accept_offer(
    offer: InstallOffer, approve: bool = True, waiting: Callable[[], None] | None = None
) -> tuple[FolderChange, ...]:
    """Place what was offered.  Unapproved it is in place, but not used."""
    request = offer.request
    changes = []
    with transaction.hold_folders(request.install_root, [target.folder for target in offer.targets], waiting):
        # Again, under the lock: somebody may have placed a folder while the person was being asked.
        _refuse_existing(request, [target.folder for target in offer.targets])
        for target in offer.targets:
            change = change_for_target(request, target, approve)
            keep_texts(request.state, target.path, target.files)
            transaction.commit_change(offer.staging, change, target.path)
            changes.append(change)
    return tuple(changes)
