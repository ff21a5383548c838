"""metier lint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import click

from ...host import files, paths, state
from ...parse import parse
from ...parse.lint import lint as read_closely
from ...parse.mend import mend
from ...parse.text import Refusal, text_of
from ...runtime import Library
from ...sources.roots import Wanted, guessed
from ...types.dialect import Dialect
from ...types.errors import BadRequest, OutsideSkill
from ...types.problem import Mark, Problem, problem
from ...types.skill import Found, Origin
from .app import Context
from .printing import clean, paint, problem_dict, problem_lines, say, say_json
from .validate import LIMIT, file_fault, skill_file


class Closely(NamedTuple):
    """One skill, read closely."""

    path: str
    problems: tuple[Problem, ...]
    mended: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return all(one.severity == "info" for one in self.problems)


@click.command("lint")
@click.argument("where", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--fix", is_flag=True, help="Mend what has one clear cure; the rest of each file stays as it is.")
@click.option("--dialect", metavar="NAME", help="Read as this dialect; otherwise the folder's place decides.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def lint(context: click.Context, where: tuple[str, ...], fix: bool, dialect: str | None, as_json: bool) -> None:
    """Find slips in skills: what was repaired to load them, misspelled fields, hidden text, `$1` hazards.

    PATH is a skill's folder, its SKILL.md, or a folder of skills; without PATH, every skill that `metier list`
    shows.  Exit code 1 if errors or warnings remain.
    """
    settings: Context = context.obj
    library = settings.library() if dialect is None else replace(settings, dialect=None).library()
    name = dialect or settings.dialect
    if name is not None and name not in library.dialects:
        raise BadRequest(f"`{name}` is not a dialect", "one of: " + ", ".join(library.dialects))
    if where or settings.root is not None:
        folders = [folder for path in where or (settings.root or ".",) for folder in folders_of(path)]
    else:
        folders = sorted(skill_folders(library))
    found = [closely(folder, library, library.dialects[name] if name else None, fix) for folder in folders]
    if as_json:
        say_json(
            [
                {
                    "path": one.path,
                    "problems": [problem_dict(p) for p in one.problems],
                    "mended": list(one.mended),
                }
                for one in found
            ]
        )
    else:
        for one in found:
            for line in _lines(one):
                say(line)
        say(
            f"{len(found)} read, {sum(one.clean for one in found)} clean"
            + (f", {sum(bool(one.mended) for one in found)} mended" if fix else "")
        )
    context.exit(0 if all(one.clean for one in found) else 1)


def _lines(one: Closely) -> Iterator[str]:
    for what in one.mended:
        yield f"{clean(one.path)}: {paint('mended', 'green')}: {clean(what)}"
    for problem_ in one.problems:
        yield from problem_lines(problem_)


def folders_of(path: str) -> list[str]:
    target = paths.absolute(path, paths.cwd(), paths.home())
    if paths.exists(target) and not paths.is_folder(target):
        target = target.rpartition("/")[0]
    if skill_file_in_any_letters(target) is not None:
        return [target]
    inner = paths.folders_with_skill(target)
    return [f"{target}/{name}" for name in inner] or [target]


def skill_file_in_any_letters(folder: str) -> str | None:
    found = skill_file(folder)
    if found is not None or not paths.is_folder(folder):
        return found
    listed = paths.list_names(folder)
    return next((name for name in (*listed.files, *listed.links) if name.lower() == "skill.md"), None)


def skill_folders(library: Library) -> dict[str, Dialect]:
    """The folder of every skill a library has seen, loaded or not, and how each is read."""
    found = {skill.directory: skill.origin.dialect for skill in library.skills}
    return found | {item.path.rpartition("/")[0]: item.origin.dialect for item in library.broken}


def dialect_of(folder: str, library: Library) -> Dialect:
    """How a folder is read: as the root it lies in says, or else as its place suggests."""
    known = skill_folders(library).get(folder)
    if known is not None:
        return known
    for root in library.roots:
        if paths.is_inside(folder, root.origin.path):
            return root.origin.dialect
    wanted = Wanted(library.dialect, library.dialects, library.settings)
    return library.dialects[guessed(folder.rpartition("/")[0], wanted)]


def closely(folder: str, library: Library, dialect: Dialect | None, fix: bool) -> Closely:
    if not paths.is_folder(folder):
        code = Mark("not-found" if not paths.exists(folder) else "not-a-directory", fatal=True)
        return Closely(folder, (problem(code, folder),))
    name = skill_file_in_any_letters(folder)
    if name is None:
        return Closely(folder, (problem(Mark("missing-skill-md", fatal=True), folder),))
    chosen = dialect or dialect_of(folder, library)
    mended: list[str] = []
    if fix:
        name = _mend(folder, name, mended)
    return Closely(f"{folder}/{name}", tuple(_problems(folder, name, chosen, library.dialects)), tuple(mended))


def _problems(folder: str, name: str, dialect: Dialect, dialects: Mapping[str, Dialect]) -> Iterator[Problem]:
    path = f"{folder}/{name}"
    try:
        key, data = files.read_skill_file(folder, name, LIMIT)
    except (OSError, OutsideSkill) as error:
        yield problem(file_fault(error, name), path)
        return
    origin = Origin("path", 1, "root", folder.rpartition("/")[0], dialect)
    marks = () if name == "SKILL.md" else (Mark("file-case", 0, (name,)),)
    found = parse(Found(origin, paths.real_name(folder), path, key, data, True, marks), dialects)
    yield from found.problems
    try:
        text = text_of(data, True, [])
    except Refusal:
        return
    said = {(one.code, one.line) for one in found.problems}
    for mark in read_closely(text, dialect):
        if (mark.code, mark.line) not in said:
            yield problem(mark, path)


def _mend(folder: str, name: str, mended: list[str]) -> str:
    """Mend a file in place; its permissions stay, and a reader never sees half of it."""
    try:
        _, data = files.read_skill_file(folder, name, LIMIT)
        text = data.decode()
    except (OSError, OutsideSkill, UnicodeDecodeError):
        return name
    if "\0" in text:
        return name
    fixed, what = mend(text, paths.real_name(folder))
    if what and not paths.is_link(f"{folder}/{name}"):
        state.write_text(f"{folder}/{name}", fixed, paths.mode_of(f"{folder}/{name}"))
        mended.extend(what)
    if name != "SKILL.md" and not paths.exists(f"{folder}/SKILL.md"):
        state.rename(f"{folder}/{name}", f"{folder}/SKILL.md")
        mended.append(f"renamed `{name}` to `SKILL.md`")
        return "SKILL.md"
    return name
