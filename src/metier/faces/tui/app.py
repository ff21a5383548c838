"""The terminal app: input, turns on a worker thread, questions, and the keys."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.worker import Worker, WorkerState

from ...agent.session import Session
from ...types.errors import MetierError
from ...types.event import Asked, Ended, Heard, innermost_event
from ...types.text import visible_text
from . import commands
from .layout import ChatAppBase, PendingQuestion
from .lines import StyledLine, question_lines
from .prompt import PromptArea

_TURN_GROUP = "turn"
_BUSY_LINE = StyledLine("warning", "a turn is running; press Esc to stop it")


class ChatApp(ChatAppBase):
    """Everything it shows is an event, or the output of one of its own commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: otherwise the input line takes these keys.
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+l", "end", "To the end"),
        Binding("ctrl+c", "leave", "Leave", priority=True),
    ]

    def on_mount(self) -> None:
        self.use_library(self.agent.library)
        if self.resume_id and self.open_session(self.resume_id):
            self.show_history()
        else:
            self.open_session()
        if notice := commands.untrusted_text(self.library):
            self.log_.note(notice)
        self.count_uses()
        if self.watching:
            self.watch_skills()

    @on(PromptArea.Entered)
    def entered(self, entered: PromptArea.Entered) -> None:
        text = entered.text
        if self.pending is not None:
            self.reply(text)
            return
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
            self.turn(self.session, text)

    @on(Worker.StateChanged)
    def turned(self, change: Worker.StateChanged) -> None:
        """Start and stop the indicator with a turn, and start the next queued request."""
        if change.worker.group != _TURN_GROUP:
            return
        if change.state is WorkerState.RUNNING:
            self.stopping = False
            self.indicator.begin()
        elif change.worker.is_finished:
            self.indicator.end()
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
        draw, heard = self.log_.draw, False
        try:
            for event in session.say(text):
                inner_event, heard = innermost_event(event), heard or isinstance(event, Heard)
                # It failed before the request was echoed.
                if isinstance(event, Ended) and not heard:
                    self.call_from_thread(self.log_.show, StyledLine("request", visible_text(text)))
                if isinstance(inner_event, Asked):
                    pending = PendingQuestion(inner_event)
                    self.call_from_thread(self.ask, pending)
                    session.answer(inner_event.id, pending.answers.get())
                else:
                    self.call_from_thread(draw, event)  # type: ignore[arg-type]  # a coroutine of nothing
                if isinstance(event, Ended):
                    self.call_from_thread(self.update_choices)
        except MetierError as error:
            self.call_from_thread(self.log_.error, error.message, error.hint)

    def ask(self, pending: PendingQuestion) -> None:
        """Show a question and prompt for its answer."""
        self.pending, self.indicator.asking = pending, True
        self.log_.show(*question_lines(pending.question))
        if pending.question.kind == "approval":
            self.prompt.expect_answer("Press y, a or n", "yan")
        else:
            self.prompt.expect_answer("Type your answer and press Enter")

    def reply(self, text: str) -> None:
        """Answer the open question; an approval request accepts only y, a and n."""
        assert self.pending is not None
        question, answer = self.pending.question, text.strip()
        if question.kind == "approval":
            answer = commands.DECISIONS.get(answer.lower(), "")
            if not answer:
                self.prompt.expect_answer("Please press y, a or n", "yan")
                return
        elif answer.isdigit() and 0 < int(answer) <= len(question.choices):
            answer = question.choices[int(answer) - 1]
        self.answered(answer)

    def answered(self, answer: str) -> None:
        pending, self.pending, self.indicator.asking = self.pending, None, False
        assert pending is not None
        self.prompt.accept_requests()
        self.log_.show(StyledLine("request", visible_text(answer)))
        pending.answers.put(answer)

    def action_stop(self) -> None:
        """Esc closes the picker, or stops the turn and its question."""
        if not self.prompt.close():
            self.stop()

    def stop(self) -> bool:
        """Stop the turn and put queued requests back into the prompt; False where none runs."""
        if self.session is None or not self.busy:
            return False
        self.session.stop()
        if self.pending is not None:
            # The thread of the turn waits for this answer and sees the stop only then.
            self.answered("no")
        if self.queued:
            self.prompt.fill(" ".join(self.queued))
            self.queued = []
        return True

    def action_end(self) -> None:
        self.log_.scroll_end(animate=False)

    def action_leave(self) -> None:
        """Ctrl+C stops the turn; without one, or pressed again, it quits."""
        if self.stopping or not self.stop():
            self.exit(0)
            return
        self.stopping = True
        self.log_.note("stopping; press Ctrl+C again to quit")

    def on_unmount(self) -> None:
        """Release every thread, however the app ends."""
        # A thread that waits for an answer or for changes would keep the process alive.
        self.quitting.set()
        if self.session is not None:
            self.session.stop()
        if self.pending is not None:
            self.pending.answers.put("no")
        with self.agent:
            if self.session is not None:
                self.session.close()

    def run_app_command(self, name: str, arguments: str) -> None:
        """Run one of the app's own commands."""
        if name != "quit":
            self.log_.show(StyledLine("request", visible_text(f"/{name} {arguments}".rstrip())))
        match name:
            case "quit":
                self.exit(0)
            # `/resume` without an id lists conversations, below.
            case "clear" | "resume" if name == "clear" or arguments:
                self.clear(arguments)
            case "skills" if arguments:
                self.set_standing(arguments)
            case "model" if arguments:
                self.use_model(arguments)
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
        self.log_.remove_children()
        if resume:
            self.show_history()
