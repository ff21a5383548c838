"""Run a program inside a boundary: bubblewrap, else Landlock, else nothing at all or plainly, as the caller needs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace

from ...types.errors import Refused
from ...types.running import Box, Footing, Program, Ran
from ..gate import PROGRAMS, Gate
from ..process import Confinement, admitted, launch, unfit
from . import limits
from .probe import Machine as Machine
from .probe import confined
from .probe import here as here
from .probe import probe as probe
from .probe import tier as tier

_NEXT = "install bubblewrap (`metier doctor` says what was tried), or trust the skill and let it run without a sandbox"


def run(program: Program, box: Box, machine: Machine | None = None, gate: Gate = PROGRAMS) -> Ran:
    """Run a program in the box it needs.  Refused, before anything starts, where there is no such box."""
    if why := unfit(program):
        return Ran(None, "", note=why)
    if box.permissions.hosts:
        raise Refused("no tier can hold a program to certain hosts", "allow the network without `hosts`, or not at all")
    machine = here(os.environ) if machine is None else machine
    if box.need == "off":
        return admitted(gate, lambda: _plain(program, box, machine, "off"))
    footing = probe(machine)
    if footing.tier == "none":
        if box.need == "require":
            raise Refused(f"there is no sandbox here: {footing.reason}", _NEXT)
        return admitted(gate, lambda: _plain(program, box, machine, footing.reason))
    weak = _weak(footing, box)
    if weak and box.need == "require":
        raise Refused(weak, "install bubblewrap, or let it write its work folder only")
    ran = admitted(gate, lambda: confined(program, box, footing, machine.groups, machine.state))
    forced = footing.reason if machine.only not in ("auto", "bubblewrap") else ""
    return replace(ran, note="; ".join(filter(None, (ran.note, weak, forced))))


def _weak(footing: Footing, box: Box) -> str:
    """What the tier can't keep of what it was asked."""
    if footing.tier == "landlock" and any(map(os.path.isdir, box.permissions.write)):
        return "Landlock can't keep .git and settings as they are inside a folder that may be written"
    return ""


def _plain(program: Program, box: Box, machine: Machine, reason: str) -> Ran:
    """Run with bounds and no boundary, and say so."""
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work:
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        held = stack.enter_context(limits.group(box.limits, machine.groups))
        look = limits.Watch(box.limits, held, work)
        confinement = Confinement(
            limits=limits.rlimits(box.limits, held, 0),
            watch=look,
            joins=held.lists if held else (),
        )
        ran = launch(replace(program, cwd=program.cwd or work), confinement)
        passed = ran.note or look.afterwards()
    return replace(ran, note="; ".join(filter(None, (f"sandbox: none ({reason})", passed))))
