"""metier search."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ...library.library import Library
from ...types.catalog import SearchHit
from ...types.errors import BadRequest
from .app import CliContext
from .output import (
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
    warn,
)

_MIN_SCORE_SHARE = 0.1
"""Of the best one's score: what has less is no answer for a person beside it."""


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most this many skills.")
@click.option("--explain", is_flag=True, help="Which words counted, what each weighs, and every engine's rank.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def search(context: click.Context, query: tuple[str, ...], limit: int, explain: bool, as_json: bool) -> None:
    """Find the skills that a request is for, best first: what they are called, say they do, and are about.

    Exit code 1 if nothing is found.
    """
    request = " ".join(query)
    if not request.strip():
        raise BadRequest("there is nothing to search for", "say in a few words what you want to do")
    settings: CliContext = context.obj
    library: Library = settings.library()
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
    context.exit(0 if hits else 1)


def _hit_lines(library: Library, hits: tuple[SearchHit, ...], explain: bool) -> Iterator[str]:
    if not hits:
        yield "Nothing found."
        yield hint_line("try other words; `metier list` shows every skill")
        return
    if not hits[0].clear:
        yield paint("Nothing clearly fits; the nearest:", "yellow")
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
        yield paint(f"            not there: {', '.join(missing[:12])}", "dim")


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
