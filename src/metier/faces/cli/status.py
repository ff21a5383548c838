"""metier status and metier why: which skills are ready, and what keeps the others from being so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...host.facts import gather_facts
from ...library.library import Library
from ...resolve.eligibility import RECIPE_TOOLS, install_command, recipe_note
from ...types.errors import Unloadable
from ...types.problem import CODE_FAMILIES, Problem, problem_from
from ...types.skill import BrokenSkill, Origin, Skill
from ...types.verdict import WITHHELD, Verdict, state_of
from ..why_ladder import why_steps
from . import commands
from .commands import JSON, Argument, Flag
from .options import CliContext, skill_names
from .output import (
    broken_dict,
    clean_path,
    format_columns,
    hint_line,
    library_dict,
    paint,
    paint_state,
    printable,
    problem_dict,
    problem_lines,
    say,
    say_json,
    say_waiting,
    verdict_dict,
)

_GROUP_ORDER = (*CODE_FAMILIES["eligibility"], *WITHHELD, "not-allowed", "shadowed")


@commands.command(
    "status",
    Argument("name", required=False, complete=skill_names),
    Flag("verbose", ("-v", "--verbose"), "Show hints"),
    JSON,
)
def status(context: CliContext, name: str | None, verbose: bool, as_json: bool) -> None:
    """Show which skills are ready and which are not, grouped by reason; with NAME, the details of one skill."""
    library = context.library(shows_problems=not name)
    if name is not None:
        _print_skill_status(library, name, as_json)
    elif as_json:
        say_json({**library_dict(library), "counts": _count_verdicts(library)})
    else:
        for line in status_lines(library, verbose):
            say(line)
        say_waiting(library.place.state)


def _print_skill_status(library: Library, name: str, as_json: bool) -> None:
    try:
        verdict = library.find(name)
    except Unloadable:
        item = next(broken for broken in library.broken if name in (broken.id, broken.name))
        if as_json:
            say_json(broken_dict(item))
        else:
            for line in broken_lines(item):
                say(line)
        return
    if as_json:
        say_json(_detail_dict(library, verdict))
        return
    for line in detail_lines(library, verdict):
        say(line)


def _count_verdicts(library: Library) -> dict[str, int]:
    eligible = sum(verdict.eligible for verdict in library.verdicts)
    total = len(library.verdicts)
    return {
        "total": total,
        "eligible": eligible,
        "ineligible": total - eligible,
        "broken": len(library.broken),
    }


def status_lines(library: Library, verbose: bool) -> Iterator[str]:
    counts = _count_verdicts(library)
    yield paint("Skills status", "bold")
    yield ""
    rows = [("Total:", counts["total"]), ("Eligible:", counts["eligible"]), ("Ineligible:", counts["ineligible"])]
    rows += [("Not loaded:", counts["broken"])] if counts["broken"] else []
    digits = max(len(str(number)) for _, number in rows)
    yield from (f"{label:<12}{number:>{digits}}" for label, number in rows)
    for code, members in _group_problems(library).items():
        yield ""
        yield paint(f"{code} ({len(members)})", "bold")
        yield from _group_lines(members, verbose)
    if library.broken:
        yield ""
        yield paint(f"not loaded ({len(library.broken)})", "bold")
        for item in library.broken:
            yield f"  {printable(item.id)}"
            for issue in item.problems:
                yield from (f"    {text}" for text in problem_lines(issue, hint=verbose))
    yield from _unsupported_lines(library)
    yield from _left_out_lines(library)
    if library.problems:
        yield ""
    for issue in library.problems:
        yield from problem_lines(issue, hint=verbose)
    yield from _next_steps(library, verbose)


def _unsupported_lines(library: Library) -> Iterator[str]:
    """The fields of skills that have no effect here."""
    rows = [
        (printable(skill.name), printable(problem_from(finding).message))
        for skill in library.skills
        for finding in skill.findings
        if finding.code == "not-supported"
    ]
    if rows:
        yield ""
        yield paint(f"not-supported ({len(rows)})", "bold")
        yield from ("  " + line for line in format_columns(rows, last_cut=False))


def _left_out_lines(library: Library) -> Iterator[str]:
    """The skills that the catalog's limits leave out."""
    catalog = library.catalog()
    cut = [omitted for omitted in catalog.left_out if omitted.reason != "hidden-from-model"]
    if cut:
        yield ""
        yield paint(f"left out of the catalog ({len(cut)})", "bold")
        listed = f"{len(catalog.entries)} of {len(catalog.entries) + len(cut)} are listed"
        yield f"  {listed}; the limit is {cut[0].reason.replace('limit-', 'limits.')}"
        yield from (f"  {printable(omitted.name)}" for omitted in cut)


def _group_lines(members: list[tuple[str, Problem]], verbose: bool) -> Iterator[str]:
    """The skills with one kind of problem; a hint they all share is shown once."""
    rows = [(printable(name), printable(issue.message)) for name, issue in members]
    shared = len(members) > 1 and len({issue.hint for _, issue in members}) == 1
    for line, (_, issue) in zip(format_columns(rows, last_cut=False), members, strict=True):
        yield "  " + line
        if verbose and issue.hint and not shared:
            yield "    " + hint_line(printable(issue.hint))
    if verbose and shared and members[0][1].hint:
        yield "  " + hint_line(printable(members[0][1].hint))


def _next_steps(library: Library, verbose: bool) -> Iterator[str]:
    yield ""
    if not library.verdicts and not library.broken:
        yield hint_line("run `metier init` for the bundled skills, or `metier new NAME` to create one")
    elif library.broken or library.problems or any(not verdict.usable for verdict in library.verdicts):
        if not verbose:
            yield hint_line("run `metier status -v` for hints")
        yield hint_line("run `metier status NAME` for the details of a skill")
    else:
        yield "All skills are ready."


def _group_problems(library: Library) -> dict[str, list[tuple[str, Problem]]]:
    groups: dict[str, list[tuple[str, Problem]]] = {code: [] for code in _GROUP_ORDER}
    for verdict in library.verdicts:
        for finding in verdict.findings:
            groups[finding.code].append((verdict.skill.name, problem_from(finding, verdict.skill.path)))
    return {code: members for code, members in groups.items() if members}


def detail_lines(library: Library, verdict: Verdict) -> Iterator[str]:
    skill = verdict.skill
    yield paint(printable(skill.name) or printable(skill.id), "bold")
    version = skill.extra.text("version") or skill.extra.text("metadata", "version")
    basics = [
        ("Name:", printable(skill.name)),
        ("Version:", printable(version)),
        ("Source:", _source_text(skill.origin)),
    ]
    basics += [("Path:", clean_path(skill.path)), ("Homepage:", printable(skill.extra.text("homepage")))]
    basics += [("Description:", printable(skill.description)), ("Options:", _options_text(skill))]
    yield from (f"  {label:<13}{text}" for label, text in basics if text)
    yield f"  {'Status:':<13}" + (paint("eligible", "green") if verdict.eligible else paint("not eligible", "red"))
    if verdict.eligible:
        yield f"  {'State:':<13}{paint_state(state_of(verdict))}"
    diagnostics = [line for issue in verdict.problems for line in problem_lines(issue, place=False, hint=False)]
    yield from _section_lines("Diagnostics", diagnostics)
    checks = library.checks(skill)
    yield from _section_lines(
        "Requirements",
        [
            f"{paint('✓', 'green') if check.met else paint('✗', 'red')} {check.kind}: {printable(check.name)}"
            for check in checks
        ],
    )
    installed_tools = _install_tools(library, skill)
    notes = [
        (
            printable(recipe.id),
            recipe_note(recipe, installed_tools, library.facts.platform),
            printable(install_command(recipe)),
        )
        for recipe in skill.install
    ]
    yield from _section_lines("Install options", format_columns(notes, last_cut=False))
    yield from _quick_actions([*_install_actions(library, verdict), *_collect_actions(verdict.problems)])


def _quick_actions(actions: list[str]) -> Iterator[str]:
    return _section_lines("Quick actions", [f"{number}. {action}" for number, action in enumerate(actions, 1)])


def _options_text(skill: Skill) -> str:
    return ", ".join(f"{printable(key)}={printable(str(value))}" for key, value in skill.options.plain().items())


def _source_text(origin: Origin) -> str:
    return f"{origin.source} ({printable(origin.root)}, {printable(origin.dialect.name)} dialect)"


def _install_tools(library: Library, skill: Skill) -> frozenset[str]:
    """The programs that install things, as far as this skill's recipes ask for them."""
    needed = {tool for recipe in skill.install for tool in RECIPE_TOOLS.get(recipe.kind, ())}
    return gather_facts(needed, (), library.place.env, library.place.platform).binaries


def _install_actions(library: Library, verdict: Verdict) -> list[str]:
    """The commands that install what a skill lacks, where this machine has what its recipes need."""
    skill, lacking = verdict.skill, {"binary", "any_binary"} & set(verdict.diagnostics)
    if not lacking or not skill.install:
        return []
    from ...install.operations import install_means
    from ...install.recipes import list_options

    offered = list_options(skill.install, install_means(library, skill), skill.settings_key)
    return [
        f"run `metier install {printable(skill.name)} {printable(option.recipe.id)}`"
        for option in offered
        if option.plan is not None
    ]


def _collect_actions(problems: Iterable[Problem]) -> list[str]:
    """The hints, each once, without those of informational problems."""
    hints = [
        issue.hint for issue in problems if issue.hint and (issue.severity != "info" or issue.code in _GROUP_ORDER)
    ]
    return list(dict.fromkeys(map(printable, hints)))


def broken_lines(item: BrokenSkill) -> Iterator[str]:
    yield paint(printable(item.id), "bold")
    yield f"  {'Source:':<13}{_source_text(item.origin)}"
    yield f"  {'Path:':<13}{clean_path(item.path)}"
    yield f"  {'Status:':<13}{paint('not loaded', 'red')}"
    yield from _section_lines("Diagnostics", [line for issue in item.problems for line in _numbered_lines(issue)])
    yield from _quick_actions(_collect_actions(item.problems))


def _numbered_lines(issue: Problem) -> Iterator[str]:
    where = f"line {issue.line}: " if issue.line else ""
    return (where + line for line in problem_lines(issue, place=False, hint=False))


def _section_lines(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield paint(title, "bold")
        yield from (f"  {line}" for line in lines)


def _detail_dict(library: Library, verdict: Verdict) -> dict[str, object]:
    skill = verdict.skill
    installed_tools = _install_tools(library, skill)
    return {
        **verdict_dict(verdict),
        "version": skill.extra.text("version"),
        "requirements": [check._asdict() for check in library.checks(skill)],
        "install": [
            {
                "id": recipe.id,
                "kind": recipe.kind,
                "package": recipe.package,
                "command": install_command(recipe),
                "note": recipe_note(recipe, installed_tools, library.facts.platform),
            }
            for recipe in skill.install
        ],
        "options": skill.options.plain(),
        "actions": [*_install_actions(library, verdict), *_collect_actions(verdict.problems)],
        "problems": [problem_dict(issue) for issue in verdict.problems],
    }


# --- metier why ---


@commands.command("why", Argument("name", complete=skill_names), JSON)
def why(context: CliContext, name: str, as_json: bool) -> None:
    """Explain why a skill is or is not in the catalog: found, parsed, trusted, allowed, eligible, shadowed, listed."""
    steps = why_steps(context.library(), name)
    if as_json:
        say_json([step._asdict() for step in steps])
        return
    say(paint(printable(name), "bold"))
    for step in steps:
        answer = paint(step.answer, "green" if step.good else "red") + " " * (3 - len(step.answer))
        lines = [f"  {step.question:<9} {answer}  {clean_path(step.because[0])}".rstrip()] if step.because else []
        lines += [f"  {'':<14} {clean_path(reason)}" for reason in step.because[1:]]
        for line in lines or [f"  {step.question:<9} {answer}".rstrip()]:
            say(line)
        for hint in step.hints:
            say(f"  {'':<14} {hint_line(printable(hint))}")
