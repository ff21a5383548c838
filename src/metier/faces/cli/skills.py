"""metier list, metier show and metier search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...light_typing import TYPE_CHECKING
from ...types.errors import BadRequest
from ...types.skill import Skill
from ...types.text import one_line
from ...types.verdict import UNAPPROVED, UNTRUSTED, state_of
from . import commands
from .commands import JSON, Argument, Flag, Option
from .options import CliContext, skill_names
from .output import (
    clean_path,
    color_enabled,
    count_of,
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
    verdict_dict,
    warn,
)

if TYPE_CHECKING:
    from ...library.library import Library
    from ...types.problem import Finding
    from ...types.search import SearchHit


@commands.command("list", Flag("verbose", ("-v", "--verbose"), "Show paths and problems"), JSON)
def list_skills(context: CliContext, verbose: bool, as_json: bool) -> None:
    """List the available skills: name, root, state and description."""
    library = context.library(shows_problems=True)
    if as_json:
        say_json(library_dict(library))
        return
    for line in listing_lines(library, verbose):
        say(line)


def listing_lines(library: Library, verbose: bool) -> list[str]:
    named = short_labels([*(v.skill.origin.root for v in library.verdicts), *(b.origin.root for b in library.broken)])
    rows = [
        (
            display_name(verdict.skill),
            named[verdict.skill.origin.root],
            state_of(verdict),
            printable(verdict.skill.description),
        )
        for verdict in library.verdicts
    ]
    rows += [
        (printable(item.id), named[item.origin.root], "broken", _finding_text(item.findings[-1]))
        for item in library.broken
    ]
    if not rows:
        return [
            "No skills found.",
            "",
            *_note_lines(library),
            hint_line("run `metier roots --all` to see where metier looks"),
            hint_line("run `metier init` for the bundled skills, or `metier new NAME` to create one"),
        ]
    lines = [paint_row(line, row) for line, row in zip(format_columns(rows), rows, strict=True)]
    if verbose:
        lines = _verbose_lines(library, lines)
    return [*lines, "", _summary_line(library), *_note_lines(library)]


def display_name(skill: Skill) -> str:
    """The name a person can use: with the plugin's in front, if it has that namespace."""
    name = printable(skill.name) or printable(skill.id)
    return f"{printable(skill.origin.namespace)}:{name}" if skill.origin.namespace else name


def short_labels(labels: Iterable[str]) -> dict[str, str]:
    """Short labels for roots: without the folder in the project, unless it distinguishes two."""
    short: dict[str, set[str]] = {}
    for label in labels:
        short.setdefault(label.partition(":")[0], set()).add(label)
    return {
        label: printable(label if len(full_labels) > 1 else key)
        for key, full_labels in short.items()
        for label in full_labels
    }


def paint_row(line: str, row: tuple[str, str, str, str]) -> str:
    """Colour the state in a line."""
    state = row[2]
    if not color_enabled():
        return line
    # Coloured after alignment, as escape codes would count as width; from the root on, as a name may contain the word.
    before, label, after = line.partition(f"  {row[1]}")
    head, separator, tail = after.partition(f"  {state}")
    return f"{before}{label}{head}  {paint_state(state)}{tail}" if label and separator else line


def _finding_text(finding: Finding) -> str:
    """What is wrong, without the details that follow a colon."""
    from ...types.problem import CODE_MEANINGS

    text = CODE_MEANINGS[finding.code].message.partition(":")[0]
    for number, detail in enumerate(finding.details):
        text = text.replace(f"{{{number}}}", printable(detail))
    return text


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
    codes = {finding.code for finding in library.untrusted.values()}
    if not codes.isdisjoint(UNAPPROVED):
        why = "the lock file can't be read" if "lock-unreadable" in codes else "some installed skills are not approved"
        lines.append(hint_line(f"{why}: run `metier why NAME` for details"))
    if not codes.isdisjoint(UNTRUSTED):
        changed = "changed-since-trust" in codes
        why = "this project changed since you trusted it" if changed else "this project is not trusted yet"
        lines.append(hint_line(f"{why}: review its skills, then run `metier trust`"))
    if library.broken or any(not verdict.eligible for verdict in library.verdicts):
        lines.append(hint_line("run `metier status -v` for details"))
    return lines


@commands.command("show", Argument("name", complete=skill_names), JSON)
def show(context: CliContext, name: str, as_json: bool) -> None:
    """Show a skill's metadata and its instructions as written."""
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
    from json import dumps

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
        # Line by line: the text is shown as written, but nothing in it moves the cursor.
        say(one_line(line.expandtabs(4)))


_MIN_SCORE_SHARE = 0.1
"""Of the best hit's score: a person is not shown hits below it."""


@commands.command(
    "search",
    Argument("query", many=True),
    Option("limit", ("--limit",), "Show at most N skills", "N", default=10, minimum=1),
    Flag("explain", ("--explain",), "Show the matching words, their weights, and each engine's rank"),
    Option(
        "registry",
        ("--registry",),
        "Search registries for skills to install: all configured ones, or the named one",
        "[=NAME]",
        default="",
        bare="*",
    ),
    JSON,
)
def search(context: CliContext, query: tuple[str, ...], limit: int, explain: bool, registry: str, as_json: bool) -> int:
    """Search skills by name, description and content, best match first.

    With --registry, search for skills to install instead; `metier add` takes the names that are shown.

    Exits with 1 if nothing matches.
    """
    request = " ".join(query)
    if not request.strip():
        raise BadRequest("the query is empty", "describe the task in a few words")
    if registry:
        # By name, as the command table does: what asks the network lies above this package.
        ask = commands.load_named("..remote.registry_search:search_registries")
        return int(ask(context, request, limit, registry, as_json))
    library = context.library(shows_problems=True)
    hits = library.search(request, limit=limit, audience="person")
    if not as_json:
        hits = tuple(hit for hit in hits if hit.score >= hits[0].score * _MIN_SCORE_SHARE or hit.clear)
    fault = library.finder.fault
    problems = [*library.problems, *([fault] if fault and fault not in library.problems else [])]
    if as_json:
        say_json(
            {
                "query": request,
                "hits": [_hit_dict(library, hit) for hit in hits],
                "problems": [problem_dict(issue) for issue in problems],
            }
        )
    else:
        for line in _hit_lines(library, hits, explain):
            say(line)
        for problem in problems:
            for line in problem_lines(problem):
                warn(line)
    return 0 if hits else 1


def _hit_lines(library: Library, hits: tuple[SearchHit, ...], explain: bool) -> Iterator[str]:
    if not hits:
        yield "No matching skills."
        yield hint_line("try other words, or run `metier list` for all skills")
        return
    if not hits[0].clear:
        yield paint("No clear match; the closest:", "yellow")
    states = [state_of(library.finder.verdicts[hit.skill.path]) for hit in hits]
    rows = [
        (printable(hit.skill.name), state, printable(hit.skill.description))
        for hit, state in zip(hits, states, strict=True)
    ]
    for line, hit, state in zip(format_columns(rows), hits, states, strict=True):
        yield line.replace(f"  {state}", "  " + paint_state(state), 1)
        if explain:
            yield from _explain_lines(hit)


def _explain_lines(hit: SearchHit) -> Iterator[str]:
    ranks = ", ".join(f"{engine} {rank}" for engine, rank in hit.ranks.items())
    yield paint(f"    rank {hit.rank} ({ranks}), score {hit.score:.3g}", "dim")
    for match in hit.matched:
        if match.fields:
            yield paint(f"    {match.weight:6.2f}  {printable(match.term)}  in {', '.join(match.fields)}", "dim")
    missing = [printable(match.term) for match in hit.matched if not match.fields]
    if missing:
        yield paint(f"            not found: {', '.join(missing[:12])}", "dim")


def _hit_dict(library: Library, hit: SearchHit) -> dict[str, object]:
    return {
        "name": hit.skill.name,
        "qualified": hit.skill.qualified,
        "description": hit.skill.description,
        "path": hit.skill.path,
        "state": state_of(library.finder.verdicts[hit.skill.path]),
        "rank": hit.rank,
        "score": round(hit.score, 4),
        "clear": hit.clear,
        "ranks": dict(hit.ranks),
        "matched": [match._asdict() for match in hit.matched if match.fields],
    }
