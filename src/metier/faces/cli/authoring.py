"""metier export, metier new and metier unpack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

import click

from ...host import archives, fs, paths, trees
from ...host.facts import find_place
from ...install.managed import record_written
from ...library.open import open as open_library
from ...library.trust import make_trust_record, trust_skills
from ...parse.check import check_skill_file, name_fault
from ...parse.fix import quote_scalar
from ...types.errors import BadRequest, Refused
from ...types.place import Place
from .options import CliContext, skill_names
from .output import ProgressBar, clean_path, count_of, paint, printable, say, say_json, warn

_PACKINGS = ("skill", "well-known", "plugin")


@click.command("export")
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=skill_names)
@click.option(
    "--as", "form", default="skill", show_default=True, metavar="FORMAT", help="skill, well-known, plugin, or a dialect"
)
@click.option("--out", default=".", metavar="DIR", show_default=True, help="Folder to write to")
@click.option("--all", "everything", is_flag=True, help="Export every usable skill")
@click.option("--name", default="", metavar="NAME", help="Name of the plugin")
@click.option("--force", is_flag=True, help="Overwrite existing files")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def export(
    context: CliContext,
    names: tuple[str, ...],
    form: str,
    out: str,
    everything: bool,
    name: str,
    force: bool,
    as_json: bool,
) -> None:
    """Export skills for other tools, and report what the format can't express.

    FORMAT is `skill` (one NAME.skill file each), `well-known` (an index and archives for a web site), `plugin` (an
    Agent Plugin), or a dialect: then each skill is a folder with its placeholders translated to that dialect.
    """
    from ...host.archives import write_files
    from ...library.export import export_skills, invalid_skills

    library = context.library()
    forms = [*_PACKINGS, *library.dialects]
    if form not in forms:
        near = get_close_matches(form, forms, 1)
        hint = f"did you mean `{near[0]}`?" if near else "choose one of: " + ", ".join(forms)
        raise BadRequest(f"unknown format `{form}`", hint)
    if bool(names) == everything:
        fault = "--all and skill names are mutually exclusive" if names else "nothing to export"
        raise BadRequest(fault, "pass skill names or --all")
    # --all takes what is usable here; a skill that is named is exported even if it can't run on this machine.
    chosen = (
        [verdict.skill for verdict in library.verdicts if verdict.usable]
        if everything
        else [library.find(skill_name).skill for skill_name in dict.fromkeys(names)]
    )
    # A web site is read by clients that reject invalid skills. With --all, the valid ones are still exported.
    rejections = invalid_skills(library, chosen) if form == "well-known" else {}
    if rejections and (names or len(rejections) == len(chosen)):
        bad, why = next(iter(rejections.items()))
        raise Refused(f"`{bad}` does not meet the specification: {why}", f"run `metier validate {bad}` for details")
    chosen = [skill for skill in chosen if skill.name not in rejections]
    result = export_skills(library, chosen, form, name)
    folder = paths.absolute_path(out, paths.working_folder(), paths.home_folder())
    write_files(folder, result.files, force)
    written = sorted(result.files)
    if as_json:
        losses = [{"skill": skill, "loss": loss} for skill, loss in result.losses]
        left_out = [{"skill": skill, "reason": why} for skill, why in rejections.items()]
        say_json({"form": form, "folder": folder, "files": written, "losses": losses, "left_out": left_out})
        return
    for path in written if len(written) <= 20 else (*written[:19], f"… and {len(written) - 19} more"):
        say(clean_path(f"{folder}/{path}") if path in result.files else path)
    for skill, loss in result.losses:
        say(f"{paint('lost', 'yellow')}  {printable(skill)}: {printable(loss)}")
    for skill, why in rejections.items():
        say(f"{paint('skipped', 'yellow')}  {printable(skill)}: {printable(why)}")
    say(f"Exported {count_of(len(chosen), 'skill')}" + (f" as {form}" if form != "skill" else ""))


# --- metier new ---


_BODY = """# {title}

Say in one sentence what this skill is for.

## Steps

1. Describe the first step.
2. Describe the next step, and what to do if it fails.

## Output

Describe the result, with a short example.
"""


@click.command("new")
@click.argument("name")
@click.argument("description", nargs=-1)
@click.option("--user", is_flag=True, help="Create it for all your projects (~/.metier/skills)")
@click.option("--dir", "directory", metavar="DIR", help="Create it in this folder of skills")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def new(
    context: CliContext,
    name: str,
    description: tuple[str, ...],
    user: bool,
    directory: str | None,
    as_json: bool,
) -> None:
    """Create a skill that passes `metier validate`, by default in <project>/.metier/skills."""
    fault = name_fault(name) or ("it has more than 64 characters" if len(name) > 64 else "")
    if not name:
        raise BadRequest("the skill's name is empty", "try `my-skill`")
    if fault:
        suggestion = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-")
        raise BadRequest(
            f"invalid skill name `{name}`: {fault}", f"try `{suggestion}`" if suggestion else "try `my-skill`"
        )
    if sum((user, directory is not None, context.root is not None)) > 1:
        raise BadRequest("--user, --dir and --root are mutually exclusive", "pass one of them")
    if directory == "":
        raise BadRequest("--dir must not be empty", "pass a value, or omit the option")
    place = find_place(context.directory)
    if directory or context.root:
        root = paths.absolute_path(directory or context.root or ".", place.cwd, place.home)
    else:
        root = f"{place.state}/skills" if user else f"{place.project}/.metier/skills"
    description_text = (
        " ".join(description).strip()
        or f"TODO: say what this skill does. Use when the user asks for {name.replace('-', ' ')}."
    )
    title = name.replace("-", " ").capitalize()
    text = f"---\nname: {name}\ndescription: {quote_scalar(description_text)}\n---\n\n{_BODY.format(title=title)}"
    # The name is checked and the body is ours: what can still be wrong is the description.
    problems = check_skill_file(text.encode(), name)
    if problems:
        raise BadRequest(f"invalid description: {problems[0].code}", "write at most 1024 characters on one line")
    path = f"{root}/{name}/SKILL.md"
    _write_skill(place, root, f"{name}/SKILL.md", text)
    _keep_trusted(place, path)
    record_written(place, root, [name], "add", "by `metier new`", lambda text: warn(f"note: {printable(text)}"))
    if as_json:
        say_json({"path": path})
        return
    say(f"Created {printable(path)}")
    for line in _shadow_lines(context, name, path):
        warn(line)
    if directory or context.root:
        # Such a folder may be no root: without it, neither command would find the skill.
        folder = printable(directory or context.root or "")
        say(f"Edit it, then run `metier lint {folder}/{name}` and `metier --root {folder} why {name}`.")
    else:
        say(f"Edit it, then run `metier lint` and `metier why {name}`.")


def _shadow_lines(context: CliContext, name: str, path: str) -> Iterator[str]:
    """What the new skill takes the place of, or what keeps it from being used."""
    library = context._replace(use_index=False).library()
    for verdict in library.verdicts:
        other = verdict.shadowed_by
        if other is None or name not in (verdict.skill.name, verdict.skill.id):
            continue
        if other.path == path:
            yield f"note: it shadows {clean_path(verdict.skill.path)}, which is no longer used here"
        elif verdict.skill.path == path:
            yield f"note: it is shadowed by {clean_path(other.path)}, which is used instead"


def _write_skill(place: Place, root: str, inner: str, text: str) -> None:
    """Write the file, following no links inside the project: a repository may contain any; others are the user's."""
    if paths.is_inside(root, place.state):
        fs.make_folder(root)
    elif paths.is_inside(root, place.project):
        inner = f"{root}/{inner}"[len(place.project.rstrip("/")) + 1 :]
        root = place.project
    fs.write_new_file(root, inner, text)


def _keep_trusted(place: Place, path: str) -> None:
    """Trust the skill that was just created, but no other skill of the project."""
    if not path.startswith(place.project + "/") or path.startswith(place.state + "/"):
        return
    library = open_library(place.cwd, index=False)
    created = [skill for skill in library.skills if skill.path == path]
    trust_skills(place.state, place.project, make_trust_record(place.project, created, library.limits.file_bytes))


# --- metier unpack ---


@click.command("unpack")
@click.argument("file", metavar="ARCHIVE", type=click.Path())
@click.argument("dest", type=click.Path())
@click.option(
    "--strip", metavar="N", type=click.IntRange(0, 100), default=0, help="Strip the first N folders of each path"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
def unpack(file: str, dest: str, strip: int, as_json: bool) -> None:
    """Extract an archive into a new folder: zip, .skill, tar, tar.gz, tar.bz2, tar.xz.

    An archive with links, paths outside the folder, or an excessive size is refused as a whole.
    """
    cwd, home = paths.working_folder(), paths.home_folder()
    source, target = paths.absolute_path(file, cwd, home), paths.absolute_path(dest, cwd, home)
    if not paths.exists(source):
        raise BadRequest(f"{file} does not exist", "pass an archive", file)
    if paths.is_folder(source):
        raise BadRequest(f"{file} is a folder", "pass an archive", file)
    # Unpacked next to the target and renamed as a whole: a refused archive leaves nothing behind.
    with ProgressBar(file) as bar, trees.staged_folder(target) as folder:
        count = archives.unpack_archive(source, folder, strip, progress=bar)
    if as_json:
        say_json({"path": target, "files": count})
        return
    say(f"Unpacked {count_of(count, 'file')} to {clean_path(target)}")
