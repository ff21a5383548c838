"""The log of a conversation: events in order, and replies as Markdown while they are written."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from ...types.event import Event, Replied, Retried, Waited, Wrote
from ...types.text import visible_text
from .lines import StyledLine, lines_of, translate_hint


class ChatLog(VerticalScroll):
    """Shows lines and events.  Their text is never read as markup, and control characters are made visible."""

    can_focus = False
    stream: MarkdownStream | None = None

    def show(self, *lines: StyledLine) -> None:
        for line in lines:
            self.mount(Static(Content(line.text), classes=line.style))
        self.scroll_end(animate=False)

    def note(self, text: str) -> None:
        self.show(StyledLine("quiet", visible_text(text)))

    def error(self, message: str, hint: str = "") -> None:
        self.show(
            StyledLine("failed", visible_text(message)),
            *([StyledLine("quiet", f"→ {translate_hint(visible_text(hint))}")] if hint else []),
        )

    async def draw(self, event: Event) -> None:
        """Show what happened."""
        if isinstance(event, Waited):  # the spinner counts the seconds
            return
        if isinstance(event, Wrote):
            if not event.thinking:
                await self.write(visible_text(event.text))
            return
        streamed = self.stream is not None
        if self.stream is not None:
            await self.stream.stop()
            self.stream = None
            # A retry writes the reply again from its start.
            if isinstance(event, Retried):
                await self.children[-1].remove()
        if isinstance(event, Replied) and event.text and not streamed:
            await self.mount(Markdown(visible_text(event.text), classes="reply", open_links=False))
        self.show(*lines_of(event))

    async def write(self, text: str) -> None:
        """A piece of a reply."""
        if self.stream is None:
            # Links are not opened: a reply may repeat what a page or a skill wants clicked.
            reply = Markdown(classes="reply", open_links=False)
            await self.mount(reply)
            self.stream = Markdown.get_stream(reply)
        await self.stream.write(text)
        self.scroll_end(animate=False)
