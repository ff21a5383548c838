"""Export skills: as `.skill` files, as a site's index, as a plugin, or rewritten for another dialect.

What a form can't express is reported as a loss, never dropped silently.  Losses of a dialect are found by reading the
exported file back in that dialect and comparing, so that no table of differences has to be kept up to date.
"""

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
from .locks import SkillVerifier

Packing: TypeAlias = Literal["skill", "well-known", "plugin"]
MAX_SKILL_BYTES = 52_428_800
"""Of all files of one skill together."""
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
    """Files to write, and what is lost: (skill, sentence) pairs."""

    files: Mapping[str, PackedFile]
    losses: tuple[tuple[str, str], ...] = ()


def export_skills(library: Library, skills: Sequence[Skill], to: str, name: str = "") -> ExportResult:
    """The files of an export; `to` is a `Packing` or the name of a dialect."""
    duplicates = {skill.name for skill in skills if sum(other.name == skill.name for other in skills) > 1}
    if duplicates:
        raise BadRequest(f"two skills are called `{min(duplicates)}`", "export them one by one, as `name@root`")
    for skill in skills:
        # The name becomes a folder of the export: it must not lead anywhere else.
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
    """A skill's files without hidden ones and evals.  Its file is named SKILL.md, however it is spelled here."""
    access = library.skill_access(by="user")
    skill_file = skill.path.rpartition("/")[2]
    files: dict[str, PackedFile] = {}
    verifier = SkillVerifier(library, skill)
    remaining = MAX_SKILL_BYTES
    for path in (skill_file, *access.resources(skill)):
        # Evals are for the author, and stay out of what others install.
        if path.startswith("evals/"):
            continue
        data = access.read_whole(skill, path, MAX_SKILL_BYTES, verifier)
        remaining -= len(data)
        if remaining < 0:
            raise Refused(
                f"`{skill.name}` has more than {MAX_SKILL_BYTES:,} bytes", "move large files elsewhere", skill.path
            )
        files["SKILL.md" if path == skill_file else path] = PackedFile(data, is_program(f"{skill.directory}/{path}"))
    return files


def _site_files(library: Library, skills: Sequence[Skill]) -> dict[str, PackedFile]:
    """A site's index and its archives; a skill that is only a SKILL.md is served as that file."""
    files: dict[str, PackedFile] = {}
    entries = []
    for skill in sorted(skills, key=lambda item: item.name):
        inside = export_files(library, skill)
        single = list(inside) == ["SKILL.md"]
        path = f"{skill.name}/SKILL.md" if single else f"{skill.name}.tar.gz"
        data = inside["SKILL.md"].data if single else build_tar(inside)
        files[f"{INDEX}/{path}"] = PackedFile(data)
        entries.append(
            {
                "name": skill.name,
                "type": "skill-md" if single else "archive",
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
            f"`{name}` is not a valid plugin name" if name else "a plugin needs a name",
            "pass --name: lowercase letters, digits, `.` and `-`",
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
    """What other readers of the open standard may reject."""
    return tuple((name, fault.message) for name, fault in _standard_faults(library, skills))


def _standard_faults(library: Library, skills: Sequence[Skill]) -> Iterator[tuple[str, Problem]]:
    for skill in skills:
        data = library.skill_access(by="user").read_whole(skill, skill.path.rpartition("/")[2], MAX_SKILL_BYTES)
        for finding in check_skill_file(data, skill.name):
            if finding.code != "bom-stripped":
                yield skill.name, problem_from(finding, skill.path)


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
        document = split_frontmatter(text, old.indented)
        body = document.body if document.block is not None else text
        new = translate_body(body, skill.arguments, old, dialect.authoring)
        # The frontmatter stays byte for byte: rewriting it would lose comments and the order of keys.
        head = text[: len(text) - len(body)] if text.endswith(body) else ""
        data = (head + new.text).encode()
        losses += [(skill.name, loss) for loss in (*_reading_losses(skill, data, dialect), *new.losses)]
        files |= prefix_paths(skill.name, {**inside, "SKILL.md": inside["SKILL.md"]._replace(data=data)})
    return ExportResult(files, tuple(losses))


def _reading_losses(skill: Skill, data: bytes, dialect: Dialect) -> list[str]:
    """How another dialect reads the same frontmatter differently."""
    # Without a namespace: a plugin's prefix is not part of what the file says.
    origin = skill.origin._replace(dialect=dialect, namespace="")
    parsed = parse(Found(origin, skill.name, skill.path, skill.key, data, True), {})
    if isinstance(parsed, BrokenSkill):
        return [f"it does not load there: {fault.message}" for fault in parsed.problems[-1:]]
    losses = [
        f"{label} is read differently there"
        for key, label in _COMPARED_FIELDS.items()
        if getattr(parsed, key) != getattr(skill, key)
    ]
    fields = dialect.authoring.fields
    unknown = [key for key in skill.extra if key in skill.origin.dialect.authoring.fields and key not in fields]
    return [*losses, *(f"the field `{key}` means nothing there" for key in unknown)]
