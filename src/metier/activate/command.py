"""A command, read with its author's quotes, so that arguments reach it as environment and never as source.

Every placeholder becomes a quoted reference to a variable.  The shell puts the value there after it has read the
command, so nothing in a value can end a quote, start a substitution or become another command.  What the reader can't
make sense of is refused, and so are the places where a program would read a value as code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class Value(NamedTuple):
    """What a placeholder stands for: one text, and the words it becomes where it is not quoted."""

    whole: str
    words: tuple[str, ...]
    ours: bool = False
    """A variable of ours, such as the skill's folder: no argument."""


Atom: TypeAlias = str | Value
"""One character of the author's, or a placeholder."""

HOLE, UNKNOWN = "\x01", "\x00"
"""In a word's text: an argument, and what only the shell will know."""


class Unreadable(Exception):
    """A command that takes arguments and can't be given them safely; says why."""


class Word(NamedTuple):
    text: str
    """What it says without its quotes."""
    holes: tuple[Value, ...] = ()
    leads: bool = False
    """It begins with an argument."""


class Simple(NamedTuple):
    """A simple command: its words, and what feeds it."""

    words: tuple[Word, ...]
    piped: bool
    """It reads what a pipe gives it."""
    fed: bool
    """It reads a file or a here-document instead."""
    joined: bool
    """It is part of a list with `&&` or `||` that the next command goes on with."""


class Read(NamedTuple):
    source: str
    """What the shell is given."""
    env: dict[str, str]
    commands: tuple[Simple, ...]
    reckons: bool
    """Somewhere in it values are read as numbers, which some shells do by running them."""


def read(atoms: Sequence[Atom]) -> Read:
    """Read a command with its placeholders."""
    reader = _Reader(atoms)
    reader.script("")
    return Read("".join(reader.out), reader.env, tuple(reader.commands), reader.reckons)


_BLANK, _META = " \t\r", "|&;()<>"


class _Cursor:
    """A place in the command, and what has been written of it."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.atoms = atoms
        self.at = 0
        self.out: list[str] = []
        self.env: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.commands: list[Simple] = []
        self.waiting: list[tuple[str, bool, bool]] = []
        self.reckons = False

    def peek(self, ahead: int = 0) -> Atom:
        place = self.at + ahead
        return self.atoms[place] if place < len(self.atoms) else ""

    def looking_at(self, text: str) -> bool:
        return all(self.peek(number) == character for number, character in enumerate(text))

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            atom = self.peek()
            assert isinstance(atom, str)
            self.out.append(atom)
            self.at += 1

    def reference(self, text: str) -> str:
        """The name of the variable that holds a value."""
        if text not in self.names:
            self.names[text] = f"METIER_ARG_{len(self.names) + 1}"
            self.env[self.names[text]] = text
        return self.names[text]

    def close(self, bracket: str) -> None:
        if not self.looking_at(bracket):
            raise Unreadable("a bracket is never closed")
        self.take(len(bracket))

    def backslash(self) -> str:
        follows = self.peek(1)
        if isinstance(follows, Value):
            raise Unreadable("a backslash stands before an argument")
        self.take(2 if follows else 1)
        return "" if follows == "\n" else follows

    def opaque(self, opening: str, closing: str, why: str) -> str:
        """Something that may hold no argument; its end is found by counting what opens and closes alike."""
        self.take(len(opening))
        depth = 1
        while depth:
            atom = self.peek()
            if isinstance(atom, Value):
                raise Unreadable(why)
            if atom == "":
                raise Unreadable("a bracket or quote is never closed")
            if atom in "'\"`" and closing != "'":
                self.quoted_inside(atom, why)
                continue
            if atom == "\\":
                self.backslash()
                continue
            if closing == "))" and atom in "()":
                depth += 1 if atom == "(" else -1
                if not depth:
                    self.close("))")
                    break
            elif closing != "))":
                depth += (atom == opening[-1] and opening[-1] != closing) - (atom == closing)
            self.reckons = self.reckons or (atom == "[" and opening == "${")
            self.take()
        return UNKNOWN

    def quoted_inside(self, quote: str, why: str) -> None:
        self.take()
        while (atom := self.peek()) != quote:
            if isinstance(atom, Value):
                raise Unreadable(why)
            if atom == "":
                raise Unreadable("a quote is never closed")
            self.take(2 if atom == "\\" and quote != "'" and isinstance(self.peek(1), str) and self.peek(1) else 1)
        self.take()

    def backticks(self) -> str:
        self.quoted_inside("`", "an argument stands between backticks; write `$(…)`")
        return UNKNOWN


class _Words(_Cursor):
    """Reads words, quotes and what the shell expands in them."""

    def script(self, until: str) -> None:
        """Commands up to the end, or up to the bracket that closes them."""
        raise NotImplementedError

    def word(self, single: bool) -> Word:
        """One word.  Where `single` holds, arguments stay one word without quotes too, as in an assignment."""
        text: list[str] = []
        holes: list[Value] = []
        leads = False
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, Value):
                leads = leads or not text
                self.bare(atom, single or _assigning("".join(text)))
                text.append(self.hole(atom, holes))
            elif atom in _BLANK + "\n" + _META:
                break
            elif atom == "\\":
                text.append(self.backslash())
            elif atom == "'":
                leads = self.single(text, holes, not text) or leads
            elif atom == '"':
                leads = self.double(text, holes, not text) or leads
            elif atom == "$":
                text.append(self.dollar(holes, False))
            elif atom == "`":
                text.append(self.backticks())
            else:
                text.append(atom)
                self.take()
        return Word("".join(text), tuple(holes), leads)

    def hole(self, value: Value, holes: list[Value]) -> str:
        if value.ours:
            return value.whole
        holes.append(value)
        return HOLE

    def bare(self, value: Value, single: bool) -> None:
        """Outside quotes: each word by itself, and each one quoted."""
        self.at += 1
        words = (value.whole,) if single or value.ours else value.words
        self.out.append(" ".join(f'"${{{self.reference(word)}}}"' for word in words))

    def single(self, text: list[str], holes: list[Value], first: bool) -> bool:
        """Single quotes: they are closed around a placeholder and opened again behind it."""
        self.take()
        leads = False
        while (atom := self.peek()) != "'":
            if atom == "":
                raise Unreadable("a quote is never closed")
            if isinstance(atom, Value):
                leads = leads or (first and not any(text))
                self.at += 1
                self.out.append(f"'\"${{{self.reference(atom.whole)}}}\"'")
                text.append(self.hole(atom, holes))
            else:
                text.append(atom)
                self.take()
        self.take()
        return leads

    def double(self, text: list[str], holes: list[Value], first: bool) -> bool:
        self.take()
        leads = False
        while (atom := self.peek()) != '"':
            if atom == "":
                raise Unreadable("a quote is never closed")
            if isinstance(atom, Value):
                leads = leads or (first and not any(text))
                self.at += 1
                self.out.append(f"${{{self.reference(atom.whole)}}}")
                text.append(self.hole(atom, holes))
            elif atom == "\\":
                text.append(self.backslash())
            elif atom == "$":
                text.append(self.dollar(holes, True))
            elif atom == "`":
                text.append(self.backticks())
            else:
                text.append(atom)
                self.take()
        self.take()
        return leads

    def dollar(self, holes: list[Value], quoted: bool) -> str:
        """What the shell itself expands; arguments inside are refused where they would be read as code."""
        if self.looking_at("$(("):
            self.reckons = True
            return self.opaque("$((", "))", "an argument stands in arithmetic")
        if self.looking_at("$["):
            self.reckons = True
            return self.opaque("$[", "]", "an argument stands in arithmetic")
        if self.looking_at("$("):
            self.take(2)
            self.script(")")
            self.close(")")
            return UNKNOWN
        if self.looking_at("${"):
            return self.opaque("${", "}", "an argument stands inside `${…}`")
        if not quoted and self.looking_at("$'"):
            return self.opaque("$'", "'", "an argument stands inside `$'…'`")
        if isinstance(self.peek(1), Value):
            raise Unreadable("a `$` stands before an argument")
        self.take()
        return UNKNOWN


class _Reader(_Words):
    """Reads a script, writing the source as it goes."""

    def script(self, until: str) -> None:
        """Commands up to the end, or up to the bracket that closes them."""
        words: list[Word] = []
        piped = fed = False
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, Value) or atom not in _BLANK + _META + "\n#":
                words.append(self.word(_assigns(words)))
                continue
            if atom in _BLANK:
                self.take()
            elif atom == "#":
                self.comment()
            elif atom in "<>":
                fed = self.redirect() or fed
            elif atom == ")" and until:
                break
            else:
                joined, pipes = self.operator()
                self.finish(words, piped, fed, joined)
                words, piped, fed = [], pipes, False
        else:
            if until:
                raise Unreadable("a bracket is never closed")
        self.finish(words, piped, fed, False)
        if self.waiting and not until:
            raise Unreadable("a here-document has no text")

    def finish(self, words: list[Word], piped: bool, fed: bool, joined: bool) -> None:
        if words:
            self.commands.append(Simple(tuple(words), piped, fed, joined))

    def operator(self) -> tuple[bool, bool]:
        """`;`, `&`, `|`, brackets and line ends; says whether it joins a list, and whether it is a pipe."""
        if self.looking_at("\n"):
            self.take()
            self.heredocs()
            return False, False
        if self.looking_at("(("):
            self.reckons = True
            self.opaque("((", "))", "an argument stands in arithmetic")
            return False, False
        for text in ("&&", "||", ";;&", ";;", ";&", "|&", ";", "&", "|", "(", ")"):
            if self.looking_at(text):
                self.take(len(text))
                return text in ("&&", "||"), text in ("|", "|&")
        raise Unreadable("it can't be read")  # pragma: no cover - every metacharacter is above

    def comment(self) -> None:
        """To the end of the line; an argument in it is left out."""
        while self.at < len(self.atoms) and self.peek() != "\n":
            if isinstance(self.peek(), Value):
                self.at += 1
            else:
                self.take()

    def redirect(self) -> bool:
        """`<`, `>` and what follows; True if it feeds the command."""
        for text in ("<<<", "<<-", "<<", "<(", ">(", "&>", "<&", ">&", ">>", ">|", "<>", "<", ">"):
            if self.looking_at(text):
                break
        if text in ("<(", ">("):
            self.take(2)
            self.script(")")
            self.close(")")
            return False
        self.take(len(text))
        while self.peek() in (" ", "\t"):
            self.take()
        before = self.at
        target = self.word(True)
        if text in ("<<", "<<-"):
            quoted = any(one in ("'", '"', "\\") for one in self.atoms[before : self.at])
            if target.holes or UNKNOWN in target.text:
                raise Unreadable("the end of a here-document must be a plain word")
            self.waiting.append((target.text, quoted, text == "<<-"))
        return text in ("<", "<<", "<<-", "<>") or (text == "<<<" and not target.holes)

    def heredocs(self) -> None:
        for end, quoted, tabs in self.waiting:
            self.heredoc(end, quoted, tabs)
        self.waiting = []

    def heredoc(self, end: str, quoted: bool, tabs: bool) -> None:
        while self.at < len(self.atoms):
            start = self.at
            while self.at < len(self.atoms) and self.peek() != "\n":
                self.at += 1
            line = self.atoms[start : self.at]
            holes = [atom for atom in line if isinstance(atom, Value)]
            text = "".join(atom if isinstance(atom, str) else HOLE for atom in line)
            if holes and (quoted or "`" in text or "$(" in text or "${" in text or "\\" in text):
                raise Unreadable("an argument can't be put into this here-document")
            self.out += [f"${{{self.reference(atom.whole)}}}" if isinstance(atom, Value) else atom for atom in line]
            if self.at < len(self.atoms):
                self.take()
            if (text.lstrip("\t") if tabs else text) == end:
                return
        raise Unreadable("a here-document is never closed")


def _assigning(text: str) -> bool:
    """Whether a word so far is `name=`, after which the shell splits nothing."""
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


def _assigns(words: list[Word]) -> bool:
    """Arguments of `case` and the like: the word is one word, quoted or not."""
    return bool(words) and words[-1].text in ("case",)
