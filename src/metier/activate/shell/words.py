"""The values of a command that takes arguments: atoms, words, simple commands, and what is known of each.

A command is read with its placeholders still in it, so a word's text has marks where the author's text ends: `HOLE`
for an argument, `ENVIRON` for what the environment holds, `UNKNOWN` for what only the shell can tell.  The marks are
control characters; one that the author wrote is taken for a mark, which only makes the checks stricter.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class PlaceholderValue(NamedTuple):
    """The value of a placeholder: one text, and the words it becomes outside quotes."""

    whole: str
    words: tuple[str, ...]
    ours: bool = False
    """A variable that metier sets, such as the skill's folder; not an argument."""


CommandAtom: TypeAlias = str | PlaceholderValue
"""One character of the author's, or a placeholder."""

HOLE, UNKNOWN, ENVIRON = "\x01", "\x00", "\x02"
"""Marks in a word's text: an argument; a value only the shell knows, which may hold an argument; the environment's."""

SOLID = "\x03" + UNKNOWN
"""A value only the shell knows, but which is one word and does not begin with `-`: a number, or a commit's name."""

SCRIPT_HINT = 'as in `bash "${SKILL_DIR}/scripts/run.sh" "$1"`'
"""The advice in refusals.  It uses an absolute path, since a command may run in the project's folder."""


class UnreadableCommand(Exception):
    """A command can't be given its arguments safely; the message says why."""


class ShellWord(NamedTuple):
    """One word of a command, as the program gets it."""

    text: str
    """Without its quotes."""
    holes: tuple[PlaceholderValue, ...] = ()
    loose: bool = False
    """An argument in it becomes several words."""

    @property
    def tainted(self) -> bool:
        """It holds an argument, or may."""
        return HOLE in self.text or UNKNOWN in self.text

    @property
    def leads(self) -> bool:
        """It begins with an argument, or may."""
        return self.loose or self.text.replace(SOLID, "").lstrip(ENVIRON)[:1] in (HOLE, UNKNOWN)


class SimpleCommand(NamedTuple):
    """A simple command: its words and its input."""

    words: tuple[ShellWord, ...] = ()
    piped: bool = False
    """It reads from a pipe."""
    fed: bool = False
    """It reads a file or a text of the author's instead."""
    joined: bool = False
    """`&&` or `||` joins it to the next command."""
    documents: tuple[int, ...] = ()
    """The here-documents it reads, by number."""
    files: tuple[str, ...] = ()
    """The files that are redirected to its input."""


class ParsedCommand(NamedTuple):
    """A command that was read, with its arguments moved to the environment."""

    source: str
    """The script for the shell."""
    env: dict[str, str]
    commands: tuple[SimpleCommand, ...] = ()
    reckons: bool = False
    """It evaluates values as numbers or names somewhere; some shells run code that such values hold."""
    taken: list[PlaceholderValue] | tuple[PlaceholderValue, ...] = ()
    """The arguments it takes."""
    pours: bool = False
    """An argument may come out of a pipe, a here-document or a file."""
    written: list[str] | tuple[str, ...] = ()
    """The files it writes, each in three spellings."""
    functions: list[str] | tuple[str, ...] = ()
    """The functions it defines."""


def is_assignment(text: str) -> bool:
    """Whether a word is `name=…`."""
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isascii() and name.removesuffix("+").isidentifier()
