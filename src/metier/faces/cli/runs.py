"""metier runs: what was done, read back."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...types.event import Heard, Replied, Started
from ...types.text import shortened
from . import naming
from .app import Context
from .drawing import Drawing, Lines, lines_of
from .printing import clean, paint, say, say_json


@click.group("runs", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, the newest first.")
@click.option("--skill", metavar="NAME", help="Only runs that used this skill.")
@click.option("--failed", is_flag=True, help="Only runs that did not finish, or in which a call of a tool failed.")
@click.pass_context
def runs(context: click.Context, as_json: bool, limit: int, skill: str | None, failed: bool) -> None:
    """List the runs that were kept; `show` and `replay` read one back."""
    if context.invoked_subcommand is not None:
        return
    from itertools import islice

    from ...record import runs as kept

    wanted = (
        trace
        for trace in kept(state_of(context.obj))
        if (skill is None or skill in trace.skills)
        and (not failed or trace.outcome != "finished" or bool(trace.failures))
    )
    found = list(islice(wanted, limit))
    if as_json:
        say_json([summary(trace) for trace in found])
        return
    if not found:
        say("No such run." if skill or failed else 'No runs yet. `metier run "…"` makes one.')
    for trace in found:
        from ...host.clock import day_and_time

        task = shortened(clean(trace.task), 60)
        say(f"{trace.run}  {day_and_time(trace.at)}  {_outcome(trace.outcome)}  {task}")


def state_of(context: Context) -> str:
    from ...host.place import here

    return here(context.project).state


def _outcome(outcome: str) -> str:
    return paint(f"{outcome:13}", "green" if outcome == "finished" else "yellow")


def summary(trace: Any) -> dict[str, object]:
    usage = trace.usage
    return {
        "run": trace.run,
        "at": trace.at,
        "task": trace.task,
        "model": trace.started.model,
        "dialect": trace.started.dialect,
        "agent": trace.started.agent,
        "parent": trace.started.parent,
        "schedule": trace.started.schedule,
        "turns": trace.turns,
        "skills": list(trace.skills),
        "tools": trace.tools,
        "outcome": trace.outcome,
        "reason": trace.ended.reason if trace.ended else "",
        "failures": len(trace.failures),
        "seconds": trace.seconds,
        "tokens": {"sent": usage.input, "received": usage.output, "cached": usage.cached},
        "cost": usage.cost,
    }


@runs.command("show")
@click.argument("id", shell_complete=naming.runs)
@click.option("--json", "as_json", is_flag=True, help="The summary and every event, as one JSON document.")
@click.pass_obj
def show(context: Context, id: str, as_json: bool) -> None:
    """Show one run: what was said, which skills were used, which tools were called, how it ended."""
    from ...record import encode, trace_of
    from ...record.journal import journal_of

    trace = trace_of(journal_of(state_of(context), id))
    if as_json:
        say_json({
            **summary(trace),
            "offered": list(trace.offered),
            "activated": [{"skill": one.skill, "by": one.by, "tokens": one.tokens} for one in trace.activations],
            "failed": [
                {"tool": one.call.name, "reason": one.reason, "status": one.status, "skill": one.skill}
                for one in trace.failures
            ],
            "events": [{"at": one.at, **encode(one.event)} for one in trace.recorded],
        })  # fmt: skip
        return
    for key, value in summary(trace).items():
        if value not in ("", [], {}, None) and key != "at":
            say(f"{paint(key + ':', 'dim')} {clean(str(value))}")
    say()
    for event in trace.events:
        if isinstance(event, Heard):
            say(f"{paint('>', 'bold')} {clean(event.text)}")
        elif isinstance(event, Replied) and event.text:
            for line in event.text.splitlines():
                say(clean(line))
        elif not isinstance(event, Started):
            for line in lines_of(event):
                say(line)


@runs.command("replay")
@click.argument("id", shell_complete=naming.runs)
@click.option("--json", "as_json", is_flag=True, help="Every event as one line of JSON.")
@click.pass_obj
def replay(context: Context, id: str, as_json: bool) -> None:
    """Draw a run again as it was drawn when it happened.  Nothing is asked and nothing runs."""
    from ...record import trace_of
    from ...record.journal import journal_of

    drawing = Lines() if as_json else Drawing(replay=True)
    for event in trace_of(journal_of(state_of(context), id)).events:
        if isinstance(event, Heard) and not as_json:
            sys.stdout.write(f"> {clean(event.text)}\n")
        drawing.draw(event)
