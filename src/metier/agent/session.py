"""What a conversation is told at its beginning, and what the catalog says at any moment."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import TYPE_CHECKING

from ..catalog.formats import get_layout
from ..host.facts import monotonic
from ..record.journal import Journal, new_run_id, runs_folder
from ..types.activation import InvokedBy, Message
from ..types.agent import TurnBounds
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
from ..types.model import Model
from ..types.text import estimate_tokens
from .conversation import CatalogOffer, Conversation, compact_conversation, needs_compacting, repair_events, tokens_in
from .loop import TurnEnding, TurnPorts, failure_ending, run_turn
from .permissions import rules_section
from .policies import AnswerMailbox, BudgetedModel, DurableModel
from .session_tools import SessionTools, build_session_tools
from .turns import begin_turn

if TYPE_CHECKING:
    from ..library.access import SkillAccess
    from ..library.library import Library
    from .agent import Agent


PLAIN_INSTRUCTIONS = """\
You are a careful assistant that works in a folder of the user's. You have tools; use them rather than guess.
Do what was asked, no more; say plainly what you did and what you could not do."""


def catalog_offer(library: Library) -> CatalogOffer:
    """The catalog's own lines, by name."""
    catalog = library.catalog()
    write = get_layout(library.dialect.serving.listing.format).entry
    return CatalogOffer({entry.name: write(entry) for entry in catalog.entries})


def start_event(session: Session) -> Started:
    """The beginning: the system prompt, which then never changes."""
    library, agent, tools = session.library, session.agent, session.tools()
    catalog = library.catalog()
    names = frozenset(tool.name for tool in tools.shown)
    parts = [
        agent.instructions or PLAIN_INSTRUCTIONS,
        rules_section(names) if tools.skilled else "",
        catalog.text,
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
        catalog_offer(library).digests,
        library.request.habits.used,
        agent.alone.schedule if agent.alone else "",
    )


def _folder_section(session: Session) -> str:
    """What differs from place to place comes last: all before it is the same bytes everywhere."""
    return f"## Here\n\nThe working folder is {session.agent.cwd}"


def resume_event(session: Session) -> Resumed:
    """A conversation goes on; where it works elsewhere now, the model hears of it, as its system prompt stays."""
    cwd, before = session.agent.cwd, session.before
    if before in ("", cwd):
        return Resumed(session.model.name, session.run, cwd)
    note = f"[The working folder is {cwd} now, and no longer {before}. Paths and commands start from there.]"
    return Resumed(session.model.name, session.run, cwd, before, (Message("user", note, tag="place"),))


_TOUCHING = frozenset({"write_file", "edit_file", "run_command", "skill_run_script", "git_rollback"})
"""Tools after which skills may not be what they were."""


@dataclass
class Session:
    """A conversation.  `say` yields what happens; `answer`, `stop` and `update` may be called meanwhile."""

    agent: Agent
    model: Model
    library: Library
    run: str
    journal: Journal | None = None
    parent: str = ""
    depth: int = 0
    chain: tuple[str, ...] = ()
    """The skills and agents that led here, when it was delegated."""
    conversation: Conversation = field(default_factory=Conversation)
    mailbox: AnswerMailbox = field(default_factory=AnswerMailbox)
    stopping: Flag = field(default_factory=Flag)
    resumed: bool = False
    before: str = ""
    """The folder it worked in when it was left."""
    stale: bool = False
    """Something may have changed the skills since they were looked at."""
    by_hand: bool = False
    """The turn runs a scheduler skill by hand."""
    kit: SessionTools | None = None
    budget: BudgetedModel | None = None
    left: TurnBounds | None = None
    """What whoever delegated it has left to spend."""
    half: str = ""
    """As much of a reply as was written."""
    offered: tuple[Library, CatalogOffer] | None = None
    """The catalog's lines, and the library they are of."""

    def child(self, name: str, agent: Agent, model: Model, library: Library) -> Session:
        """A session inside this one: it shares the person who answers, the way to stop, and what is left to spend."""
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
        )

    def say(self, text: str, by: InvokedBy = "user") -> EventSteps[None]:
        """One turn: a request, or `/skill words`.  Every event is kept before it is yielded; the last is `Ended`.

        Whoever stops reading early stops the turn.
        """
        self.stopping.clear()
        return self.within(None, text, by)

    def within(self, begin: EventSteps[bool] | None, text: str, by: InvokedBy = "user") -> EventSteps[None]:
        """The same, begun by something else than a line of input, and inside a turn that may be stopped already."""
        with self.journal.claimed() if self.journal else nullcontext():
            finished = False
            try:
                for event in self._turn(begin, text, by):
                    event = self._with_half(event)
                    self._keep(event)
                    finished = isinstance(event, Ended)
                    yield event
            finally:
                if not finished:
                    self._keep(self._with_half(TurnEnding("interrupted").event(NOTHING_USED, 0.0)))
        if self.agent.after is not None and self.journal is not None and not self.depth:
            self.agent.after(self.run)

    def _with_half(self, event: Event) -> Event:
        """An end in the middle of a reply takes what was written of it into the conversation: it was seen."""
        if isinstance(event, Wrote):
            self.half += "" if event.thinking else event.text
        elif isinstance(event, Replied | Retried):
            self.half = ""
        elif isinstance(event, Ended):
            half, self.half = self.half, ""
            if half.strip():
                return replace(event, messages=(Message("assistant", half), *event.messages))
        return event

    def answer(self, id: str, text: str) -> None:
        """Answer what an `Asked` asked; before the next event is read."""
        self.mailbox.answers[id] = text

    def stop(self) -> None:
        """End the turn that is going on.  What was done stays; the session can go on."""
        self.stopping.set()

    def update(self, library: Library) -> None:
        """The skills as they are now; the model hears of it when it is next asked."""
        self.library = library

    def use(self, model: Model) -> None:
        """Another model from here on."""
        self.model = model

    def skill_access(self, by: InvokedBy = "model") -> SkillAccess:
        """The skills as somebody may use them in this conversation."""
        access = self.library.skill_access(cwd=self.agent.cwd, by=by, write=self.agent.writable)
        return replace(access, unattended=self.agent.alone is not None)

    def retract(self) -> bool:
        """Take back the last thing that was said, and all that came of it."""
        messages = self.conversation.messages
        positions = [
            at
            for at, message in enumerate(messages)
            if message.role == "user" and not message.tag and not message.skill
        ]
        if not positions:
            return False
        self._keep(Restored(messages=messages[: positions[-1]], whole=True))
        return True

    def compact(self) -> EventSteps[None]:
        """Cut the conversation short now."""
        for event in compact_conversation(
            self.conversation, catalog_offer(self.library), self.model, self.tools().shown, self.stopping
        ):
            self._keep(event)
            yield event

    def context(self) -> list[tuple[str, int]]:
        """What fills the window: each part of it with an estimate of its tokens, the largest first."""
        talk = self.conversation
        listed = sum(estimate_tokens(line) for line in self.offer().lines.values())
        skills: dict[str, int] = {}
        for message in talk.messages:
            if message.skill:
                name = f"skill {message.skill}"
                skills[name] = skills.get(name, 0) + estimate_tokens(message.text)
        other_tokens = tokens_in(message for message in talk.messages if not message.skill)
        parts = {"tools": self.tools().cost, "catalog": listed, **skills, "messages": other_tokens}
        parts["system prompt"] = max(0, estimate_tokens(talk.system) - listed)
        return sorted(parts.items(), key=lambda part: -part[1])

    def _keep(self, event: Event) -> None:
        if self.journal is not None:
            self.journal.keep(event)
        self.conversation = self.conversation.after(event)
        if isinstance(event, Used) and event.call.name in _TOUCHING:
            self.stale = True

    def tools(self) -> SessionTools:
        """The tools of this conversation: made once, so that the model is shown the same bytes to its end."""
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

    def _asked(self) -> Model:
        """The model, whose replies are steps where the run is durable."""
        return self.model if self.agent.step is None else DurableModel(self.model, self.agent.step)

    def _ports(self) -> TurnPorts:
        bounds = self.agent.bounds if self.left is None else self.agent.bounds.within(self.left)
        self.budget = BudgetedModel(self._asked(), bounds, monotonic)
        return TurnPorts(
            self.budget, self.tools().toolset, self.stopping, lambda: self.conversation, self._repairs, monotonic
        )

    def _repairs(self, conversation: Conversation) -> EventSteps[None]:
        if self.stopping.is_set():
            raise TurnEnding("interrupted")
        self.refresh()
        offer = self.offer()
        yield from repair_events(conversation, offer)
        if needs_compacting(self.conversation, self.model.window, self.tools().cost):
            yield from compact_conversation(self.conversation, offer, self._asked(), self.tools().shown, self.stopping)

    def offer(self) -> CatalogOffer:
        """What the catalog says now; made once for each library."""
        if self.offered is None or self.offered[0] is not self.library:
            self.offered = (self.library, catalog_offer(self.library))
        return self.offered[1]

    def refresh(self) -> None:
        """Look at the skills again where something may have changed them."""
        if self.stale:
            self.stale = False
            self.library = self.library.reload()
