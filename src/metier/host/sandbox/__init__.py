"""Run a program inside a boundary: bubblewrap, else Landlock, else nothing at all or plainly, as the caller needs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace

from ...types.errors import Refused
from ...types.sandbox import ProcessResult, ProgramSpec, SandboxSpec, SandboxSupport
from ..process import PROGRAM_GATE, AdmissionGate, Confinement, launch_program, run_admitted, unrunnable_reason
from . import limits
from .probe import MachineOptions, probe_sandbox, read_machine_options, run_confined
from .probe import sandbox_tier as sandbox_tier

_INSTALL_HINT = (
    "install bubblewrap (`metier doctor` says what was tried), or trust the skill and let it run without a sandbox"
)


def run_sandboxed(
    program: ProgramSpec, box: SandboxSpec, machine: MachineOptions | None = None, gate: AdmissionGate = PROGRAM_GATE
) -> ProcessResult:
    """Run a program in the box it needs.  Refused, before anything starts, where there is no such box."""
    if why := unrunnable_reason(program):
        return ProcessResult(None, "", note=why)
    if box.permissions.hosts:
        raise Refused("no tier can hold a program to certain hosts", "allow the network without `hosts`, or not at all")
    machine = read_machine_options(os.environ) if machine is None else machine
    if box.need == "off":
        return run_admitted(gate, lambda: _run_unconfined(program, box, machine, "off"))
    footing = probe_sandbox(machine)
    if footing.tier == "none":
        if box.need == "require":
            raise Refused(f"there is no sandbox here: {footing.reason}", _INSTALL_HINT)
        return run_admitted(gate, lambda: _run_unconfined(program, box, machine, footing.reason))
    weak = _tier_weakness(footing, box)
    if weak and box.need == "require":
        raise Refused(weak, "install bubblewrap, or let it write its work folder only")
    result = run_admitted(gate, lambda: run_confined(program, box, footing, machine.groups, machine.state))
    forced = footing.reason if machine.only not in ("auto", "bubblewrap") else ""
    return replace(result, note="; ".join(filter(None, (result.note, weak, forced))))


def _tier_weakness(footing: SandboxSupport, box: SandboxSpec) -> str:
    """What the tier can't keep of what it was asked."""
    if footing.tier == "landlock" and any(map(os.path.isdir, box.permissions.write)):
        return "Landlock can't keep .git and settings as they are inside a folder that may be written"
    return ""


def _run_unconfined(program: ProgramSpec, box: SandboxSpec, machine: MachineOptions, reason: str) -> ProcessResult:
    """Run with bounds and no boundary, and say so."""
    with contextlib.ExitStack() as stack:
        work = box.work
        if not work:
            work = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-work-")))
        cgroup = stack.enter_context(limits.control_group(box.limits, machine.groups))
        look = limits.LimitWatch(box.limits, cgroup, work)
        confinement = Confinement(
            limits=limits.process_rlimits(box.limits, cgroup, 0),
            watch=look,
            joins=cgroup.lists if cgroup else (),
        )
        result = launch_program(replace(program, cwd=program.cwd or work), confinement)
        passed = result.note or look.afterwards()
    return replace(result, note="; ".join(filter(None, (f"sandbox: none ({reason})", passed))))
