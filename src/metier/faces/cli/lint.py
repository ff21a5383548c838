"""metier lint."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import click

from ...host import files, paths, state
from ...parse import parse
from ...parse.lint import lint as read_closely
from ...parse.mend import mend
from ...parse.text import Refusal, text_of
from ...runtime import Library
from ...runtime.inspecting import selection_marks
from ...sources.roots import Wanted, guessed
from ...types.dialect import Dialect
from ...types.errors import BadRequest, OutsideSkill
from ...types.problem import Mark, Problem, problem
from ...types.skill import Found, Origin, Skill
from .app import Context
from .printing import clean, paint, problem_dict, problem_lines, say, say_json
from .validate import LIMIT, file_fault, skill_file


class Closely(NamedTuple):
    """One skill, read closely."""

    path: str
    problems: tuple[Problem, ...]
    mended: tuple[str, ...] = ()
    left: str = ""
    """Why it was left as it is although it was to be mended."""

    @property
    def clean(self) -> bool:
        return all(one.severity == "info" for one in self.problems)


@click.command("lint")
@click.argument("where", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--fix", is_flag=True, help="Mend what has one clear cure; the rest of each file stays as it is.")
@click.option("--dialect", metavar="NAME", help="Read as this dialect; otherwise the folder's place decides.")
@click.option("--overlap", is_flag=True, help="Hold every skill against the others, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def lint(
    context: click.Context, where: tuple[str, ...], fix: bool, dialect: str | None, overlap: bool, as_json: bool
) -> None:
    """Find slips in skills: what was repaired to load them, misspelled fields, hidden text, hazards, keyword lists.

    PATH is a skill's folder, its SKILL.md, or a folder of skills; without PATH, every skill that `metier list`
    shows.  Up to twenty skills are also held against the others: which of their trigger prompts would they steal?
    Exit code 1 if errors or warnings remain.
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
    known = skill_folders(library)
    chosen = library.dialects[name] if name else None
    beside = overlap or len(folders) <= _BESIDE
    found = [closely(folder, library, chosen or known.get(folder), fix, beside) for folder in folders]
    if as_json:
        say_json(
            [
                {
                    "path": one.path,
                    "problems": [problem_dict(p) for p in one.problems],
                    "mended": list(one.mended),
                }
                | ({"left": one.left} if one.left else {})
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
    if one.left:
        yield f"{clean(one.path)}: {paint('not mended', 'yellow')}: {one.left}"
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
    for root in library.roots:
        if paths.is_inside(folder, root.origin.path):
            return root.origin.dialect
    wanted = Wanted(library.dialect, library.dialects, library.settings)
    return library.dialects[guessed(folder.rpartition("/")[0], wanted)]


_BESIDE = 20
"""So many skills are also held against the others without being asked for; that takes a moment each."""


def closely(folder: str, library: Library, dialect: Dialect | None, fix: bool, beside: bool = False) -> Closely:
    if not paths.is_folder(folder):
        code = Mark("not-found" if not paths.exists(folder) else "not-a-directory", fatal=True)
        return Closely(folder, (problem(code, folder),))
    name = skill_file_in_any_letters(folder)
    if name is None:
        return Closely(folder, (problem(Mark("missing-skill-md", fatal=True), folder),))
    chosen = dialect or dialect_of(folder, library)
    mended: list[str] = []
    left = ""
    if fix:
        name, left = _mend(folder, name, library, mended)
    found = [*_problems(folder, name, chosen, library, beside)]
    return Closely(f"{folder}/{name}", tuple(found), tuple(mended), left)


def _problems(folder: str, name: str, dialect: Dialect, library: Library, beside: bool) -> Iterator[Problem]:
    path = f"{folder}/{name}"
    try:
        key, data = files.read_skill_file(folder, name, LIMIT)
    except (OSError, OutsideSkill) as error:
        yield problem(file_fault(error, name), path)
        return
    origin = Origin("path", 1, "root", folder.rpartition("/")[0], dialect)
    marks = () if name == "SKILL.md" else (Mark("file-case", 0, (name,)),)
    found = parse(Found(origin, paths.real_name(folder), path, key, data, True, marks), library.dialects)
    yield from found.problems
    if isinstance(found, Skill):
        yield from (problem(mark, path) for mark in selection_marks(found, library if beside else None))
    try:
        text = text_of(data, True, [])
    except Refusal:
        return
    said = {(one.code, one.line) for one in found.problems}
    for mark in read_closely(text, dialect):
        if (mark.code, mark.line) not in said:
            yield problem(mark, path)


def _mend(folder: str, name: str, library: Library, mended: list[str]) -> tuple[str, str]:
    """Mend a file in place: its name afterwards, and why nothing was done to it if that is to be told.

    Permissions stay, a reader never sees half of it, and nothing is written that a link leads to: the folder is
    opened once, and read and written through that.
    """
    roots = [root.origin.path for root in library.roots]
    outer = [root for root in roots if root != folder and paths.is_inside(folder, root)]
    base = max(outer, key=len, default=folder.rpartition("/")[0]) or "/"
    try:
        with state.folder_beneath(base, folder[len(base.rstrip("/")) + 1 :]) as opened:
            return _mend_in(opened, paths.real_name(folder), name, mended), ""
    except OSError as error:
        linked = error.errno in (errno.ELOOP, errno.ENOTDIR)
        return name, "a link leads to its folder: give that folder itself" if linked else ""


def _mend_in(folder: int, directory: str, name: str, mended: list[str]) -> str:
    try:
        _, data = files.read_whole(folder, name, LIMIT, links=True)
        text = data.decode()
    except (OSError, UnicodeDecodeError):
        return name
    if "\0" in text:
        return name
    fixed, what = mend(text, directory)
    mode = state.plain_mode(folder, name)
    if what and mode is not None:
        state.replace_in(folder, name, fixed, mode)
        mended.extend(what)
    if name != "SKILL.md" and state.rename_in(folder, name, "SKILL.md"):
        mended.append(f"renamed `{name}` to `SKILL.md`")
        return "SKILL.md"
    return name
