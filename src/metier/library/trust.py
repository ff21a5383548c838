"""The trust book: which projects a person trusts, and exactly what of their skills was trusted.

The book is kept outside the projects, so that a project can't trust itself.  A record holds a digest for each thing in
a skill that can run or is granted, instead of one digest of its folder: prose may be edited freely, and a question
about a change can name exactly what is new.  Whatever can't be read gets a new digest every time, and so is never
trusted.  Commands are found as every dialect together would find them: too many rather than too few.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from json import dumps, loads
from typing import Literal, NamedTuple

from ..host import files, fs, paths
from ..host.facts import now_ns
from ..parse.markers import commands_to_trust
from ..parse.reader import parse_body
from ..resolve.capabilities import SkillCapabilities, TrustRecord, find_untrusted
from ..sources.skill_files import folder_digest
from ..types.dialect import Dialect, LibraryLimits
from ..types.errors import HostError, MetierError
from ..types.place import Place
from ..types.problem import Finding
from ..types.settings import Settings
from ..types.skill import Skill

TRUST_FILE = "trust.json"
CONFIG_FILE = ".metier/config.toml"
AGENT_FOLDERS = ("workspace/agents", ".metier/agents", ".claude/agents", "agents")
"""Where a project keeps its agents."""
_MAX_BYTES = 67_108_864
"""Of one skill's files that are hashed; beyond that a file counts as changed each time."""
_INERT_SUFFIXES = (".md", ".txt", ".rst", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".csv", ".bak")
"""Suffixes of files that nothing runs, unless they are executable or in `scripts/`."""
_PROSE_KEYS = frozenset(
    {
        "license",
        "version",
        "author",
        "homepage",
        "compatibility",
        "tags",
        "when_to_use",
        "category",
        "source",
        "date_added",
        "risk",
        "emoji",
        "keywords",
        "repository",
    }
)
"""Frontmatter that only describes and grants nothing; every other key, known or not, counts."""

Record = Mapping[str, object]


def read_trust_book(folder: str) -> dict[str, dict[str, object]]:
    """The records of all trusted projects, by their real path.  A damaged book is an error, and trusts no project."""
    return {key: value for key, value in _read_book(folder)["projects"].items() if isinstance(value, dict)}


def _read_book(folder: str) -> dict[str, dict[str, object]]:
    """The book's two parts: `projects`, and `approved` skills that lie anywhere else."""
    path = f"{folder}/{TRUST_FILE}"
    text = paths.read_text_file(path)
    if text is None:
        return {"projects": {}, "approved": {}}
    try:
        book = loads(text)
        projects, approved = book["projects"], book.get("approved", {})
        if book["version"] != 1 or not isinstance(projects, dict) or not isinstance(approved, dict):
            raise ValueError("unknown format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HostError(
            f"{path} is damaged: {error}",
            "move it away, then run `metier trust` for each project again",
            path,
        ) from error
    return {"projects": projects, "approved": approved}


def project_record(folder: str, project: str) -> dict[str, object] | None:
    """The record of a project: its own, or, in a git worktree that has none, that of another checkout of it.

    A record holds digests of what runs, so a checkout with other content is asked about as any change is.
    """
    return _record_in(read_trust_book(folder), project)


def _record_in(projects: Mapping[str, object], project: str) -> dict[str, object] | None:
    own = projects.get(paths.real_path(project))
    if isinstance(own, dict):
        return own
    if not projects or not paths.is_file(f"{project}/.git"):
        return None
    from ..host.worktrees import other_checkouts  # few projects are worktrees

    shared = (projects.get(path) for path in other_checkouts(project))
    return next((record for record in shared if isinstance(record, dict) and record.get("whole") is True), None)


def revoke_trust(folder: str, project: str) -> None:
    """Stop trusting a project.  A worktree keeps an empty record, or it would go on with that of another checkout."""
    write_trust_record(folder, project, None)
    if project_record(folder, project) is not None:
        write_trust_record(folder, project, {"skills": {}, "configuration": "", "agents": "", "whole": False})


def write_trust_record(folder: str, project: str, record: Mapping[str, object] | None) -> None:
    """Store what of a project is trusted; None revokes the trust."""
    _update_book(folder, project, lambda _: record)


def trust_skills(folder: str, project: str, added: Mapping[str, object]) -> None:
    """Trust more skills of a project, and nothing else of it."""

    def add_skills(before: Mapping[str, object]) -> Mapping[str, object]:
        trusted, new = before.get("skills"), added.get("skills")
        skills = {**(trusted if isinstance(trusted, dict) else {}), **(new if isinstance(new, dict) else {})}
        return {"configuration": "", "whole": False, **before, "skills": skills}

    _update_book(folder, project, add_skills)


def _update_book(
    folder: str, project: str, change: Callable[[Mapping[str, object]], Mapping[str, object] | None]
) -> None:
    """Change the record of a project."""
    with _changed_book(folder) as book:
        projects, real = book["projects"], paths.real_path(project)
        before = _record_in(projects, project)
        projects.pop(real, None)
        record = change(before or {})
        if record is not None:
            projects[real] = dict(record)


@contextmanager
def _changed_book(folder: str) -> Iterator[dict[str, dict[str, object]]]:
    """The book to change, under its lock; it is written when the block ends."""
    fs.make_folder(folder)
    with fs.hold_lock(f"{folder}/.{TRUST_FILE}.lock"):
        book = _read_book(folder)
        yield book
        fs.write_text(f"{folder}/{TRUST_FILE}", dumps({"version": 1, **book}, indent=1, sort_keys=True) + "\n")


# --- Skills that lie outside projects ---


def approve_skills(
    folder: str, skills: Iterable[Skill], limit: int, check_settled: Callable[[], None] | None = None
) -> None:
    """Record that a person approved these skills as they are now; `check_settled` may still refuse that."""
    # Hashed before the book is locked: a large skill must not keep others waiting.
    approved = {paths.real_path(skill.directory): sorted(run_digests(skill, limit)) for skill in skills}
    # After the digests were taken: what is approved must be what the person saw.
    if check_settled is not None:
        check_settled()
    if approved:
        with _changed_book(folder) as book:
            book["approved"] |= approved


def is_skill_approved(folder: str, skill: Skill, limit: int) -> bool:
    """Whether a person approved everything that this skill runs and asks for, as it is now."""
    if not paths.exists(f"{folder}/{TRUST_FILE}"):
        return False
    digests = _read_book(folder)["approved"].get(paths.real_path(skill.directory))
    return isinstance(digests, list) and run_digests(skill, limit) <= frozenset(map(str, digests))


# --- Skills that packages bring ---


def approve_contents(folder: str, skills: Iterable[Skill], check_settled: Callable[[], None] | None = None) -> None:
    """Record that a person approved the content of these skills, wherever it lies; `check_settled` may refuse that."""
    # By content and not by path: every environment with the same version of a package has the same skills.
    approved: dict[str, object] = {digest: [skill.name] for skill in skills if (digest := _whole_digest(skill))}
    if check_settled is not None:
        check_settled()
    if approved:
        with _changed_book(folder) as book:
            book["approved"] |= approved


def package_findings(skills: Iterable[Skill], folder: str) -> dict[str, Finding]:
    """The skills of packages that may not be used, by path: their content was never approved, or has changed."""
    approved = _read_book(folder)["approved"] if paths.exists(f"{folder}/{TRUST_FILE}") else {}
    return {
        skill.path: Finding("package-unapproved", 0, (skill.origin.root, skill.qualified))
        for skill in skills
        if not approved or _whole_digest(skill) not in approved
    }


def _whole_digest(skill: Skill) -> str:
    """The digest of every file of a skill; empty, and so never approved, if one can't be read."""
    try:
        return folder_digest(skill.directory)
    except (OSError, MetierError):
        return ""


# --- What a skill can run ---


def run_digests(skill: Skill, limit: int, beside: bool = True) -> frozenset[str]:
    """A digest for each command in a skill's body, each file that can run, and each thing it is granted.

    With `beside`, and if anything runs, also for each other file: a script may read or run it.
    """
    return frozenset(digest for kind, _, digest in _iter_runnables(skill, limit) if beside or kind != "beside")


class RunnableItem(NamedTuple):
    """Something that a skill can run or is granted, described for the person who is asked."""

    label: str
    new: bool
    """Whether it is new or changed since it was trusted."""


_QUIET_KEYS = frozenset({"arguments", "argument-hint"})
"""Frontmatter that counts, but is not shown when a person is asked."""
RunnableKind = Literal["runs", "beside", "quiet"]


def runnable_items(skill: Skill, limit: int, before: Collection[str] = ()) -> tuple[RunnableItem, ...]:
    """What `run_digests` covers, described, and compared with the digests that were trusted before."""
    items = {
        (label, digest)
        for kind, label, digest in _iter_runnables(skill, limit)
        if kind == "runs" or (kind == "beside" and _is_new(digest, before))
    }
    return tuple(RunnableItem(label, digest not in before) for label, digest in sorted(items))


def _is_new(digest: str, before: Collection[str]) -> bool:
    """Other files are named only where they differ from what was trusted: listing all would bury what runs."""
    return bool(before) and digest not in before


def _iter_runnables(skill: Skill, limit: int) -> Iterator[tuple[RunnableKind, str, str]]:
    """Each thing as (kind, label, digest).  What can't be read has a new digest every time."""
    directory = skill.directory
    try:
        _, data = files.read_skill_file(directory, skill.path.rpartition("/")[2], limit)
    except (OSError, MetierError):
        yield "runs", "SKILL.md, which can't be read", _digest_parts("unseen", str(now_ns()))
        data = b""
    commands = find_commands(data, skill.origin.dialect)
    for command in commands:
        yield "runs", f"`{command}`", _digest_parts("command", command)
    # A command that names SKILL.md may run any line of it, so its whole text counts.
    if any("skill.md" in command.lower() for command in commands):
        yield "beside", "the file SKILL.md", _digest_parts("body", _text_of(data))
    yield from _runnable_files(directory, bool(commands))
    yield from _frontmatter_grants(skill)


def _text_of(data: bytes) -> str:
    """All of a SKILL.md, whatever ends its lines."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def find_commands(data: bytes, dialect: Dialect) -> tuple[str, ...]:
    """The commands to trust in a SKILL.md, found in the text that is rendered by the reader that rendering uses."""
    body, marks = parse_body(data, dialect)
    # A file that does not load here runs nothing; what it would run elsewhere is still worth knowing before it is kept.
    return commands_to_trust(_text_of(data) if marks and marks[-1].fatal else body)


def _runnable_files(directory: str, runs: bool) -> Iterator[tuple[RunnableKind, str, str]]:
    """Files that can run, and links; if anything runs, all other files too, because it may run those."""
    tree = paths.tree_of(directory, passing_over=frozenset())
    bytes_left = _MAX_BYTES
    if len(tree) >= paths.MOST_FILES:  # what was not listed can't be trusted
        yield "runs", "more files than can be checked", _digest_parts("unseen", str(now_ns()))
    inert = []
    for path, status in tree:
        if path == "SKILL.md":
            continue
        if status.st_mode & 0o170000 == 0o120000:
            yield "runs", path, _link_digest(directory, path)
        elif can_run(path, bool(status.st_mode & 0o111)):
            runs = True
            bytes_left -= status.st_size
            content = _content_digest(directory, path, status.st_size) if bytes_left >= 0 else ""
            yield "runs", path, _digest_parts("file", path, str(bool(status.st_mode & 0o111)), content or str(now_ns()))
        else:
            inert.append((path, status))
    for path, status in inert if runs else ():
        bytes_left -= status.st_size
        content = _content_digest(directory, path, status.st_size) if bytes_left >= 0 else ""
        yield (
            "beside",
            f"the file {path}",
            _digest_parts("beside", path, content or f"{status.st_size} {status.st_ctime_ns}"),
        )


def can_run(path: str, executable: bool) -> bool:
    """Whether a file of a skill might be run: all but text, pictures and tables outside `scripts/`."""
    return executable or path.startswith("scripts/") or not path.lower().endswith(_INERT_SUFFIXES)


def _link_digest(directory: str, path: str) -> str:
    """A link inside the skill counts by its target; one that leads out is never trusted."""
    real = paths.real_path(f"{directory}/{path}")
    inside = paths.is_inside(real, paths.real_path(directory))
    return _digest_parts("link", path, real if inside else str(now_ns()))


def _frontmatter_grants(skill: Skill) -> Iterator[tuple[RunnableKind, str, str]]:
    """What its frontmatter asks for, and what it no longer denies itself."""
    yield "quiet", f"the name {skill.name}", _digest_parts("name", skill.identity, skill.name)
    if skill.model_may_invoke:
        yield "quiet", "the model may use it", _digest_parts("model")
    if skill.user_may_invoke:
        yield "quiet", "people may call it", _digest_parts("user")
    for key, value in skill.extra.plain().items():
        if key == "metadata" and isinstance(value, dict):
            value = {inner: item for inner, item in value.items() if inner not in _PROSE_KEYS}
        if key not in _PROSE_KEYS and value:
            text = value if isinstance(value, str) else dumps(value, sort_keys=True)
            yield "quiet" if key in _QUIET_KEYS else "runs", _grant_text(key, value), _digest_parts("grant", key, text)
    # Dropping a denial grants something: its absence has a digest of its own.
    if "disallowed-tools" not in skill.extra:
        yield "quiet", "no tool is disallowed", _digest_parts("undenied")


def _grant_text(key: str, value: object) -> str:
    """A part of the frontmatter for a person to read: a line per leaf of what is nested."""
    lines = list(_leaf_lines("", value))
    if len(lines) == 1 and not lines[0][0]:
        return f"{key}: {value if isinstance(value, str) else lines[0][1]}"
    return "\n".join((f"{key}:", *(f"{where}: {text}" for where, text in lines)))


def _leaf_lines(where: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaf_lines(f"{where}.{_one_line_text(key)}" if where else _one_line_text(key), item)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value, 1):
            yield from _leaf_lines(f"{where} {number}".strip(), item)
    elif isinstance(value, list):
        yield where, ", ".join(text for item in value for _, text in _leaf_lines("", item))
    else:
        yield where, _one_line_text(value)


def _one_line_text(value: object) -> str:
    """One line, whatever the value is: a line break in it must not produce a line that looks like ours."""
    return value if isinstance(value, str) and value.isprintable() else dumps(value, ensure_ascii=False)


def _content_digest(directory: str, path: str, size: int) -> str:
    """The digest of a file's content; empty if it can't be read."""
    try:
        _, data = files.read_skill_file(directory, path, size)
    except (OSError, MetierError):
        return ""
    return sha256(data).hexdigest()


def _digest_parts(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def config_digest(text: str | None) -> str:
    """The digest of a project's configuration; the text is not parsed."""
    return "" if text is None else sha256(text.encode()).hexdigest()


def agents_digest(project: str) -> str:
    """The digest of a project's agent files; empty if it has none."""
    agent_texts = [(path, _agent_text(f"{project}/{path}")) for path in agent_paths(project)]
    return _digest_parts("agents", dumps(agent_texts)) if agent_texts else ""


def agent_paths(project: str) -> list[str]:
    """The files in which a project describes its agents."""
    folders = [folder for folder in AGENT_FOLDERS if paths.is_folder(f"{project}/{folder}")]
    return [
        f"{folder}/{name}"
        for folder in folders
        for name in paths.list_names(f"{project}/{folder}").files
        if name.endswith(".md")
    ]


def _agent_text(path: str) -> str:
    try:
        return paths.read_text_file(path) or ""
    except HostError:  # what can't be read is never trusted
        return str(now_ns())


# --- Records and verdicts ---


def make_trust_record(
    project: str, skills: Iterable[Skill], limit: int, whole: bool = False, settings: Settings | None = None
) -> dict[str, object]:
    """The record that trusts these skills as they are now; `whole` includes the project's configuration and agents.

    With `settings`, the user's own settings of these skills' names are lent to them.
    """
    digests = {
        skill.directory.removeprefix(project + "/"): sorted(run_digests(skill, limit) | _lent_digests(skill, settings))
        for skill in skills
    }
    configuration = config_digest(paths.read_text_file(f"{project}/{CONFIG_FILE}")) if whole else ""
    agents = agents_digest(project) if whole else ""
    return {"skills": digests, "configuration": configuration, "agents": agents, "whole": whole}


def settings_digest(key: str) -> str:
    """What a record holds for a skill that the user's own settings under this key were lent to."""
    return _digest_parts("settings", key)


def _lent_digests(skill: Skill, settings: Settings | None) -> frozenset[str]:
    lends = settings is not None and settings.user_entry(skill.settings_key).hands_out
    return frozenset({settings_digest(skill.settings_key)}) if lends else frozenset()


def lent_settings(skills: Iterable[Skill], place: Place, record: TrustRecord | None) -> frozenset[str]:
    """The paths of the project's skills that a person lent the user's own settings of the same name to."""
    if record is None:
        return frozenset()
    known = record.skills
    return frozenset(
        skill.path
        for skill in skills
        if skill.origin.source == "project"
        and (folder := skill.directory.removeprefix(place.project + "/")) in known
        and settings_digest(skill.settings_key) in known[folder].runs
    )


def trust_findings(
    skills: Sequence[Skill],
    place: Place,
    record: TrustRecord | None,
    limits: LibraryLimits,
    looked_at: Skill | None = None,
) -> Mapping[str, Finding]:
    """The project skills that may not be used, and why: never trusted, or changed since.

    With `looked_at`, the files of a copy count in the place of the skill's own.
    """
    project_skills = [skill for skill in skills if skill.origin.source == "project"]
    if not project_skills:
        return {}
    if record is None:  # nothing needs to be hashed
        return find_untrusted(((skill, "", SkillCapabilities()) for skill in project_skills), None, place.project)
    current = (
        (
            skill,
            skill.directory.removeprefix(place.project + "/"),
            SkillCapabilities(run_digests(looked_at or skill, limits.file_bytes)),
        )
        for skill in project_skills
    )
    return find_untrusted(current, record, place.project)


def mark_trusted_skills(
    skills: Sequence[Skill], withheld: Mapping[str, Finding], record: TrustRecord | None
) -> tuple[Skill, ...]:
    """Mark trusted skills one by one, in a project where only some skills are trusted."""
    if record is None or record.whole:
        return tuple(skills)
    return tuple(
        skill._replace(origin=skill.origin._replace(trusted=True))
        if skill.origin.source == "project" and skill.path not in withheld
        else skill
        for skill in skills
    )
