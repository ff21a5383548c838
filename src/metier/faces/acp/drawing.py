"""Events of a run as updates for an editor.  Each event is drawn by itself; nothing is kept but what was streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from acp import helpers
from acp.schema import AvailableCommand, PermissionOption, ToolCallUpdate, UnstructuredCommandInput

from ...types.activation import Message, ToolCall
from ...types.catalog import Command
from ...types.event import Asked, Event, Nested, Outcome, Replied, Retried, Used, Wrote, innermost
from ...types.text import exact_lines, flat, seen, shortened

_KINDS = {
    "skill_use": "think", "run_skill": "think", "skill_read_file": "read", "read": "read", "read_file": "read",
    "skill_search": "search", "search_files": "search", "list_files": "search", "write_file": "edit",
    "edit_file": "edit", "run_command": "execute", "skill_run_script": "execute",
}  # fmt: skip
_REASONS: dict[Outcome, Any] = {
    "finished": "end_turn",
    "refused": "refusal",
    "interrupted": "cancelled",
    "out-of-tokens": "max_tokens",
}
_ALLOW = {"once": ("Allow", "allow_once"), "always": ("Always allow", "allow_always"), "no": ("Reject", "reject_once")}


def reason_of(outcome: Outcome) -> Any:
    """Why a turn is over, in the protocol's words: every other bound is one on turns."""
    return _REASONS.get(outcome, "max_turn_requests")


def commands(table: Sequence[Command]) -> Any:
    """The slash commands, with a hint for what may follow them."""
    return helpers.update_available_commands(
        AvailableCommand(
            name=one.name,
            description=one.description or one.name,
            input=UnstructuredCommandInput(hint=one.hint) if one.hint else None,  # type: ignore[arg-type]
        )
        for one in table
    )


class Drawing:
    """Knows whether a reply was streamed already."""

    def __init__(self) -> None:
        self.streamed = False

    def updates(self, event: Event) -> Iterator[Any]:
        match event:
            case Wrote(text, thinking):
                self.streamed = self.streamed or not thinking
                yield helpers.update_agent_thought_text(text) if thinking else helpers.update_agent_message_text(text)
            case Replied(text=text, calls=calls):
                if text and not self.streamed:
                    yield helpers.update_agent_message_text(text)
                self.streamed = False
                yield from map(_begun, calls)
            case Used(call=call, text=text, error=error):
                content = [helpers.tool_content(helpers.text_block(seen(text)))]
                status: Any = "failed" if error else "completed"
                yield helpers.update_tool_call(call.id, status=status, content=content)
            case Retried(reason=reason):
                yield helpers.update_agent_thought_text(f"{flat(reason)}: asking again\n")
            case Asked(text=text, choices=()):
                yield helpers.update_agent_message_text(f"\n\n{text}\n")
            case Nested(event=inner):
                if not isinstance(inner, Wrote | Replied):
                    yield from self.updates(inner)


def _begun(call: ToolCall) -> Any:
    kind: Any = _KINDS.get(call.name, "other")
    return helpers.start_tool_call(call.id, _title(call), kind=kind, status="pending", raw_input=dict(call.arguments))


def _title(call: ToolCall) -> str:
    said = " ".join(str(value) for value in call.arguments.values() if isinstance(value, str | int | float))
    return shortened(flat(f"{call.name} {said}"), 120)


def asked(event: Event) -> Asked | None:
    """What somebody has to say something to."""
    inner = innermost(event)
    return inner if isinstance(inner, Asked) else None


def permission(question: Asked) -> tuple[ToolCallUpdate, list[PermissionOption]]:
    """A question as the editor puts it; every choice is one of its buttons."""
    text = "\n".join(exact_lines(question.text))  # never cut: what is not shown would be allowed unseen
    title = flat(f"{text} ({question.why})" if question.why else text)
    block: Any = [helpers.tool_content(helpers.text_block(text))]
    call = ToolCallUpdate(tool_call_id=question.id, title=title, content=block, raw_input=dict(question.arguments))
    options = []
    for choice in question.choices:
        name, kind = _ALLOW.get(choice, (shortened(flat(choice), 100), "allow_once"))
        options.append(PermissionOption(option_id=choice, name=name, kind=kind))  # type: ignore[arg-type]
    return call, options


def replay(messages: Sequence[Message]) -> Iterator[Any]:
    """A conversation that was kept, for an editor that shows it again."""
    for message in messages:
        if message.role == "user" and message.text and not message.skill:
            yield helpers.update_user_message_text(message.text)
        elif message.role == "assistant" and message.call is not None:
            yield _begun(message.call)
        elif message.role == "assistant" and message.text:
            yield helpers.update_agent_message_text(message.text)
        elif message.role == "tool" and message.answers:
            content = [helpers.tool_content(helpers.text_block(seen(message.text)))]
            yield helpers.update_tool_call(message.answers, status="completed", content=content)
