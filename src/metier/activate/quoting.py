"""Words of a command: quotes, what the shell expands in them, and the references that stand for arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .lexicon import (
    ENVIRON,
    HARMLESS,
    HOLE,
    SETTING,
    SOLID,
    STEADY,
    UNKNOWN,
    Atom,
    Simple,
    Unreadable,
    Value,
    Word,
    is_assignment,
)
from .variables import copies, outer_names, split, trimmed

BLANK, META = " \t", "|&;()<>"
_DEEPEST, _LONGEST_NAME = 40, 200
_plain_name = re.compile(r"\w+")


class Cursor:
    """A place in the command, and what has been written of it."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.atoms = atoms
        self.at = 0
        self.out: list[str] = []
        self.env: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.commands: list[Simple] = []
        self.reckons = self.pours = False
        self.deep = 0
        self.taken: list[Value] = []
        self.written: list[str] = []
        self.functions: list[str] = []
        text = "".join(one if isinstance(one, str) else HOLE for one in atoms)
        self.outer = outer_names(text)
        self.copies = copies(atoms)
        self.splits = "IFS" not in text

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

    def put(self, value: Value, form: str, text: list[str], holes: list[Value]) -> None:
        """A placeholder, as a reference to the variable that holds its value."""
        self.at += 1
        self.out.append(form.format(f"${{{self.reference(value.whole)}}}"))
        self.note(value, text, holes)

    def note(self, value: Value, text: list[str], holes: list[Value]) -> None:
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

    def variable(self, name: str, quoted: bool, holes: list[Value]) -> str:
        """A variable: one from outside, one that holds an argument as it came, or any other."""
        if name in self.outer:
            return ENVIRON
        values = self.copies.get(name, ())
        known = [one if quoted else split(one) for one in values]
        if not values or None in known or not (quoted or self.splits):
            return UNKNOWN
        holes.extend(one for one in known if one)
        return HOLE

    def deeper(self) -> None:
        self.deep += 1
        if self.deep > _DEEPEST:
            raise Unreadable("it is nested too deeply")

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


class Words(Cursor):
    """Reads words, quotes and what the shell expands in them."""

    def script(self, until: str) -> None:
        """Commands up to the end, or up to the bracket that closes them."""
        raise NotImplementedError

    def word(self, single: bool, assigns: bool = False) -> Word | None:
        """One word, or None where nothing stands.  Where `single` holds, arguments stay one word without quotes too;
        where `assigns` does, they do so behind `name=`."""
        text: list[str] = []
        holes: list[Value] = []
        begun = loose = False
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, Value):
                one = single or (assigns and is_assignment("".join(text[:_LONGEST_NAME])))
                loose = loose or (not one and len(atom.words) > 1)
                begun = self.bare(atom, one, text, holes) or begun
                continue
            if atom in BLANK + "\n" or (atom in META and not self.substitutes()) or (atom == "#" and not begun):
                break
            begun = begun or not self.looking_at("\\\n")
            if atom == "\\":
                text.append(self.backslash())
            elif atom == "'":
                self.single(text, holes)
            elif atom == '"':
                self.double(text, holes)
            elif atom == "$":
                before = len(holes)
                text.append(self.dollar(False, holes))
                parts = text[-1] == UNKNOWN or any(len(one.words) > 1 for one in holes[before:])
                loose = loose or (parts and not single)
            elif atom == "`":
                raise Unreadable("it has backticks in it; write `$(…)`")
            elif atom in "<>":
                text.append(self.substitution())
            else:
                text.append(atom)
                self.take()
        return Word("".join(text), tuple(holes), loose) if begun else None

    def bare(self, value: Value, single: bool, text: list[str], holes: list[Value]) -> bool:
        """Outside quotes: each word by itself, and each one quoted; True if there is any."""
        self.at += 1
        words = (value.whole,) if single or value.ours else value.words
        if not words:
            return False
        self.out.append(" ".join(f'"${{{self.reference(word)}}}"' for word in words))
        self.note(value, text, holes)
        return True

    def single(self, text: list[str], holes: list[Value]) -> None:
        """Single quotes: they are closed around a placeholder and opened again behind it."""
        self.take()
        while (atom := self.peek()) != "'":
            if atom == "":
                raise Unreadable("a quote is never closed")
            if isinstance(atom, Value):
                self.put(atom, "'\"{}\"'", text, holes)
            else:
                text.append(atom)
                self.take()
        self.take()

    def double(self, text: list[str], holes: list[Value]) -> None:
        self.take()
        while (atom := self.peek()) != '"':
            if atom == "":
                raise Unreadable("a quote is never closed")
            if isinstance(atom, Value):
                self.put(atom, "{}", text, holes)
            elif atom == "\\":
                text.append(self.backslash())
            elif atom == "$":
                text.append(self.dollar(True, holes))
            elif atom == "`":
                raise Unreadable("it has backticks in it; write `$(…)`")
            else:
                text.append(atom)
                self.take()
        self.take()

    def dollar(self, quoted: bool, holes: list[Value]) -> str:
        """What the shell itself expands; arguments inside are refused where they would be read as code."""
        if self.looking_at("$(("):
            self.reckons = True
            return self.opaque("$((", "))", "an argument stands in arithmetic", True)
        if self.looking_at("$("):
            return self.command_output()
        if self.looking_at("${"):
            return self.braces(quoted, holes)
        if self.looking_at("$["):
            raise Unreadable("it reckons with `$[…]`; write `$((…))`")
        if not quoted and self.looking_at("$'"):
            return self.escapes()
        if isinstance(self.peek(1), Value):
            raise Unreadable("a `$` stands before an argument")
        if self.peek(1) == "\\" and self.peek(2) == "\n":
            raise Unreadable("a line ends right behind a `$`")
        self.take()
        follows = self.atoms[self.at : self.at + _LONGEST_NAME]
        name = _plain_name.match("".join(one if isinstance(one, str) else " " for one in follows))
        return self.variable(name[0] if name else "", quoted, holes)

    def nested(self) -> None:
        """A script in brackets."""
        self.deeper()
        self.take(2)
        self.script(")")
        self.close(")")
        self.deep -= 1

    def command_output(self) -> str:
        """`$(…)`: commands of their own; what a few of them say can hold no argument."""
        before = len(self.commands)
        self.nested()
        inside = self.commands[before:]
        words = [word for command in inside for word in command.words]
        plain = all(command.words[0].text in HARMLESS and not command.piped for command in inside)
        if plain and not any(word.tainted for word in words):
            return ENVIRON
        steady = inside and all(command.piped for command in inside[1:]) and _is_steady(inside[-1].words)
        return SOLID if steady else UNKNOWN

    def substitutes(self) -> bool:
        return self.looking_at("<(") or self.looking_at(">(")

    def substitution(self) -> str:
        """`<(…)`: a file that holds what commands write."""
        self.nested()
        self.pours = True
        return UNKNOWN

    def escapes(self) -> str:
        """`$'…'`, which not every shell knows: so its end must be the same for all of them."""
        self.take(2)
        while (atom := self.peek()) != "'":
            if isinstance(atom, Value) or atom == "" or self.looking_at("\\'"):
                raise Unreadable("an argument, or a quote, stands inside `$'…'`")
            self.take(2 if atom == "\\" and isinstance(self.peek(1), str) and self.peek(1) else 1)
        self.take()
        return UNKNOWN

    def braces(self, quoted: bool, holes: list[Value]) -> str:
        """`${…}`: a name alone, or something that the shell works out."""
        before = self.at
        self.opaque("${", "}", "an argument stands inside `${…}`", quoted)
        inside = "".join(one for one in self.atoms[before + 2 : self.at - 1] if isinstance(one, str))
        name = re.split(r"[^\w]", inside, maxsplit=1)[0]
        if inside in self.outer or inside in self.copies:
            return self.variable(inside, quoted, holes)
        values = [trimmed(one, inside[len(name) :]) for one in self.copies.get(name, ())]
        if quoted and values and all(values):
            holes.extend(one for some in values for one in some)
            return HOLE
        follows = inside.partition(":")[2][:1]
        if "=" in inside and SETTING.fullmatch(name):
            raise Unreadable(f"`{name}` decides what runs, and would be set here")
        self.reckons = self.reckons or any(one in inside for one in "[!@") or follows not in ("", *"-=?+")
        return UNKNOWN

    def opaque(self, opening: str, closing: str, why: str, quoted: bool) -> str:
        """Something that may hold no argument but in commands of its own; brackets inside it are counted."""
        self.deeper()
        self.take(len(opening))
        depth = 1
        while depth:
            atom = self.peek()
            if isinstance(atom, Value):
                raise Unreadable(why)
            if atom == "" or atom == "`" or (atom == "'" and quoted):
                raise Unreadable(f"what stands in `{opening}…{closing}` can't be read")
            if atom == "$":
                self.dollar(quoted, [])
            elif atom == "\\":
                self.backslash()
            elif atom in "'\"":
                self.quoted_inside(atom, why)
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

    def quoted_inside(self, quote: str, why: str) -> None:
        before = len(self.taken)
        if quote == "'":
            self.single([], [])
        else:
            self.double([], [])
        if len(self.taken) > before:
            raise Unreadable(why)


def _is_steady(words: Sequence[Word]) -> bool:
    """Whether what a command says is one word that is no option, whatever it is given."""
    said = " ".join(word.text for word in words[:2])
    if words[0].text == "wc":
        return not any(word.tainted for word in words)
    return said in STEADY or (said == "git rev-parse" and any(word.text == "--verify" for word in words))
