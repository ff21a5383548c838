"""A command that goes straight to a tool."""

from __future__ import annotations

from hashlib import sha256

from ..types.activation import Call, ToolCall
from ..types.skill import Skill


def dispatch(skill: Skill, call: Call) -> ToolCall | None:
    """The call that a skill's author asks for in place of its instructions; None where there is no such wish."""
    wanted = skill.dispatch
    if wanted is None:
        return None
    command = call.typed if isinstance(call.arguments, tuple) else call.arguments.strip()
    arguments = {"command": command, "commandName": call.name.lstrip("/"), "skillName": skill.name}
    number = "command-" + sha256(f"{skill.path}\0{call.name}\0{command}".encode()).hexdigest()[:16]
    return ToolCall(number, wanted.tool, arguments)
