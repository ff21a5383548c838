"""The improver: an agent without a past, alone with the copy of one skill; and a recorded run, once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..act.boxes import mapped, redacted, unrepeated
from ..act.tools.commands import run_command, search_files
from ..act.tools.workspace import Ground, edit_file, find_files, list_files, read_file, write_file
from ..act.toolset import Toolset, toolset
from ..host import paths, scratch
from ..host.clock import random_word
from ..improve import propose
from ..improve.notice import IMPROVER
from ..improve.propose import Job
from ..improve.replay import happened_again, tools_again
from ..improve.talk import opening, talk
from ..improve.texts import SKILL, parted
from ..record.journal import Journal, folder_of, new_id
from ..record.trace import Trace
from ..sources.bundled import bundle
from ..types.activation import Call
from ..types.agent import Bounds
from ..types.errors import HostError, MetierError
from ..types.event import Activated, Ended
from ..types.model import Model
from ..types.place import Place
from ..types.proposal import Fault, Gate
from ..types.running import Box, Permissions, Program, Ran
from ..types.skill import Skill
from ..types.tool import Tool
from .examining import Contents, contents
from .installed import from_elsewhere
from .opening import Request, open_at
from .running import plain_environment, run_program
from .secrets import hider

if TYPE_CHECKING:
    from .judging import Terms
    from .library import Library

NAME = "improve-skill"
_UNSEEN = ("evals/",)
"""What the skill is tried with is not shown to whoever is to make it pass."""
_LONGEST_COMMAND = 30.0
_MORE_TURNS = 10


class Written(NamedTuple):
    """What the improver made of a skill."""

    before: Contents
    after: Contents
    ended: Ended
    run: str


def instructions(library: Library) -> str:
    """The bundled skill that says how to improve one; the user's copy of it, where there is one that may be used."""
    own = f"{library.place.state}/skills/{NAME}"
    for folder in (*([own] if _is_bundled(library.place, own) else []), f"{bundle()}/{NAME}"):
        text = paths.read_text_file(f"{folder}/{SKILL}")
        if text:
            return parted(text)[1].strip()
    raise HostError(f"the bundled skill `{NAME}` is missing", "install metier again")


def _is_bundled(place: Place, folder: str) -> bool:
    """Whether it came with metier, edited or not: another skill of the same name is not what the improver works by."""
    if not paths.exists(folder):
        return False
    library = open_at(place, Request("standard"))  # whoever else's skills are served, this one lies in metier's root
    usable = (one.skill for one in library.verdicts if one.usable and one.skill.directory == folder)
    return any(one.path in library.bundled and not from_elsewhere(library, one) for one in usable)


def written(library: Library, model: Model, skill: Skill, faults: tuple[Fault, ...], terms: Terms) -> Written:
    """Let the improver work on a copy.  The skill itself is out of its reach; a dry run leaves no journal."""
    run = "" if terms.dry else new_id()
    with scratch.folder() as outer:
        folder = f"{outer}/{skill.id}"
        there = contents(skill.directory)
        shown = {path: data for path, data in there.bytes.items() if not path.startswith(_UNSEEN)}
        scratch.fill(folder, shown)
        for path in shown:
            if there.marks[path].mode.isdecimal() and int(there.marks[path].mode, 8) & 0o100:
                scratch.make_executable(f"{folder}/{path}")
        before = contents(folder)
        task = propose.task(skill.name, faults, terms.wish, f"evidence-{random_word(8)}")
        ended = _work(library, model, Job(instructions(library), task, folder), run)
        return Written(before, contents(folder), ended, run)


def _work(library: Library, model: Model, job: Job, run: str) -> Ended:
    hide = hider(library)
    tools = toolset(improver_tools(library, job.folder))
    keep = Journal(f"{folder_of(library.place.state)}/{run}.jsonl", hide).keep if run else lambda event: None
    begin = opening(run, job.instructions, hide(job.task), model, IMPROVER, job.folder)
    bounds = Bounds(turns=propose.TURNS, seconds=propose.SECONDS)
    return talk(model, begin, mapped(redacted(unrepeated(tools), hide)), bounds, keep)


def improver_tools(library: Library, folder: str) -> tuple[Tool, ...]:
    """Files and commands, in one folder: it can ask nobody, reach no network, and start no other agent."""
    ground = Ground(folder, folder)
    run = partial(_command, library, folder)
    made = [make(ground) for make in (read_file, write_file, edit_file, list_files, find_files)]
    return (*made, search_files(ground, run), run_command(run))


def _command(library: Library, folder: str, argv: tuple[str, ...], seconds: float) -> Ran:
    """Inside a boundary, or not at all."""
    program = Program(argv, folder, plain_environment(library), min(seconds, _LONGEST_COMMAND), merged=True)
    reach = Permissions(read=(folder,))
    return run_program(library, program, Box("require", work=folder, permissions=reach, hidden=(library.place.state,)))


def replay(
    library: Library, model: Model, skill: Skill, trace: Trace, faults: tuple[Fault, ...], texts: Mapping[str, str]
) -> Gate:
    """A recorded run once more, with the new text.  Nothing is done: every tool answers as it did then."""
    active = next((one for one in trace.events if isinstance(one, Activated) and one.skill == skill.name), None)
    if active is None:
        return Gate("replay", "no", f"the run {trace.run} did not use it")
    changed = replace(library, kept={**library.kept, skill.path: texts[SKILL].encode()})
    try:
        call = Call(skill.name, active.arguments, active.by, trace.started.cwd)
        told = changed.desk(cwd=trace.started.cwd, by=active.by).render(skill, call, preview=True).text
    except MetierError as error:
        return Gate("replay", "no", error.message)
    tools = _tools(library, model)
    again = tools_again(trace, tools, texts, skill.name)
    task = f"{trace.task}\n\nFollow the skill `{skill.name}`, whose folder is {skill.directory}:\n\n{told}"
    begin = opening(trace.run, trace.started.system, task, model)
    most = sum(type(one).__name__ == "Replied" for one in trace.events) + _MORE_TURNS
    ended = talk(model, begin, Toolset(tools, again.toolset.call), Bounds(turns=most, seconds=propose.SECONDS))
    if ended.outcome != "finished":
        return Gate("replay", "no", f"the replay did not finish: {ended.outcome} {ended.text}".strip())
    return happened_again(faults, again.called)


def _tools(library: Library, model: Model) -> tuple[Tool, ...]:
    from .agent import Agent

    return Agent(library, model, keep=False).start().tools().shown
