"""metier run."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from ...types.agent import Bounds
from ...types.errors import BadRequest, MetierError, NoModel
from ...types.event import Ended
from . import naming
from .app import Context
from .drawing import Drawing, Lines
from .printing import clean, paint, problem_lines, warn

_WORDS = {"ignore_unknown_options": True}


class _Number(click.FloatRange):
    name = "number"


class _Whole(click.IntRange):
    name = "whole number"


@click.command("run", context_settings=_WORDS)
@click.argument("task", nargs=-1, shell_complete=naming.calls)
@naming.model_option()
@click.option("--json", "as_json", is_flag=True, help="Every event as one line of JSON.")
@click.option("--dry-run", is_flag=True, help="Print the exact request, and send nothing.")
@click.option("--resume", metavar="ID", default="", help="Go on with a run: its id, the beginning of it, or `last`.")
@click.option("--allow", multiple=True, metavar="RULE", help="Allow calls, such as 'run_command(git status*)'.")
@click.option("--deny", multiple=True, metavar="RULE", help="Forbid calls.")
@click.option("--yes", is_flag=True, help="Allow whatever is asked; what is forbidden stays so.")
@click.option("--max-turns", type=_Whole(0), help="Requests to the model.")
@click.option("--max-tokens", type=_Whole(0), help="Tokens, sent and received.")
@click.option("--max-cost", type=_Number(0), help="US dollars, where the price is known.")
@click.option("--seconds", type=_Number(0), help="How long it may take.")
@click.option("--no-journal", is_flag=True, help="Keep no journal of it.")
@click.pass_obj
def run(context: Context, /, task: tuple[str, ...], **given: Any) -> int:
    """Do one task, or call one skill: metier run "/skill words".

    What the model says goes to standard output, all else to standard error.  The exit code says how it ended:
    0 finished, 2 asked wrongly, 4 refused, 5 failed, 6 a limit was reached, 130 interrupted.
    """
    text = " ".join(task).strip() or _piped()
    if not text:
        raise BadRequest("there is nothing to do", 'say what: metier run "…"')
    try:
        agent = _agent(context, given)
        _mention(agent, given)
        if given["dry_run"]:
            return _dry(agent, text, given["model"])
        session = _begun(agent, text, given["resume"])
    except MetierError as error:
        if not given["as_json"]:
            raise
        Lines().draw(Ended("failed", error.message, error.reason, error.hint, code=error.exit_code))
        return error.exit_code
    return _draw(session, text, given)


def _piped() -> str:
    return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()


def _agent(context: Context, given: dict[str, Any]) -> Any:
    from ...runtime.acting import agent_for
    from ...runtime.agents import rules_of

    agent = agent_for(context.library(), given["model"], context.agent)
    permission = agent.permission
    bad = [text for text in (*given["allow"], *given["deny"]) if not rules_of((text,))]
    if bad:
        raise BadRequest(f"`{bad[0]}` is not a rule", "write a tool's name, or name(pattern)")
    permission = replace(
        permission,
        allow=(*permission.allow, *rules_of(given["allow"])),
        deny=(*permission.deny, *rules_of(given["deny"])),
        otherwise="allow" if given["yes"] else permission.otherwise,
    )
    usual = agent.bounds
    bounds = Bounds(
        usual.turns if given["max_turns"] is None else given["max_turns"],
        usual.tokens if given["max_tokens"] is None else given["max_tokens"],
        usual.seconds if given["seconds"] is None else given["seconds"],
        usual.cost if given["max_cost"] is None else given["max_cost"],
    )
    return replace(agent, rules=permission, limits=bounds, keep=not given["no_journal"])


def _begun(agent: Any, text: str, resumed: str) -> Any:
    try:
        return agent.resume(resumed) if resumed else agent.start()
    except NoModel as error:
        from ...runtime.entering import slip_of

        raise slip_of(agent.library, text) or error from None  # a slip of the pen needs no model


def _mention(agent: Any, given: dict[str, Any]) -> None:
    """What is wrong with the configuration, the agent's file and the rules, and does not keep it from running."""
    from ...runtime.agents import faults_of, no_tool, rules_of

    for one in agent.library.problems:
        if one.code.startswith("config") and one.severity != "info":
            for line in problem_lines(one):
                warn(line)
    for fault in faults_of(agent.library, agent.file):
        warn(f"{paint('warning', 'yellow')} {clean(fault)}")
    more = {tool.name for tool in agent.more_tools()} if given["allow"] or given["deny"] else set()
    for text in (*given["allow"], *given["deny"]):
        if told := no_tool(rules_of((text,))[0].tool, more):
            warn(f"{paint('warning', 'yellow')} the rule `{clean(text)}` speaks of nothing: {clean(told)}")


def _dry(agent: Any, text: str, model: str) -> int:
    from ...runtime.acting import request_of
    from ...runtime.models import unasked
    from .render import told

    shown = unasked(model, agent.library)
    if shown.name == "none":
        warn("No model is set: this is the request in no provider's own form.")
    told(request_of(replace(agent, model=shown), text))
    return 0


def _draw(session: Any, text: str, given: dict[str, Any]) -> int:
    drawing = Lines() if given["as_json"] else Drawing(asks=_can_ask(), kept=session.journal is not None)
    code = 0
    try:
        for event in session.say(text):
            answer = drawing.draw(event)
            if answer is not None:
                session.answer(*answer)
            if isinstance(event, Ended):
                code = event.code
    except KeyboardInterrupt:
        session.stop()
        drawing.draw(Ended("interrupted", reason="interrupted", code=130))
        return 130
    return code


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
