"""metier stats: what the journals say of skills."""

from __future__ import annotations

import click

from ...record.funnel import Funnel, funnel, turns_of
from ...record.stats import SkillStats, stats_of
from ...record.trace import runs as kept
from .app import Context
from .printing import clean, columns, counted, paint, say, say_json
from .runs import state_of

_MOST_DEAD = 20


@click.command("stats")
@click.option("--funnel", "as_funnel", is_flag=True, help="From what was shown to what was used, and at which rank.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Runs to look at, the newest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def stats(context: Context, as_funnel: bool, limit: int, as_json: bool) -> None:
    """Say of each skill how often it was offered, activated, of use and in the way, from the runs that were kept.

    A skill is dead when it was offered in 10 turns or more and never activated; stuck when 3 turns with it or more
    ended badly, and no fewer than ended well; over-firing when the model activated it 5 times or more, mostly to
    do nothing with it, or in more than half of all turns.
    """
    from itertools import islice

    traces = islice(kept(state_of(context)), limit)
    if as_funnel:
        _funnel(funnel(turn for trace in traces for turn in turns_of(trace.events)), as_json)
        return
    found = stats_of(traces)
    if as_json:
        say_json([one._asdict() for one in found])
        return
    _table([one for one in found if one.activated])
    _dead([one.name for one in found if one.oddity == "dead"])
    if not found:
        say('No skill was offered yet. `metier run "…"` makes a run.')


def _table(found: list[SkillStats]) -> None:
    rows: list[tuple[str, ...]] = [("skill", "offered", "activated", "succeeded", "failed", "tokens", "")]
    for one in found:
        failures = ", ".join(f"{reason} {count}" for reason, count in one.failures.items())
        note = "; ".join(part for part in (one.oddity, failures and f"failing calls: {failures}") if part)
        figures = (one.offered, one.activated, one.succeeded, one.failed, one.tokens)
        rows.append((clean(one.name), *map(str, figures), clean(note)))
    if found:
        head, *lines = columns(rows)
        say(paint(head, "dim"))
        for line in lines:
            say(line)


def _dead(names: list[str]) -> None:
    if names:
        more = f" and {len(names) - _MOST_DEAD} more" if len(names) > _MOST_DEAD else ""
        say(f"dead: {', '.join(map(clean, names[:_MOST_DEAD]))}{more}")


def _funnel(found: Funnel, as_json: bool) -> None:
    if as_json:
        say_json({**found._asdict(), "recall": {engine: dict(one) for engine, one in found.recall.items()}})
        return
    by = ", ".join(f"{who} {count}" for who, count in sorted(found.by.items()))
    say(f"{counted(found.turns, 'turn')}, one with several skills counted once for each")
    say(f"  {found.shown} with skills shown, in the catalog or suggested for the request")
    say(f"  {found.activated} with one activated" + (f" ({by})" if by else ""))
    say(f"    {found.used} used, {found.abandoned} abandoned, {found.finished} used and finished")
    for rank, count in sorted(found.ranks.items()):
        where = {0: "the catalog", -1: "not shown"}.get(rank, f"rank {rank}")
        say(f"    from {where}: {count}")
    for engine, depths in found.recall.items():
        shares = ", ".join(f"{share:.0%} in the first {depth}" for depth, share in depths.items())
        say(f"  {clean(engine)}: {shares}")
