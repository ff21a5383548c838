"""The app: a conversation with an agent, drawn from its events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from queue import Queue
from threading import Event as Flag
from typing import ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ...runtime.agent import Agent
from ...runtime.library import Library
from ...runtime.models import open_model
from ...runtime.session import Session
from ...types.errors import MetierError
from ...types.event import Asked, Ended, innermost
from ...types.text import flat, seen
from . import words
from .drawing import Line, changes, question
from .log import Log
from .picker import choices_of
from .prompt import Prompt

_TURN = "turn"
_BUSY = Line("warning", "something is going on: Esc stops it")


@dataclass
class Waiting:
    """A question that a turn waits on, and where its answer goes."""

    asked: Asked
    answers: Queue[str] = field(default_factory=Queue)


class Frame(App[int]):
    """The parts of the screen, and the skills behind them, which may change at any time."""

    CSS_PATH = "app.tcss"
    TITLE = "metier"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, agent: Agent, resume: str = "", watch: bool = True) -> None:
        super().__init__()
        self.agent, self.wanted, self.watching = agent, resume, watch
        self.library = agent.library
        self.talk: Session | None = None
        self.standings: dict[str, words.Standing] = {}
        self.waiting: Waiting | None = None
        self.leaving = Flag()

    def compose(self) -> ComposeResult:
        yield Static(id="top", markup=False)
        yield Log(id="log")
        yield Prompt()

    @property
    def log_(self) -> Log:
        return self.query_one(Log)

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    def head(self) -> None:
        """The line at the top: who answers, and with how many skills."""
        model = self.talk.model.name if self.talk else "no model"
        agent = f" · {flat(self.agent.name)}" if self.agent.name else ""
        usable = sum(verdict.usable for verdict in self.library.verdicts)
        told = f"metier{agent} · {flat(model)} · {self.library.dialect.name} · {usable} skills"
        self.query_one("#top", Static).update(Content(told))

    def take_library(self, library: Library) -> None:
        """The skills as they are now, and as this conversation wants them."""
        self.agent = replace(self.agent, library=library)
        self.library = words.with_standings(library, self.standings)
        if self.talk is not None:
            self.talk.update(self.library)
        self.offer()

    def offer(self) -> None:
        """What the picker and the top line say, anew: a turn may have made a scheduler skill, which nobody watches."""
        self.prompt.choices = choices_of(self.library, words.OWN)
        self.head()

    @work(thread=True, group="watch", exit_on_error=False)
    def watch_skills(self) -> None:
        try:
            for change in self.agent.library.watch(self.leaving):
                told = changes(change.added, change.changed, change.removed)
                self.call_from_thread(self.take_library, change.library)
                self.call_from_thread(self.log_.tell, f"↻ skills: {told}")
        except MetierError as error:
            self.call_from_thread(self.log_.tell, f"changes are not watched: {error.message}")

    @work(thread=True, group="uses", exit_on_error=False)
    def count_uses(self) -> None:
        self.prompt.uses = Counter(words.uses(self.library.place.state))


class ChatApp(Frame):
    """Everything it shows is an event, or the answer to a command of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+l", "end", "To the end"),
        Binding("ctrl+c", "leave", "Leave", priority=True),
    ]

    def on_mount(self) -> None:
        self.take_library(self.agent.library)
        self.begin(self.wanted)
        if told := words.untrusted_text(self.library):
            self.log_.tell(told)
        self.count_uses()
        if self.watching:
            self.watch_skills()

    def begin(self, resume: str = "") -> None:
        """A conversation: a new one, or one that was kept."""
        try:
            self.talk = self.agent.resume(resume) if resume else self.agent.start()
        except MetierError as error:
            self.log_.fail(error.message, error.hint)
            if resume:
                self.begin()
                return
            self.talk = None
        self.head()
        if self.talk is not None and resume:
            self.log_.tell(f"↻ going on with {self.talk.run}")
            for message in self.talk.conversation.messages[-20:]:
                if message.text and not message.skill and message.role != "tool":
                    self.log_.show(Line("said" if message.role == "user" else "quiet", seen(message.text)))

    @on(Prompt.Entered)
    def entered(self, entered: Prompt.Entered) -> None:
        text = entered.text
        if self.waiting is not None:
            self.reply(text)
            return
        name, _, rest = text.strip().partition(" ")
        if name.startswith("/") and name[1:] in words.OWN:
            self.own(name[1:], rest.strip())
            return
        if self.talk is None:
            self.begin()
        if self.busy:
            self.log_.show(_BUSY)
        elif self.talk is not None:
            self.turn(self.talk, text)

    @property
    def busy(self) -> bool:
        return any(worker.group == _TURN and worker.is_running for worker in self.workers)

    @work(thread=True, group=_TURN, exit_on_error=False)
    def turn(self, talk: Session, text: str) -> None:
        """One turn, in a thread of its own: events go to the screen, answers come back."""
        draw = self.log_.draw
        try:
            for event in talk.say(text):
                asked = innermost(event)
                if isinstance(asked, Asked):
                    waiting = Waiting(asked)
                    self.call_from_thread(self.ask, waiting)
                    talk.answer(asked.id, waiting.answers.get())
                else:
                    self.call_from_thread(draw, event)  # type: ignore[arg-type]  # a coroutine of nothing
                if isinstance(event, Ended):
                    self.call_from_thread(self.offer)
        except MetierError as error:
            self.call_from_thread(self.log_.fail, error.message, error.hint)

    def ask(self, waiting: Waiting) -> None:
        """A question: the line below answers it."""
        self.waiting = waiting
        self.log_.show(*question(waiting.asked))
        self.prompt.wants("y, a or n" if waiting.asked.kind == "approval" else "Your answer")

    def reply(self, text: str) -> None:
        """What was typed answers the question; an approval takes nothing but its three letters."""
        assert self.waiting is not None
        asked, answer = self.waiting.asked, text.strip()
        if asked.kind == "approval":
            answer = words.DECISIONS.get(answer.lower(), "")
            if not answer:
                self.log_.tell("  y, a or n")
                return
        elif answer.isdigit() and 0 < int(answer) <= len(asked.choices):
            answer = asked.choices[int(answer) - 1]
        self.answered(answer)

    def answered(self, answer: str) -> None:
        waiting, self.waiting = self.waiting, None
        assert waiting is not None
        self.prompt.wants()
        self.log_.show(Line("said", seen(answer)))
        waiting.answers.put(answer)

    def action_stop(self) -> None:
        """Esc: the picker goes; else the turn ends, and a question with it."""
        if self.prompt.close() or self.talk is None or not self.busy:
            return
        self.talk.stop()
        if self.waiting is not None:
            self.answered("no")

    def action_end(self) -> None:
        self.log_.scroll_end(animate=False)

    def action_leave(self) -> None:
        self.exit(0)

    def on_unmount(self) -> None:
        """However it ends, no thread waits for it."""
        self.leaving.set()
        if self.talk is not None:
            self.talk.stop()
        if self.waiting is not None:
            self.waiting.answers.put("no")

    def own(self, name: str, rest: str) -> None:
        """A command of the app's own."""
        match name:
            case "quit":
                self.action_leave()
            case "clear" | "resume" if name == "clear" or rest:
                self.clear(rest)
            case "skills" if rest:
                self.stand(rest)
            case "model" if rest:
                self.take_model(rest)
            case _:
                self.log_.show(Line("said", f"/{name} {rest}".rstrip()))
                self.log_.tell(words.answer(name, rest, self.library, self.talk, self.standings))

    def clear(self, resume: str = "") -> None:
        if self.busy:
            self.log_.show(_BUSY)
            return
        self.log_.remove_children()
        self.begin(resume)

    def stand(self, text: str) -> None:
        """How far the model may see a skill, from here on."""
        found = words.standing_named(text)
        if found is None:
            self.log_.fail("/skills NAME on, name-only, user-only or off")
            return
        try:
            skill = self.agent.library.find(found[0]).skill
        except MetierError as error:
            self.log_.fail(error.message, error.hint)
            return
        self.standings[skill.path] = found[1]
        self.take_library(self.agent.library)
        self.log_.tell(f"{flat(skill.name)}: {found[1]}, in this conversation")

    def take_model(self, name: str) -> None:
        try:
            model = open_model(name, self.library)
        except MetierError as error:
            self.log_.fail(error.message, error.hint)
            return
        self.agent = replace(self.agent, model=model)
        if self.talk is None:
            self.begin()
        else:
            self.talk.use(model)
        self.head()
        self.log_.tell(f"{flat(model.name)} answers from here on")
