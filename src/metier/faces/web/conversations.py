"""The conversations that go on in this process: each turn on a thread of its own, its events kept for who watches.

The journal has all of it: what is here is only what a page needs while a turn runs.  After a restart the conversation
continues with `metier chat --resume`, or in the page again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from threading import Condition, Thread
from typing import Literal, NamedTuple

from ...agent.agent import Agent
from ...agent.session import Session
from ...types.errors import BadRequest
from ...types.event import Asked, Ended, Event, Wrote, innermost_event

_MOST_CONVERSATIONS = 16
"""Conversations that are open at a time; the oldest that does nothing is closed for a new one."""
_ANSWER_SECONDS = 3_600.0
"""How long a question waits; then nobody was there, as in a run without a terminal."""
_MOST_EVENTS = 20_000


def question_digest(question: Asked) -> str:
    """Of all that a person is shown of a question: an answer counts only for exactly that."""
    shown = [question.id, question.tool, question.text, question.why, question.change, list(question.choices)]
    return sha256(dumps(shown).encode("utf-8", "surrogatepass")).hexdigest()


class WaitingQuestion(NamedTuple):
    """Which question an answer is for, and what was shown of it."""

    run: str
    id: str
    digest: str
    question: Asked | None = None


@dataclass
class LiveConversation:
    """A session, and what happened in its turns since this process has it."""

    agent: Agent
    session: Session
    events: list[Event] = field(default_factory=list)
    asked: Asked | None = None
    answer: str | None = None
    running: bool = False
    changed: Condition = field(default_factory=Condition)

    def say(self, text: str) -> None:
        """Start a turn; an error if one runs."""
        with self.changed:
            if self.running:
                raise BadRequest("this conversation is busy", "wait for the answer, or stop it")
            self.running = True
            self.events.clear()
        Thread(target=self._run_turn, args=(text,), name="metier-web-turn", daemon=True).start()

    def _run_turn(self, text: str) -> None:
        try:
            for event in self.session.say(text):
                self._keep(event)
                inner = innermost_event(event)
                if isinstance(inner, Asked):
                    self._wait_for_answer(inner)
        finally:
            with self.changed:
                self.running, self.asked = False, None
                self.changed.notify_all()

    def _keep(self, event: Event) -> None:
        with self.changed:
            last = self.events[-1] if self.events else None
            # Pieces of a reply are joined: who comes late gets one.
            if isinstance(event, Wrote) and isinstance(last, Wrote) and last.thinking == event.thinking:
                self.events[-1] = Wrote(last.text + event.text, event.thinking)
            elif len(self.events) < _MOST_EVENTS or isinstance(event, Asked | Ended):
                self.events.append(event)
            self.changed.notify_all()

    def _wait_for_answer(self, question: Asked) -> None:
        with self.changed:
            self.asked, self.answer = question, None
            self.changed.notify_all()
            self.changed.wait_for(self._is_decided, timeout=_ANSWER_SECONDS)
            self._pass_on(question.id)
            self.asked = None

    def _is_decided(self) -> bool:
        return self.answer is not None or self.session.stopping.is_set()

    def _pass_on(self, id: str) -> None:
        if self.answer is not None:
            self.session.answer(id, self.answer)
        self.answer = None

    def give_answer(self, waiting: WaitingQuestion, answer: str) -> Literal["told", "gone", "changed"]:
        """Pass on an answer, if the question still is the one that was shown."""
        with self.changed:
            if self.asked is None or self.asked.id != waiting.id or self.answer is not None:
                return "gone"
            if question_digest(self.asked) != waiting.digest:
                return "changed"
            self.answer = answer
            self.changed.notify_all()
            return "told"

    def stop(self) -> None:
        with self.changed:
            self.session.stop()
            self.changed.notify_all()


class ConversationHub:
    """All conversations of this process."""

    def __init__(self, open_agent: Callable[[], Agent]) -> None:
        self._open_agent = open_agent
        self._live: dict[str, LiveConversation] = {}

    def start(self) -> LiveConversation:
        """A new conversation."""
        agent = self._open_agent()
        return self._keep(LiveConversation(agent, agent.start()))

    def resume(self, run: str) -> LiveConversation:
        """One that goes on here already, or a kept one."""
        if run in self._live:
            return self._live[run]
        agent = self._open_agent()
        return self._keep(LiveConversation(agent, agent.resume(run)))

    def find(self, run: str) -> LiveConversation | None:
        return self._live.get(run)

    def _keep(self, live: LiveConversation) -> LiveConversation:
        idle = [run for run, held in self._live.items() if not held.running]
        if len(self._live) >= _MOST_CONVERSATIONS and not idle:
            raise BadRequest("too many conversations run at once", "stop one of them first")
        while len(self._live) >= _MOST_CONVERSATIONS and idle:
            self._close(idle.pop(0))
        self._live[live.session.run] = live
        return live

    def _close(self, run: str) -> None:
        held = self._live.pop(run)
        held.session.close()
        held.agent.close()

    def waiting(self) -> list[WaitingQuestion]:
        """Every question that waits for a person."""
        return [
            WaitingQuestion(run, held.asked.id, question_digest(held.asked), held.asked)
            for run, held in list(self._live.items())
            if held.asked is not None
        ]

    def answer(self, waiting: WaitingQuestion, answer: str) -> Literal["told", "gone", "changed"]:
        held = self._live.get(waiting.run)
        return held.give_answer(waiting, answer) if held is not None else "gone"

    def close(self) -> None:
        """Stop what runs and close all models."""
        for run, held in list(self._live.items()):
            held.stop()
            if not held.running:
                self._close(run)
