"""Puts an activation into messages, in the four ways that dialects have.

The texts are part of each dialect and fixed by its documentation.  The same activation gives the same bytes however it
was started, by a person or by the model, so that a repeated one can be recognised and prompt caches hold.

Names, folders and files stand in these texts as fields of one line and a bounded length.  Nothing in a field or a body
can close the frame it stands in, or look like another one: `_seal` spells out what would.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from html import escape

from ..types.activation import Activation, Call, Message, ToolCall
from ..types.dialect import ServingRules
from ..types.sandbox import SCRIPT_SUFFIXES
from ..types.skill import Skill
from ..types.text import bounded_field, neutralize_frames, one_line

MAX_RESOURCES = 50
"""Files that are named in a wrapper; the rest are counted."""
_MAX_PATH = 300
"""Characters of a file's path: fifty names must not take more room than the instructions."""
_PATH_RULE = "Relative paths in these instructions are relative to the skill directory."


def deliver(
    activation: Activation, serving: ServingRules, resources: Sequence[str] = (), user_text: str = ""
) -> tuple[Message, ...]:
    """The messages that tell a model to follow a skill.

    `resources` are the skill's files, by their paths in its folder; `user_text` is what the person wrote with it.
    """
    match serving.delivery:
        case "user-message":
            return (Message("user", user_message(activation, serving, resources), skill=activation.skill.name),)
        case "skill-context":
            return (Message("user", skill_context(activation, resources), skill=activation.skill.name),)
        case "tool-call":
            user_messages = (Message("user", user_text),) if user_text else ()
            return user_messages + tool_pair(activation)
        case "model-reads":
            return (Message("user", request_message(activation), skill=activation.skill.name),)


def user_message(activation: Activation, serving: ServingRules, resources: Sequence[str] = ()) -> str:
    """The message that appears as the user's own."""
    name = bounded_field(activation.call.name.lstrip("/") or activation.skill.name)
    typed = activation.call.typed
    match serving.preface:
        case "ran":
            first = f"The user ran: /{name} {typed}" if typed else f"The user ran: /{name}"
            return _seal(f"{first}\nExecute the following skill instructions now:\n\n{activation.text}")
        case "label":
            return _seal(f"[Skill: {name}]\n\n{activation.text}")
        case "folder":
            files = _resource_note(resources)
            return _seal(f"{_folder_note(activation)}\n\n{activation.text}" + (f"\n\n{files}" if files else ""))


def request_message(activation: Activation) -> str:
    """The request by which a model reads the file itself."""
    typed = activation.call.typed
    instruction = f'Use the "{bounded_field(activation.skill.name)}" skill for this request.'
    return _seal(f"{instruction}\n\nUser input:\n{typed}" if typed else instruction)


def confirmation_text(activation: Activation) -> str:
    """The result of a tool whose instructions follow as a message."""
    return activated_note(activation.skill.name)


def activated_note(name: str) -> str:
    """Says that a skill is active; the name is the author's text too."""
    return _seal(f"Skill '{bounded_field(name)}' activated successfully. Instructions will follow.")


def skill_context(activation: Activation, resources: Sequence[str] = ()) -> str:
    """The instructions in a wrapper with the skill's name, its folder and its files."""
    skill = activation.skill
    name = bounded_field(skill.name)
    parts = [f"# Skill: {name}", _folder_note(activation), activation.text]
    # Arguments that the body did not take are shown to the model, or they would be lost.
    if activation.call.typed and not any(insert.kind in ("argument", "appended") for insert in activation.inserts):
        parts.append(f"Arguments: {activation.call.typed}")
    if files := _resource_note(resources):
        parts.append(files)
    inside = _seal("\n\n".join(parts))
    return f'<skill-context name="{_seal(escape(name))}">\n{inside}\n</skill-context>'


def _seal(inside: str) -> str:
    """The contents of a frame, which can't close it: no tag in them is one that a frame is made of."""
    return neutralize_frames(inside)


def _folder_note(activation: Activation) -> str:
    return f"Skill directory: {one_line(activation.skill.directory)}\n{_PATH_RULE}"


def _resource_note(resources: Sequence[str]) -> str:
    """The skill's files by kind, sorted, with the tools that reach them."""
    ordered = sorted(resources)
    runnable = [path for path in ordered if path.startswith("scripts/") and path.endswith(SCRIPT_SUFFIXES)]
    scripts = [path.removeprefix("scripts/") for path in runnable]
    others = [path for path in ordered if path not in set(runnable)]
    lines = []
    if scripts:
        lines += [f"Available scripts: {_join_paths(scripts)}", "Use skill_run_script to execute them."]
    if others:
        lines += [f"Available references: {_join_paths(others)}", "Use skill_read_file to read them."]
    return "\n".join(lines)


def _join_paths(paths: list[str]) -> str:
    listed = ", ".join(bounded_field(path, _MAX_PATH) for path in paths[:MAX_RESOURCES])
    remaining = len(paths) - MAX_RESOURCES
    return f"{listed} and {remaining} more" if remaining > 0 else listed


def tool_result(activation: Activation) -> str:
    """The result of the tool that runs a skill."""
    skill = activation.skill
    head = f"skill: {bounded_field(skill.name)}\nskill directory: {one_line(skill.directory)}\n{_PATH_RULE}"
    return _seal(f"{head}\n\n---\n\n{activation.text}")


def tool_pair(activation: Activation) -> tuple[Message, Message]:
    """A call of `run_skill` and its result: the same bytes whether a person or the model asked."""
    name = activation.skill.name
    # Derived from the content: the same activation has the same call id in every run.
    number = "skill-" + sha256(f"{activation.skill.path}\0{activation.digest}".encode()).hexdigest()[:16]
    return (
        Message("assistant", call=ToolCall(number, "run_skill", {"skill": name})),
        Message("tool", tool_result(activation), answers=number, skill=name),
    )


def already_active_note(skill: str, text: str, visible: Sequence[Message]) -> str:
    """A short note in place of instructions that the model still sees in full; empty if it does not."""
    if not text or not any(text in message.text for message in visible if message.skill):
        return ""
    name = _seal(bounded_field(skill))
    return f"Skill '{name}' is already active: follow its instructions above, which have not changed."


def dispatch_call(skill: Skill, call: Call) -> ToolCall | None:
    """The tool call that a skill asks for in place of its instructions; None if it asks for none."""
    target = skill.dispatch
    if target is None:
        return None
    command = call.typed if isinstance(call.arguments, tuple) else call.arguments.strip()
    arguments = {"command": command, "commandName": call.name.lstrip("/"), "skillName": skill.name}
    number = "command-" + sha256(f"{skill.path}\0{call.name}\0{command}".encode()).hexdigest()[:16]
    return ToolCall(number, target.tool, arguments)
