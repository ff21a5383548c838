"""The parts of the screen, the skills behind them, and the conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from queue import Queue
from threading import Event as Flag

from textual import work
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import Static

from ...runtime.agent import Agent
from ...runtime.library import Library
from ...runtime.models import open_model
from ...runtime.session import Session
from ...types.errors import MetierError
from ...types.event import Asked
from ...types.text import flat, seen
from . import words
from .drawing import Line, broken_lines, changes
from .log import Log
from .picker import choices_of
from .prompt import Prompt
from .sign import Sign


@dataclass
class Waiting:
    """A question that a turn waits on, and where its answer goes."""

    asked: Asked
    answers: Queue[str] = field(default_factory=Queue)


class Frame(App[int]):
    """The parts of the screen; the skills behind them, which may change at any time; and the conversation."""

    CSS_PATH = "app.tcss"
    TITLE = "metier"
    ENABLE_COMMAND_PALETTE = False
    log_: Log
    sign: Sign
    prompt: Prompt

    def __init__(self, agent: Agent, resume: str = "", watch: bool = True) -> None:
        super().__init__()
        self.agent, self.wanted, self.watching = agent, resume, watch
        self.library = agent.library
        self.talk: Session | None = None
        self.standings: dict[str, words.Standing] = {}
        self.waiting: Waiting | None = None
        self.stopping = False
        """Ctrl+C was pressed in this turn."""
        self.later: list[str] = []
        """What was entered while a turn ran: said when it has ended."""
        self.leaving = Flag()

    def compose(self) -> ComposeResult:
        yield Static(id="top", markup=False)
        self.log_, self.sign, self.prompt = Log(id="log"), Sign(id="sign", markup=False), Prompt()
        yield from (self.log_, self.sign, self.prompt)

    def head(self) -> None:
        """The line at the top: who answers, and with how many skills."""
        model = self.talk.model.name if self.talk else "no model"
        agent = f" · {flat(self.agent.name)}" if self.agent.name else ""
        usable = sum(verdict.usable for verdict in self.library.verdicts)
        told = f"metier{agent} · {flat(model)} · {self.library.dialect.name} · {words.counted(usable, 'skill')}"
        if broken := len(self.library.broken):
            told += f" · {broken} broken"
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
                self.call_from_thread(self.log_.show, *broken_lines(change))
        except MetierError as error:
            self.call_from_thread(self.log_.tell, f"changes are not watched: {error.message}")

    @work(thread=True, group="uses", exit_on_error=False)
    def count_uses(self) -> None:
        self.prompt.uses = Counter(words.uses(self.library.place.state))

    def begin(self, resume: str = "") -> bool:
        """A conversation: a new one, or one that was kept.  Where it can't be had, all stays as it is."""
        try:
            self.talk = self.agent.resume(resume) if resume else self.agent.start()
        except MetierError as error:
            self.log_.fail(error.message, error.hint)
            return False
        self.head()
        return True

    def recall(self) -> None:
        """What was said before in a conversation that goes on; metier's own notes to the model are not shown."""
        assert self.talk is not None
        self.log_.tell(f"↻ going on with {self.talk.run}")
        said = [one for one in self.talk.conversation.messages if one.text and one.role != "tool"]
        for message in [one for one in said if not one.skill and not one.tag][-20:]:
            self.log_.show(Line("said" if message.role == "user" else "quiet", seen(message.text)))

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
