"""The base of the app: the widgets, the library that may change at any time, and the conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event as Flag

from textual import on, work
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import Static

from ...agent.agent import Agent
from ...agent.models.registry import open_model
from ...agent.session import Session
from ...host import fs
from ...library.library import Library
from ...types.errors import MetierError
from ...types.event import Asked
from ...types.text import clean_line
from . import commands, history
from .find import FindBar
from .lines import change_lines
from .log import ChatLog
from .picker import PickerChoice, choices_of
from .prompt import PromptArea
from .replay import history_items
from .spinner import TurnIndicator


@dataclass
class PendingQuestion:
    """A question that a turn waits on, and where its answer goes."""

    question: Asked
    answer: Callable[[str], None]


class ChatAppBase(App[int]):
    """The widgets, the library and the conversation; `ChatApp` adds what the user does with them."""

    CSS_PATH = "app.tcss"
    TITLE = "metier"
    # `/` opens the list of commands, and textual's own has nothing to add.
    ENABLE_COMMAND_PALETTE = False
    log_: ChatLog
    indicator: TurnIndicator
    prompt: PromptArea
    find: FindBar

    def __init__(self, agent: Agent, resume: str = "", watch: bool = True) -> None:
        super().__init__()
        self.agent, self.resume_id, self.watching = agent, resume, watch
        self.library = agent.library
        self.session: Session | None = None
        self.standings: dict[str, commands.Standing] = {}
        self.pending: PendingQuestion | None = None
        self.stopping = False
        """Ctrl+C was pressed in this turn."""
        self.queued: list[str] = []
        """Requests that were entered during a turn."""
        self.held: list[str] = []
        """Requests of a queue that was stopped: they come back to the prompt one by one."""
        self.quitting = Flag()
        self.sessions: list[PickerChoice] | None = None
        """The conversations that `/resume` offers."""

    def compose(self) -> ComposeResult:
        # No markup anywhere: names and texts of skills could otherwise style or imitate the app.
        yield Static(id="top", markup=False)
        self.log_, self.indicator, self.prompt = ChatLog(id="log"), TurnIndicator(id="sign", markup=False), PromptArea()
        self.find = FindBar()
        yield from (self.log_, self.find, self.indicator, self.prompt)

    @property
    def state(self) -> str:
        """The folder of metier's own files."""
        return self.library.place.state

    def update_title(self) -> None:
        """Update the top line: the model, the dialect and the number of skills."""
        model = self.session.model.name if self.session else "no model"
        agent = f" · {clean_line(self.agent.name)}" if self.agent.name else ""
        usable = sum(verdict.usable for verdict in self.library.verdicts)
        title = (
            f"metier{agent} · {clean_line(model)} · "
            f"{self.library.dialect.name} · {commands.count_noun(usable, 'skill')}"
        )
        if broken := len(self.library.broken):
            title += f" · {broken} broken"
        self.query_one("#top", Static).update(Content(title))

    def use_library(self, library: Library) -> None:
        """Use this library from now on, with the standings of this conversation."""
        self.agent = replace(self.agent, library=library)
        self.library = commands.with_standings(library, self.standings)
        if self.session is not None:
            self.session.update(self.library)
        self.update_choices()

    def update_choices(self) -> None:
        """Update the picker and the top line: a turn may have made a scheduler skill, which is not watched."""
        self.prompt.choices = choices_of(self.library, commands.APP_COMMANDS)
        self.prompt.arguments = {"resume": self.session_choices, "theme": self.theme_choices}
        # A turn may have made files, too.
        self.prompt.files = None
        self.sessions = None
        self.update_title()

    def session_choices(self) -> list[PickerChoice]:
        if self.sessions is None:
            self.sessions = commands.session_choices(self.state, self.agent.base, self.session)
        return self.sessions

    def theme_choices(self) -> list[PickerChoice]:
        names = ["dark", "light", *sorted(self.available_themes)]
        return [PickerChoice(name, "in use" if name == self.theme else "", kind="argument") for name in names]

    @on(PromptArea.FilesWanted)
    def list_files(self) -> None:
        self.read_files()

    @work(thread=True, group="files", exclusive=True, exit_on_error=False)
    def read_files(self) -> None:
        try:
            files = fs.list_tree(self.agent.cwd, ".")
        except (MetierError, OSError):
            files = []
        self.call_from_thread(self.prompt.use_files, files)

    @work(thread=True, group="watch", exit_on_error=False)
    def watch_skills(self) -> None:
        try:
            for change in self.agent.library.watch(self.quitting):
                self.call_from_thread(self.use_library, change.library)
                self.call_from_thread(self.log_.show, *change_lines(change))
        except MetierError as error:
            self.call_from_thread(self.log_.note, f"can't watch for changes: {error.message}")

    @work(thread=True, group="uses", exit_on_error=False)
    def count_uses(self) -> None:
        self.prompt.uses = Counter(commands.recent_uses(self.state))

    def open_session(self, resume: str = "") -> bool:
        """Start or resume a conversation; on an error the current one stays."""
        before = self.session
        try:
            self.session = self.agent.resume(resume) if resume else self.agent.start()
        except MetierError as error:
            self.log_.error(error.message, error.hint)
            return False
        if before is not None:
            before.close()
        self.update_title()
        return True

    def show_history(self) -> None:
        """Show the last turns of a resumed conversation as they were."""
        assert self.session is not None
        self.log_.note(f"↻ resumed {self.session.run}")
        if self.session.journal is None:
            return
        for item in history_items(record.event for record in self.session.journal.read()):
            if isinstance(item, list):
                self.log_.show(*item)
            else:
                self.log_.draw(item)
        self.log_.to_end()

    def set_standing(self, text: str) -> None:
        """Set what the model sees of a skill in this conversation."""
        parsed = commands.standing_named(text)
        if parsed is None:
            self.log_.error("usage: /skills NAME on, name-only, user-only or off")
            return
        try:
            skill = self.agent.library.find(parsed[0]).skill
        except MetierError as error:
            self.log_.error(error.message, error.hint)
            return
        self.standings[skill.path] = parsed[1]
        self.use_library(self.agent.library)
        self.log_.note(f"{clean_line(skill.name)}: {parsed[1]}, in this conversation")

    def use_model(self, name: str) -> None:
        try:
            model = open_model(name, self.library)
        except MetierError as error:
            self.log_.error(error.message, error.hint)
            return
        # By its name: each conversation opens, and closes, a model of its own.
        self.agent = replace(self.agent, model=name)
        if self.session is None:
            self.open_session()
        else:
            self.session.use(model)
        self.update_title()
        self.log_.note(f"switched to {clean_line(model.name)}")

    def use_theme(self, name: str) -> None:
        name = {"dark": "textual-dark", "light": "textual-light"}.get(name, name)
        if name not in self.available_themes:
            self.log_.error(f"no theme named `{clean_line(name)}`", "type /theme and a space for a list")
            return
        self.theme = name
        if self.agent.keep:
            history.write_theme(self.state, name)
