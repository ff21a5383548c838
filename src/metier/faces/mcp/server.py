"""The MCP server: the protocol's methods, answered from a `LibrarySurface` on worker threads."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync
from mcp.server import NotificationOptions
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ContentBlock,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Prompt as PromptType
from mcp_types import Tool as ToolType

from ... import __version__
from ...host.process import stop_programs_when
from ...types.errors import MetierError
from ...types.text import visible_text
from .offers import LibrarySurface
from .resources import FOLDER_MIME_TYPE, ServedFile

EXTENSION = "io.modelcontextprotocol/skills"
INSTRUCTIONS = (
    "Skills are instructions for particular tasks. When a task fits one of the skills that a tool lists, load that"
    " skill first and follow it. Its files and scripts are reached with the other tools."
)
MOST_CALLS = 8
"""Calls that run at the same time; others wait."""
MOST_SESSIONS = 1_000
"""Connections that are remembered for notifications; the oldest is forgotten first."""
FRESH_MS = 1_000
"""How long a client may reuse a listing."""
_READ_ONLY = ("skill_read_file", "skill_search", "read")
"""Tools without side effects.  Activating a skill is not one of them: commands in its body run."""

Context = ServerRequestContext[Any, Any]
P = ParamSpec("P")
T = TypeVar("T")


class GetSkillParams(RequestParams):
    uri: str


class ReadFolderParams(PaginatedRequestParams):
    uri: str


class SkillsServer(Server[Any]):
    """A server for one library.  Constructing it only registers the methods."""

    def __init__(self, surface: LibrarySurface) -> None:
        self.surface = surface
        self.bus = InMemorySubscriptionBus()
        self.sessions: dict[int, ServerSession] = {}
        # Made by the first call: it belongs to an event loop, and there is none yet.
        self.limiter: anyio.CapacityLimiter | None = None
        super().__init__(
            "metier",
            version=__version__,
            title="metier: Agent Skills",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        self.extensions[EXTENSION] = {"directoryRead": True}
        self.add_request_handler("skills/list", PaginatedRequestParams, self._list_skills)
        self.add_request_handler("skills/get", GetSkillParams, self._get_skill)
        self.add_request_handler("resources/directory/read", ReadFolderParams, self._read_folder)
        # The current protocol subscribes over the bus; clients of the older one are notified on their connections.
        self.middleware.append(self._remember)

    def create_initialization_options(self, *args: Any, **kwargs: Any) -> InitializationOptions:
        """Announce that lists change, also for transports that ask without options."""
        return super().create_initialization_options(NotificationOptions(True, True, True))

    async def _remember(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Remember connections of the older protocol: their clients are notified on the connection itself."""
        if ctx.method == "notifications/initialized":
            while len(self.sessions) >= MOST_SESSIONS:
                del self.sessions[next(iter(self.sessions))]
            self.sessions[id(ctx.session)] = ctx.session
        return await call_next(ctx)

    async def notify(self, tools: bool, prompts: bool, resources: bool) -> None:
        """Notify every client, in its version of the protocol, which lists changed."""
        for event, changed in (
            (ToolsListChanged(), tools),
            (PromptsListChanged(), prompts),
            (ResourcesListChanged(), resources),
        ):
            if changed:
                await self.bus.publish(event)
        for number, session in list(self.sessions.items()):
            try:
                if tools:
                    await session.send_tool_list_changed()
                if prompts:
                    await session.send_prompt_list_changed()
                if resources:
                    await session.send_resource_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError, MCPError):
                self.sessions.pop(number, None)

    async def _in_thread(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a function on a worker thread, a limited number at once; a `MetierError` becomes a protocol error."""
        if self.limiter is None:
            self.limiter = anyio.CapacityLimiter(MOST_CALLS)
        caller_gone = threading.Event()

        def work() -> T:
            with stop_programs_when(caller_gone.is_set):
                return function(*arguments, **options)

        try:
            return await run_sync(work, limiter=self.limiter, abandon_on_cancel=True)
        except MetierError as error:
            text = f"{error.message}. {error.hint}" if error.hint else error.message
            raise MCPError(INVALID_PARAMS, text) from error
        finally:
            # The thread of a cancelled call goes on by itself: stop the programs that it runs.
            caller_gone.set()

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        offers = await self._in_thread(self.surface.tools)
        return ListToolsResult(
            tools=[
                ToolType(
                    name=offer.tool.name,
                    description=offer.description,
                    input_schema=offer.schema,
                    annotations=ToolAnnotations(read_only_hint=offer.tool.name in _READ_ONLY, open_world_hint=False),
                )
                for offer in offers
            ]
        )

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        answer = await self._in_thread(self.surface.call, params.name, params.arguments or {})
        if answer is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        texts = [answer.text, *(message.text for message in answer.messages)]
        meta: dict[str, object] = {"metier/status": answer.status} if answer.status is not None else {}
        if answer.note:
            meta["metier/note"] = answer.note
        content: list[ContentBlock] = [TextContent(type="text", text=text) for text in texts]
        return CallToolResult(content=content, is_error=answer.error, _meta=meta or None)

    async def _list_prompts(self, context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        prompts = await self._in_thread(self.surface.prompts)
        return ListPromptsResult(
            prompts=[
                PromptType(
                    name=prompt.name,
                    description=prompt.description,
                    arguments=[
                        PromptArgument(name=name, description=description or None, required=False)
                        for name, description in prompt.arguments
                    ],
                )
                for prompt in prompts
            ]
        )

    async def _get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        description, text = await self._in_thread(self.surface.prompt, params.name, params.arguments or {})
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=description, messages=[message])

    async def _list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        page = await self._in_thread(self.surface.resources, params.cursor if params else None)
        return ListResourcesResult(resources=[_to_resource(*pair) for pair in page.items], next_cursor=page.next)

    async def _read_folder(self, context: Context, params: ReadFolderParams) -> ListResourcesResult:
        page = await self._in_thread(self.surface.folder, params.uri, params.cursor)
        return ListResourcesResult(resources=[_to_resource(file, "") for file in page.items], next_cursor=page.next)

    async def _complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        values: list[str] = []
        if isinstance(params.ref, PromptReference):
            values = await self._in_thread(self.surface.complete_argument, params.ref.name, params.argument.value)
        # A completion has at most 100 values in the protocol.
        return CompleteResult(completion=Completion(values=values[:100], total=len(values), has_more=len(values) > 100))

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(
            uri_template="skill://{name}/{+path}", name="skill-file", description="A file of a skill."
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        data, kind = await self._in_thread(self.surface.read, params.uri)
        contents: TextResourceContents | BlobResourceContents | None = None
        # Text where possible: many clients show a model nothing of a blob.
        if b"\0" not in data:
            with suppress(UnicodeDecodeError):
                contents = TextResourceContents(uri=params.uri, mime_type=kind or "text/plain", text=data.decode())
        if contents is None:
            blob = b64encode(data).decode("ascii")
            contents = BlobResourceContents(uri=params.uri, mime_type=kind or "application/octet-stream", blob=blob)
        return ReadResourceResult(contents=[contents])

    async def _list_skills(self, context: Context, params: PaginatedRequestParams) -> dict[str, object]:
        page = await self._in_thread(self.surface.skills, params.cursor)
        next_cursor = {"nextCursor": page.next} if page.next else {}
        return {
            "resultType": "complete",
            "skills": page.items,
            "ttlMs": FRESH_MS,
            "cacheScope": "private",
            **next_cursor,
        }

    async def _get_skill(self, context: Context, params: GetSkillParams) -> dict[str, object]:
        entry = await self._in_thread(self.surface.skill, params.uri)
        return {"resultType": "complete", "skill": entry, "ttlMs": FRESH_MS, "cacheScope": "private"}


def _to_resource(file: ServedFile, description: str) -> Resource:
    """A file as a resource; a skill's SKILL.md has the skill's name and description."""
    return Resource(
        uri=file.uri,
        name=visible_text(file.path) if not description else file.uri.split("/")[-2],
        description=description or None,
        mime_type=file.kind or None,
        size=None if file.kind == FOLDER_MIME_TYPE else file.size,
    )
