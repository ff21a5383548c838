"""A session: one conversation with an agent, turn by turn, and the journal it is kept in."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import TYPE_CHECKING

from ..act.boxes import Budgeted, Mailbox, Stepped
from ..act.compact import compacted, needs_compacting
from ..act.conversation import Conversation, tokens_in
from ..act.loop import Ports, turn
from ..act.restore import Offer, repairs
from ..act.toolset import Ending, failure
from ..host.clock import monotonic
from ..record.journal import Journal
from ..types.activation import By, Message
from ..types.agent import Bounds
from ..types.errors import MetierError
from ..types.event import Ended, Event, Replied, Restored, Retried, Steps, Used, Wrote
from ..types.model import Model
from ..types.text import tokens_of
from ..types.usage import NOTHING_USED
from .entering import enter
from .offering import offer_of, resumed, started
from .tooling import Kit, kit_for

if TYPE_CHECKING:
    from .agent import Agent
    from .desk import LibraryDesk
    from .library import Library

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
    mailbox: Mailbox = field(default_factory=Mailbox)
    stopping: Flag = field(default_factory=Flag)
    resumed: bool = False
    before: str = ""
    """The folder it worked in when it was left."""
    stale: bool = False
    """Something may have changed the skills since they were looked at."""
    by_hand: bool = False
    """The turn runs a scheduler skill by hand."""
    kit: Kit | None = None
    budget: Budgeted | None = None
    left: Bounds | None = None
    """What whoever delegated it has left to spend."""
    half: str = ""
    """As much of a reply as was written."""
    offered: tuple[Library, Offer] | None = None
    """The catalog's lines, and the library they are of."""

    def say(self, text: str, by: By = "user") -> Steps[None]:
        """One turn: a request, or `/skill words`.  Every event is kept before it is yielded; the last is `Ended`.

        Whoever stops reading early stops the turn.
        """
        self.stopping.clear()
        return self.within(None, text, by)

    def within(self, begin: Steps[bool] | None, text: str, by: By = "user") -> Steps[None]:
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
                    self._keep(self._with_half(Ending("interrupted").event(NOTHING_USED, 0.0)))
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

    def desk(self, by: By = "model") -> LibraryDesk:
        """The skills as somebody may use them in this conversation."""
        found = self.library.desk(cwd=self.agent.cwd, by=by, write=self.agent.writable)
        return replace(found, alone=self.agent.alone is not None)

    def retract(self) -> bool:
        """Take back the last thing that was said, and all that came of it."""
        messages = self.conversation.messages
        said = [at for at, one in enumerate(messages) if one.role == "user" and not one.tag and not one.skill]
        if not said:
            return False
        self._keep(Restored(messages=messages[: said[-1]], whole=True))
        return True

    def compact(self) -> Steps[None]:
        """Cut the conversation short now."""
        for event in compacted(
            self.conversation, offer_of(self.library), self.model, self.tools().shown, self.stopping
        ):
            self._keep(event)
            yield event

    def context(self) -> list[tuple[str, int]]:
        """What fills the window: each part of it with an estimate of its tokens, the largest first."""
        talk = self.conversation
        listed = sum(tokens_of(line) for line in self.offer().lines.values())
        skills: dict[str, int] = {}
        for message in talk.messages:
            if message.skill:
                name = f"skill {message.skill}"
                skills[name] = skills.get(name, 0) + tokens_of(message.text)
        rest = tokens_in(message for message in talk.messages if not message.skill)
        parts = {"tools": self.tools().cost, "catalog": listed, **skills, "messages": rest}
        parts["system prompt"] = max(0, tokens_of(talk.system) - listed)
        return sorted(parts.items(), key=lambda part: -part[1])

    def _keep(self, event: Event) -> None:
        if self.journal is not None:
            self.journal.keep(event)
        self.conversation = self.conversation.after(event)
        if isinstance(event, Used) and event.call.name in _TOUCHING:
            self.stale = True

    def tools(self) -> Kit:
        """The tools of this conversation: made once, so that the model is shown the same bytes to its end."""
        if self.kit is None:
            self.kit = kit_for(self)
        return self.kit

    def _turn(self, begin: Steps[bool] | None, text: str, by: By) -> Steps[None]:
        began = monotonic()
        self.by_hand = False
        try:
            if not self.conversation.run:
                yield started(self)
            elif self.resumed:
                self.resumed = False
                yield resumed(self)
            goes_on = yield from begin or enter(self, text, by)
            if goes_on:
                yield from turn(self._ports())
        except (Ending, MetierError) as error:
            ending = error if isinstance(error, Ending) else failure(error)
            yield ending.event(NOTHING_USED, monotonic() - began)

    def _asked(self) -> Model:
        """The model, whose replies are steps where the run is durable."""
        return self.model if self.agent.step is None else Stepped(self.model, self.agent.step)

    def _ports(self) -> Ports:
        bounds = self.agent.bounds if self.left is None else self.agent.bounds.within(self.left)
        self.budget = Budgeted(self._asked(), bounds, monotonic)
        return Ports(
            self.budget, self.tools().toolset, self.stopping, lambda: self.conversation, self._repairs, monotonic
        )

    def _repairs(self, conversation: Conversation) -> Steps[None]:
        if self.stopping.is_set():
            raise Ending("interrupted")
        self.refresh()
        offer = self.offer()
        yield from repairs(conversation, offer)
        if needs_compacting(self.conversation, self.model.window, self.tools().cost):
            yield from compacted(self.conversation, offer, self._asked(), self.tools().shown, self.stopping)

    def offer(self) -> Offer:
        """What the catalog says now; made once for each library."""
        if self.offered is None or self.offered[0] is not self.library:
            self.offered = (self.library, offer_of(self.library))
        return self.offered[1]

    def refresh(self) -> None:
        """Look at the skills again where something may have changed them."""
        if self.stale:
            self.stale = False
            self.library = self.library.reload()
