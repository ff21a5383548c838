"""Skills for the OpenAI Agents SDK: tools, and instructions that stay the same during a run.

skills = AgentSkills(metier.open("."))
agent = Agent(name="Clerk", instructions=skills.instructions("You are careful."), tools=skills.tools)
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..catalog.listing import describe_changes
from ..library.library import Library
from ..library.live import LiveLibrary
from ..library.sdk import answer_texts
from ..types.catalog import Catalog
from ..types.errors import MissingExtra
from ..types.model import Answer, Tool

try:
    from agents import Agent, FunctionTool, RunContextWrapper
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingExtra("the adapter for the OpenAI Agents SDK", "openai-agents") from error


class AgentSkills:
    """A library's skills.  A run keeps the catalog it began with; later changes are appended to a tool's answer."""

    def __init__(self, library: Library, *, cwd: str = "", write: Sequence[str] = ()) -> None:
        self.live = LiveLibrary(library, cwd, tuple(write))
        self.tools: list[Any] = [self._tool(tool) for tool in self.live.tools()]
        self._announced: dict[int, Catalog] = {}

    def instructions(self, base: str = "") -> Callable[[RunContextWrapper[Any], Agent[Any]], str]:
        """Your own instructions followed by the catalog, for `Agent(instructions=…)`."""

        def instructions(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
            return "\n\n".join(text for text in (base, self._run_catalog(context).text) if text)

        return instructions

    def _run_catalog(self, context: RunContextWrapper[Any]) -> Catalog:
        """The catalog of a run.  The usage object identifies it: it is the one thing all contexts of a run share."""
        run = id(context.usage)
        if run not in self._announced:
            self._announced[run] = self.live.catalog()
            # An id is only unique while its object lives: the entry goes with it.
            weakref.finalize(context.usage, self._announced.pop, run, None)
        return self._announced[run]

    def _tool(self, tool: Tool) -> FunctionTool:
        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.schema,
            on_invoke_tool=partial(self._invoke, tool),
            # A strict schema requires every property, and some of ours are optional.
            strict_json_schema=False,
        )

    async def _invoke(self, tool: Tool, context: ToolContext[Any], arguments_json: str) -> str:
        # Tools read files and run scripts, which must not block the event loop.
        answer = await asyncio.to_thread(_call_tool, tool, arguments_json)
        return "\n\n".join(text for text in (*answer_texts(answer), self._changes(context)) if text)

    def _changes(self, context: ToolContext[Any]) -> str:
        """What changed since the run last got an announcement; empty for nothing."""
        before = self._run_catalog(context)
        after = self.live.library.catalog(policy="stable")
        changed = describe_changes(before.entries, after.entries)
        if changed:
            # The instructions keep their text for the provider's cache; only the entries to compare with move on.
            self._announced[id(context.usage)] = Catalog(after.entries, after.left_out, before.text)
        return changed


def _call_tool(tool: Tool, arguments_json: str) -> Answer:
    try:
        arguments = json.loads(arguments_json or "{}")
    # The text is the model's; deep nesting raises RecursionError.
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return Answer("The arguments must be a JSON object. Send them again.", error=True)
    return tool.call(arguments)
