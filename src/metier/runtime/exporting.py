"""Skills for elsewhere: a `.skill` file, a site's index, a plugin, or the writing of another dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from json import dumps
from typing import Literal, NamedTuple, TypeAlias

from ..activate.translate import translated
from ..host.pack import Content, is_program, tarred, zipped
from ..parse import parse
from ..parse.check import check
from ..parse.fences import cut
from ..types.dialect import Dialect
from ..types.errors import BadRequest, Refused
from ..types.problem import Problem, problem
from ..types.skill import Broken, Found, Skill
from .library import Library

Packing: TypeAlias = Literal["skill", "well-known", "plugin"]
LARGEST = 52_428_800
"""Bytes of one skill."""
INDEX = ".well-known/agent-skills"
INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
_COMPARED = {
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


class Exported(NamedTuple):
    """Files to write, and what is lost on the way: a sentence by skill."""

    files: Mapping[str, Content]
    losses: tuple[tuple[str, str], ...] = ()


def exported(library: Library, skills: Sequence[Skill], to: str, name: str = "") -> Exported:
    """What to write for a form: one of `Packing`, or the name of a dialect."""
    twice = {skill.name for skill in skills if sum(one.name == skill.name for one in skills) > 1}
    if twice:
        raise BadRequest(f"two skills are called `{min(twice)}`", "export them one by one, as `name@root`")
    for skill in skills:
        if skill.name in ("", ".", "..") or "/" in skill.name or "\0" in skill.name:
            raise BadRequest(f"`{skill.name}` can't be the name of a folder", "rename the skill", skill.path)
    match to:
        case "skill":
            files = {f"{one.name}.skill": Content(zipped(beneath(one.name, contents(library, one)))) for one in skills}
            return Exported(files, _unspecified(library, skills))
        case "well-known":
            return Exported(_site(library, skills), _unspecified(library, skills))
        case "plugin":
            return Exported(_plugin(library, skills, name), _unspecified(library, skills))
        case _:
            return _as_dialect(library, skills, library.dialects[to])


def beneath(folder: str, files: Mapping[str, Content]) -> dict[str, Content]:
    return {f"{folder}/{path}": content for path, content in files.items()}


def contents(library: Library, skill: Skill) -> dict[str, Content]:
    """A skill's files but for hidden ones and its evals; its file is called SKILL.md whatever it is called here."""
    desk = library.desk(by="user")
    file = skill.path.rpartition("/")[2]
    found: dict[str, Content] = {}
    left = LARGEST
    for path in (file, *desk.resources(skill)):
        if path.startswith("evals/"):
            continue
        data = desk.whole(skill, path, LARGEST)
        left -= len(data)
        if left < 0:
            raise Refused(f"`{skill.name}` has more than {LARGEST:,} bytes", "move large files elsewhere", skill.path)
        found["SKILL.md" if path == file else path] = Content(data, is_program(f"{skill.directory}/{path}"))
    return found


def _site(library: Library, skills: Sequence[Skill]) -> dict[str, Content]:
    """The index of a site and its archives: SKILL.md alone where there is nothing else."""
    files: dict[str, Content] = {}
    entries = []
    for skill in sorted(skills, key=lambda one: one.name):
        inside = contents(library, skill)
        alone = list(inside) == ["SKILL.md"]
        path = f"{skill.name}/SKILL.md" if alone else f"{skill.name}.tar.gz"
        data = inside["SKILL.md"].data if alone else tarred(inside)
        files[f"{INDEX}/{path}"] = Content(data)
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
    return {f"{INDEX}/index.json": _json(index), **files}


def _plugin(library: Library, skills: Sequence[Skill], name: str) -> dict[str, Content]:
    from ..sources.plugins import is_name

    if not is_name(name):
        raise BadRequest(f"`{name}` is no name for a plugin" if name else "a plugin needs a name",
                         "give --name: small letters, digits, `.` and `-`")  # fmt: skip
    files = {"plugin.json": _json({"$schema": PLUGIN_SCHEMA, "name": name, "description": _summary(skills)})}
    for skill in skills:
        files |= beneath(f"skills/{skill.name}", contents(library, skill))
    return files


def _summary(skills: Sequence[Skill]) -> str:
    return "Skills: " + ", ".join(skill.name for skill in skills)


def _json(value: object) -> Content:
    return Content((dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def _unspecified(library: Library, skills: Sequence[Skill]) -> tuple[tuple[str, str], ...]:
    """What readers of the open standard may stumble over."""
    return tuple((name, one.message) for name, one in _faults(library, skills))


def _faults(library: Library, skills: Sequence[Skill]) -> Iterator[tuple[str, Problem]]:
    for skill in skills:
        data = library.desk(by="user").whole(skill, skill.path.rpartition("/")[2], LARGEST)
        for mark in check(data, skill.name):
            if mark.code != "bom-stripped":
                yield skill.name, problem(mark, skill.path)


def rejected(library: Library, skills: Sequence[Skill]) -> dict[str, str]:
    """The skills that are not valid by the open standard, each with the first reason."""
    found: dict[str, str] = {}
    for name, fault in _faults(library, skills):
        if fault.severity == "error":
            found.setdefault(name, fault.message)
    return found


def _as_dialect(library: Library, skills: Sequence[Skill], dialect: Dialect) -> Exported:
    files: dict[str, Content] = {}
    losses: list[tuple[str, str]] = []
    for skill in skills:
        inside = contents(library, skill)
        old = skill.origin.dialect.authoring
        text = inside["SKILL.md"].data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        body = cut(text, old.indented).body if cut(text, old.indented).block is not None else text
        new = translated(body, skill.arguments, old, dialect.authoring)
        head = text[: len(text) - len(body)] if text.endswith(body) else ""
        data = (head + new.text).encode()
        losses += [(skill.name, loss) for loss in (*_misread(skill, data, dialect), *new.losses)]
        files |= beneath(skill.name, {**inside, "SKILL.md": inside["SKILL.md"]._replace(data=data)})
    return Exported(files, tuple(losses))


def _misread(skill: Skill, data: bytes, dialect: Dialect) -> list[str]:
    """How another dialect reads the same frontmatter otherwise."""
    origin = replace(skill.origin, dialect=dialect, namespace="")
    found = parse(Found(origin, skill.name, skill.path, skill.key, data, True), {})
    if isinstance(found, Broken):
        return [f"it does not load there: {one.message}" for one in found.problems[-1:]]
    losses = [f"{what} is read otherwise there" for key, what in _COMPARED.items()
              if getattr(found, key) != getattr(skill, key)]  # fmt: skip
    known = dialect.authoring.fields
    unknown = [key for key in skill.extra if key in skill.origin.dialect.authoring.fields and key not in known]
    return [*losses, *(f"the field `{key}` means nothing there" for key in unknown)]
