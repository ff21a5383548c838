"""Skills for a Pydantic AI agent: a toolset with its own instructions.

agent = Agent("anthropic:claude-sonnet-4-5", toolsets=[SkillsToolset(metier.open("."))])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..library.library import Library
from ..library.live import LiveLibrary
from ..types.errors import MissingExtra
from ..types.model import Answer, Tool

try:
    from anyio.to_thread import run_sync
    from pydantic_ai import RunContext
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import InstructionPart, ToolReturn
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise MissingExtra("the adapter for Pydantic AI", "pydantic-ai") from error

_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Accepts any arguments: the tools validate them, with better messages for the model."""


class SkillsToolset(AbstractToolset[AgentDepsT]):
    """A library's skills.  The catalog is an instruction; when skills change, the change is appended to the history."""

    def __init__(
        self, library: Library, *, cwd: str = "", write: Sequence[str] = (), id: str = "skills", max_retries: int = 1
    ) -> None:
        self.live = LiveLibrary(library, cwd, tuple(write))
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str:
        return self._id

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> InstructionPart:
        catalog = await run_sync(self.live.catalog)
        # Appended to the history: a change at the beginning would void the provider's cache.
        return InstructionPart(catalog.text, dynamic=True, on_change="append", name="catalog")

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return {tool.name: self._tool(tool) for tool in self.live.tools()}

    def _tool(self, tool: Tool) -> ToolsetTool[AgentDepsT]:
        definition = ToolDefinition(name=tool.name, parameters_json_schema=tool.schema, description=tool.description)
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=self._max_retries, args_validator=_ANY_ARGUMENTS
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        # On a thread: tools read files and run scripts.
        return _tool_return(await run_sync(self.live.call, name, tool_args))


def _tool_return(answer: Answer) -> ToolReturn:
    """An error fails the call with its text; instructions follow the answer as a message of their own."""
    if answer.error:
        raise ToolFailed(answer.text)
    following = "\n\n".join(message.text for message in answer.messages)
    return ToolReturn(answer.text, content=following or None, metadata={"note": answer.note} if answer.note else None)
