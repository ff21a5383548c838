"""metier status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from ...host.place import facts
from ...resolve.hints import TOOLS, install_command, recipe_note
from ...runtime import Library
from ...types.errors import Unloadable
from ...types.problem import FAMILIES, Problem, problem
from ...types.skill import Broken, Origin, Skill
from ...types.verdict import Verdict
from .app import Context, skill_names
from .listing import as_dict, broken_dict, verdict_dict
from .printing import (
    WITHHELD,
    arrow,
    clean,
    clean_path,
    columns,
    paint,
    paint_state,
    problem_dict,
    problem_lines,
    say,
    say_json,
    state_of,
)

_ORDER = (*FAMILIES["eligibility"], *WITHHELD, "not-allowed", "shadowed")


@click.command("status")
@click.argument("name", required=False, shell_complete=skill_names)
@click.option("-v", "--verbose", is_flag=True, help="With hints.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def status(context: Context, name: str | None, verbose: bool, as_json: bool) -> None:
    """Say what is ready and what is not, grouped by the kind of issue; with NAME, everything about one skill."""
    library = context.library()
    if name is not None:
        _status_of(library, name, as_json)
    elif as_json:
        say_json({**as_dict(library), "counts": _counts(library)})
    else:
        for line in summary(library, verbose):
            say(line)


def _status_of(library: Library, name: str, as_json: bool) -> None:
    try:
        verdict = library.find(name)
    except Unloadable:
        item = next(one for one in library.broken if name in (one.id, one.name))
        if as_json:
            say_json(broken_dict(item))
        else:
            for line in broken_detail(item):
                say(line)
        return
    if as_json:
        say_json(_detail_dict(library, verdict))
        return
    for line in detail(library, verdict):
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
    rows = [("Total:", counts["total"]), ("Eligible:", counts["eligible"]), ("Ineligible:", counts["ineligible"])]
    rows += [("Not loaded:", counts["broken"])] if counts["broken"] else []
    digits = max(len(str(number)) for _, number in rows)
    yield from (f"{label:<12}{number:>{digits}}" for label, number in rows)
    for code, found in _grouped(library).items():
        yield ""
        yield paint(f"{code} ({len(found)})", "bold")
        yield from _group(found, verbose)
    if library.broken:
        yield ""
        yield paint(f"not loaded ({len(library.broken)})", "bold")
        for item in library.broken:
            yield f"  {clean(item.id)}"
            for one in item.problems:
                yield from (f"    {text}" for text in problem_lines(one, hint=verbose))
    yield from _left_out(library)
    if library.problems:
        yield ""
    for one in library.problems:
        yield from problem_lines(one, hint=verbose)
    yield from _next(library, verbose)


def _left_out(library: Library) -> Iterator[str]:
    """What the catalog's limits cut, by name."""
    catalog = library.catalog()
    cut = [one for one in catalog.left_out if one.reason != "hidden-from-model"]
    if cut:
        yield ""
        yield paint(f"left out of the catalog ({len(cut)})", "bold")
        listed = f"{len(catalog.entries)} of {len(catalog.entries) + len(cut)} are listed"
        yield f"  {listed}; the limit is {cut[0].reason.replace('limit-', 'limits.')}"
        yield from (f"  {clean(one.name)}" for one in cut)


def _group(found: list[tuple[str, Problem]], verbose: bool) -> Iterator[str]:
    """The skills with one kind of issue; a hint that they all share is given once."""
    rows = [(clean(name), clean(one.message)) for name, one in found]
    shared = len(found) > 1 and len({one.hint for _, one in found}) == 1
    for line, (_, one) in zip(columns(rows, last_cut=False), found, strict=True):
        yield "  " + line
        if verbose and one.hint and not shared:
            yield "    " + arrow(clean(one.hint))
    if verbose and shared and found[0][1].hint:
        yield "  " + arrow(clean(found[0][1].hint))


def _next(library: Library, verbose: bool) -> Iterator[str]:
    yield ""
    if not library.verdicts and not library.broken:
        yield arrow("`metier init` brings some skills; `metier new NAME` writes one")
    elif library.broken or library.problems or any(not verdict.usable for verdict in library.verdicts):
        if not verbose:
            yield arrow("`metier status -v` says what to do")
        yield arrow("`metier status NAME` says everything about one skill")
    else:
        yield "Everything is ready."


def _grouped(library: Library) -> dict[str, list[tuple[str, Problem]]]:
    groups: dict[str, list[tuple[str, Problem]]] = {code: [] for code in _ORDER}
    for verdict in library.verdicts:
        for mark in verdict.marks:
            groups[mark.code].append((verdict.skill.name, problem(mark, verdict.skill.path)))
    return {code: found for code, found in groups.items() if found}


def detail(library: Library, verdict: Verdict) -> Iterator[str]:
    skill = verdict.skill
    yield paint(clean(skill.name) or clean(skill.id), "bold")
    version = skill.extra.text("version") or skill.extra.text("metadata", "version")
    basics = [("Name:", clean(skill.name)), ("Version:", clean(version)), ("Source:", _source(skill.origin))]
    basics += [("Path:", clean_path(skill.path)), ("Homepage:", clean(skill.extra.text("homepage")))]
    basics += [("Description:", clean(skill.description)), ("Options:", _options(skill))]
    yield from (f"  {label:<13}{text}" for label, text in basics if text)
    yield f"  {'Status:':<13}" + (paint("eligible", "green") if verdict.eligible else paint("not eligible", "red"))
    if verdict.eligible:
        yield f"  {'State:':<13}{paint_state(state_of(verdict))}"
    found = [line for one in verdict.problems for line in problem_lines(one, place=False, hint=False)]
    yield from _section("Diagnostics", found)
    checks = library.checks(skill)
    yield from _section(
        "Requirements",
        [
            f"{paint('✓', 'green') if check.met else paint('✗', 'red')} {check.kind}: {clean(check.name)}"
            for check in checks
        ],
    )
    present = _tools(library, skill)
    notes = [
        (clean(recipe.id), recipe_note(recipe, present, library.facts.platform), clean(install_command(recipe)))
        for recipe in skill.install
    ]
    yield from _section("Install options", columns(notes, last_cut=False))
    yield from _quick(_actions(verdict.problems))


def _quick(actions: list[str]) -> Iterator[str]:
    return _section("Quick actions", [f"{number}. {action}" for number, action in enumerate(actions, 1)])


def _options(skill: Skill) -> str:
    return ", ".join(f"{clean(key)}={clean(str(value))}" for key, value in skill.options.plain().items())


def _source(origin: Origin) -> str:
    return f"{origin.source} ({clean(origin.root)}, {clean(origin.dialect.name)} dialect)"


def _tools(library: Library, skill: Skill) -> frozenset[str]:
    """The programs that install things, as far as this skill's recipes ask for them."""
    asked = {tool for recipe in skill.install for tool in TOOLS.get(recipe.kind, ())}
    return facts(asked, (), library.place.env, library.place.platform).binaries


def _actions(problems: Iterable[Problem]) -> list[str]:
    """What there is to do, each thing once; what is merely worth knowing asks for nothing."""
    hints = [one.hint for one in problems if one.hint and (one.severity != "info" or one.code in _ORDER)]
    return list(dict.fromkeys(map(clean, hints)))


def broken_detail(item: Broken) -> Iterator[str]:
    yield paint(clean(item.id), "bold")
    yield f"  {'Source:':<13}{_source(item.origin)}"
    yield f"  {'Path:':<13}{clean_path(item.path)}"
    yield f"  {'Status:':<13}{paint('not loaded', 'red')}"
    yield from _section("Diagnostics", [line for one in item.problems for line in _with_line(one)])
    yield from _quick(_actions(item.problems))


def _with_line(one: Problem) -> Iterator[str]:
    where = f"line {one.line}: " if one.line else ""
    return (where + line for line in problem_lines(one, place=False, hint=False))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield paint(title, "bold")
        yield from (f"  {line}" for line in lines)


def _detail_dict(library: Library, verdict: Verdict) -> dict[str, object]:
    skill = verdict.skill
    present = _tools(library, skill)
    return {
        **verdict_dict(verdict),
        "version": skill.extra.text("version"),
        "requirements": [check._asdict() for check in library.checks(skill)],
        "install": [
            {"id": recipe.id, "kind": recipe.kind, "package": recipe.package, "command": install_command(recipe),
             "note": recipe_note(recipe, present, library.facts.platform)}
            for recipe in skill.install
        ],
        "options": skill.options.plain(),
        "actions": _actions(verdict.problems),
        "problems": [problem_dict(one) for one in verdict.problems],
    }  # fmt: skip
