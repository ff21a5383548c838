"""Skills for LangChain and LangGraph: a middleware for `create_agent`, or the tools alone for a graph of your own.

agent = create_agent("anthropic:claude-sonnet-4-5", middleware=[SkillsMiddleware(metier.open("."))])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from ..catalog.listing import describe_changes
from ..library.library import Library
from ..library.live import LiveLibrary
from ..library.sdk import answer_texts
from ..types.catalog import CatalogEntry
from ..types.errors import MissingExtra
from ..types.model import Answer, Tool

try:
    from typing import NotRequired

    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtra("the adapter for LangChain", "langchain") from error

_ARTIFACT_KEY = "metier"


class SkillsState(AgentState[Any]):
    """What the model knows: the catalog at the start of the conversation, and the entries announced since."""

    # Checkpoints store these keys: renaming one would break conversations that are resumed later.
    skills_prompt: NotRequired[Annotated[str, PrivateStateAttr]]
    skills_told: NotRequired[Annotated[list[list[str]], PrivateStateAttr]]


def skill_tools(library: Library, *, cwd: str = "", write: Sequence[str] = ()) -> list[BaseTool]:
    """The tools for your own graph.  Instructions are part of a tool's answer; put the catalog where you want it."""
    live = LiveLibrary(library, cwd, tuple(write))
    return [_structured_tool(tool, inline=True) for tool in live.tools()]


def _structured_tool(tool: Tool, inline: bool) -> BaseTool:
    def call(**arguments: object) -> tuple[str, Mapping[str, object]]:
        return _call_tool(tool, inline, arguments)

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.schema,
        func=call,
        # The artifact carries instructions past the model, to `before_model`; an error goes back to the model as the
        # answer.
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _call_tool(tool: Tool, inline: bool, arguments: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    answer = tool.call(arguments)
    if answer.error:
        raise ToolException(answer.text)
    if inline:
        return "\n\n".join(answer_texts(answer)), _build_artifact(answer, ())
    return answer.text, _build_artifact(answer, [message.text for message in answer.messages])


def _build_artifact(answer: Answer, following: Sequence[str]) -> Mapping[str, object]:
    return {_ARTIFACT_KEY: list(following), "note": answer.note}


class SkillsMiddleware(AgentMiddleware[SkillsState, Any, Any]):
    """A library's skills for one agent.

    The catalog is added to the system prompt when a conversation begins and stays the same, so that the provider's
    cache holds; later changes are appended as messages.  The instructions of an activated skill follow all tool answers
    of a turn as a message.
    """

    state_schema = SkillsState

    def __init__(self, library: Library, *, cwd: str = "", write: Sequence[str] = ()) -> None:
        super().__init__()
        self.live = LiveLibrary(library, cwd, tuple(write))
        self.tools = [_structured_tool(tool, inline=False) for tool in self.live.tools()]

    def before_agent(self, state: SkillsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        # A conversation keeps the catalog it began with, also when it is resumed: a provider's cache begins with it.
        if "skills_prompt" in state:
            return None
        catalog = self.live.catalog()
        return {"skills_prompt": catalog.text, "skills_told": _encode_entries(catalog.entries)}

    def before_model(self, state: SkillsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        following: list[AnyMessage] = [HumanMessage(text) for text in _pending_instructions(state["messages"])]
        entries = self.live.catalog().entries
        announced = [CatalogEntry(name, description, at) for name, description, at in state.get("skills_told", [])]
        changed = describe_changes(announced, entries)
        if not changed:
            return {"messages": following} if following else None
        return {"messages": [*following, HumanMessage(changed)], "skills_told": _encode_entries(entries)}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(_with_catalog(request))

    # LangChain calls this one in an asynchronous run and the other in a synchronous one.
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(_with_catalog(request))


def _encode_entries(entries: Sequence[CatalogEntry]) -> list[list[str]]:
    return [[entry.name, entry.description, entry.location] for entry in entries]


def _pending_instructions(messages: Sequence[AnyMessage]) -> list[str]:
    """The instructions that belong to the tool answers at the end of a conversation, in order."""
    instructions: list[str] = []
    # Back to the first message that is no tool's: only the answers of the turn that just ended.
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        artifact = message.artifact
        if isinstance(artifact, Mapping) and isinstance(artifact.get(_ARTIFACT_KEY), list):
            instructions[:0] = artifact[_ARTIFACT_KEY]
    return instructions


def _with_catalog(request: ModelRequest[Any]) -> ModelRequest[Any]:
    text = str(request.state.get("skills_prompt", ""))
    if not text:
        return request
    before = request.system_message
    if before is None:
        return request.override(system_message=SystemMessage(text))
    if isinstance(before.content, str):
        content: Any = f"{before.content}\n\n{text}"
    else:
        # One more block, so that cache marks on the blocks before it stay valid.
        content = [*before.content, {"type": "text", "text": text}]
    return request.override(system_message=SystemMessage(content))
