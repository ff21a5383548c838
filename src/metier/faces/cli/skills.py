"""metier list."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps

import click

from ...library.library import Library
from ...types.skill import BrokenSkill, Skill
from ...types.text import one_line
from ...types.verdict import Verdict
from .app import CliContext, skill_names
from .output import (
    UNAPPROVED,
    UNTRUSTED,
    clean_path,
    color_enabled,
    count_of,
    format_columns,
    hint_line,
    paint,
    paint_state,
    printable,
    problem_dict,
    problem_lines,
    say,
    say_json,
    state_of,
)
from .output_cache import remember_answer


@click.command("list")
@click.option("-v", "--verbose", is_flag=True, help="Paths, and everything noticed about each skill.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def list_skills(context: CliContext, verbose: bool, as_json: bool) -> None:
    """List the skills of this place: what each is called, where it comes from, and how it stands."""
    library = context.library()
    if as_json:
        say_json(library_dict(library))
        return
    lines = listing_lines(library, verbose)
    for line in lines:
        say(line)
    if not verbose and context == CliContext(root=context.root):
        remember_answer(library, "list", context.root or "", "".join(line + "\n" for line in lines))


def listing_lines(library: Library, verbose: bool) -> list[str]:
    named = short_labels([*(v.skill.origin.root for v in library.verdicts), *(b.origin.root for b in library.broken)])
    rows = [
        (
            shown_name(verdict.skill),
            named[verdict.skill.origin.root],
            state_of(verdict),
            printable(verdict.skill.description),
        )
        for verdict in library.verdicts
    ]
    rows += [
        (printable(item.id), named[item.origin.root], "broken", _code_meaning(item.findings[-1].code))
        for item in library.broken
    ]
    if not rows:
        return [
            "No skills here.",
            "",
            *_note_lines(library),
            hint_line("`metier roots --all` shows where metier looks"),
            hint_line("`metier init` brings some; `metier new NAME` writes one"),
        ]
    lines = [paint_row(line, row) for line, row in zip(format_columns(rows), rows, strict=True)]
    if verbose:
        lines = _verbose_lines(library, lines)
    return [*lines, "", _summary_line(library), *_note_lines(library)]


def shown_name(skill: Skill) -> str:
    """What a person may call it by: the name, with the plugin's in front where that is how it is found."""
    name = printable(skill.name) or printable(skill.id)
    return f"{printable(skill.origin.namespace)}:{name}" if skill.origin.namespace else name


def short_labels(labels: Iterable[str]) -> dict[str, str]:
    """Roots as they are named in a list: where in the project they lie is left out unless it tells two apart."""
    short: dict[str, set[str]] = {}
    for label in labels:
        short.setdefault(label.partition(":")[0], set()).add(label)
    return {
        label: printable(label if len(full_labels) > 1 else key)
        for key, full_labels in short.items()
        for label in full_labels
    }


def paint_row(line: str, row: tuple[str, str, str, str]) -> str:
    """Colour in the state, wherever in the line it stands."""
    state = row[2]
    if not color_enabled():
        return line
    before, label, after = line.partition(f"  {row[1]}")
    head, mark, tail = after.partition(f"  {state}")
    return f"{before}{label}{head}  {paint_state(state)}{tail}" if label and mark else line


def _code_meaning(code: str) -> str:
    from ...types.problem import CODE_MEANINGS

    return CODE_MEANINGS[code].message.partition(":")[0].replace("{0}", "it").replace("{1}", "…")  # type: ignore[index]


def _verbose_lines(library: Library, lines: list[str]) -> list[str]:
    detailed = []
    items = [
        *((v.skill.path, v.problems) for v in library.verdicts),
        *((b.path, b.problems) for b in library.broken),
    ]
    for line, (path, problems) in zip(lines, items, strict=True):
        detailed += [line, paint(f"    {clean_path(path)}", "dim")]
        for problem in problems:
            detailed += [f"    {text}" for text in problem_lines(problem, place=False)]
    return detailed


def _summary_line(library: Library) -> str:
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
    return f"{count_of(total, 'skill')}: " + ", ".join(f"{count} {word}" for word, count in states.items())


def _note_lines(library: Library) -> list[str]:
    lines = [text for problem in library.problems for text in problem_lines(problem)]
    codes = {mark.code for mark in library.untrusted.values()}
    if not codes.isdisjoint(UNAPPROVED):
        why = "the lock can't be read" if "lock-unreadable" in codes else "some that were installed are not approved"
        lines.append(hint_line(f"{why}: `metier why NAME` says what to do"))
    if not codes.isdisjoint(UNTRUSTED):
        changed = "changed-since-trust" in codes
        why = "this project changed since you trusted it" if changed else "this project is not trusted yet"
        lines.append(hint_line(f"{why}: read its skills, then run `metier trust`"))
    if library.broken or any(not verdict.eligible for verdict in library.verdicts):
        lines.append(hint_line("`metier status -v` says what is wrong and what to do"))
    return lines


def library_dict(library: Library) -> dict[str, object]:
    return {
        "dialect": library.dialect.name,
        "skills": [verdict_dict(verdict) for verdict in library.verdicts],
        "broken": [broken_dict(item) for item in library.broken],
        "problems": [problem_dict(problem) for problem in library.problems],
    }


def broken_dict(item: BrokenSkill) -> dict[str, object]:
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


@click.command("show")
@click.argument("name", shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def show(context: CliContext, name: str, as_json: bool) -> None:
    """Show one skill: what its frontmatter says, and its instructions as they are written."""
    library = context.library()
    verdict = library.find(name)
    body = library.read(verdict.skill)
    skill = verdict.skill
    if as_json:
        say_json(
            {
                **verdict_dict(verdict),
                "argument_hint": skill.argument_hint,
                "extra": skill.extra.plain(),
                "body": body.text,
                "digest": body.digest,
            }
        )
        return
    say(f"{paint(printable(skill.name), 'bold')}  {paint_state(state_of(verdict))}")
    if skill.description:
        say(printable(skill.description))
    rows = [("path", skill.path), ("root", skill.origin.root), ("dialect", skill.origin.dialect.name)]
    rows += [("arguments", skill.argument_hint), ("allowed tools", " ".join(skill.allowed_tools))]
    rows += [
        (key, value if isinstance(value, str) else dumps(value, ensure_ascii=False))
        for key, value in skill.extra.plain().items()
        if key != "allowed-tools"
    ]
    for label, text in rows:
        if text:
            say(f"  {paint(printable(label) + ':', 'dim')} {clean_path(text) if label == 'path' else printable(text)}")
    for problem in verdict.problems:
        for line in problem_lines(problem, place=False):
            say(f"  {line}")
    say()
    for line in body.text.split("\n"):
        say(one_line(line.expandtabs(4)))
