"""A session: one conversation with an agent, from its system prompt to the last event of its last turn.

A session is a fold over events.  `say` yields them; each is written to the journal and applied to the `Conversation`
before the caller sees it, so whatever was shown can be resumed, and a caller that stops reading loses nothing.

The system prompt and the tools are fixed when the conversation starts and stay the same bytes to its end: providers
cache that prefix.  Skills that change meanwhile are announced in a message (`conversation.repair_events`) instead.
The catalog is built once per library, and a reload that finds nothing changed keeps the library it had.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event as Flag
from typing import TYPE_CHECKING, Self

from ..catalog.formats import get_layout
from ..host.facts import monotonic, now_ns
from ..library.grants import secret_values
from ..library.locks import SkillBaseline, source_uri
from ..library.settings import is_project_trusted
from ..record.journal import Journal, new_run_id, runs_folder
from ..record.observation import observe_turn
from ..record.redaction import hide_strings
from ..record.trace_context import TurnSubject
from ..sources.project_instructions import (
    MAX_CHARACTERS,
    InstructionFile,
    instruction_names,
    instructions_section,
    read_instructions,
)
from ..types.activation import InvokedBy, Message
from ..types.agent import TurnBounds
from ..types.catalog import Catalog
from ..types.errors import MetierError
from ..types.event import (
    NOTHING_USED,
    Ended,
    Event,
    EventSteps,
    Replied,
    Restored,
    Resumed,
    Retried,
    Started,
    Used,
    Wrote,
)
from ..types.model import Model, OpenedModel, Tool
from ..types.text import estimate_tokens
from .conversation import (
    CatalogOffer,
    Conversation,
    ConversationLedger,
    compact_conversation,
    needs_compacting,
    repair_events,
    tail_room,
    tokens_in,
)
from .loop import TurnEnding, TurnPorts, failure_ending, run_turn
from .permissions import rules_section
from .policies import AnswerMailbox, BudgetedModel, DurableModel, WindowedModel
from .session_tools import SessionTools, build_session_tools, reading_rule
from .turns import begin_turn

if TYPE_CHECKING:
    from ..library.access import SkillAccess
    from ..library.library import Library
    from .agent import Agent


PLAIN_INSTRUCTIONS = """\
You are a careful assistant that works in a folder of the user's. You have tools; use them rather than guess.
Do what was asked, no more; say plainly what you did and what you could not do."""
_TOUCHING = frozenset({"write_file", "edit_file", "run_command", "skill_run_script", "git_rollback"})
"""Tools that can change skills: after one of them the library is read again before the next use."""


# --- How a conversation starts and resumes ---


def start_event(session: Session) -> Started:
    """The first event, with the system prompt."""
    library, agent, tools = session.library, session.agent, session.tools()
    catalog = session.catalog()
    names = frozenset(tool.name for tool in tools.shown)
    instructions = _project_instructions(session)
    parts = [
        agent.instructions or PLAIN_INSTRUCTIONS,
        rules_section(names) if tools.skilled else "",
        catalog.text,
        # Behind the catalog: it differs from project to project, and what comes before is cached for all of them.
        agent.hide(instructions_section(instructions)),
        _folder_section(session),
    ]
    return Started(
        session.run,
        "\n\n".join(part.strip("\n") for part in parts if part.strip()),
        session.model.name,
        library.dialect.name,
        agent.name,
        session.agent.cwd,
        session.parent,
        tuple(entry.name for entry in catalog.entries),
        session.offer().digests,
        library.request.habits.used,
        agent.alone.schedule if agent.alone else "",
        tuple(found.path for found in instructions),
    )


def _project_instructions(session: Session) -> tuple[InstructionFile, ...]:
    """What the project asks of agents, once a person trusts it; an unattended run has its orders from its schedule."""
    agent, library = session.agent, session.library
    names = instruction_names(library.settings)
    if agent.alone or agent.private or not names or not is_project_trusted(library.place):
        return ()
    # An eighth of the window, at about four characters a token: a small model must still have room to work.
    most = min(MAX_CHARACTERS, session.model.window // 2)
    return read_instructions(library.place, names, most, partial(reading_rule, session))


def _folder_section(session: Session) -> str:
    # Last, because it differs from place to place: all text before it is the same bytes, and cached, everywhere.
    return f"## Here\n\nThe working folder is {session.agent.cwd}"


def resume_event(session: Session) -> Resumed:
    """The event of a resumed conversation; a new working folder is told in a message, as the system prompt stays."""
    cwd, previous = session.agent.cwd, session.previous_cwd
    if previous in ("", cwd):
        return Resumed(session.model.name, session.run, cwd)
    note = f"[The working folder is now {cwd}; it was {previous}. Paths and commands start from the new one.]"
    return Resumed(session.model.name, session.run, cwd, previous, (Message("user", note, tag="place"),))


def _catalog_offer(library: Library, catalog: Catalog) -> CatalogOffer:
    """The catalog's entries as its text has them, by name."""
    write = get_layout(library.dialect.serving.listing.format).entry
    return CatalogOffer({entry.name: write(entry) for entry in catalog.entries})


@dataclass
class Session:
    """A conversation.  `say` yields its events; `answer`, `stop` and `update` may be called while it does."""

    agent: Agent
    model: Model
    library: Library
    run: str
    journal: Journal | None = None
    parent: str = ""
    depth: int = 0
    chain: tuple[str, ...] = ()
    """The skills and agents that delegated to this session, the first one first."""
    conversation: Conversation = field(default_factory=Conversation)
    ledger: ConversationLedger = field(default_factory=ConversationLedger)
    mailbox: AnswerMailbox = field(default_factory=AnswerMailbox)
    stopping: Flag = field(default_factory=Flag)
    resumed: bool = False
    previous_cwd: str = ""
    """The working folder of a resumed conversation before this session."""
    stale: bool = False
    """A tool may have changed the skills since the library was read."""
    by_hand: bool = False
    """The turn runs a scheduler skill by hand."""
    kit: SessionTools | None = None
    budget: BudgetedModel | None = None
    terms: frozenset[str] = frozenset()
    """What the user allowed the call that runs now, besides running: `network`, `git`."""
    left: TurnBounds | None = None
    """What the delegating session has left to spend."""
    partial_reply: str = ""
    """The text of a reply that is still being written."""
    built: tuple[Library, tuple[Tool, ...]] | None = None
    """The tools without policies, and the library they were built from."""
    listed: tuple[Library, Catalog] | None = None
    """The catalog, and the library it was built from."""
    offered: tuple[Catalog, CatalogOffer] | None = None
    """The catalog's entries as text, and the catalog they were made from."""
    baseline: SkillBaseline = field(default_factory=lambda: SkillBaseline(now_ns()))
    """The skills as they were when this session began, in this process."""
    most: int = 0
    """The tokens that the model takes; a window that is lowered later only makes compaction begin sooner."""
    opened: OpenedModel | None = None
    """The model, where this session opened it and so has to close it."""

    def __post_init__(self) -> None:
        self.most = self.most or self.model.window

    # --- Closing ---

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the model that this session opened.  The session itself goes on: its next request opens it again."""
        if self.opened is not None:
            self.opened.close()

    # --- Turns ---

    def child(self, name: str, agent: Agent, model: Model, library: Library) -> Session:
        """A delegated session: it shares the answers of the user, the stop flag and the remaining budget."""
        run = new_run_id()
        journal = self.journal and Journal(f"{runs_folder(library.place.state)}/{run}.jsonl", self.journal.hide)
        return Session(
            agent,
            model,
            library,
            run,
            journal,
            self.run,
            self.depth + 1,
            (*self.chain, name),
            mailbox=self.mailbox,
            stopping=self.stopping,
            left=self.budget.left() if self.budget is not None else None,
            baseline=self.baseline,
        )

    def say(self, text: str, by: InvokedBy = "user") -> EventSteps[None]:
        """One turn: a request, or `/skill arguments`.  Each event is kept before it is yielded; the last is `Ended`.

        To stop reading early is to interrupt the turn.
        """
        self.stopping.clear()
        return self.within(None, text, by)

    def within(self, begin: EventSteps[bool] | None, text: str, by: InvokedBy = "user") -> EventSteps[None]:
        """Like `say`, for a turn that `begin` starts, or that runs inside another turn and may be stopped already."""
        with self.journal.claimed() if self.journal else nullcontext():
            finished = False
            try:
                for event in observe_turn(self._turn(begin, text, by), _traced_subject(self)):
                    event = self.hidden(_with_partial_reply(self, event))
                    self._keep(event)
                    finished = isinstance(event, Ended)
                    yield event
            finally:
                if not finished:  # the caller stopped reading, or something failed that is not ours to answer
                    interrupted = TurnEnding("interrupted").event(NOTHING_USED, 0.0)
                    self._keep(self.hidden(_with_partial_reply(self, interrupted)))
        if self.agent.after is not None and self.journal is not None and not self.depth:
            self.agent.after(self.run)

    def hidden(self, event: Event) -> Event:
        """An event without secrets: all that is shown, kept and sent to the model comes from here."""
        return hide_strings(event, self.agent.hide)

    def answer(self, id: str, text: str) -> None:
        """Answer an `Asked` event; call it before reading the next event."""
        self.mailbox.answers[id] = text

    def stop(self) -> None:
        """Interrupt the running turn.  What was done stays done, and the session can continue."""
        self.stopping.set()

    def update(self, library: Library) -> None:
        """Use this library from now on; the model is told of changes before its next reply."""
        if not _is_same(self.library, library):
            self.library = library
            self.agent.hide.learn(secret_values(library))

    def use(self, model: OpenedModel) -> None:
        """Use another model from now on, and close it in the end; the one before it is closed now."""
        self.close()
        self.model = self.opened = model
        self.most = model.window

    def skill_access(self, by: InvokedBy = "model") -> SkillAccess:
        """The skills as somebody may use them in this conversation."""
        access = self.library.skill_access(cwd=self.agent.cwd, by=by, write=self.agent.writable)
        return replace(access, unattended=self.agent.alone is not None, baseline=self.baseline)

    def retract(self) -> bool:
        """Remove the user's last message and everything after it; False where there is none."""
        at = _last_request(self.conversation)
        if at is not None:
            self._keep(Restored(messages=self.conversation.messages[:at], whole=True))
        return at is not None

    def compact(self, room: int | None = None) -> EventSteps[None]:
        """Compact the conversation now; the newest messages keep `room` tokens, or their share of the window."""
        for event in map(self.hidden, self._compacted(room)):
            self._keep(event)
            yield event

    def context(self) -> list[tuple[str, int]]:
        """What fills the context window: each part with an estimate of its tokens, the largest first."""
        return _context_parts(self)

    def _keep(self, event: Event) -> None:
        if self.journal is not None:
            self.journal.keep(event)
        self.conversation = self.conversation.after(event)
        if isinstance(event, Used) and event.call.name in _TOUCHING:
            self.stale = True

    def known(self) -> ConversationLedger:
        """The accounts of the conversation as it is now."""
        return self.ledger.sync(self.conversation)

    def tools(self) -> SessionTools:
        """The tools of this conversation: built once, so that the model is shown the same bytes to its end."""
        if self.kit is None:
            self.kit = build_session_tools(self)
        return self.kit

    def _turn(self, begin: EventSteps[bool] | None, text: str, by: InvokedBy) -> EventSteps[None]:
        began = monotonic()
        self.by_hand = False
        try:
            if not self.conversation.run:
                yield start_event(self)
            elif self.resumed:
                self.resumed = False
                yield resume_event(self)
            goes_on = yield from begin or begin_turn(self, text, by)
            if goes_on:
                yield from run_turn(self._ports())
        except (TurnEnding, MetierError) as error:
            ending = error if isinstance(error, TurnEnding) else failure_ending(error)
            yield ending.event(NOTHING_USED, monotonic() - began)

    def _step_model(self) -> Model:
        """The model, never sent more than it takes; in a durable run each of its replies is a step."""
        model = self.model if self.agent.step is None else DurableModel(self.model, self.agent.step)
        return WindowedModel(model, max(self.most, model.window))

    def _ports(self) -> TurnPorts:
        bounds = self.agent.bounds if self.left is None else self.agent.bounds.within(self.left)
        self.budget = BudgetedModel(self._step_model(), bounds, monotonic)
        return TurnPorts(
            self.budget,
            self.tools().toolset,
            self.stopping,
            lambda: self.conversation,
            self._repairs,
            monotonic,
            self._shrink,
            self.ledger,
        )

    def _shrink(self) -> EventSteps[None]:
        """Compact a conversation that was too long, though the window should have held it."""
        # Half of what was too much: the service may count otherwise, or take less than is known of it.
        smaller = min(self.model.window, self.conversation.tokens) // 2
        yield from self._compacted(tail_room(smaller))

    def _compacted(self, room: int | None = None) -> EventSteps[None]:
        model, tools = self._step_model(), self.tools().shown
        yield from compact_conversation(self.conversation, self.offer(), model, tools, self.stopping, room)

    def _repairs(self, conversation: Conversation) -> EventSteps[None]:
        if self.stopping.is_set():
            raise TurnEnding("interrupted")
        self.refresh()
        yield from repair_events(conversation, self.offer(), self.ledger)
        if needs_compacting(self.conversation, self.model.window, self.tools().cost, self.ledger):
            yield from self._compacted()

    # --- The library, its catalog, and what a tool may have changed ---

    def catalog(self) -> Catalog:
        """The catalog, built once for each library."""
        if self.listed is None or self.listed[0] is not self.library:
            self.listed = (self.library, self.library.catalog())
        return self.listed[1]

    def offer(self) -> CatalogOffer:
        """The catalog's entries as text, made once for each catalog."""
        catalog = self.catalog()
        if self.offered is None or self.offered[0] is not catalog:
            self.offered = (catalog, _catalog_offer(self.library, catalog))
        return self.offered[1]

    def refresh(self) -> None:
        """Read the library again where a tool may have changed it."""
        if self.stale:
            self.stale = False
            self.update(self.library.reload())


def _traced_subject(session: Session) -> TurnSubject:
    """Whose turn it is, for traces."""
    agent, library = session.agent, session.library
    return TurnSubject(
        session.run,
        session.model.name,
        agent.name,
        library.dialect.name,
        agent.alone.schedule if agent.alone else "",
        library.place.env,
        agent.hide,
        lambda path: source_uri(session.library, path),
    )


def _with_partial_reply(session: Session, event: Event) -> Event:
    """An ending in the middle of a reply keeps the text that was already shown."""
    if isinstance(event, Wrote):
        session.partial_reply += "" if event.thinking else event.text
    elif isinstance(event, Replied | Retried):
        session.partial_reply = ""
    elif isinstance(event, Ended):
        text, session.partial_reply = session.partial_reply, ""
        if text.strip():
            return replace(event, messages=(Message("assistant", text), *event.messages))
    return event


def _last_request(conversation: Conversation) -> int | None:
    """The position of the user's last message."""
    positions = [
        at
        for at, message in enumerate(conversation.messages)
        if message.role == "user" and not message.tag and not message.skill
    ]
    return positions[-1] if positions else None


def _context_parts(session: Session) -> list[tuple[str, int]]:
    conversation = session.conversation
    listed = sum(estimate_tokens(line) for line in session.offer().lines.values())
    skills: dict[str, int] = {}
    for message in conversation.messages:
        if message.skill:
            name = f"skill {message.skill}"
            skills[name] = skills.get(name, 0) + estimate_tokens(message.text)
    other_tokens = tokens_in(message for message in conversation.messages if not message.skill)
    parts = {"tools": session.tools().cost, "catalog": listed, **skills, "messages": other_tokens}
    parts["system prompt"] = max(0, estimate_tokens(conversation.system) - listed)
    return sorted(parts.items(), key=lambda part: -part[1])


def _is_same(old: Library, new: Library) -> bool:
    """Whether nothing changed.  Equal skills may still be judged otherwise: a script may have installed a program."""
    return old is new or (old == new and old.verdicts == new.verdicts)
