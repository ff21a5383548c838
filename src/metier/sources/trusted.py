"""The book of trusted projects, kept outside them, and what their skills can do now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from json import dumps, loads

from ..host import files, paths, state
from ..host.clock import now_ns
from ..types.errors import HostError
from ..types.skill import Skill
from ..types.tree import Tree

BOOK = "trust.json"
CONFIG = ".metier/config.toml"
_LARGEST = 16_777_216
_RUNS = (
    ".py",
    ".sh",
    ".bash",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".rb",
    ".pl",
    ".ps1",
    ".bat",
    ".cmd",
    ".php",
    ".lua",
)
_GRANTS = ("allowed-tools", "hooks", "install", "command-dispatch", "command-tool", "shell", "mcp", "agent")
_inline = re.compile(r"!`([^`]*)`")
_fenced = re.compile(r"^[ \t]*`{3,}!\s*\n(.*?)^[ \t]*`{3,}", re.DOTALL | re.MULTILINE)

Record = Mapping[str, object]


def read_book(folder: str) -> dict[str, dict[str, object]]:
    """The records of all trusted projects, by their real path.  A damaged book trusts nobody."""
    path = f"{folder}/{BOOK}"
    text = paths.read_text_file(path)
    if text is None:
        return {}
    try:
        book = loads(text)
        projects = book["projects"]
        if book["version"] != 1 or not isinstance(projects, dict):
            raise ValueError("unknown form")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HostError(
            f"{path} is damaged: {error}",
            "move it away, then run `metier trust` for each project again",
            path,
        ) from error
    return {key: value for key, value in projects.items() if isinstance(value, dict)}


def write_record(folder: str, project: str, record: Mapping[str, object] | None) -> None:
    """Keep what a project was trusted with; None takes the trust back."""
    state.make_folder(folder)
    with state.locked(f"{folder}/.{BOOK}.lock"):
        book = read_book(folder)
        real = paths.real_path(project)
        book.pop(real, None)
        if record is not None:
            book[real] = dict(record)
        state.write_text(f"{folder}/{BOOK}", dumps({"version": 1, "projects": book}, indent=1, sort_keys=True) + "\n")


def runs_of(skill: Skill, limit: int) -> frozenset[str]:
    """A digest for each command in a skill's body, each file of it that can run, and each thing it is granted."""
    return frozenset(digest for _, digest in _runs(skill, limit))


def what_runs(skill: Skill, limit: int) -> tuple[str, ...]:
    """The same in words, for the person who is asked."""
    return tuple(sorted({label for label, _ in _runs(skill, limit)}))


def _runs(skill: Skill, limit: int) -> Iterator[tuple[str, str]]:
    directory = skill.directory
    try:
        _, data = files.read_skill_file(directory, skill.path.rpartition("/")[2], limit)
        body = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, HostError) as error:
        body = f"!`unreadable: {error}`"
    for command in (*_inline.findall(body), *_fenced.findall(body)):
        yield f"`{command.strip()}`", _digest("command", command.strip())
    tree = paths.tree_of(directory)
    if len(tree) >= paths.MOST_FILES:  # what was not seen can't be vouched for, today or tomorrow
        yield "more files than can be vouched for", _digest("uncounted", str(now_ns()))
    for path, status in tree:
        if path == "SKILL.md":
            continue
        if status.st_mode & 0o170000 == 0o120000:
            yield path, _digest("link", path, paths.link_target(f"{directory}/{path}"))
        elif status.st_mode & 0o111 or path.startswith("scripts/") or path.endswith(_RUNS):
            yield path, _digest("script", path, str(bool(status.st_mode & 0o111)), _content(directory, path))
    for recipe in skill.install:
        yield f"install {recipe.kind} {recipe.package}", _digest("install", recipe.options.json())
    for key in _GRANTS:
        value = skill.extra.get(key)
        if value:
            text = value if isinstance(value, str) else repr(_plain(value))
            yield f"{key}: {text}", _digest("grant", key, text)


def _plain(value: object) -> object:
    return value.plain() if isinstance(value, Tree) else value


def _content(directory: str, path: str) -> str:
    try:
        _, data = files.read_skill_file(directory, path, _LARGEST)
    except (OSError, HostError) as error:
        return f"unreadable: {type(error).__name__}"
    return sha256(data).hexdigest()


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def config_digest(text: str | None) -> str:
    """The digest of a project's configuration; its text is not interpreted here."""
    return "" if text is None else sha256(text.encode()).hexdigest()


def record_of(project: str, skills: Iterable[Skill], limit: int) -> dict[str, object]:
    """What is trusted when a person trusts a project as it is now."""
    places = {skill.directory.removeprefix(project + "/"): sorted(runs_of(skill, limit)) for skill in skills}
    return {"skills": places, "configuration": config_digest(paths.read_text_file(f"{project}/{CONFIG}"))}
