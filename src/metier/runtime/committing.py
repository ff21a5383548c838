"""Commands of an agent in its project: a line of plain git that was allowed may write the repository, no other may."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..act.committing import mentions, writes_repository
from ..host import paths
from ..host.checkout import configured, elsewhere, repositories, sweep
from ..types.running import Program, Ran
from .running import plain_environment, run_program
from .tooling import boundary

if TYPE_CHECKING:
    from .session import Session

_NOTE = "`.git` can be written by a line of plain git commands only: no pipes, substitutions or other programs in it"


def run_allowed(session: Session, argv: tuple[str, ...], seconds: float) -> Ran:
    """A command that somebody allowed, or a rule of theirs."""
    agent, library, command = session.agent, session.library, argv[-1]
    env, box = plain_environment(library), boundary(session, True)
    known = {} if agent.private else configured(agent.base, library.place.env)
    if hooks := known.get("core.hookspath"):
        box = replace(box, kept=(paths.absolute(hooks, agent.base, library.place.home),))
    own = () if agent.private or agent.alone else repositories(agent.base)
    if not own or not writes_repository(command):
        ran = run_program(library, Program(argv, agent.cwd, env, seconds, merged=True), box)
        fell = own and ran.status and mentions(command)
        return replace(ran, note="; ".join(filter(None, (ran.note, _NOTE)))) if fell else ran
    given = box.permissions
    box = replace(box, permissions=replace(given, write=(*given.write, *own)))
    env |= _identity(known) | {"PATH": elsewhere(env["PATH"], agent.base)}
    with sweep(own) as swept:
        ran = run_program(library, Program(argv, agent.cwd, env, seconds, merged=True), box)
    return replace(ran, note="; ".join(filter(None, (ran.note, *swept))))


def _identity(known: dict[str, str]) -> dict[str, str]:
    """Who commits, as the user's own settings say: these are out of sight inside."""
    found: dict[str, str] = {}
    for key in ("name", "email"):
        if value := known.get(f"user.{key}"):
            found |= {f"GIT_{who}_{key.upper()}": value for who in ("AUTHOR", "COMMITTER")}
    return found
