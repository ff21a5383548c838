"""Events of a run as updates of the Agent Client Protocol.

Each event is translated by itself; the only state is whether a reply was already streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from acp import helpers
from acp.helpers import SessionUpdate
from acp.schema import (
    AvailableCommand,
    AvailableCommandsUpdate,
    PermissionOption,
    PermissionOptionKind,
    StopReason,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnstructuredCommandInput,
)

from ...types.activation import Message, ToolCall
from ...types.catalog import SlashCommand
from ...types.event import Asked, Event, Nested, Replied, Retried, TurnOutcome, Used, Waited, Wrote, innermost_event
from ...types.text import clean_line, escaped_lines, shorten_text, visible_text

# Editors choose an icon by the kind.
_TOOL_KINDS: Mapping[str, ToolKind] = {
    "skill_use": "think",
    "run_skill": "think",
    "skill_read_file": "read",
    "read": "read",
    "read_file": "read",
    "skill_search": "search",
    "search_files": "search",
    "list_files": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "run_command": "execute",
    "skill_run_script": "execute",
}
_STOP_REASONS: Mapping[TurnOutcome, StopReason] = {
    "finished": "end_turn",
    "refused": "refusal",
    "interrupted": "cancelled",
    "out-of-tokens": "max_tokens",
}
_PERMISSION_OPTIONS: Mapping[str, tuple[str, PermissionOptionKind]] = {
    "once": ("Allow", "allow_once"),
    "always": ("Always allow", "allow_always"),
    "network": ("Allow, with network", "allow_once"),
    "git": ("Allow, may write .git", "allow_once"),
    "network+git": ("Allow, with network, may write .git", "allow_once"),
    "no": ("Reject", "reject_once"),
}


def stop_reason_of(outcome: TurnOutcome) -> StopReason:
    """Why a turn ended; the protocol has one reason for all limits but tokens."""
    return _STOP_REASONS.get(outcome, "max_turn_requests")


def commands_update(table: Sequence[SlashCommand]) -> AvailableCommandsUpdate:
    """The slash commands, each with a hint for its arguments."""
    return helpers.update_available_commands(
        AvailableCommand(
            name=command.name,
            description=command.description or command.name,
            input=UnstructuredCommandInput(hint=command.hint) if command.hint else None,  # type: ignore[arg-type]
        )
        for command in table
    )


class UpdateRenderer:
    """Translates events; it remembers whether the current reply was streamed."""

    def __init__(self) -> None:
        self.streamed = False

    def updates(self, event: Event) -> Iterator[SessionUpdate]:
        match event:
            case Wrote(text, thinking):
                self.streamed = self.streamed or not thinking
                yield helpers.update_agent_thought_text(text) if thinking else helpers.update_agent_message_text(text)
            case Replied(text=text, calls=calls):
                if text and not self.streamed:
                    yield helpers.update_agent_message_text(text)
                self.streamed = False
                yield from map(_start_tool_call, calls)
            case Used(call=call, text=text, error=error):
                content = [helpers.tool_content(helpers.text_block(visible_text(text)))]
                status: ToolCallStatus = "failed" if error else "completed"
                yield helpers.update_tool_call(call.id, status=status, content=content)
            case Retried(reason=reason):
                yield helpers.update_agent_thought_text(f"{clean_line(reason)}: retrying\n")
            case Asked(text=text, choices=()):
                yield helpers.update_agent_message_text(f"\n\n{text}\n")
            case Nested(event=inner):
                # The text of a subagent would read like the agent's own reply; its tool calls and questions are shown.
                if not isinstance(inner, Wrote | Waited | Replied):
                    yield from self.updates(inner)


def _start_tool_call(call: ToolCall) -> ToolCallStart:
    kind = _TOOL_KINDS.get(call.name, "other")
    return helpers.start_tool_call(
        call.id, _call_title(call), kind=kind, status="pending", raw_input=dict(call.arguments)
    )


def _call_title(call: ToolCall) -> str:
    arguments = " ".join(str(value) for value in call.arguments.values() if isinstance(value, str | int | float))
    return shorten_text(clean_line(f"{call.name} {arguments}"), 120)


def question_in(event: Event) -> Asked | None:
    """The question in an event, also of a subagent; None for other events."""
    inner = innermost_event(event)
    return inner if isinstance(inner, Asked) else None


def permission_request(question: Asked) -> tuple[ToolCallUpdate, list[PermissionOption]]:
    """A question as a permission request: the editor shows each choice as a button."""
    # Never cut: what is not shown would be allowed unseen.
    text = "\n".join(escaped_lines(question.text))
    title = clean_line(f"{text} ({question.why})" if question.why else text)
    call = ToolCallUpdate(
        tool_call_id=question.id,
        title=title,
        content=[helpers.tool_content(helpers.text_block(text))],
        raw_input=dict(question.arguments),
    )
    default_kind: PermissionOptionKind = "allow_once"
    options = []
    for choice in question.choices:
        name, kind = _PERMISSION_OPTIONS.get(choice, (shorten_text(clean_line(choice), 100), default_kind))
        options.append(PermissionOption(option_id=choice, name=name, kind=kind))
    return call, options


def replay_messages(messages: Sequence[Message]) -> Iterator[SessionUpdate]:
    """A resumed conversation as the updates that show it again."""
    for message in messages:
        if message.role == "user" and message.text and not message.skill:
            yield helpers.update_user_message_text(message.text)
        elif message.role == "assistant" and message.call is not None:
            yield _start_tool_call(message.call)
        elif message.role == "assistant" and message.text:
            yield helpers.update_agent_message_text(message.text)
        elif message.role == "tool" and message.answers:
            content = [helpers.tool_content(helpers.text_block(visible_text(message.text)))]
            yield helpers.update_tool_call(message.answers, status="completed", content=content)
