"""metier status."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ...resolve.hints import install_command, recipe_note
from ...runtime import Library
from ...types.problem import FAMILIES, Problem, problem
from ...types.verdict import Verdict
from .app import Context, skill_names
from .listing import as_dict, verdict_dict
from .printing import clean, columns, paint, problem_dict, problem_lines, say, say_json

_ORDER = (*FAMILIES["eligibility"], "untrusted", "changed-since-trust", "not-allowed", "shadowed")


@click.command("status")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("-v", "--verbose", is_flag=True, help="With hints.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def status(context: Context, name: str | None, verbose: bool, as_json: bool) -> None:
    """Say what is ready and what is not, grouped by the kind of issue; with NAME, everything about one skill."""
    library = context.library()
    if name is not None:
        verdict = library.find(name)
        if as_json:
            say_json(_detail_dict(library, verdict))
            return
        for line in detail(library, verdict):
            say(line)
        return
    if as_json:
        say_json({**as_dict(library), "counts": _counts(library)})
        return
    for line in summary(library, verbose):
        say(line)


def _counts(library: Library) -> dict[str, int]:
    eligible = sum(verdict.eligible for verdict in library.verdicts)
    total = len(library.verdicts)
    return {
        "total": total,
        "eligible": eligible,
        "ineligible": total - eligible,
        "broken": len(library.broken),
    }


def summary(library: Library, verbose: bool) -> Iterator[str]:
    counts = _counts(library)
    yield paint("Skills status", "bold")
    yield ""
    yield f"Total: {counts['total']}"
    yield f"Eligible: {counts['eligible']}"
    yield f"Ineligible: {counts['ineligible']}"
    if counts["broken"]:
        yield f"Not loaded: {counts['broken']}"
    for code, found in _grouped(library).items():
        yield ""
        yield paint(f"{code} ({len(found)})", "bold")
        rows = [(clean(name), clean(one.message)) for name, one in found]
        for line, (_, one) in zip(columns(rows), found, strict=True):
            yield "  " + line
            if verbose and one.hint:
                yield f"    {paint('→', 'cyan')} {clean(one.hint)}"
    if library.broken:
        yield ""
        yield paint(f"not loaded ({len(library.broken)})", "bold")
        for item in library.broken:
            yield f"  {clean(item.id)}"
            for one in item.problems:
                for text in problem_lines(one, hint=verbose):
                    yield f"    {text}"
    for one in library.problems:
        yield ""
        yield from problem_lines(one, hint=verbose)


def _grouped(library: Library) -> dict[str, list[tuple[str, Problem]]]:
    groups: dict[str, list[tuple[str, Problem]]] = {code: [] for code in _ORDER}
    for verdict in library.verdicts:
        for mark in verdict.marks:
            groups[mark.code].append((verdict.skill.name, problem(mark, verdict.skill.path)))
    return {code: found for code, found in groups.items() if found}


def detail(library: Library, verdict: Verdict) -> Iterator[str]:
    skill = verdict.skill
    yield paint(clean(skill.name), "bold")
    facts = [("Name:", skill.name), ("Version:", skill.extra.text("version")), ("Source:", _source(verdict))]
    facts += [("Path:", skill.path), ("Description:", skill.description)]
    for label, text in facts:
        if text:
            yield f"  {label:<13}{clean(text)}"
    options = skill.options
    if options:
        yield "  Options:     " + ", ".join(f"{clean(key)}={clean(str(value))}" for key, value in options.items())
    yield f"  {'Status:':<13}" + (paint("eligible", "green") if verdict.eligible else paint("not eligible", "red"))
    yield from _section("Diagnostics", [line for one in verdict.problems for line in problem_lines(one, place=False)])
    checks = library.checks(skill)
    yield from _section(
        "Requirements",
        [
            f"{paint('✓', 'green') if check.met else paint('✗', 'red')} {check.kind}: {clean(check.name)}"
            for check in checks
        ],
    )
    notes = [
        (
            clean(recipe.id),
            clean(recipe.label or install_command(recipe)),
            recipe_note(recipe, library.facts.binaries, library.facts.platform),
        )
        for recipe in skill.install
    ]
    yield from _section("Install options", columns(notes))
    yield from _section("Quick actions", [f"{number}. {action}" for number, action in enumerate(_actions(verdict), 1)])


def _source(verdict: Verdict) -> str:
    origin = verdict.skill.origin
    return f"{origin.source} ({origin.root}, {origin.dialect.name} dialect)"


def _actions(verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(clean(problem(mark).hint) for mark in verdict.marks if problem(mark).hint))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield paint(title, "bold")
        yield from (f"  {line}" for line in lines)


def _detail_dict(library: Library, verdict: Verdict) -> dict[str, object]:
    skill = verdict.skill
    return {
        **verdict_dict(verdict),
        "version": skill.extra.text("version"),
        "requirements": [check._asdict() for check in library.checks(skill)],
        "install": [
            {"id": recipe.id, "kind": recipe.kind, "package": recipe.package, "command": install_command(recipe),
             "note": recipe_note(recipe, library.facts.binaries, library.facts.platform)}
            for recipe in skill.install
        ],
        "options": skill.options.plain(),
        "actions": _actions(verdict),
        "problems": [problem_dict(one) for one in verdict.problems],
    }  # fmt: skip
