"""metier list."""

from __future__ import annotations

import click

from ...runtime import Library
from ...types.verdict import Verdict
from . import door, memory
from .app import Context
from .printing import clean, columns, paint, paint_state, problem_dict, problem_lines, say, say_json, state_of


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
        answer = "".join(line + "\n" for line in lines)
        memory.remember(library, door.key_of("list", context.root or ""), answer)


def written(library: Library, verbose: bool) -> list[str]:
    rows = [
        (
            clean(verdict.skill.name),
            clean(verdict.skill.origin.root),
            state_of(verdict),
            clean(verdict.skill.description),
        )
        for verdict in library.verdicts
    ]
    rows += [(clean(item.id), clean(item.origin.root), "broken", _why(item.marks[-1].code)) for item in library.broken]
    if not rows:
        return [
            "No skills here.",
            "",
            *_notes(library),
            f"{paint('→', 'cyan')} `metier roots` shows where metier looks",
            f"{paint('→', 'cyan')} `metier init` brings some; `metier new NAME` writes one",
        ]
    lines = [paint_row(line, row[2]) for line, row in zip(columns(rows), rows, strict=True)]
    if verbose:
        lines = list(_verbose(library, lines))
    return [*lines, "", _summary(library), *_notes(library)]


def paint_row(line: str, state: str) -> str:
    return line.replace(f"  {state}", "  " + paint_state(state), 1)


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
        found += [line, paint(f"    {clean(path)}", "dim")]
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
            if state.startswith("needs")
            else state
        )
        states[word] = states.get(word, 0) + 1
    if library.broken:
        states["broken"] = len(library.broken)
    total = len(library.verdicts) + len(library.broken)
    return f"{total} skill{'' if total == 1 else 's'}: " + ", ".join(
        f"{count} {word}" for word, count in states.items()
    )


def _notes(library: Library) -> list[str]:
    lines = [text for problem in library.problems for text in problem_lines(problem)]
    if library.untrusted:
        lines.append(f"{paint('→', 'cyan')} this project is not trusted yet: read its skills, then run `metier trust`")
    if library.broken or any(not verdict.eligible for verdict in library.verdicts):
        lines.append(f"{paint('→', 'cyan')} `metier status -v` says what is wrong and what to do")
    return lines


def as_dict(library: Library) -> dict[str, object]:
    return {
        "dialect": library.dialect.name,
        "skills": [verdict_dict(verdict) for verdict in library.verdicts],
        "broken": [
            {
                "id": item.id,
                "path": item.path,
                "root": item.origin.root,
                "problems": [problem_dict(problem) for problem in item.problems],
            }
            for item in library.broken
        ],
        "problems": [problem_dict(problem) for problem in library.problems],
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
