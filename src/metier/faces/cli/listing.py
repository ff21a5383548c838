"""metier list."""

from __future__ import annotations

from collections.abc import Iterable

import click

from ...runtime import Library
from ...types.skill import Broken, Skill
from ...types.verdict import Verdict
from .app import Context
from .memory import remember
from .printing import (
    UNAPPROVED,
    UNTRUSTED,
    arrow,
    clean,
    clean_path,
    coloured,
    columns,
    counted,
    paint,
    paint_state,
    problem_dict,
    problem_lines,
    say,
    say_json,
    state_of,
)


@click.command("list")
@click.option("-v", "--verbose", is_flag=True, help="Paths, and everything noticed about each skill.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def list_skills(context: Context, verbose: bool, as_json: bool) -> None:
    """List the skills of this place: what each is called, where it comes from, and how it stands."""
    library = context.library()
    if as_json:
        say_json(as_dict(library))
        return
    lines = written(library, verbose)
    for line in lines:
        say(line)
    if not verbose and context == Context(root=context.root):
        remember(library, "list", context.root or "", "".join(line + "\n" for line in lines))


def written(library: Library, verbose: bool) -> list[str]:
    named = short_labels([*(v.skill.origin.root for v in library.verdicts), *(b.origin.root for b in library.broken)])
    rows = [
        (
            shown_name(verdict.skill),
            named[verdict.skill.origin.root],
            state_of(verdict),
            clean(verdict.skill.description),
        )
        for verdict in library.verdicts
    ]
    rows += [(clean(item.id), named[item.origin.root], "broken", _why(item.marks[-1].code)) for item in library.broken]
    if not rows:
        return [
            "No skills here.",
            "",
            *_notes(library),
            arrow("`metier roots --all` shows where metier looks"),
            arrow("`metier init` brings some; `metier new NAME` writes one"),
        ]
    lines = [paint_row(line, row) for line, row in zip(columns(rows), rows, strict=True)]
    if verbose:
        lines = _verbose(library, lines)
    return [*lines, "", _summary(library), *_notes(library)]


def shown_name(skill: Skill) -> str:
    """What a person may call it by: the name, with the plugin's in front where that is how it is found."""
    name = clean(skill.name) or clean(skill.id)
    return f"{clean(skill.origin.namespace)}:{name}" if skill.origin.namespace else name


def short_labels(labels: Iterable[str]) -> dict[str, str]:
    """Roots as they are named in a list: where in the project they lie is left out unless it tells two apart."""
    short: dict[str, set[str]] = {}
    for label in labels:
        short.setdefault(label.partition(":")[0], set()).add(label)
    return {label: clean(label if len(those) > 1 else key) for key, those in short.items() for label in those}


def paint_row(line: str, row: tuple[str, str, str, str]) -> str:
    """Colour in the state, wherever in the line it stands."""
    state = row[2]
    if not coloured():
        return line
    before, found, after = line.partition(f"  {row[1]}")
    head, mark, tail = after.partition(f"  {state}")
    return f"{before}{found}{head}  {paint_state(state)}{tail}" if found and mark else line


def _why(code: str) -> str:
    from ...types.problem import MEANINGS

    return MEANINGS[code].message.partition(":")[0].replace("{0}", "it").replace("{1}", "…")  # type: ignore[index]


def _verbose(library: Library, lines: list[str]) -> list[str]:
    found = []
    items = [
        *((v.skill.path, v.problems) for v in library.verdicts),
        *((b.path, b.problems) for b in library.broken),
    ]
    for line, (path, problems) in zip(lines, items, strict=True):
        found += [line, paint(f"    {clean_path(path)}", "dim")]
        for problem in problems:
            found += [f"    {text}" for text in problem_lines(problem, place=False)]
    return found


def _summary(library: Library) -> str:
    states: dict[str, int] = {}
    for verdict in library.verdicts:
        state = state_of(verdict)
        word = (
            "ready"
            if state in ("ready", "user only", "model only")
            else "not eligible"
            if state.startswith(("needs", "other"))
            else state
        )
        states[word] = states.get(word, 0) + 1
    if library.broken:
        states["broken"] = len(library.broken)
    total = len(library.verdicts) + len(library.broken)
    return f"{counted(total, 'skill')}: " + ", ".join(f"{count} {word}" for word, count in states.items())


def _notes(library: Library) -> list[str]:
    lines = [text for problem in library.problems for text in problem_lines(problem)]
    codes = {mark.code for mark in library.untrusted.values()}
    if not codes.isdisjoint(UNAPPROVED):
        why = "the lock can't be read" if "lock-unreadable" in codes else "some that were installed are not approved"
        lines.append(arrow(f"{why}: `metier why NAME` says what to do"))
    if not codes.isdisjoint(UNTRUSTED):
        changed = "changed-since-trust" in codes
        why = "this project changed since you trusted it" if changed else "this project is not trusted yet"
        lines.append(arrow(f"{why}: read its skills, then run `metier trust`"))
    if library.broken or any(not verdict.eligible for verdict in library.verdicts):
        lines.append(arrow("`metier status -v` says what is wrong and what to do"))
    return lines


def as_dict(library: Library) -> dict[str, object]:
    return {
        "dialect": library.dialect.name,
        "skills": [verdict_dict(verdict) for verdict in library.verdicts],
        "broken": [broken_dict(item) for item in library.broken],
        "problems": [problem_dict(problem) for problem in library.problems],
    }


def broken_dict(item: Broken) -> dict[str, object]:
    return {
        "id": item.id,
        "path": item.path,
        "root": item.origin.root,
        "state": "broken",
        "problems": [problem_dict(problem) for problem in item.problems],
    }


def verdict_dict(verdict: Verdict) -> dict[str, object]:
    skill = verdict.skill
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "path": skill.path,
        "root": skill.origin.root,
        "source": skill.origin.source,
        "dialect": skill.origin.dialect.name,
        "state": state_of(verdict),
        "eligible": verdict.eligible,
        "usable": verdict.usable,
        "user_invocable": skill.user_may_invoke,
        "model_invocable": skill.model_may_invoke,
        "shadowed_by": verdict.shadowed_by.path if verdict.shadowed_by else None,
        "diagnostics": list(verdict.diagnostics),
        "problems": [problem_dict(problem) for problem in verdict.problems],
    }
