"""metier runs and metier stats: recorded runs, and statistics on the skills they used."""

from __future__ import annotations

import sys

import click

from ...record.stats import ActivationFunnel, SkillStats, build_funnel, collect_stats, read_turns
from ...record.trace import Trace, read_traces
from ...types.event import Heard, Replied, Started
from . import options
from .events import JsonEventPrinter, TerminalEventPrinter, event_lines
from .options import CliContext
from .output import count_of, format_columns, paint, printable, say, say_json, say_waiting, terminal_width

_MODEL_COLUMN_WIDTH = 100
"""Columns of a terminal that has room for the model too."""


@click.group("runs", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Show the newest N runs")
@click.option("--skill", metavar="NAME", help="Show only runs that used this skill")
@click.option("--failed", is_flag=True, help="Show only runs that did not finish or had a failed tool call")
@click.pass_context
def runs(context: click.Context, as_json: bool, limit: int, skill: str | None, failed: bool) -> None:
    """List recorded runs; `show` and `replay` print one, `open` continues one in the chat."""
    if context.invoked_subcommand is not None:
        return
    from itertools import islice

    matching = (
        trace
        for trace in read_traces(state_folder(context.obj))
        if (skill is None or skill in trace.skills)
        and (not failed or trace.outcome != "finished" or bool(trace.failures))
    )
    traces = list(islice(matching, limit))
    if as_json:
        say_json([trace_dict(trace) for trace in traces])
        return
    if not traces:
        say("No matching runs." if skill or failed else 'No runs yet. `metier run "…"` starts one.')
    if traces:
        _print_table(traces)


def _print_table(traces: list[Trace]) -> None:
    """Print one line per run; the task is cut to the width of the terminal."""
    from ...host.facts import format_local_time

    models = terminal_width() >= _MODEL_COLUMN_WIDTH
    rows = [["RUN", "STARTED", "ENDED", *(["MODEL"] if models else []), "TASK"]]
    for trace in traces:
        ended = trace.ended.reason if trace.ended and trace.ended.reason else trace.outcome
        model = [printable(trace.started.model)] if models else []
        rows.append([trace.run, format_local_time(trace.at), printable(ended), *model, printable(trace.task)])
    head, *lines = format_columns(rows)
    say(paint(head, "dim"))
    # Coloured after the columns are aligned: escape codes would count as width.
    for line, row in zip(lines, rows[1:], strict=True):
        say(line.replace(row[2], paint(row[2], "green" if row[2] == "finished" else "yellow"), 1))


def state_folder(context: CliContext) -> str:
    from ...host.facts import find_place

    return find_place(context.directory).state


def trace_dict(trace: Trace) -> dict[str, object]:
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


def _trace_fields(trace: Trace) -> dict[str, str]:
    """The same fields, formatted for a person."""
    document, usage = trace_dict(trace), trace.usage
    fields = {key: str(value) for key, value in document.items() if value not in ("", [], {}, None, 0) and key != "at"}
    fields["skills"] = ", ".join(trace.skills)
    fields["tools"] = ", ".join(f"{name} {count}×" for name, count in trace.tools.items())
    fields["tokens"] = f"{usage.input} sent ({usage.cached} cached), {usage.output} received" if usage.tokens else ""
    fields["seconds"] = f"{trace.seconds:g}"
    if fields.get("reason") == fields["outcome"]:
        fields["reason"] = ""
    if trace.ended and trace.outcome != "finished":
        fields["reason"] = trace.ended.text or fields.get("reason", "")
    return fields


@runs.command("open")
@click.argument("id", required=False, default="", shell_complete=options.runs)
@click.pass_context
def open_run(context: click.Context, id: str) -> None:
    """Continue a conversation in the chat; without an id, pick one from a list."""
    # By its name, as a person would: the app is above the command line and may not be imported here.
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    chat = root.command.get_command(root, "chat")
    assert chat is not None
    context.invoke(chat, model="", resume=id or options.PICK_SESSION, go_on=False)


@runs.command("show")
@click.argument("id", shell_complete=options.runs)
@click.option("--json", "as_json", is_flag=True, help="Print the summary and all events as JSON")
@click.pass_obj
def show(context: CliContext, id: str, as_json: bool) -> None:
    """Show a run: messages, skills, tool calls and outcome."""
    from ...record.journal import encode_event, find_journal
    from ...record.trace import read_trace

    trace = read_trace(find_journal(state_folder(context), id))
    if as_json:
        say_json(
            {
                **trace_dict(trace),
                "offered": list(trace.offered),
                "activated": [
                    {"skill": activation.skill, "by": activation.by, "tokens": activation.tokens}
                    for activation in trace.activations
                ],
                "failed": [
                    {
                        "tool": failure.call.name,
                        "reason": failure.reason,
                        "status": failure.status,
                        "skill": failure.skill,
                    }
                    for failure in trace.failures
                ],
                "events": [{"at": record.at, **encode_event(record.event)} for record in trace.recorded],
            }
        )
        return
    for key, value in _trace_fields(trace).items():
        if value:
            say(f"{paint(key + ':', 'dim')} {printable(value)}")
    say()
    for event in trace.events:
        if isinstance(event, Heard):
            say(f"{paint('>', 'bold')} {printable(event.text)}")
        elif isinstance(event, Replied) and event.text:
            for line in event.text.splitlines():
                say(printable(line))
        elif not isinstance(event, Started):
            for line in event_lines(event):
                say(line)


@runs.command("replay")
@click.argument("id", shell_complete=options.runs)
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON")
@click.pass_obj
def replay(context: CliContext, id: str, as_json: bool) -> None:
    """Print a run as it appeared when it happened. Nothing is sent and nothing runs."""
    from ...record.journal import find_journal
    from ...record.trace import read_trace

    printer = JsonEventPrinter() if as_json else TerminalEventPrinter()
    for event in read_trace(find_journal(state_folder(context), id)).events:
        if isinstance(event, Heard) and not as_json:
            sys.stdout.write(f"> {printable(event.text)}\n")
        printer.draw(event)


# Names that are listed; --json has all.
_MAX_DEAD = 20


@click.command("stats")
@click.option("--funnel", "as_funnel", is_flag=True, help="Show the funnel from listed to used, and the ranks")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Use the newest N runs")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def stats(context: CliContext, as_funnel: bool, limit: int, as_json: bool) -> None:
    """Show how often each skill was offered, activated, succeeded and failed in the recorded runs.

    A skill is dead if it was offered in at least 10 turns and never activated; stuck if at least 3 turns with it
    failed, and no fewer than succeeded; over-firing if the model activated it at least 5 times, mostly without using
    it, or in more than half of all turns.
    """
    from itertools import islice

    traces = islice(read_traces(state_folder(context)), limit)
    if as_funnel:
        _print_funnel(build_funnel(turn for trace in traces for turn in read_turns(trace.events)), as_json)
        return
    entries = collect_stats(traces)
    if as_json:
        say_json([entry._asdict() for entry in entries])
        return
    _print_stats([entry for entry in entries if entry.activated])
    _print_dead([entry.name for entry in entries if entry.oddity == "dead"])
    if not entries:
        say('No skill was offered yet. `metier run "…"` starts a run.')
    say_waiting(state_folder(context))


def _print_stats(entries: list[SkillStats]) -> None:
    rows: list[tuple[str, ...]] = [("skill", "offered", "activated", "succeeded", "failed", "tokens", "")]
    for entry in entries:
        failures = ", ".join(f"{reason} {count}" for reason, count in entry.failures.items())
        note = "; ".join(part for part in (entry.oddity, failures and f"failing calls: {failures}") if part)
        figures = (entry.offered, entry.activated, entry.succeeded, entry.failed, entry.tokens)
        rows.append((printable(entry.name), *map(str, figures), printable(note)))
    if entries:
        head, *lines = format_columns(rows)
        say(paint(head, "dim"))
        for line in lines:
            say(line)


def _print_dead(names: list[str]) -> None:
    if names:
        suffix = f" and {len(names) - _MAX_DEAD} more" if len(names) > _MAX_DEAD else ""
        say(f"dead: {', '.join(map(printable, names[:_MAX_DEAD]))}{suffix}")


def _print_funnel(figures: ActivationFunnel, as_json: bool) -> None:
    if as_json:
        say_json(
            {**figures._asdict(), "recall": {engine: dict(by_depth) for engine, by_depth in figures.recall.items()}}
        )
        return
    by = ", ".join(f"{who} {count}" for who, count in sorted(figures.by.items()))
    say(f"{count_of(figures.turns, 'turn')} (one with several skills counts once for each)")
    say(f"  {figures.shown} with skills shown, in the catalog or suggested for the request")
    say(f"  {figures.activated} with one activated" + (f" ({by})" if by else ""))
    say(f"    {figures.used} used, {figures.abandoned} abandoned, {figures.finished} used and finished")
    for rank, count in sorted(figures.ranks.items()):
        where = {0: "the catalog", -1: "not shown"}.get(rank, f"rank {rank}")
        say(f"    from {where}: {count}")
    for engine, depths in figures.recall.items():
        shares = ", ".join(f"{share:.0%} in the first {depth}" for depth, share in depths.items())
        say(f"  {printable(engine)}: {shares}")
