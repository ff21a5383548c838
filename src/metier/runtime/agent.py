"""An agent: a library, a model and rules.  `start` begins a conversation with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..act.boxes import Step
from ..act.conversation import conversation_of
from ..act.permission import Permission
from ..host import paths
from ..record.journal import Journal, folder_of, forget, journal_of, new_id
from ..types.activation import By
from ..types.agent import AgentFile, Alone, Bounds
from ..types.errors import BadRequest
from ..types.event import Ended, Event, Resumed, Started
from ..types.settings import Settings
from ..types.tool import Tool
from .agents import bounds_of, permission_of
from .described import agent_files
from .habits import with_habits
from .models import is_known, open_model
from .secrets import hider
from .session import Session

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library


@dataclass(frozen=True)
class Agent:
    """Who works: constructing one does nothing; `start`, `resume` and `run` do."""

    library: Library
    model: Model | str = ""
    """A model, or its name; empty is the one that is configured."""
    file: AgentFile = field(default_factory=lambda: AgentFile(""))
    """What its own file says of it."""
    rules: Permission | None = None
    """Who may call what; None is what is configured."""
    limits: Bounds | None = None
    """How far a turn may go; None is what its file or the configuration says."""
    deepest: int = 2
    """How many runs may be delegated inside one another."""
    keep: bool = True
    """Whether its runs are kept in journals."""
    tools_beside: Callable[[], tuple[Tool, ...]] | None = None
    """More tools, such as those of MCP servers."""
    private: bool = False
    """Its working folder was made for it alone: programs may do in it what they like."""
    hidden: tuple[str, ...] = ()
    """Paths that neither its tools nor its programs may see."""
    after: Callable[[str], None] | None = None
    """Told the name of a run when a turn of it is over and its last event has been read."""
    step: Step | None = None
    """Makes a run durable: each reply and each call of a tool is one step, done once."""
    alone: Alone | None = None
    """Set where nobody is there."""

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def instructions(self) -> str:
        return self.file.instructions

    @property
    def cwd(self) -> str:
        return self.library.place.cwd

    @property
    def base(self) -> str:
        """The folder that its tools may touch: the project, or the working folder where that is no project's."""
        place = self.library.place
        wide = place.project in ("/", place.home) or not paths.is_inside(place.cwd, place.project)
        return place.cwd if wide else place.project

    @property
    def writable(self) -> tuple[str, ...]:
        """Folders that skills' scripts may write in, beside their own."""
        return ()

    @property
    def network(self) -> bool:
        """Whether commands may reach the network."""
        return self.alone.network if self.alone else self.library.settings.at("agent.network") is True

    @cached_property
    def permission(self) -> Permission:
        """Who may call what."""
        return self.rules if self.rules is not None else permission_of(self.library.settings)

    @cached_property
    def bounds(self) -> Bounds:
        """How far a turn may go."""
        return self.limits or bounds_of(self.library.settings, self.file.bounds)

    @cached_property
    def hide(self) -> Callable[[str], str]:
        """Takes secrets out of a text."""
        return hider(self.library)

    @cached_property
    def others(self) -> Mapping[str, AgentFile]:
        """The agents it may delegate to."""
        found = agent_files(self.library)
        return {name: one for name, one in found.items() if name != self.name}

    @cached_property
    def _beside(self) -> tuple[Tool, ...]:
        return self.tools_beside() if self.tools_beside is not None else ()

    def more_tools(self) -> tuple[Tool, ...]:
        """The tools of `tools_beside`, asked for once."""
        return self._beside

    def other(self, name: str) -> Agent:
        """One of the others."""
        return replace(self, file=self.others[name], limits=None)

    def library_for(self, library: Library) -> Library:
        """The same skills, as far as this agent may use them, and whoever had the library before it."""
        from ..resolve import Allowed

        names, before = self.file.skills, library.allowed.names
        if names is None and library.dialect.serving.unlisted_agent == "none":
            names = ()
        if before is not None:
            names = before if names is None else tuple(one for one in names if one in before)
        return replace(library, allowed=Allowed(names), request=replace(library.request, agent=names))

    def opened_model(self) -> Model:
        """The model that it asks."""
        if not isinstance(self.model, str):
            return self.model
        own = self.file.model if is_known(self.file.model, self.library) else ""
        return open_model(self.model or own, self.library)

    def start(self) -> Session:
        """A new conversation.  Nothing is sent before something is said."""
        run = new_id()
        if self.keep:
            forget(self.library.place.state, *_kept(self.library.settings))
        return Session(self, self.opened_model(), with_habits(self.library, run), run, self._journal(run))

    def resume(self, run: str) -> Session:
        """Go on with a conversation that was kept: by its id, the beginning of it, or `last`."""
        journal = journal_of(self.library.place.state, run, self.hide)
        events = [one.event for one in journal.read()]
        begun = next((one for one in events if isinstance(one, Started)), None)
        if begun is None:
            raise BadRequest(f"the run `{run}` never began", "start another", journal.path)
        library = with_habits(self.library, begun.run, begun.used)
        return Session(
            self, self.opened_model(), library, begun.run, journal if self.keep else None, begun.parent,
            conversation=conversation_of(events), resumed=True, before=_last_folder(events),
        )  # fmt: skip

    def run(self, text: str, by: By = "user") -> Ended:
        """One task from beginning to end, with nobody to ask; a schedule's skills run as `/name words`."""
        ended = None
        for event in self.start().say(text, by):
            ended = event if isinstance(event, Ended) else ended
        assert ended is not None
        return ended

    def _journal(self, run: str) -> Journal | None:
        if not self.keep:
            return None
        return Journal(f"{folder_of(self.library.place.state)}/{run}.jsonl", self.hide)


def _last_folder(events: Iterable[Event]) -> str:
    """Where a conversation worked when it was left."""
    found = [one.cwd for one in events if isinstance(one, Started | Resumed) and one.cwd]
    return found[-1] if found else ""


def _kept(settings: Settings) -> tuple[int, int]:
    """For how many days journals are kept, and how many of them."""
    days, runs = settings.at("record.days"), settings.at("record.runs")
    return days if isinstance(days, int) else 180, runs if isinstance(runs, int) else 5_000
