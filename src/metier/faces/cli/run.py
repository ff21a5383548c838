"""metier run and metier batch: tasks for a model, one or many."""

from __future__ import annotations

import sys
from dataclasses import replace
from json import dumps, loads
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from ...host import daemon as machine
from ...host import paths
from ...host.facts import find_place
from ...types.agent import TurnBounds
from ...types.errors import BadRequest, MetierError, NoModel
from ...types.event import UNDECIDED, Asked, Ended, Event, innermost_event
from ...types.schedule import BatchResult, BatchTask
from ...types.text import shorten_text
from . import options
from .events import JsonEventPrinter, TerminalEventPrinter
from .options import CliContext
from .output import ProgressBar, paint, printable, problem_lines, say, say_waiting, warn

if TYPE_CHECKING:
    from ...agent.agent import Agent
    from ...agent.session import Session

# --- metier batch ---

_TASK_KEYS = frozenset({"task", "model", "agent"})


@click.command("batch")
@click.argument("file")
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Maximum number of calls at a time"
)
@options.model_option()
@click.option(
    "--allow", multiple=True, metavar="RULE", help="Allow tool calls, such as 'run_command(git *)'; may be repeated"
)
@click.option("--json", "as_json", is_flag=True, help="Print each result as a line of JSON")
@click.pass_obj
def batch(context: CliContext, /, file: str, **options: Any) -> None:
    """Run every line of FILE: a task, `/skill words`, or JSON with `task`, `model` and `agent`.

    Empty lines and lines that start with `#` are skipped. Each result shows its line number in the file.

    The calls go through the schedule queue: the daemon runs them, or a worker that the batch starts. Run an
    interrupted batch again to continue it. Exits with 1 if a call fails.
    """
    from ...schedule.batch import run_batch as run
    from ..agents import run_task

    place = find_place(context.directory)
    tasks = _read_tasks(file, context, options)
    lines, failed_count, done_count = list(tasks), 0, 0
    with ProgressBar(PurePath(file).name) as bar:
        bar("calls", 0, len(tasks))
        try:
            for result in run(place, run_task, list(tasks.values()), options["jobs"]):
                done_count, failed_count = done_count + 1, failed_count + (not result.outcome.ok)
                bar.clear()
                _report_result(result, lines[result.number - 1], options["as_json"])
                bar("calls", done_count, len(tasks))
        except KeyboardInterrupt:
            bar.clear()
            warn(f"interrupted: {done_count} of {len(tasks)} done; run the same command again to continue")
            sys.stdout.flush()
            # The queue keeps the unfinished calls, so nothing is lost; an orderly exit would wait for those that run.
            machine.kill_children()
            machine.exit_now(130)
    sys.stdout.flush()
    machine.exit_now(1 if failed_count else 0)


def _report_result(result: BatchResult, line: int, as_json: bool) -> None:
    state = "finished" if result.outcome.ok else "failed"
    if as_json:
        say(dumps({"line": line, "task": result.text, "state": state, "text": result.outcome.text}, ensure_ascii=False))
    else:
        text = shorten_text(printable(result.outcome.text), 160)
        say(f"{line}  {paint(state, 'green' if result.outcome.ok else 'red')}  {text}")


def _read_tasks(file: str, context: CliContext, options: dict[str, Any]) -> dict[int, BatchTask]:
    """The calls by line number."""
    place = find_place(context.directory)
    text = sys.stdin.read() if file == "-" else paths.read_text_file(paths.absolute_path(file, place.cwd, place.home))
    if text is None:
        raise BadRequest(f"{file} does not exist", "pass a file with one call per line, or `-` for standard input")
    defaults = BatchTask(
        "", place.cwd, options["model"], context.dialect or "", context.agent or "", tuple(options["allow"])
    )
    tasks = {
        number: _parse_task(line, number, defaults)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    if not tasks:
        raise BadRequest(f"{file} contains no calls", "write one per line")
    return tasks


def _parse_task(line: str, number: int, defaults: BatchTask) -> BatchTask:
    if not line.lstrip().startswith("{"):
        return replace(defaults, text=line.strip())
    try:
        fields = loads(line)
    except ValueError:
        raise BadRequest(f"line {number}: invalid JSON", "write a task, or an object with `task`") from None
    unknown_keys = sorted(set(fields) - _TASK_KEYS)
    if (
        unknown_keys
        or not isinstance(fields.get("task"), str)
        or not all(isinstance(value, str) for value in fields.values())
    ):
        fault = f"unknown key `{unknown_keys[0]}`" if unknown_keys else "`task` must be text"
        raise BadRequest(f"line {number}: {fault}", "an object has `task`, and may have `model` and `agent`")
    return replace(
        defaults,
        text=fields["task"],
        model=fields.get("model", defaults.model),
        agent=fields.get("agent", defaults.agent),
    )


# --- metier run ---


class _NumberRange(click.FloatRange):
    name = "number"


class _IntegerRange(click.IntRange):
    name = "whole number"


@click.command("run")
@click.argument("task", nargs=-1, shell_complete=options.calls)
@options.model_option()
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON")
@click.option("--dry-run", is_flag=True, help="Print the exact request without sending it")
@click.option("--resume", metavar="ID", default="", help="Continue a run: its id, a prefix of it, or `last`")
@click.option("--continue", "-c", "go_on", is_flag=True, help="Continue the last run in this folder")
@click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="Allow tool calls, such as 'run_command(git status*)'; may be repeated",
)
@click.option("--deny", multiple=True, metavar="RULE", help="Deny tool calls; may be repeated")
@click.option("--yes", is_flag=True, help="Approve whatever would be asked; what is denied stays so")
@click.option("--max-turns", type=_IntegerRange(0), help="Maximum number of model requests")
@click.option("--max-tokens", type=_IntegerRange(0), help="Maximum number of tokens, sent and received")
@click.option("--max-cost", type=_NumberRange(0), help="Maximum cost in US dollars, if the price is known")
@click.option("--seconds", type=_NumberRange(0), help="Time limit")
@click.option("--no-journal", is_flag=True, help="Do not record the run")
@click.pass_obj
def run(context: CliContext, /, task: tuple[str, ...], **options: Any) -> int:
    """Run a task, or call a skill: metier run "/skill words". Text that begins with `-` goes after `--`.

    --yes approves every call that a person would be asked about. It never answers what may match a rule that denies or
    asks, a question of the model's, or whether to trust a project or a skill; nor does it open the network or `.git`.

    The model's output goes to standard output, everything else to standard error. Exit codes: 0 finished, 2 usage
    error, 4 refused, 5 failed, 6 limit reached, 130 interrupted.
    """
    text = _checked_text(" ".join(task), "the task").strip() or _read_stdin()
    if not text:
        raise BadRequest("missing task", 'run `metier run "…"`')
    if options["go_on"] and options["resume"]:
        raise BadRequest("--continue and --resume name two runs", "pass one of them")
    try:
        agent = _build_agent(context, options)
        _warn_faults(agent, options)
        if options["dry_run"]:
            return _print_request(agent, text, options["model"])
        session = _start_session(agent, text, "last" if options["go_on"] else options["resume"])
    except MetierError as error:
        # A program that reads events gets an early failure as an event, too.
        if not options["as_json"]:
            raise
        JsonEventPrinter().draw(Ended("failed", error.message, error.reason, error.hint, code=error.exit_code))
        return error.exit_code
    return _draw_session(session, text, options)


def _read_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return _checked_text(sys.stdin.read(), "standard input").strip()


def _checked_text(text: str, what: str) -> str:
    """The text, if it can be sent: bytes that are no UTF-8 come in as lone surrogates, which no service takes."""
    bad = next((at for at, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    if bad is not None:
        raise BadRequest(f"{what} is not UTF-8 at character {bad + 1}", "convert it first, as with iconv")
    return text


def _build_agent(context: CliContext, options: dict[str, Any]) -> Agent:
    from ...agent.agent_files import parse_rules
    from ..agents import open_agent

    agent = open_agent(context.library(), options["model"], context.agent)
    permission = agent.permission
    bad = [text for text in (*options["allow"], *options["deny"]) if not parse_rules((text,))]
    if bad:
        raise BadRequest(f"invalid rule `{bad[0]}`", "write a tool's name, or name(pattern)")
    permission = replace(
        permission,
        allow=(*permission.allow, *parse_rules(options["allow"])),
        deny=(*permission.deny, *parse_rules(options["deny"])),
        # Only the default: rules that deny still come first.
        otherwise="allow" if options["yes"] else permission.otherwise,
    )
    defaults = agent.bounds
    bounds = TurnBounds(
        defaults.turns if options["max_turns"] is None else options["max_turns"],
        defaults.tokens if options["max_tokens"] is None else options["max_tokens"],
        defaults.seconds if options["seconds"] is None else options["seconds"],
        defaults.cost if options["max_cost"] is None else options["max_cost"],
    )
    return replace(agent, rules=permission, limits=bounds, keep=not options["no_journal"])


def _start_session(agent: Agent, text: str, resumed: str) -> Session:
    try:
        return agent.resume(resumed) if resumed else agent.start()
    except NoModel as error:
        from ...agent.turns import unknown_command_error

        # Some commands run without a model, so a misspelled command is the likelier error.
        raise unknown_command_error(agent.library, text) or error from None


def _warn_faults(agent: Agent, options: dict[str, Any]) -> None:
    """Warn about faults in the configuration, the agent file and the rules that do not prevent the run."""
    from ...agent.agent_files import agent_file_faults, parse_rules, unknown_tool_message

    for problem in agent.library.problems:
        if problem.code.startswith("config") and problem.severity != "info":
            for line in problem_lines(problem):
                warn(line)
    for fault in agent_file_faults(agent.library, agent.file):
        warn(f"{paint('warning', 'yellow')} {printable(fault)}")
    extra_tools = {tool.name for tool in agent.more_tools()} if options["allow"] or options["deny"] else set()
    for text in options["deny"]:
        # A rule that would have forbidden something and matches nothing: the run would do what it was to forbid.
        if reason := unknown_tool_message(parse_rules((text,))[0].tool, extra_tools):
            raise BadRequest(f"the rule `{text}` of --deny matches nothing: {reason}", "correct the rule")
    for text in options["allow"]:
        if reason := unknown_tool_message(parse_rules((text,))[0].tool, extra_tools):
            warn(f"{paint('warning', 'yellow')} the rule `{printable(text)}` matches nothing: {printable(reason)}")


def _print_request(agent: Agent, text: str, model: str) -> int:
    from ...agent.agent import preview_request
    from ...agent.models.registry import open_preview_model
    from .render import print_model_text

    unasked_model = open_preview_model(model, agent.library)
    if unasked_model.name == "none":
        warn("no model is configured; showing the request in a generic format")
    print_model_text(preview_request(replace(agent, model=unasked_model), text))
    return 0


def _draw_session(session: Session, text: str, options: dict[str, Any]) -> int:
    printer = (
        JsonEventPrinter()
        if options["as_json"]
        else TerminalEventPrinter(interactive=_can_ask(), recorded=session.journal is not None)
    )
    code = 0
    try:
        with session.agent, session:
            for event in session.say(text):
                standing = _standing_answer(event) if options["yes"] else None
                answer = printer.draw(event, asks=standing is None) or standing
                if answer is not None:
                    session.answer(*answer)
                if isinstance(event, Ended):
                    code = event.code
    except KeyboardInterrupt:
        session.stop()
        printer.draw(Ended("interrupted", reason="interrupted", code=130))
        return 130
    if not options["as_json"] and _can_ask():
        say_waiting(session.library.place.state)
    return code


def _standing_answer(event: Event) -> tuple[str, str] | None:
    """What --yes answers: every approval, but none that a rule of the user's may forbid."""
    question = innermost_event(event)
    if isinstance(question, Asked) and question.kind == "approval" and not question.why.startswith(UNDECIDED):
        return question.id, "once"
    return None


def _can_ask() -> bool:
    # Questions go to standard error: standard output is the model's, and may be a pipe.
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
