"""An agent: a library, a model, and the rules and limits of its file and the configuration.

`Agent` is a frozen description; `start`, `resume` and `run` open sessions from it.  Everything that differs between
faces (a scheduled run, a batch, an editor) is a field, so that all of them run the same agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from ..host import paths
from ..library.grants import secret_values
from ..library.settings import require_whole_settings
from ..record.journal import Journal, find_journal, new_run_id, prune_journals, runs_folder
from ..record.redaction import Redactor
from ..record.sessions import last_session
from ..record.stats import count_uses
from ..types.activation import InvokedBy
from ..types.agent import AgentFile, TurnBounds, UnattendedRun
from ..types.catalog import Catalog, UsageHabits
from ..types.errors import BadRequest
from ..types.event import Ended, Event, Resumed, Started
from ..types.model import ReplyRequest, Tool
from ..types.settings import Settings
from .agent_files import agent_files, configured_permission, require_known_tools, resolve_bounds
from .conversation import conversation_of, repair_events
from .mcp import ServerTools
from .models.registry import is_known_model, open_model
from .permissions import Permission
from .policies import StepRunner
from .session import Session, start_event
from .turns import begin_turn, find_delegated_call, fork_session

if TYPE_CHECKING:
    from ..library.library import Library
    from ..types.model import Model, OpenedModel


@dataclass(frozen=True)
class Agent:
    """An agent.  Constructing one has no effect; `start`, `resume` and `run` open sessions."""

    library: Library
    model: Model | str = ""
    """A model, or its name; empty selects the configured one."""
    file: AgentFile = field(default_factory=lambda: AgentFile(""))
    """Its own file."""
    rules: Permission | None = None
    """Permission rules; None selects the configured ones."""
    limits: TurnBounds | None = None
    """Limits of a turn; None selects those of its file or the configuration."""
    deepest: int = 2
    """How deep delegated runs may nest."""
    keep: bool = True
    """Whether its runs are kept in journals."""
    tools_beside: Callable[[], tuple[Tool, ...]] | None = None
    """Further tools."""
    servers: ServerTools | None = None
    """MCP servers, connected to when their tools are first needed, and disconnected by `close`."""
    extensions: tuple[Callable[[Session], tuple[Tool, ...]], ...] = ()
    """Tools of higher packages that need the session, such as those for schedules."""
    private: bool = False
    """Whether its working folder was made for this run alone, so that programs may do anything in it."""
    hidden: tuple[str, ...] = ()
    """Paths that neither its tools nor its programs may see."""
    after: Callable[[str], None] | None = None
    """Called with the id of a run when a turn is over and its last event was read."""
    step: StepRunner | None = None
    """Makes a run durable: each reply and each tool call is a step that is done once."""
    alone: UnattendedRun | None = None
    """Set for an unattended run, such as a scheduled one."""

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
        """The folder that its tools may touch: the project, or the working folder where there is no project."""
        place = self.library.place
        # A "project" that is the whole machine or the whole home would open everything to the tools.
        too_wide = place.project in ("/", place.home) or not paths.is_inside(place.cwd, place.project)
        return place.cwd if too_wide else place.project

    @property
    def writable(self) -> tuple[str, ...]:
        """Folders besides a skill's own that its scripts may write in."""
        return ()

    @property
    def network(self) -> bool:
        """Whether commands have network access."""
        return self.alone.network if self.alone else self.library.settings.own("agent.network") is True

    @cached_property
    def permission(self) -> Permission:
        """The permission rules in force."""
        return self.rules if self.rules is not None else configured_permission(self.library.settings)

    @cached_property
    def bounds(self) -> TurnBounds:
        """The limits of a turn in force."""
        return self.limits or resolve_bounds(self.library.settings, self.file.bounds)

    @cached_property
    def hide(self) -> Redactor:
        """Replaces secrets in a text; sessions teach it what skills that appear later are lent."""
        return Redactor(secret_values(self.library))

    @cached_property
    def others(self) -> Mapping[str, AgentFile]:
        """The agents it may delegate to."""
        agents = agent_files(self.library)
        return {name: file for name, file in agents.items() if name != self.name}

    @cached_property
    def _beside(self) -> tuple[Tool, ...]:
        return self.tools_beside() if self.tools_beside is not None else ()

    def more_tools(self) -> tuple[Tool, ...]:
        """The tools of `tools_beside`, built once, and those of servers."""
        return (*self._beside, *(self.servers.tools() if self.servers is not None else ()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from its servers, which all copies of it share; its sessions close their models themselves."""
        if self.servers is not None:
            self.servers.close()

    def other(self, name: str) -> Agent:
        """The agent of that name, as this one delegates to it."""
        return replace(self, file=self.others[name], limits=None)

    def library_for(self, library: Library) -> Library:
        """The skills that both this agent and the delegating one may use: delegation never widens a list."""
        from ..resolve.resolver import AllowedSkills

        listed, before = self.file.skills, library.allowed.names
        names = None if listed is None else library.settings.without_kits(listed)
        if names is None and library.dialect.serving.unlisted_agent == "none":
            names = ()
        if before is not None:
            names = before if names is None else tuple(name for name in names if name in before)
        return library.replace(allowed=AllowedSkills(names), request=library.request._replace(agent=names))

    def _session_model(self) -> tuple[Model, OpenedModel | None]:
        """The model of a session; and the same again if it was opened for this session, which then closes it."""
        if not isinstance(self.model, str):
            return self.model, None
        file_model = self.file.model if is_known_model(self.file.model, self.library) else ""
        opened = open_model(self.model or file_model, self.library)
        return opened, opened

    def start(self) -> Session:
        """A new conversation.  Nothing is sent before the first `say`."""
        self._require_whole_rules()
        run = new_run_id()
        if self.keep:
            prune_journals(self.library.place.state, *_journal_retention(self.library.settings))
        model, opened = self._session_model()
        library = _with_room(self.library, model.window)
        catalog = library.catalog()
        listed: tuple[Library, Catalog] | None = (library, catalog)
        if any(entry.reason.startswith("limit-") for entry in catalog.left_out):
            # Not all skills fit: those used most come first, which makes it another catalog.
            used = count_uses(library.place.state, {skill.path for skill in library.skills})
            library, listed = _with_habits(library, run, used), None
        return Session(self, model, library, run, self._journal(run), listed=listed, opened=opened)

    def _require_whole_rules(self) -> None:
        """Refuse to act under a configuration that could not be read in full, or forbids what does not exist."""
        require_whole_settings(self.library.problems)
        require_known_tools(self.library, lambda: (tool.name for tool in self.more_tools()))

    def resume(self, run: str) -> Session:
        """Continue a kept conversation: its id, the beginning of it, or `last` for the last used in this folder."""
        self._require_whole_rules()
        run = last_session(self.library.place.state, self.base) if run == "last" else run
        journal = find_journal(self.library.place.state, run, self.hide)
        events = [record.event for record in journal.read()]
        started = next((event for event in events if isinstance(event, Started)), None)
        if started is None:
            raise BadRequest(f"the run `{run}` has no start event", "start a new run", journal.path)
        # The habits it started with, not today's: the same skills are listed as at its beginning.
        model, opened = self._session_model()
        library = _with_habits(_with_room(self.library, model.window), started.run, started.used)
        return Session(
            self,
            model,
            library,
            started.run,
            journal if self.keep else None,
            started.parent,
            conversation=conversation_of(events),
            resumed=True,
            previous_cwd=_last_folder(events),
            opened=opened,
        )

    def run(self, text: str, by: InvokedBy = "user") -> Ended:
        """Run one task to its end without asking anybody; `/name arguments` calls a skill."""
        ended = None
        with self.start() as session:
            for event in session.say(text, by):
                ended = event if isinstance(event, Ended) else ended
        assert ended is not None
        return ended

    def _journal(self, run: str) -> Journal | None:
        if not self.keep:
            return None
        return Journal(f"{runs_folder(self.library.place.state)}/{run}.jsonl", self.hide)


def _with_room(library: Library, window: int) -> Library:
    """The library for a model: where its dialect sets no limit, the catalog takes a share of the model's window."""
    # A tenth leaves the window to the work; below 2,000 tokens not even ten skills could be listed.
    tokens = max(window // 10, min(2_000, window // 4))
    return library.replace(request=library.request._replace(room=tokens * 4))


def _with_habits(library: Library, run: str, used: Mapping[str, int]) -> Library:
    """The library for one conversation: the skills used most come first where the catalog can't hold them all."""
    return library.replace(request=library.request._replace(habits=UsageHabits(used=used, seed=run)))


def _last_folder(events: Iterable[Event]) -> str:
    """The working folder that a conversation had last."""
    folders = [event.cwd for event in events if isinstance(event, Started | Resumed) and event.cwd]
    return folders[-1] if folders else ""


def _journal_retention(settings: Settings) -> tuple[int, int]:
    """How many days journals are kept, and how many journals at most."""
    days, runs = settings.own("record.days"), settings.own("record.runs")
    return days if isinstance(days, int) else 180, runs if isinstance(runs, int) else 5_000


def agent_for(library: Library, model: str = "", name: str | None = None) -> Agent:
    """The agent of that name or file, or the default one; the library already has only the skills it may use."""
    return Agent(
        library,
        model,
        _agent_file_named(library, name),
        servers=ServerTools(library),
    )


def with_servers(agent: Agent, tables: Mapping[str, object]) -> Agent:
    """The same agent with more MCP servers than are configured."""
    if not tables:
        return agent
    return replace(agent, servers=ServerTools(agent.library, tables, agent.servers))


def _agent_file_named(library: Library, name: str | None) -> AgentFile:
    if not name:
        return AgentFile("")
    if "/" in name or name.endswith(".md"):
        from ..parse.agent import parse_agent_file

        path = paths.absolute_path(name, library.place.cwd, library.place.home)
        agent_file = parse_agent_file(paths.read_text_file(path) or "", path)
        if agent_file is None:
            raise BadRequest(f"{path} has no frontmatter", "start it with `---`, `name:` and `skills:`", path)
        return agent_file
    return agent_files(library).get(name, AgentFile(name))


def preview_request(agent: Agent, text: str) -> str:
    """The exact first request of a task.  Nothing is sent, but commands in a skill's body do run."""
    session = replace(agent, keep=False).start()
    begin = begin_turn(session, text, "user")
    if (delegated := find_delegated_call(session, text)) is not None:
        skill, arguments, straight = delegated
        if straight:
            raise BadRequest("no request to show: this skill calls a tool directly", "run it without --dry-run")
        session, begin = fork_session(session, skill, arguments, "user")
    session.conversation = session.conversation.after(start_event(session))
    for event in begin:
        session.conversation = session.conversation.after(session.hidden(event))
    for event in repair_events(session.conversation, session.offer()):
        session.conversation = session.conversation.after(event)
    conversation = session.conversation
    return session.model.wire(
        ReplyRequest(conversation.system, session.tools().shown, conversation.messages, conversation.run)
    )
