"""A library that is reopened whenever it is asked, for hosts that keep tools over a long conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..host.paths import StopSignal as StopSignal
from ..types.catalog import Catalog
from ..types.model import Answer, Tool
from .access import SkillAccess
from .library import Library
from .skill_tools import tools_of
from .watch import reopen_library


@dataclass
class LiveLibrary:
    """The skills of a place as they are now.  Tools that were handed out keep working."""

    library: Library = field(repr=False)
    """As of the last look."""
    cwd: str = ""
    """The agent's working folder; the library's own if empty."""
    write: Sequence[str] = ()
    """More folders that scripts may write to."""

    def now(self) -> Library:
        """Reopen the library.  While that fails there are no skills."""
        self.library = reopen_library(self.library)
        return self.library

    def catalog(self) -> Catalog:
        """The listing for a system prompt; nothing ranked follows it."""
        return self.now().catalog(policy="stable")

    def tools(self) -> tuple[Tool, ...]:
        """The tools, even without skills: some may be added while the conversation lasts."""
        # A tool finds its implementation by name when it is called, in the library as it is then.
        return tuple(replace(tool, call=partial(self.call, tool.name)) for tool in self._tools(self.library))

    def offered(self) -> bool:
        """Whether the model may use any skill now."""
        return bool(self._access(self.now()).offered())

    def call(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """Call a tool by name."""
        tools = self._tools(self.now())
        for tool in tools:
            if tool.name == name:
                return tool.call(arguments)
        return Answer(f"There is no tool '{name}'. Available: {', '.join(tool.name for tool in tools)}", error=True)

    def _tools(self, library: Library) -> tuple[Tool, ...]:
        return tools_of(self._access(library), library.dialect.serving.tools)

    def _access(self, library: Library) -> SkillAccess:
        return library.skill_access(cwd=self.cwd, write=self.write)
