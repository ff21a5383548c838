"""metier batch."""

from __future__ import annotations

import sys
from json import dumps, loads
from pathlib import PurePath
from typing import Any

import click

from ...host import daemon as machine
from ...host import paths
from ...host.place import here
from ...types.batch import Ran, Task
from ...types.errors import BadRequest
from ...types.text import shortened
from . import naming
from .app import Context
from .printing import clean, paint, say, warn
from .progress import Bar

_KEYS = frozenset({"task", "model", "agent"})


@click.command("batch")
@click.argument("file")
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Calls at a time.")
@naming.model_option("The model to ask.")
@click.option("--allow", multiple=True, metavar="RULE", help="Allow calls of tools, such as 'run_command(git *)'.")
@click.option("--json", "as_json", is_flag=True, help="Each result as one line of JSON.")
@click.pass_obj
def batch(context: Context, /, file: str, **given: Any) -> None:
    """Do every call of FILE, a line each: a task, `/skill words`, or JSON with `task`, `model` and `agent`.

    Empty lines, and those that begin with `#`, are passed over.  Each result is numbered by its line in the file.

    The calls go over the same queue as schedules: the daemon of this home does them, or a worker of the batch's own.
    A batch that was cut off goes on where it was when it is asked for again.  Exit code 1 if any call failed.
    """
    from ...runtime.batching import do
    from ...schedule.batch import batch as run

    place = here(context.project)
    tasks = _tasks(file, context, given)
    lines, failed, done = list(tasks), 0, 0
    with Bar(PurePath(file).name) as bar:
        bar("calls", 0, len(tasks))
        try:
            for one in run(place, do, list(tasks.values()), given["jobs"]):
                done, failed = done + 1, failed + (not one.outcome.ok)
                bar.clear()
                _tell(one, lines[one.number - 1], given["as_json"])
                bar("calls", done, len(tasks))
        except KeyboardInterrupt:
            bar.clear()
            warn(f"interrupted: {done} of {len(tasks)} are done; the same command goes on with the rest")
            sys.stdout.flush()
            machine.kill_children()
            machine.leave(130)
    sys.stdout.flush()
    machine.leave(1 if failed else 0)


def _tell(one: Ran, line: int, as_json: bool) -> None:
    state = "finished" if one.outcome.ok else "failed"
    if as_json:
        say(dumps({"line": line, "task": one.text, "state": state, "text": one.outcome.text}, ensure_ascii=False))
    else:
        text = shortened(clean(one.outcome.text), 160)
        say(f"{line}  {paint(state, 'green' if one.outcome.ok else 'red')}  {text}")


def _tasks(file: str, context: Context, given: dict[str, Any]) -> dict[int, Task]:
    """The calls, by the lines that they stand in."""
    place = here(context.project)
    text = sys.stdin.read() if file == "-" else paths.read_text_file(paths.absolute(file, place.cwd, place.home))
    if text is None:
        raise BadRequest(f"{file} is not there", "give a file with a call on each line, or `-`")
    usual = Task("", place.cwd, given["model"], context.dialect or "", context.agent or "", tuple(given["allow"]))
    found = {
        number: _task(line, number, usual)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    if not found:
        raise BadRequest(f"{file} holds no call", "write one on each line")
    return found


def _task(line: str, number: int, usual: Task) -> Task:
    from dataclasses import replace

    if not line.lstrip().startswith("{"):
        return replace(usual, text=line.strip())
    try:
        said = loads(line)
    except ValueError:
        raise BadRequest(f"line {number} is no JSON", "write a task, or an object with `task`") from None
    odd = sorted(set(said) - _KEYS)
    if odd or not isinstance(said.get("task"), str) or not all(isinstance(one, str) for one in said.values()):
        what = f"`{odd[0]}` is not known" if odd else "`task` must be text"
        raise BadRequest(f"line {number}: {what}", "an object has `task`, and may have `model` and `agent`")
    return replace(usual, text=said["task"], model=said.get("model", usual.model), agent=said.get("agent", usual.agent))
