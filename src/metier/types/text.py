"""Make text from skills safe to show: one line, no control characters, nothing hidden.

What a skill says reaches terminals, prompts and people who decide about it.  Escape sequences could redraw a terminal,
invisible characters could carry instructions that only a model reads, and tags could imitate the frame that an agent
puts around skills; each function here removes or spells out one of these.
"""

from __future__ import annotations

from ..light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

# Patterns are texts, which `re` compiles at their first use and keeps, and each function imports `re` itself: most
# text is plain ASCII and needs neither, and the two would take a fifth of the time in which `metier list` starts.
_HIDDEN = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # control characters, escape sequences among them
    "\xad\u034f\u180b-\u180f\u200b\u2800\ufeff\ufff0-\ufff8"  # zero-width, but for the joiners that scripts need
    "\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters that are drawn as nothing
    "\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f"  # direction overrides and other orders to the display
    "\ud800-\udfff\ufff9-\ufffb\ufffe\uffff"  # halves of characters, annotations, what is no character
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # marks of music, tags and selectors
)
# With the line separators that are not LF: they end a line in some readers of JSON and not in others.
_UNSEEN = _HIDDEN[:-1] + "\x85\u2028\u2029]"
_ESCAPE = (
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[P^_X][^\x1b]*(?:\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~]?)"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
# Emoji flags of regions are spelled with tag characters, and are the one use of them that stays (group 1).
_ORDERS = (
    "(\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f)"
    "|[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
)
_SHORT_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\x1b", "\x07": "\\x07"}
TAG_OPENERS = ("<", "\uff1c", "\ufe64")
"""What opens a tag, also as wide and small forms of it: a model takes them for the same."""
# What agents put around skills, system text and turns; any closing tag, comment or directive too.
_ENVELOPE = (
    "(?i)[<\uff1c\ufe64]"
    r"(?=\s*/|[!?|]|available_skills|skill|system|user|human|assistant|tool|function|instruction"
    r"|important|antml)"
)
_PRINTABLE = bytes(range(32, 127))
_CURSOR_MOVES = "[\x0b\x0c\r\x85\u2028\u2029]"
"""What moves the cursor and is no line feed."""


def clean_line(text: str) -> str:
    """One line: every run of white space is one space, and what can't be seen is gone."""
    if text.isascii():
        line = text.replace("\n", " ")
        if line.isprintable():
            return line.strip(" ") if "  " not in line else " ".join(line.split())
    return " ".join(strip_hidden(text).split())


def one_line(text: str) -> str:
    """One line too, but with every blank as it was: a path must lead where it led."""
    if text.isascii() and text.isprintable():
        return text
    return visible_text(text).replace("\n", " ").replace("\t", " ")


def one_line_each(texts: list[str]) -> list[str]:
    """The same of many, looked over as one text first."""
    together = "".join(texts)
    if together.isascii() and not together.encode().translate(None, _PRINTABLE):
        return texts
    return [one_line(text) for text in texts]


def escaped_line(text: str) -> str:
    """One line with nothing left out: what can't be seen, or would move the cursor, is written as its escape.

    For what a person is asked about: they must see all that will run.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _is_visible(character) else _SHORT_ESCAPES.get(character) or _unicode_escape(ord(character))
        for character in text
    )


def _is_visible(character: str) -> bool:
    import re

    return character.isprintable() and not re.match(_HIDDEN, character) and not "\ufe00" <= character <= "\ufe0f"


def escaped_lines(text: str) -> list[str]:
    """The same of a text that has lines of its own."""
    return [escaped_line(line) for line in text.split("\n")]


def escape_hidden_in_json(text: str) -> str:
    """JSON text in which hidden characters are written as the escapes that mean them."""
    import re

    return re.sub(_UNSEEN, lambda match: _unicode_escape(ord(match[0])), text)


def _unicode_escape(point: int) -> str:
    if point < 0x10000:
        return f"\\u{point:04x}"
    high, low = divmod(point - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def visible_text(text: str) -> str:
    """The same lines without control characters, escape sequences and hidden marks; LF alone ends a line."""
    if text.isascii() and text.isprintable():
        return text
    import re

    return re.sub(_CURSOR_MOVES, " ", strip_hidden(text).replace("\r\n", "\n"))


def strip_hidden(text: str) -> str:
    """The text without escape sequences and hidden marks; its blanks and line ends stay as they are."""
    import re

    return re.sub(_HIDDEN, "", re.sub(_ESCAPE, "", text))


def split_hidden_orders(text: str) -> list[tuple[str, str]]:
    """The text in pairs: what stays, and behind it what tells a reader something that a person can't see.

    That is tags, direction overrides and runs of selectors.  Flags are spelled with tags and stay; so do the joiners
    that scripts and emoji need.
    """
    import re

    pairs: list[tuple[str, str]] = []
    last = 0
    for match in re.finditer(_ORDERS, text):
        if match[1]:
            continue
        if pairs and match.start() == last:
            pairs[-1] = (pairs[-1][0], pairs[-1][1] + match[0])
        else:
            pairs.append((text[last : match.start()], match[0]))
        last = match.end()
    return [*pairs, (text[last:], "")]


def neutralize_tags(text: str) -> str:
    """Markdown text that can't be taken for a tag that means something to an agent."""
    if not any(opener in text for opener in TAG_OPENERS):
        return text
    import re

    return re.sub(_ENVELOPE, "&lt;", text)


# As a model reads it: blanks, slashes and characters that nobody sees may stand behind what opens a tag.
_TAG_START = "[<\uff1c\ufe64](?:" + _HIDDEN + r"|[\s/\\])*+"
_FRAME_WORD = (
    r"(?i)(?:skill[-_\s]?con(?:text|tent)|skills?[-_\s]?changed|available[-_\s]?skills?"  # metier's own
    r"|system(?:[-_\s]?(?:reminder|prompt|message))?|function[-_\s]?(?:result|call)s?|tool[-_\s]?(?:result|call|use)s?"
    r"|antml:\w{1,40}|(?:start|end)[-_\s]?of[-_\s]?turn|\|[\w-]{1,40}\|)(?![\w.])"
)


def neutralize_frames(text: str, also: str = "") -> str:
    """A text that can neither close nor forge a frame: what metier and models' services put around a text of others.

    Only the `<` of such a tag is spelled out, because bodies and outputs are full of tags that mean nothing here.
    `also` is the tag of a frame that only one caller uses.
    """
    if not any(opener in text for opener in TAG_OPENERS):
        return text
    import re

    def spell_out(match: re.Match[str]) -> str:
        word = text[match.end() : match.end() + 64]
        if not word.isascii():
            from unicodedata import normalize  # most text is ASCII

            word = normalize("NFKC", re.sub(_HIDDEN, "", text[match.end() : match.end() + 512]))
        forged = re.match(_FRAME_WORD, word) or (also and re.match(rf"(?i){re.escape(also)}(?![\w.])", word))
        return "&lt;" + match[0][1:] if forged else match[0]

    return re.sub(_TAG_START, spell_out, text)


def bounded_field(text: str, most: int = 200) -> str:
    """A name or a path as a frame shows it: one line, and no longer than anybody reads."""
    return shorten_text(clean_line(text), most)


def code_points_of(text: str) -> str:
    """Characters by their code points, each once."""
    return " ".join(dict.fromkeys(f"U+{ord(character):04X}" for character in text))


def hides_nothing(text: str) -> bool:
    """Whether a text is plain ASCII without control characters: a quick yes for most."""
    return text.isascii() and not text.encode().translate(None, _PRINTABLE + b"\t\n\x0b\x0c\r")


def hidden_characters_in(text: str) -> tuple[str, ...]:
    """The hidden characters a text holds, by code point, each once."""
    import re

    return tuple(dict.fromkeys(f"U+{ord(character):04X}" for character in re.findall(_HIDDEN, text)))


def shorten_text(text: str, most: int) -> str:
    """Cut to a length, ending in `…`; never through the middle of a joined character."""
    if len(text) <= most:
        return text
    # Back to before a joiner, a variation selector or a combining mark: half of an emoji is another character.
    cut = most - 1
    while cut > 0 and (
        text[cut] in "\u200d\ufe0e\ufe0f" or text[cut - 1] == "\u200d" or "\u0300" <= text[cut] <= "\u036f"
    ):
        cut -= 1
    return text[:cut].rstrip() + "…"


def estimate_tokens(text: str) -> int:
    """An estimate: four characters to a token, one for each wide character."""
    # CJK characters, which most tokenizers split one by one.
    wide = 0 if text.isascii() else sum(1 for character in text if character > "\u2e7f")
    return wide + (len(text) - wide + 3) // 4
