"""Reads the words of a command with its placeholders, and writes the source that the shell will be given.

Reading and writing go together: every atom that is read is also written, unchanged if it is the author's and as a
reference to a variable if it is a placeholder.  What the shell expands becomes a mark in the word's text (see `words`).
The reader raises `UnreadableCommand` at the first thing it is not sure of: the command is about to run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .lexer import WORD_ENDS, Token, next_token
from .programs import HARMLESS_PROGRAMS, STEADY_COMMANDS, STEERING_VARIABLE
from .variables import argument_copies, outer_names, split_value, trim_value
from .words import (
    ENVIRON,
    HOLE,
    SOLID,
    UNKNOWN,
    CommandAtom,
    PlaceholderValue,
    ShellWord,
    SimpleCommand,
    UnreadableCommand,
    is_assignment,
)

_MAX_DEPTH = 40
"""Nested brackets; each costs a few frames of Python's stack."""
_MAX_NAME_PIECES = 200
"""Pieces of a word that are looked at for `name=`; the rest can't change the answer, and would cost its length."""
_BACKTICKS = "it has backticks; write `$(…)` instead"
_UNCLOSED_QUOTE = "a quote is not closed"


class CommandCursor:
    """A place in the command, and the source that has been written up to it."""

    def __init__(self, atoms: Sequence[CommandAtom]) -> None:
        self.atoms = atoms
        self.text = "".join(atom if isinstance(atom, str) else HOLE for atom in atoms)
        """One character per atom, for the lexer."""
        self.at = 0
        self.out: list[str] = []
        self.env: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.commands: list[SimpleCommand] = []
        self.reckons = self.pours = False
        self.deep = 0
        self.taken: list[PlaceholderValue] = []
        self.written: list[str] = []
        self.functions: list[str] = []
        self.outer = outer_names(self.text)
        self.copies = argument_copies(atoms)
        # With another IFS the shell splits values at places that `split_value` does not know.
        self.splits = "IFS" not in self.text

    def peek(self, ahead: int = 0) -> CommandAtom:
        place = self.at + ahead
        return self.atoms[place] if place < len(self.atoms) else ""

    def looking_at(self, text: str) -> bool:
        return all(self.peek(number) == character for number, character in enumerate(text))

    def token(self, in_quotes: bool = False) -> Token:
        """The author's next token; callers look for a placeholder first."""
        return next_token(self.text, self.at, in_quotes)

    def take(self, count: int = 1) -> None:
        """Copy atoms of the author's to the source."""
        for _ in range(count):
            atom = self.peek()
            assert isinstance(atom, str)
            self.out.append(atom)
            self.at += 1

    def put(self, value: PlaceholderValue, form: str, text: list[str], holes: list[PlaceholderValue]) -> None:
        """Write a placeholder as a reference to the variable that holds its value."""
        self.at += 1
        self.out.append(form.format(f"${{{self.reference(value.whole)}}}"))
        self.note(value, text, holes)

    def note(self, value: PlaceholderValue, text: list[str], holes: list[PlaceholderValue]) -> None:
        text.append(value.whole if value.ours else HOLE)
        if not value.ours:
            holes.append(value)
            self.taken.append(value)

    def reference(self, text: str) -> str:
        """The name of the variable that holds a value."""
        if text not in self.names:
            self.names[text] = f"METIER_ARG_{len(self.names) + 1}"
            self.env[self.names[text]] = text
        return self.names[text]

    def variable(self, name: str, quoted: bool, holes: list[PlaceholderValue]) -> str:
        """The mark for a variable: set outside, a copy of an argument, or any other."""
        if name in self.outer:
            return ENVIRON
        values = self.copies.get(name, ())
        split_values = [value if quoted else split_value(value) for value in values]
        if not values or None in split_values or not (quoted or self.splits):
            return UNKNOWN
        holes.extend(value for value in split_values if value)
        return HOLE

    def deeper(self) -> None:
        self.deep += 1
        if self.deep > _MAX_DEPTH:
            raise UnreadableCommand("it is nested too deeply")

    def close(self, bracket: str) -> None:
        if not self.looking_at(bracket):
            raise UnreadableCommand("a bracket is not closed")
        self.take(len(bracket))

    def backslash(self) -> None:
        """A backslash and what it escapes."""
        follows = self.peek(1)
        if isinstance(follows, PlaceholderValue):
            # It would escape the `$` of the reference that is written there.
            raise UnreadableCommand("an argument follows a backslash")
        self.take(2 if follows else 1)


class WordReader(CommandCursor):
    """Reads words, quotes and what the shell expands in them."""

    def script(self, until: str) -> None:
        """Read commands up to the end, or up to the bracket that closes them."""
        raise NotImplementedError

    def word(self, single: bool, assigns: bool = False) -> ShellWord | None:
        """One word, or None where there is none.

        With `single`, an argument stays one word outside quotes too; with `assigns`, it does after `name=`.
        """
        text: list[str] = []
        holes: list[PlaceholderValue] = []
        started = loose = False
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                is_single = single or (assigns and is_assignment("".join(text[:_MAX_NAME_PIECES])))
                loose = loose or (not is_single and len(atom.words) > 1)
                started = self.bare(atom, is_single, text, holes) or started
                continue
            token = self.token()
            if token.kind in WORD_ENDS or (atom == "#" and not started):
                break
            started = started or token.kind != "continuation"
            match token.kind:
                case "single" | "double":
                    self.quotes(token, text, holes)
                case "continuation":
                    self.backslash()
                case "escape":
                    text.append(token.value)
                    self.backslash()
                case "stray" if atom == "'":
                    raise UnreadableCommand(_UNCLOSED_QUOTE)
                case "stray":
                    self.backslash()
                case "tick":
                    raise UnreadableCommand(_BACKTICKS)
                case "process":
                    text.append(self.substitution())
                case "literal" | "glob" | "control":
                    text.append(token.text)
                    self.take(len(token.text))
                case _:
                    before = len(holes)
                    mark = self.expansion(token, False, text, holes)
                    parts = mark == UNKNOWN or any(len(hole.words) > 1 for hole in holes[before:])
                    loose = loose or (parts and not single)
        return ShellWord("".join(text), tuple(holes), loose) if started else None

    def bare(self, value: PlaceholderValue, single: bool, text: list[str], holes: list[PlaceholderValue]) -> bool:
        """A placeholder outside quotes: each of its words by itself, quoted; False if it has none."""
        self.at += 1
        words = (value.whole,) if single or value.ours else value.words
        if not words:
            return False
        self.out.append(" ".join(f'"${{{self.reference(word)}}}"' for word in words))
        self.note(value, text, holes)
        return True

    # --- Quotes ---

    def quotes(self, token: Token, text: list[str], holes: list[PlaceholderValue]) -> None:
        if token.kind == "double":
            self.double(text, holes)
        elif token.kind == "single":
            self.single(token.end, text, holes)
        else:
            raise UnreadableCommand(_UNCLOSED_QUOTE)

    def single(self, end: int, text: list[str], holes: list[PlaceholderValue]) -> None:
        """Single quotes: closed before a placeholder and opened again after it."""
        self.take()
        while self.at < end - 1:
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                self.put(atom, "'\"{}\"'", text, holes)
            else:
                text.append(atom)
                self.take()
        self.take()

    def double(self, text: list[str], holes: list[PlaceholderValue]) -> None:
        """Double quotes: a reference to a variable is as good inside them."""
        self.take()
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                self.put(atom, "{}", text, holes)
                continue
            token = self.token(in_quotes=True)
            match token.kind:
                case "double":
                    self.take()
                    return
                case "continuation":
                    self.backslash()
                case "escape":
                    text.append(token.value)
                    self.backslash()
                case "stray":  # a backslash that escapes nothing here, and stays
                    text.append(token.text)
                    self.backslash() if isinstance(self.peek(1), PlaceholderValue) else self.take()
                case "tick":
                    raise UnreadableCommand(_BACKTICKS)
                case "literal" | "control":
                    text.append(token.text)
                    self.take(len(token.text))
                case _:
                    self.expansion(token, True, text, holes)
        raise UnreadableCommand(_UNCLOSED_QUOTE)

    # --- Expansions ---

    def expansion(self, token: Token, quoted: bool, text: list[str], holes: list[PlaceholderValue]) -> str:
        """Read an expansion into the text of a word; returns its mark."""
        mark = self.dollar(token, quoted, holes)
        text.append(mark)
        if token.kind == "parameter" and not token.text.startswith("${"):
            # The name stays in the text: an option that is made of it is judged by its letters too.
            text.append(token.text[1:])
        return mark

    def dollar(self, token: Token, quoted: bool, holes: list[PlaceholderValue]) -> str:
        """What the shell expands; arguments inside are refused where they would be read as code."""
        match token.kind:
            case "arithmetic":
                self.reckons = True
                return self.opaque("$((", "))", "an argument is used in arithmetic", True)
            case "substitution":
                return self.command_output()
            case "braces":
                return self.braces(quoted, holes)
            case "parameter" if token.text.startswith("${"):
                return self.braces(quoted, holes)
            case "old_arithmetic":
                raise UnreadableCommand("it uses `$[…]`; write `$((…))` instead")
            case "ansi":
                return self.escapes()
            case "split":
                raise UnreadableCommand("a line ends right after a `$`, `<` or `>`")
            case "parameter":
                self.take(len(token.text))
                if self.looking_at("\\\n") and token.text[1:].isidentifier():  # the name goes on in the next line
                    raise UnreadableCommand("a line ends in the name of a variable")
                return self.variable(token.text[1:], quoted, holes)
        if isinstance(self.peek(1), PlaceholderValue):
            raise UnreadableCommand("an argument follows a `$`")
        self.take()
        return UNKNOWN

    def nested(self) -> None:
        """A script in brackets."""
        self.deeper()
        self.take(2)
        self.script(")")
        self.close(")")
        self.deep -= 1

    def command_output(self) -> str:
        """`$(…)`: commands of their own; the output of a few of them can hold no argument."""
        before = len(self.commands)
        self.nested()
        inside = self.commands[before:]
        words = [word for command in inside for word in command.words]
        plain = all(command.words[0].text in HARMLESS_PROGRAMS and not command.piped for command in inside)
        if plain and not any(word.tainted for word in words):
            return ENVIRON
        steady = inside and all(command.piped for command in inside[1:]) and _is_steady(inside[-1].words)
        return SOLID if steady else UNKNOWN

    def substitution(self) -> str:
        """`<(…)`: a file with the output of commands."""
        self.nested()
        self.pours = True
        return UNKNOWN

    def escapes(self) -> str:
        """`$'…'`, which not every shell knows: its end must be the same for all of them."""
        self.take(2)
        while (atom := self.peek()) != "'":
            if isinstance(atom, PlaceholderValue) or atom == "" or self.looking_at("\\'"):
                raise UnreadableCommand("an argument or a quote is used inside `$'…'`")
            self.take(2 if atom == "\\" and isinstance(self.peek(1), str) and self.peek(1) else 1)
        self.take()
        return UNKNOWN

    def braces(self, quoted: bool, holes: list[PlaceholderValue]) -> str:
        """`${…}`: a name alone, or an operation on its value."""
        before = self.at
        self.opaque("${", "}", "an argument is used inside `${…}`", quoted)
        inside = "".join(atom for atom in self.atoms[before + 2 : self.at - 1] if isinstance(atom, str))
        name = re.split(r"[^\w]", inside, maxsplit=1)[0]
        if inside in self.outer or inside in self.copies:
            return self.variable(inside, quoted, holes)
        values = [trim_value(value, inside[len(name) :]) for value in self.copies.get(name, ())]
        if quoted and values and all(values):
            holes.extend(value for group in values for value in group)
            return HOLE
        follows = inside.partition(":")[2][:1]
        if "=" in inside and STEERING_VARIABLE.fullmatch(name):
            raise UnreadableCommand(f"it sets `{name}`, which decides what runs")
        # Subscripts, indirection and offsets evaluate a value; defaults and trims only copy it.
        self.reckons = self.reckons or any(character in inside for character in "[!@") or follows not in ("", *"-=?+")
        return UNKNOWN

    def opaque(self, opening: str, closing: str, why: str, quoted: bool) -> str:
        """A part that may hold an argument only in commands of its own; brackets inside it are counted."""
        self.deeper()
        if not self.looking_at(opening):  # a line break inside the opening bracket
            raise UnreadableCommand(f"a line ends inside `{opening}`")
        self.take(len(opening))
        depth = 1
        while depth:
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                raise UnreadableCommand(why)
            if atom == "" or atom == "`" or (atom == "'" and quoted):
                raise UnreadableCommand(f"the text in `{opening}…{closing}` can't be read")
            if atom == "$":
                self.dollar(self.token(quoted), quoted, [])
            elif atom == "\\":
                self.backslash()
            elif atom in "'\"":
                self.quoted_inside(why)
            elif closing == "))" and atom in "()":
                depth += 1 if atom == "(" else -1
                if depth:
                    self.take()
                else:
                    self.close("))")
            else:
                depth -= atom == closing
                self.take()
        self.deep -= 1
        return UNKNOWN

    def quoted_inside(self, why: str) -> None:
        before = len(self.taken)
        self.quotes(self.token(), [], [])
        if len(self.taken) > before:
            raise UnreadableCommand(why)


def _is_steady(words: Sequence[ShellWord]) -> bool:
    """Whether the output of a command is one word and no option, whatever its arguments are."""
    command_name = " ".join(word.text for word in words[:2])
    if words[0].text == "wc":
        return not any(word.tainted for word in words)
    return command_name in STEADY_COMMANDS or (
        command_name == "git rev-parse" and any(word.text == "--verify" for word in words)
    )
