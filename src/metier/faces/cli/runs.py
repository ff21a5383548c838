"""metier runs: what was done, read back."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...types.event import Heard, Replied, Started
from . import naming
from .app import Context
from .drawing import Drawing, Lines, lines_of
from .printing import clean, columns, paint, say, say_json, width

_WIDE = 100
"""Columns of a terminal that has room for the model too."""


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

    from ...record.trace import runs as kept

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
    if found:
        _table(found)


def _table(found: list[Any]) -> None:
    """One line for each, as wide as the terminal; the task is what is cut."""
    from ...host.clock import day_and_time

    models = width() >= _WIDE
    rows = [["RUN", "BEGAN", "ENDED", *(["MODEL"] if models else []), "TASK"]]
    for trace in found:
        ended = trace.ended.reason if trace.ended and trace.ended.reason else trace.outcome
        model = [clean(trace.started.model)] if models else []
        rows.append([trace.run, day_and_time(trace.at), clean(ended), *model, clean(trace.task)])
    head, *lines = columns(rows)
    say(paint(head, "dim"))
    for line, row in zip(lines, rows[1:], strict=True):
        say(line.replace(row[2], paint(row[2], "green" if row[2] == "finished" else "yellow"), 1))


def state_of(context: Context) -> str:
    from ...host.place import here

    return here(context.project).state


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


def _told(trace: Any) -> dict[str, str]:
    """The same for a person."""
    said, usage = summary(trace), trace.usage
    told = {key: str(value) for key, value in said.items() if value not in ("", [], {}, None, 0) and key != "at"}
    told["skills"] = ", ".join(trace.skills)
    told["tools"] = ", ".join(f"{name} {count}×" for name, count in trace.tools.items())
    told["tokens"] = f"{usage.input} sent ({usage.cached} cached), {usage.output} received" if usage.tokens else ""
    told["seconds"] = f"{trace.seconds:g}"
    if told.get("reason") == told["outcome"]:
        told["reason"] = ""
    if trace.ended and trace.outcome != "finished":
        told["reason"] = trace.ended.text or told.get("reason", "")
    return told


@runs.command("show")
@click.argument("id", shell_complete=naming.runs)
@click.option("--json", "as_json", is_flag=True, help="The summary and every event, as one JSON document.")
@click.pass_obj
def show(context: Context, id: str, as_json: bool) -> None:
    """Show one run: what was said, which skills were used, which tools were called, how it ended."""
    from ...record.encode import encode
    from ...record.journal import journal_of
    from ...record.trace import trace_of

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
    for key, value in _told(trace).items():
        if value:
            say(f"{paint(key + ':', 'dim')} {clean(value)}")
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
    from ...record.journal import journal_of
    from ...record.trace import trace_of

    drawing = Lines() if as_json else Drawing()
    for event in trace_of(journal_of(state_of(context), id)).events:
        if isinstance(event, Heard) and not as_json:
            sys.stdout.write(f"> {clean(event.text)}\n")
        drawing.draw(event)
