"""What the keys do apart from turns: scrolling, copying, searching, folding, the editor, and the notes on skills."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from ...host.editor import edit_text
from ...host.trees import changed_at
from ...improve.proposal_store import list_proposals, proposals_folder
from ...library.watch import reload_library
from ...types.errors import MetierError
from ...types.text import clean_line
from . import commands
from .find import FindBar
from .layout import ChatAppBase
from .lines import StyledLine

PROPOSAL_SECONDS = 10.0
"""Seconds between two looks for proposals."""


class ChatActions(ChatAppBase):
    """The keys and commands that need no turn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: otherwise the editor takes these keys.
        Binding("pageup", "page(-1)", "Up", priority=True),
        Binding("pagedown", "page(1)", "Down", priority=True),
        Binding("ctrl+home", "beginning", "To the beginning", priority=True),
        Binding("ctrl+end,ctrl+l", "end", "To the end", priority=True),
        Binding("ctrl+up", "line(-1)", "Up a line", priority=True),
        Binding("ctrl+down", "line(1)", "Down a line", priority=True),
        Binding("alt+left", "sideways(-1)", "Left", priority=True),
        Binding("alt+right", "sideways(1)", "Right", priority=True),
        Binding("ctrl+o", "fold", "Fold", priority=True),
        Binding("ctrl+f", "find", "Find", priority=True),
        Binding("ctrl+g", "edit", "Editor", priority=True),
    ]
    proposals_at = 0
    """When the folder of proposals was last changed, as far as is known."""
    known_proposals: frozenset[str] | set[str] = frozenset()

    def action_page(self, step: int) -> None:
        self.log_.scroll_page_up(animate=False) if step < 0 else self.log_.scroll_page_down(animate=False)

    def action_line(self, step: int) -> None:
        self.log_.scroll_relative(y=step, animate=False, immediate=True)

    def action_beginning(self) -> None:
        self.log_.scroll_home(animate=False, immediate=True)

    def action_end(self) -> None:
        self.log_.to_end()

    def action_sideways(self, step: int) -> None:
        self.log_.move_sideways(step)

    def action_fold(self) -> None:
        self.log_.fold_all()

    # --- Searching ---

    def action_find(self) -> None:
        if self.find.display and self.find.box.has_focus:
            self.find.post_message(FindBar.Sought(self.find.box.value, -1))
            return
        self.find.open()

    @on(FindBar.Sought)
    def sought(self, sought: FindBar.Sought) -> None:
        self.find.show_hits(*self.log_.search(sought.text, sought.step))

    @on(FindBar.Closed)
    def search_closed(self) -> None:
        self.log_.sought, self.log_.found = "", None
        self.log_.refresh()
        self.prompt.line.focus()

    # --- Copying ---

    def copy_selection(self) -> bool:
        """Copy what is selected in the log or the editor; False where nothing is."""
        text = self.screen.get_selected_text() or self.prompt.line.selected_text
        if not text:
            return False
        self.copy_to_clipboard(text)
        self.screen.clear_selection()
        self.notify(f"copied {commands.count_noun(len(text), 'character')}", timeout=2)
        return True

    def copy_answer(self) -> None:
        text = self.last_answer()
        if not text:
            self.log_.note("There is no answer yet.")
            return
        self.copy_to_clipboard(text)
        self.log_.note(f"copied {commands.count_noun(len(text), 'character')}")

    def last_answer(self) -> str:
        """The model's last words, as it wrote them."""
        messages = self.session.conversation.messages if self.session else ()
        texts = (m.text for m in reversed(messages) if m.role == "assistant" and m.call is None and m.text.strip())
        return next(texts, "")

    # --- Other programs in the same terminal ---

    def action_edit(self) -> None:
        """Open the text of the prompt in the user's editor."""
        if self.pending is not None:
            return
        text, failure = None, None
        try:
            with self.suspend():
                # Answered in here: an error that leaves this block would leave the app suspended for good.
                try:
                    text = edit_text(self.prompt.line.whole, self.library.place.env)
                except MetierError as error:
                    failure = error
        except SuspendNotSupported:
            self.log_.error("this terminal can't run another program inside the app")
            return
        self.refresh(layout=True)
        if failure is not None:
            self.log_.error(failure.message, failure.hint)
        if text is not None:
            self.prompt.fill(text)

    def trust_project(self, path: str = "") -> None:
        """Show what the project's skills run and ask, in the terminal itself: nothing of it may be cut or folded."""
        from ..cli.trust import trust_directory

        if path:
            # It may come from a hint about another project: this one is not trusted in its place.
            self.log_.error("/trust is for this project and takes no path", "run `metier trust PATH` for another")
            return
        place, error = self.library.place, ""
        try:
            with self.suspend():
                # Answered in here: an error that leaves this block would leave the app suspended for good.
                try:
                    trust_directory(place.cwd, place.profile)
                except MetierError as failure:
                    error = failure.message
                except KeyboardInterrupt:
                    error = "nothing was trusted"
        except SuspendNotSupported:
            error = "this terminal can't show the review; quit and run `metier trust`"
        self.refresh(layout=True)
        if error:
            self.log_.note(error)
            return
        self.use_library(reload_library(self.agent.library))
        self.log_.note(
            commands.untrusted_text(self.library) or "the skills of this project are trusted as they are now"
        )

    # --- Notes on skills ---

    @work(thread=True, group="proposals", exclusive=True, exit_on_error=False)
    def look_for_proposals(self) -> None:
        """Say when a proposal waits for a decision, or has changed a skill by itself."""
        # The improver works in a process of its own, after the turn: all there is to see are its files.
        changed = changed_at(proposals_folder(self.state))
        if changed > self.proposals_at:
            first, self.proposals_at = not self.proposals_at, changed
            lines = self.proposal_lines(first)
            self.call_from_thread(self.log_.show, *lines)

    def proposal_lines(self, first: bool) -> list[StyledLine]:
        proposals = list_proposals(self.state)
        waiting = [proposal for proposal in proposals if proposal.standing == "waiting"]
        accepted = {proposal.id: proposal.skill for proposal in proposals if proposal.standing == "accepted"}
        fresh = [] if first else [skill for id, skill in accepted.items() if id not in self.known_proposals]
        lines = []
        if waiting and (first or any(proposal.id not in self.known_proposals for proposal in waiting)):
            noun = commands.count_noun(len(waiting), "proposal")
            names = ", ".join(sorted({clean_line(proposal.skill) for proposal in waiting}))
            text = f"{noun} {'waits' if len(waiting) == 1 else 'wait'} for you: {names}"
            lines.append(StyledLine("warning", f"{text}\n→ review with `metier proposals`"))
        lines += [
            StyledLine("warning", f"the skill {clean_line(skill)} was changed\n→ `metier history` shows how")
            for skill in fresh
        ]
        self.known_proposals = {*accepted, *(proposal.id for proposal in waiting)}
        return lines
