"""Skills for elsewhere: a `.skill` file, a site's index, a plugin, or the writing of another dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ..activate.translate import translate_body
from ..host.archives import PackedFile, build_tar, build_zip, is_program
from ..parse.check import check_skill_file
from ..parse.document import split_frontmatter
from ..parse.reader import parse
from ..types.dialect import Dialect
from ..types.errors import BadRequest, Refused
from ..types.problem import Problem, problem_from
from ..types.skill import BrokenSkill, Found, Skill
from .library import Library

Packing: TypeAlias = Literal["skill", "well-known", "plugin"]
LARGEST = 52_428_800
"""Bytes of one skill."""
INDEX = ".well-known/agent-skills"
INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
_COMPARED_FIELDS = {
    "name": "its name",
    "description": "its description",
    "argument_hint": "the hint for its arguments",
    "arguments": "the names of its arguments",
    "user_may_invoke": "whether people may call it",
    "model_may_invoke": "whether the model may use it",
    "allowed_tools": "the tools it asks for",
    "requires": "what it needs of the machine",
    "dispatch": "the tool that its command goes to",
    "install": "how to install what it needs",
}


class ExportResult(NamedTuple):
    """Files to write, and what is lost on the way: a sentence by skill."""

    files: Mapping[str, PackedFile]
    losses: tuple[tuple[str, str], ...] = ()


def export_skills(library: Library, skills: Sequence[Skill], to: str, name: str = "") -> ExportResult:
    """What to write for a form: one of `Packing`, or the name of a dialect."""
    twice = {skill.name for skill in skills if sum(other.name == skill.name for other in skills) > 1}
    if twice:
        raise BadRequest(f"two skills are called `{min(twice)}`", "export them one by one, as `name@root`")
    for skill in skills:
        if skill.name in ("", ".", "..") or "/" in skill.name or "\0" in skill.name:
            raise BadRequest(f"`{skill.name}` can't be the name of a folder", "rename the skill", skill.path)
    match to:
        case "skill":
            files = {
                f"{item.name}.skill": PackedFile(build_zip(prefix_paths(item.name, export_files(library, item))))
                for item in skills
            }
            return ExportResult(files, _standard_warnings(library, skills))
        case "well-known":
            return ExportResult(_site_files(library, skills), _standard_warnings(library, skills))
        case "plugin":
            return ExportResult(_plugin_files(library, skills, name), _standard_warnings(library, skills))
        case _:
            return _export_as_dialect(library, skills, library.dialects[to])


def prefix_paths(folder: str, files: Mapping[str, PackedFile]) -> dict[str, PackedFile]:
    return {f"{folder}/{path}": content for path, content in files.items()}


def export_files(library: Library, skill: Skill) -> dict[str, PackedFile]:
    """A skill's files but for hidden ones and its evals; its file is called SKILL.md whatever it is called here."""
    desk = library.desk(by="user")
    file = skill.path.rpartition("/")[2]
    files: dict[str, PackedFile] = {}
    room = LARGEST
    for path in (file, *desk.resources(skill)):
        if path.startswith("evals/"):
            continue
        data = desk.whole(skill, path, LARGEST)
        room -= len(data)
        if room < 0:
            raise Refused(f"`{skill.name}` has more than {LARGEST:,} bytes", "move large files elsewhere", skill.path)
        files["SKILL.md" if path == file else path] = PackedFile(data, is_program(f"{skill.directory}/{path}"))
    return files


def _site_files(library: Library, skills: Sequence[Skill]) -> dict[str, PackedFile]:
    """The index of a site and its archives: SKILL.md alone where there is nothing else."""
    files: dict[str, PackedFile] = {}
    entries = []
    for skill in sorted(skills, key=lambda item: item.name):
        inside = export_files(library, skill)
        alone = list(inside) == ["SKILL.md"]
        path = f"{skill.name}/SKILL.md" if alone else f"{skill.name}.tar.gz"
        data = inside["SKILL.md"].data if alone else build_tar(inside)
        files[f"{INDEX}/{path}"] = PackedFile(data)
        entries.append(
            {
                "name": skill.name,
                "type": "skill-md" if alone else "archive",
                "description": skill.description,
                "url": f"/{INDEX}/{path}",
                "digest": "sha256:" + sha256(data).hexdigest(),
            }
        )
    index = {"$schema": INDEX_SCHEMA, "skills": entries}
    return {f"{INDEX}/index.json": _json_content(index), **files}


def _plugin_files(library: Library, skills: Sequence[Skill], name: str) -> dict[str, PackedFile]:
    from ..sources.plugins import is_plugin_name

    if not is_plugin_name(name):
        raise BadRequest(
            f"`{name}` is no name for a plugin" if name else "a plugin needs a name",
            "give --name: small letters, digits, `.` and `-`",
        )
    files = {
        "plugin.json": _json_content(
            {"$schema": PLUGIN_SCHEMA, "name": name, "description": _plugin_description(skills)}
        )
    }
    for skill in skills:
        files |= prefix_paths(f"skills/{skill.name}", export_files(library, skill))
    return files


def _plugin_description(skills: Sequence[Skill]) -> str:
    return "Skills: " + ", ".join(skill.name for skill in skills)


def _json_content(value: object) -> PackedFile:
    return PackedFile((dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def _standard_warnings(library: Library, skills: Sequence[Skill]) -> tuple[tuple[str, str], ...]:
    """What readers of the open standard may stumble over."""
    return tuple((name, fault.message) for name, fault in _standard_faults(library, skills))


def _standard_faults(library: Library, skills: Sequence[Skill]) -> Iterator[tuple[str, Problem]]:
    for skill in skills:
        data = library.desk(by="user").whole(skill, skill.path.rpartition("/")[2], LARGEST)
        for mark in check_skill_file(data, skill.name):
            if mark.code != "bom-stripped":
                yield skill.name, problem_from(mark, skill.path)


def invalid_skills(library: Library, skills: Sequence[Skill]) -> dict[str, str]:
    """The skills that are not valid by the open standard, each with the first reason."""
    reasons: dict[str, str] = {}
    for name, fault in _standard_faults(library, skills):
        if fault.severity == "error":
            reasons.setdefault(name, fault.message)
    return reasons


def _export_as_dialect(library: Library, skills: Sequence[Skill], dialect: Dialect) -> ExportResult:
    files: dict[str, PackedFile] = {}
    losses: list[tuple[str, str]] = []
    for skill in skills:
        inside = export_files(library, skill)
        old = skill.origin.dialect.authoring
        text = inside["SKILL.md"].data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        body = (
            split_frontmatter(text, old.indented).body
            if split_frontmatter(text, old.indented).block is not None
            else text
        )
        new = translate_body(body, skill.arguments, old, dialect.authoring)
        head = text[: len(text) - len(body)] if text.endswith(body) else ""
        data = (head + new.text).encode()
        losses += [(skill.name, loss) for loss in (*_reading_losses(skill, data, dialect), *new.losses)]
        files |= prefix_paths(skill.name, {**inside, "SKILL.md": inside["SKILL.md"]._replace(data=data)})
    return ExportResult(files, tuple(losses))


def _reading_losses(skill: Skill, data: bytes, dialect: Dialect) -> list[str]:
    """How another dialect reads the same frontmatter otherwise."""
    origin = skill.origin._replace(dialect=dialect, namespace="")
    parsed = parse(Found(origin, skill.name, skill.path, skill.key, data, True), {})
    if isinstance(parsed, BrokenSkill):
        return [f"it does not load there: {fault.message}" for fault in parsed.problems[-1:]]
    losses = [
        f"{label} is read otherwise there"
        for key, label in _COMPARED_FIELDS.items()
        if getattr(parsed, key) != getattr(skill, key)
    ]
    fields = dialect.authoring.fields
    unknown = [key for key in skill.extra if key in skill.origin.dialect.authoring.fields and key not in fields]
    return [*losses, *(f"the field `{key}` means nothing there" for key in unknown)]
