"""The view of the log: rows of text, of which only those on the screen are drawn.

One widget for all rows: a widget for each line was refused, because a long answer has thousands, and every new one
laid out all of them again.
"""

from __future__ import annotations

from bisect import bisect_right

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from .markdown import LogRow

_SIDEWAYS = 8
"""Columns that code and tables move at once."""
_MOST_STRIPS = 1_000


class LogView(ScrollView):
    """Draws rows; scrolls, moves wide ones sideways, searches and selects."""

    can_focus = False
    ALLOW_SELECT = True

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.rows: list[LogRow] = []
        self.following = True
        """Whether the view stays at the end as more comes."""
        self.sideways = 0
        """Columns that code and tables are moved to the left."""
        self.sought = ""
        self.found: int | None = None
        """The row of the match that is shown."""
        self.strips: dict[int, tuple[LogRow, int, int, Strip]] = {}
        """Rows as they were drawn last, by their place."""
        self.styles_by_name: dict[str, Style] = {}
        self.pointed = False
        """Whether a mouse was over it."""

    @property
    def columns(self) -> int:
        """Columns of text: one on each side stays empty."""
        return max(1, self.size.width - 2)

    def take_rows(self, changed: int = 0) -> None:
        """Take over the number of rows, and draw those from `changed` on."""
        # Not as an ordinary change of size, which lays out the whole screen: the widget itself stays as large as it is.
        self.set_reactive(LogView.virtual_size, Size(self.columns, len(self.rows)))
        if self.scroll_y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        first = max(0, changed - round(self.scroll_y))
        if first < self.size.height:
            self.refresh(Region(0, first, self.size.width, self.size.height - first))

    # --- Moving ---

    def follow_end(self) -> None:
        if self.following:
            self.to_end()

    def to_end(self) -> None:
        self.following = True
        self.scroll_end(animate=False, immediate=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # Whoever scrolls up reads: what comes must not move the text away.
        if new_value >= self.max_scroll_y:
            self.following = True
        elif new_value < old_value:
            self.following = False

    def move_sideways(self, step: int) -> None:
        """Move code and tables; prose is wrapped and stays."""
        longest = max((row.content.cell_length for row in self.rows if row.wide), default=0)
        self.sideways = max(0, min(self.sideways + step * _SIDEWAYS, longest - self.columns))
        self.refresh()

    # --- Searching ---

    def search(self, text: str, step: int = 0) -> tuple[int, int]:
        """Show the next match, upwards with -1; which one it is, and how many there are."""
        self.sought = text.lower()
        hits = [at for at, row in enumerate(self.rows) if text and self.sought in row.content.plain.lower()]
        self.refresh()
        if not hits:
            self.found = None
            return 0, 0
        if self.found is None or not step:
            # The newest first: what is sought was mostly said a moment ago.
            place = len(hits) - 1
        else:
            place = (bisect_right(hits, self.found) - 1 + step) % len(hits)
        self.found = hits[place]
        self.following = False
        self.scroll_to(y=self.found - self.size.height // 2, animate=False, immediate=True)
        return place + 1, len(hits)

    # --- Drawing and selecting ---

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows in view, as they were drawn last: borders and padding, which it has not, would copy each of them."""
        strips = [self.render_line(y) for y in crop.line_range]
        _, background = self.background_colors
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        start, end = crop.column_span
        return strips if (start, end) == (0, self.size.width) else [strip.crop(start, end) for strip in strips]

    def render_line(self, y: int) -> Strip:
        y += round(self.scroll_y)
        width, style = self.columns, self.visual_style
        if not 0 <= y < len(self.rows):
            return Strip.blank(width + 2, style.rich_style)
        row = self.rows[y]
        plain = not self.sought and self.text_selection is None
        kept = self.strips.get(y)
        if plain and kept is not None and kept[0] is row and kept[1:3] == (width, self.sideways):
            return kept[3]
        shown = self._draw_row(row, y, width, style)
        if plain:
            if len(self.strips) > _MOST_STRIPS:
                self.strips.clear()
            self.strips[y] = (row, width, self.sideways, shown)
        return shown

    def _draw_row(self, row: LogRow, y: int, width: int, style: Style) -> Strip:
        content = self._marked(row.content, y)
        length, ground = content.cell_length, style.rich_style
        # A block moves only as far as it goes on: narrower ones stay where they are.
        shift = min(self.sideways, max(0, length - width)) if row.wide else 0
        strip = Strip(self._segments(content, style), length).crop_extend(shift, shift + width, ground)
        # A sign where a row goes on beyond the edge.
        if row.wide and length > shift + width and content.plain[shift + width :].strip():
            sign = self._segments(Content.styled("›", "bold $text-warning"), style)
            strip = Strip([*strip.crop(0, width - 1), *sign], width)
        if self.pointed:
            strip = strip.apply_offsets(shift, y)
        # The margin is part of the row: that of a stylesheet would be put around each row again with every drawing.
        margin = Segment(" ", ground)
        return Strip([margin, *strip, margin], width + 2)

    def _segments(self, content: Content, style: Style) -> list[Segment]:
        return [Segment(text, part.rich_style) for text, part in content.render(style, "", self._style_named)]

    def _style_named(self, name: str | Style) -> Style:
        """A style by what it is called, read once: rows have many and they are few."""
        if isinstance(name, Style):
            return name
        if name not in self.styles_by_name:
            self.styles_by_name[name] = Style.parse(name, self.app.theme_variables)
        return self.styles_by_name[name]

    def on_enter(self) -> None:
        # Rows tell the screen where their text is only once there is a mouse: that costs more than drawing them.
        if not self.pointed:
            self.pointed = True
            self.strips.clear()
            self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.strips.clear()
        self.styles_by_name.clear()

    def _marked(self, content: Content, y: int) -> Content:
        """A row with what is selected or was sought."""
        if self.sought:
            text, at = content.plain.lower(), 0
            while (at := text.find(self.sought, at)) >= 0:
                ground = "$warning" if y == self.found else "$warning-muted"
                content = content.stylize(f"$text on {ground}", at, at + len(self.sought))
                at += len(self.sought)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            ground_style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            content = content.stylize(ground_style, start, len(content) if end == -1 else end)
        return content

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text; a line that was wrapped to fit comes back as one."""
        text = ""
        for y, row in enumerate(self.rows):
            if (span := selection.get_span(y)) is None:
                continue
            part = row.content.plain[span[0] : None if span[1] == -1 else span[1]].rstrip()
            text += (" " if row.joined else "\n") + part if text else part
        return text, "\n"
