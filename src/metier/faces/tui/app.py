"""The terminal app: input, turns on a worker thread, and questions."""

from __future__ import annotations

from queue import Queue
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.worker import Worker, WorkerState

from ...agent.session import Session
from ...host.process import watch_program_output
from ...types.errors import MetierError
from ...types.event import Asked, Ended, Event, Heard, Wrote, innermost_event
from ...types.text import visible_text
from ..cli.options import PICK_SESSION
from . import commands, history
from .actions import PROPOSAL_SECONDS, ChatActions
from .layout import PendingQuestion
from .lines import StyledLine, answer_choices, keys_text, question_lines
from .prompt import PromptArea

_TURN_GROUP = "turn"
_BUSY_LINE = StyledLine("warning", "a turn is running; press Esc to stop it")


class ChatApp(ChatActions):
    """Everything it shows is an event, or the output of one of its own commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: otherwise the editor takes these keys.
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+c", "leave", "Leave", priority=True),
    ]

    def on_mount(self) -> None:
        if (theme := history.read_theme(self.state)) in self.available_themes:
            self.theme = theme
        elif self.library.place.env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15"):
            # Some terminals say so that their background is white.
            self.theme = "textual-light"
        self.prompt.history = history.read_history(self.state)
        self.prompt.recalled = len(self.prompt.history)
        self.use_library(self.agent.library)
        picking = self.resume_id == PICK_SESSION
        if self.resume_id and not picking and self.open_session(self.resume_id):
            self.show_history()
        else:
            self.open_session()
        if notice := commands.untrusted_text(self.library):
            self.log_.note(notice)
        if picking:
            self.prompt.fill("/resume ")
        self.count_uses()
        self.look_for_proposals()
        self.set_interval(PROPOSAL_SECONDS, self.look_for_proposals)
        if self.watching:
            self.watch_skills()

    @on(PromptArea.Entered)
    def entered(self, entered: PromptArea.Entered) -> None:
        text = entered.text
        if self.pending is not None:
            self.reply(text)
            return
        if self.agent.keep:
            history.append_history(self.state, self.agent.hide(text))
        if self.held:
            self.prompt.fill(self.held.pop(0))
        name, _, arguments = text.strip().partition(" ")
        if name.startswith("/") and name[1:] in commands.APP_COMMANDS:
            self.run_app_command(name[1:], arguments.strip())
            return
        if self.busy:
            self.queued.append(text)
            self.indicator.waiting = len(self.queued)
        else:
            self.say(text)

    def say(self, text: str) -> None:
        if self.session is None:
            self.open_session()
        if self.session is not None:
            self.log_.to_end()
            self.turn(self.session, text)

    @on(Worker.StateChanged)
    def turned(self, change: Worker.StateChanged) -> None:
        """Start and stop the indicator with a turn, and start the next queued request."""
        if change.worker.group != _TURN_GROUP:
            return
        if change.state is WorkerState.RUNNING:
            self.stopping = False
            self.indicator.begin()
            self.log_.begin_turn()
        elif change.worker.is_finished:
            self.indicator.end()
            self.log_.end_turn()
            if self.queued:
                self.say(self.queued.pop(0))
            self.indicator.waiting = len(self.queued)

    @property
    def busy(self) -> bool:
        return any(worker.group == _TURN_GROUP and worker.is_running for worker in self.workers)

    # An error ends the turn, not the app.
    @work(thread=True, group=_TURN_GROUP, exit_on_error=False)
    def turn(self, session: Session, text: str) -> None:
        """Run one turn on a thread: show its events, and wait for answers to its questions."""
        heard = False
        try:
            with watch_program_output(lambda data: self.log_.print_output(data.decode(errors="replace"))):
                for event in session.say(text):
                    heard = heard or isinstance(event, Heard)
                    # It failed before the request was echoed.
                    if isinstance(event, Ended) and not heard:
                        self.call_from_thread(self.log_.show, StyledLine("request", visible_text(text)))
                    self.follow(session, event)
        except MetierError as error:
            self.call_from_thread(self.log_.error, error.message, error.hint)

    def follow(self, session: Session, event: Event) -> None:
        """Show one event, on the thread of the turn."""
        inner_event = innermost_event(event)
        if isinstance(event, Wrote):
            # Not a call into the app for each word: the log draws what has come, some ten times a second.
            if not event.thinking:
                self.log_.write(event.text)
        elif isinstance(inner_event, Asked):
            answers: Queue[str] = Queue()
            self.call_from_thread(self.ask, PendingQuestion(inner_event, answers.put))
            session.answer(inner_event.id, answers.get())
        else:
            self.call_from_thread(self.log_.draw, event)
        if isinstance(event, Ended):
            self.call_from_thread(self.update_choices)

    @work(thread=True, group=_TURN_GROUP, exit_on_error=False)
    def compact(self, session: Session) -> None:
        """Compact the conversation, as a turn of its own."""
        events = 0
        try:
            # All but the last turn: whoever asks for it wants room, however much there still is.
            for event in session.compact(room=0):
                self.call_from_thread(self.log_.draw, event)
                events += 1
        except MetierError as error:
            self.call_from_thread(self.log_.error, error.message, error.hint)
            return
        if not events:
            self.call_from_thread(self.log_.note, "There is nothing to compact yet.")

    def ask(self, pending: PendingQuestion) -> None:
        """Show a question and prompt for its answer."""
        self.pending, self.indicator.asking = pending, True
        self.log_.draw_waiting(all_of_it=True)
        self.log_.show(*question_lines(pending.question))
        self.log_.to_end()
        answers = answer_choices(pending.question)
        if pending.question.kind == "approval":
            self.prompt.expect_answer(f"Press {keys_text(answers)}", answers)
        else:
            self.prompt.expect_answer("Type your answer and press Enter", answers)

    def reply(self, text: str) -> None:
        """Answer the open question; an approval request accepts only what it offers."""
        assert self.pending is not None
        question, answer = self.pending.question, text.strip()
        choices = answer_choices(question)
        named = {choice.key: choice.answer for choice in choices}
        if question.kind == "approval":
            named |= {choice.answer.lower(): choice.answer for choice in choices} | {"yes": named.get("y", "")}
            answer = named.get(answer.lower(), "")
            if not answer:
                self.prompt.expect_answer(f"Please press {keys_text(choices)}", choices)
                return
        elif answer.isdigit() and 0 < int(answer) <= len(question.choices):
            answer = question.choices[int(answer) - 1]
        self.answered(answer)

    def answered(self, answer: str) -> None:
        pending, self.pending, self.indicator.asking = self.pending, None, False
        assert pending is not None
        self.prompt.accept_requests()
        self.log_.show(StyledLine("request", visible_text(answer)))
        pending.answer(answer)

    def action_stop(self) -> None:
        """Esc closes the search or the picker, or stops the turn and its question."""
        if not self.find.close() and not self.prompt.close():
            self.stop()

    def stop(self) -> bool:
        """Stop the turn and give queued requests back to the prompt, one by one; False where none runs."""
        if self.session is None or not self.busy:
            return False
        self.session.stop()
        self.indicator.stopping = True
        self.indicator.draw()
        if self.pending is not None:
            # The thread of the turn waits for this answer and sees the stop only then.
            self.answered("no")
        if self.queued:
            (first, *self.held), self.queued = self.queued, []
            self.prompt.fill(first)
            if self.held:
                self.log_.note(f"{commands.count_noun(len(self.held), 'more request')} will follow in the prompt")
        return True

    def action_leave(self) -> None:
        """Ctrl+C copies a selection; else it stops the turn; without one, or pressed again, it quits."""
        if self.copy_selection():
            return
        if self.stopping or not self.stop():
            self.exit(0)
            return
        self.stopping = True
        self.log_.note("stopping; press Ctrl+C again to quit")

    def on_unmount(self) -> None:
        """Release every thread, however the app ends."""
        # A thread that waits for an answer or for changes would keep the process alive.
        self.quitting.set()
        self.log_.timer_runs = False
        if self.pending is not None:
            self.pending.answer("no")
        with self.agent:
            if self.session is not None:
                self.session.stop()
                self.session.close()

    def run_app_command(self, name: str, arguments: str) -> None:
        """Run one of the app's own commands."""
        if name == "resume" and not arguments:
            self.prompt.fill("/resume ")
            return
        if name != "quit":
            self.log_.show(StyledLine("request", visible_text(f"/{name} {arguments}".rstrip())))
            self.log_.to_end()
        match name:
            case "quit":
                self.exit(0)
            case "clear" | "resume":
                self.clear(arguments)
            case "skills" if arguments:
                self.set_standing(arguments)
            case "model" if arguments:
                self.use_model(arguments)
            case "theme":
                self.use_theme(arguments) if arguments else self.prompt.fill("/theme ")
            case "copy":
                self.copy_answer()
            case "trust" | "compact" if self.busy:
                self.log_.show(_BUSY_LINE)
            case "trust":
                self.trust_project(arguments)
            case "compact" if self.session is not None:
                self.compact(self.session)
            case _:
                view = commands.ChatCommandContext(self.library, self.agent.library, self.session, self.standings)
                self.log_.note(commands.answer_command(name, arguments, view))

    def clear(self, resume: str = "") -> None:
        """Replace the conversation; the current one stays where the other can't be opened."""
        if self.busy:
            self.log_.show(_BUSY_LINE)
            return
        before = self.session
        if not self.open_session(resume) or self.session is before:
            return
        self.standings = {}
        self.use_library(self.agent.library)
        self.log_.clear()
        if resume:
            self.show_history()
