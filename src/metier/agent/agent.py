"""Agents as their files and the configuration describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..host import paths
from ..record.journal import Journal, find_journal, new_run_id, prune_journals, runs_folder
from ..record.stats import count_uses
from ..types.activation import InvokedBy
from ..types.agent import AgentFile, TurnBounds, UnattendedRun
from ..types.catalog import UsageHabits
from ..types.errors import BadRequest
from ..types.event import Ended, Event, Resumed, Started
from ..types.model import ReplyRequest, Tool
from ..types.settings import Settings
from .agent_files import agent_files, configured_permission, resolve_bounds
from .conversation import conversation_of, repair_events
from .mcp import server_tools
from .models.registry import is_known_model, open_model
from .permissions import Permission
from .policies import StepRunner, secret_hider
from .session import Session, catalog_offer

if TYPE_CHECKING:
    from ..library.library import Library
    from ..types.model import Model


def with_habits(library: Library, run: str, used: Mapping[str, int] | None = None) -> Library:
    """The library for one conversation: what was used most comes first where the catalog can't hold all.

    What was used is asked once and then stays, so that a conversation which goes on later lists the same skills.
    """
    if used is None:
        if not any(entry.reason.startswith("limit-") for entry in library.catalog().left_out):
            return library
        used = count_uses(library.place.state, {skill.path for skill in library.skills})
    return library.replace(request=library.request._replace(habits=UsageHabits(used=used, seed=run)))


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
    limits: TurnBounds | None = None
    """How far a turn may go; None is what its file or the configuration says."""
    deepest: int = 2
    """How many runs may be delegated inside one another."""
    keep: bool = True
    """Whether its runs are kept in journals."""
    tools_beside: Callable[[], tuple[Tool, ...]] | None = None
    """More tools, such as those of MCP servers."""
    extensions: tuple[Callable[[Session], tuple[Tool, ...]], ...] = ()
    """Tools of packages above this one that need the session, such as those that schedule."""
    private: bool = False
    """Its working folder was made for it alone: programs may do in it what they like."""
    hidden: tuple[str, ...] = ()
    """Paths that neither its tools nor its programs may see."""
    after: Callable[[str], None] | None = None
    """Told the name of a run when a turn of it is over and its last event has been read."""
    step: StepRunner | None = None
    """Makes a run durable: each reply and each call of a tool is one step, done once."""
    alone: UnattendedRun | None = None
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
        return self.rules if self.rules is not None else configured_permission(self.library.settings)

    @cached_property
    def bounds(self) -> TurnBounds:
        """How far a turn may go."""
        return self.limits or resolve_bounds(self.library.settings, self.file.bounds)

    @cached_property
    def hide(self) -> Callable[[str], str]:
        """Takes secrets out of a text."""
        return secret_hider(self.library)

    @cached_property
    def others(self) -> Mapping[str, AgentFile]:
        """The agents it may delegate to."""
        agents = agent_files(self.library)
        return {name: file for name, file in agents.items() if name != self.name}

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
        from ..resolve.resolver import AllowedSkills

        names, before = self.file.skills, library.allowed.names
        if names is None and library.dialect.serving.unlisted_agent == "none":
            names = ()
        if before is not None:
            names = before if names is None else tuple(name for name in names if name in before)
        return library.replace(allowed=AllowedSkills(names), request=library.request._replace(agent=names))

    def opened_model(self) -> Model:
        """The model that it asks."""
        if not isinstance(self.model, str):
            return self.model
        file_model = self.file.model if is_known_model(self.file.model, self.library) else ""
        return open_model(self.model or file_model, self.library)

    def start(self) -> Session:
        """A new conversation.  Nothing is sent before something is said."""
        run = new_run_id()
        if self.keep:
            prune_journals(self.library.place.state, *_journal_retention(self.library.settings))
        return Session(self, self.opened_model(), with_habits(self.library, run), run, self._journal(run))

    def resume(self, run: str) -> Session:
        """Go on with a conversation that was kept: by its id, the beginning of it, or `last`."""
        journal = find_journal(self.library.place.state, run, self.hide)
        events = [record.event for record in journal.read()]
        started = next((event for event in events if isinstance(event, Started)), None)
        if started is None:
            raise BadRequest(f"the run `{run}` never began", "start another", journal.path)
        library = with_habits(self.library, started.run, started.used)
        return Session(
            self,
            self.opened_model(),
            library,
            started.run,
            journal if self.keep else None,
            started.parent,
            conversation=conversation_of(events),
            resumed=True,
            before=_last_folder(events),
        )

    def run(self, text: str, by: InvokedBy = "user") -> Ended:
        """One task from beginning to end, with nobody to ask; a schedule's skills run as `/name words`."""
        ended = None
        for event in self.start().say(text, by):
            ended = event if isinstance(event, Ended) else ended
        assert ended is not None
        return ended

    def _journal(self, run: str) -> Journal | None:
        if not self.keep:
            return None
        return Journal(f"{runs_folder(self.library.place.state)}/{run}.jsonl", self.hide)


def _last_folder(events: Iterable[Event]) -> str:
    """Where a conversation worked when it was left."""
    folders = [event.cwd for event in events if isinstance(event, Started | Resumed) and event.cwd]
    return folders[-1] if folders else ""


def _journal_retention(settings: Settings) -> tuple[int, int]:
    """For how many days journals are kept, and how many of them."""
    days, runs = settings.at("record.days"), settings.at("record.runs")
    return days if isinstance(days, int) else 180, runs if isinstance(runs, int) else 5_000


def agent_for(library: Library, model: str = "", name: str | None = None) -> Agent:
    """An agent by its name or its file, or the plain one; the library is already the one that it may use."""
    return Agent(
        library,
        model,
        _agent_file_named(library, name),
        tools_beside=lambda: server_tools(library),
    )


def _agent_file_named(library: Library, name: str | None) -> AgentFile:
    if not name:
        return AgentFile("")
    if "/" in name or name.endswith(".md"):
        from ..parse.agent import parse_agent_file

        path = paths.absolute_path(name, library.place.cwd, library.place.home)
        agent_file = parse_agent_file(paths.read_text_file(path) or "", path)
        if agent_file is None:
            raise BadRequest(f"{path} has no frontmatter", "begin it with `---`, a name and `skills:`", path)
        return agent_file
    return agent_files(library).get(name, AgentFile(name))


def preview_request(agent: Agent, text: str) -> str:
    """The exact request that a task would begin with.  Nothing is sent; commands in a skill's body do run."""
    from dataclasses import replace

    from .session import start_event
    from .turns import begin_turn, find_delegated_call, fork_session

    session = replace(agent, keep=False).start()
    begin = begin_turn(session, text, "user")
    if (delegated := find_delegated_call(session, text)) is not None:
        skill, arguments, straight = delegated
        if straight:
            raise BadRequest("nothing would be sent: this goes straight to a tool", "run it without --dry-run")
        session, begin = fork_session(session, skill, arguments, "user")
    session.conversation = session.conversation.after(start_event(session))
    for event in begin:
        session.conversation = session.conversation.after(event)
    for event in repair_events(session.conversation, catalog_offer(session.library)):
        session.conversation = session.conversation.after(event)
    conversation = session.conversation
    return session.model.wire(
        ReplyRequest(conversation.system, session.tools().shown, conversation.messages, conversation.run)
    )
