"""The nouns of a command that takes arguments: words, simple commands, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class PlaceholderValue(NamedTuple):
    """What a placeholder stands for: one text, and the words it becomes where it is not quoted."""

    whole: str
    words: tuple[str, ...]
    ours: bool = False
    """A variable of ours, such as the skill's folder: no argument."""


CommandAtom: TypeAlias = str | PlaceholderValue
"""One character of the author's, or a placeholder."""

HOLE, UNKNOWN, ENVIRON = "\x01", "\x00", "\x02"
"""In a word's text: an argument; what only the shell will know, an argument perhaps; what was there before it."""

SOLID = "\x03" + UNKNOWN
"""What only the shell will know, but is one word and begins with no `-`: a number, or the name of a commit."""

HARMLESS_PROGRAMS = frozenset({"git", "pwd", "date", "whoami", "hostname", "nproc", "uname", "id", "dirname", "which"})
"""Programs whose output is the author's as long as their words are."""

STEADY_COMMANDS = frozenset({"git merge-base"})
"""Commands that say the name of a commit, or nothing."""

STEERING_VARIABLE = re.compile(
    r"(?:PATH|ENV|IFS|PS[0-4]|SHELL|HOME|XDG_CONFIG_HOME|CDPATH|BROWSER|VISUAL|PROMPT_COMMAND|GCONV_PATH|OPENSSL_CONF"
    r"|CC|CXX|CPP|LD|AR|AS|MAKE\w*|MFLAGS|GZIP|VIRTUAL_ENV|SUDO_\w+|SSH_\w+|CLASSPATH|COMPILER_PATH|GCC_\w+|TERMINFO\w*"
    r"|CARGO\w*|RUST\w*|GO(?:FLAGS|PATH|ROOT|ENV|TOOLCHAIN)|JAVA_\w+|AWK\w+|DOCKER_\w+|KUBECONFIG|AWS_CONFIG_FILE"
    r"|RIPGREP_\w+|FZF_\w+|UV_\w+|PIP_\w+"
    r"|\w*(?:PAGER|EDITOR|OPTS|OPTIONS|PRELOAD|LIBRARY_PATH|_COMMAND|LESSOPEN|LESSCLOSE|ASKPASS|WRAPPER)"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|PERL5|RUBY|NODE|NPM_CONFIG|npm_config|METIER)\w*)"
)
"""Variables that decide what runs, or how."""

SCRIPT_HINT = 'as in `bash "${SKILL_DIR}/scripts/run.sh" "$1"`'
"""What to write instead: by its whole path, since a command may run in the project's folder."""


class UnreadableCommand(Exception):
    """A command that takes arguments and can't be given them safely; says why."""


class ShellWord(NamedTuple):
    text: str
    """What it says without its quotes."""
    holes: tuple[PlaceholderValue, ...] = ()
    loose: bool = False
    """An argument in it becomes several words."""

    @property
    def tainted(self) -> bool:
        """An argument is in it, or may be."""
        return HOLE in self.text or UNKNOWN in self.text

    @property
    def leads(self) -> bool:
        """It begins with an argument, or may."""
        return self.loose or self.text.replace(SOLID, "").lstrip(ENVIRON)[:1] in (HOLE, UNKNOWN)


class SimpleCommand(NamedTuple):
    """A simple command: its words, and what feeds it."""

    words: tuple[ShellWord, ...] = ()
    piped: bool = False
    """It reads what a pipe gives it."""
    fed: bool = False
    """It reads a file or a text of the author's instead."""
    joined: bool = False
    """It is part of a list with `&&` or `||` that the next command goes on with."""
    documents: tuple[int, ...] = ()
    """The here-documents it reads, by number."""
    files: tuple[str, ...] = ()
    """The files it is fed from."""


class ParsedCommand(NamedTuple):
    source: str
    """What the shell is given."""
    env: dict[str, str]
    commands: tuple[SimpleCommand, ...] = ()
    reckons: bool = False
    """Somewhere in it values are read as numbers or names, which some shells do by running them."""
    taken: list[PlaceholderValue] | tuple[PlaceholderValue, ...] = ()
    """The arguments it takes."""
    pours: bool = False
    """An argument may come out of a pipe, a here-document or a file."""
    written: list[str] | tuple[str, ...] = ()
    """The files it writes, each in three spellings."""
    functions: list[str] | tuple[str, ...] = ()
    """The functions it makes."""


def is_assignment(text: str) -> bool:
    """Whether a word is `name=…`."""
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isascii() and name.removesuffix("+").isidentifier()


BLANK, META = " \t", "|&;()<>"
_MAX_DEPTH, _MAX_NAME_LENGTH = 40, 200
_plain_name = re.compile(r"\w+")


class CommandCursor:
    """A place in the command, and what has been written of it."""

    def __init__(self, atoms: Sequence[CommandAtom]) -> None:
        self.atoms = atoms
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
        text = "".join(atom if isinstance(atom, str) else HOLE for atom in atoms)
        self.outer = outer_names(text)
        self.copies = argument_copies(atoms)
        self.splits = "IFS" not in text

    def peek(self, ahead: int = 0) -> CommandAtom:
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

    def put(self, value: PlaceholderValue, form: str, text: list[str], holes: list[PlaceholderValue]) -> None:
        """A placeholder, as a reference to the variable that holds its value."""
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
        """A variable: one from outside, one that holds an argument as it came, or any other."""
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
            raise UnreadableCommand("a bracket is never closed")
        self.take(len(bracket))

    def backslash(self) -> str:
        follows = self.peek(1)
        if isinstance(follows, PlaceholderValue):
            raise UnreadableCommand("a backslash stands before an argument")
        self.take(2 if follows else 1)
        return "" if follows == "\n" else follows


class WordReader(CommandCursor):
    """Reads words, quotes and what the shell expands in them."""

    def script(self, until: str) -> None:
        """Commands up to the end, or up to the bracket that closes them."""
        raise NotImplementedError

    def word(self, single: bool, assigns: bool = False) -> ShellWord | None:
        """One word, or None where nothing stands.  Where `single` holds, arguments stay one word without quotes too;
        where `assigns` does, they do so behind `name=`."""
        text: list[str] = []
        holes: list[PlaceholderValue] = []
        started = loose = False
        while self.at < len(self.atoms):
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                is_single = single or (assigns and is_assignment("".join(text[:_MAX_NAME_LENGTH])))
                loose = loose or (not is_single and len(atom.words) > 1)
                started = self.bare(atom, is_single, text, holes) or started
                continue
            if atom in BLANK + "\n" or (atom in META and not self.substitutes()) or (atom == "#" and not started):
                break
            started = started or not self.looking_at("\\\n")
            if atom == "\\":
                text.append(self.backslash())
            elif atom == "'":
                self.single(text, holes)
            elif atom == '"':
                self.double(text, holes)
            elif atom == "$":
                before = len(holes)
                text.append(self.dollar(False, holes))
                parts = text[-1] == UNKNOWN or any(len(hole.words) > 1 for hole in holes[before:])
                loose = loose or (parts and not single)
            elif atom == "`":
                raise UnreadableCommand("it has backticks in it; write `$(…)`")
            elif atom in "<>":
                text.append(self.substitution())
            else:
                text.append(atom)
                self.take()
        return ShellWord("".join(text), tuple(holes), loose) if started else None

    def bare(self, value: PlaceholderValue, single: bool, text: list[str], holes: list[PlaceholderValue]) -> bool:
        """Outside quotes: each word by itself, and each one quoted; True if there is any."""
        self.at += 1
        words = (value.whole,) if single or value.ours else value.words
        if not words:
            return False
        self.out.append(" ".join(f'"${{{self.reference(word)}}}"' for word in words))
        self.note(value, text, holes)
        return True

    def single(self, text: list[str], holes: list[PlaceholderValue]) -> None:
        """Single quotes: they are closed around a placeholder and opened again behind it."""
        self.take()
        while (atom := self.peek()) != "'":
            if atom == "":
                raise UnreadableCommand("a quote is never closed")
            if isinstance(atom, PlaceholderValue):
                self.put(atom, "'\"{}\"'", text, holes)
            else:
                text.append(atom)
                self.take()
        self.take()

    def double(self, text: list[str], holes: list[PlaceholderValue]) -> None:
        self.take()
        while (atom := self.peek()) != '"':
            if atom == "":
                raise UnreadableCommand("a quote is never closed")
            if isinstance(atom, PlaceholderValue):
                self.put(atom, "{}", text, holes)
            elif atom == "\\":
                text.append(self.backslash())
            elif atom == "$":
                text.append(self.dollar(True, holes))
            elif atom == "`":
                raise UnreadableCommand("it has backticks in it; write `$(…)`")
            else:
                text.append(atom)
                self.take()
        self.take()

    def dollar(self, quoted: bool, holes: list[PlaceholderValue]) -> str:
        """What the shell itself expands; arguments inside are refused where they would be read as code."""
        if self.looking_at("$(("):
            self.reckons = True
            return self.opaque("$((", "))", "an argument stands in arithmetic", True)
        if self.looking_at("$("):
            return self.command_output()
        if self.looking_at("${"):
            return self.braces(quoted, holes)
        if self.looking_at("$["):
            raise UnreadableCommand("it reckons with `$[…]`; write `$((…))`")
        if not quoted and self.looking_at("$'"):
            return self.escapes()
        if isinstance(self.peek(1), PlaceholderValue):
            raise UnreadableCommand("a `$` stands before an argument")
        if self.peek(1) == "\\" and self.peek(2) == "\n":
            raise UnreadableCommand("a line ends right behind a `$`")
        self.take()
        follows = self.atoms[self.at : self.at + _MAX_NAME_LENGTH]
        name = _plain_name.match("".join(atom if isinstance(atom, str) else " " for atom in follows))
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
        plain = all(command.words[0].text in HARMLESS_PROGRAMS and not command.piped for command in inside)
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
            if isinstance(atom, PlaceholderValue) or atom == "" or self.looking_at("\\'"):
                raise UnreadableCommand("an argument, or a quote, stands inside `$'…'`")
            self.take(2 if atom == "\\" and isinstance(self.peek(1), str) and self.peek(1) else 1)
        self.take()
        return UNKNOWN

    def braces(self, quoted: bool, holes: list[PlaceholderValue]) -> str:
        """`${…}`: a name alone, or something that the shell works out."""
        before = self.at
        self.opaque("${", "}", "an argument stands inside `${…}`", quoted)
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
            raise UnreadableCommand(f"`{name}` decides what runs, and would be set here")
        self.reckons = self.reckons or any(character in inside for character in "[!@") or follows not in ("", *"-=?+")
        return UNKNOWN

    def opaque(self, opening: str, closing: str, why: str, quoted: bool) -> str:
        """Something that may hold no argument but in commands of its own; brackets inside it are counted."""
        self.deeper()
        self.take(len(opening))
        depth = 1
        while depth:
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                raise UnreadableCommand(why)
            if atom == "" or atom == "`" or (atom == "'" and quoted):
                raise UnreadableCommand(f"what stands in `{opening}…{closing}` can't be read")
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
            raise UnreadableCommand(why)


def _is_steady(words: Sequence[ShellWord]) -> bool:
    """Whether what a command says is one word that is no option, whatever it is given."""
    command_name = " ".join(word.text for word in words[:2])
    if words[0].text == "wc":
        return not any(word.tainted for word in words)
    return command_name in STEADY_COMMANDS or (
        command_name == "git rev-parse" and any(word.text == "--verify" for word in words)
    )


_name = re.compile(r"\$(?P<plain>[A-Za-z_]\w*)|\$\{(?P<braced>[A-Za-z_]\w*)\}|(?P<other>[A-Za-z_]\w*)")
_outer = re.compile(r"(?!METIER_|BASH|REPLY$|OPTARG$|COPROC|MAPFILE$|READLINE|PS[0-9]$)[A-Z][A-Z0-9_]+")


def outer_names(text: str) -> frozenset[str]:
    """The variables that a script uses and nowhere sets: they were there before it."""
    used: set[str] = set()
    otherwise: set[str] = set()
    for match in _name.finditer(text):
        name = match["plain"] or match["braced"]
        if name and _outer.fullmatch(name):
            used.add(name)
        elif match["other"]:
            otherwise.add(match["other"])
    return frozenset(used - otherwise)


_set = re.compile(rf"(?<![\w$\"'\\-])(?P<name>[A-Za-z_]\w*)=(?P<quote>\"?){HOLE}(?P=quote)(?=[\s;&|)]|\Z)")
_loop = re.compile(
    rf"\bfor[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in(?:[ \t]+(?:\"{HOLE}\"|{HOLE}|[\w./:@+]+))+[ \t]*(?=[;\n])"
)
_sources = re.compile(r"\bsource\b|(?:^|[;&|({\n]|\bthen|\bdo|\belse)[ \t]*\.\s")
_wild = re.compile(r"[*?\[\\]")


def argument_copies(atoms: Sequence[CommandAtom]) -> dict[str, tuple[PlaceholderValue, ...]]:
    """The variables that are only ever set to arguments as they came, each with all that it may hold."""
    text = "".join(atom if isinstance(atom, str) else HOLE for atom in atoms)
    copied_values: dict[str, list[PlaceholderValue]] = {}
    set_at = set()
    for match in (*_set.finditer(text), *_loop.finditer(text)):
        set_at.add(match.start("name"))
        values = [atom for atom in atoms[match.start() : match.end()] if isinstance(atom, PlaceholderValue)]
        copied_values.setdefault(match["name"], []).extend(values)
    if not copied_values or _sources.search(text):
        return {}
    for match in _name.finditer(text):
        if (
            match["other"] in copied_values
            and match.start() not in set_at
            and not _only_used(text, match.start(), match.end())
        ):
            del copied_values[match["other"]]
    return {name: tuple(values) for name, values in copied_values.items()}


def _only_used(text: str, start: int, end: int) -> bool:
    """Whether a variable's name stands where nothing is put into it: in `${name…}`, or as a word before a colon."""
    if text[max(0, start - 2) : start] == "${":
        return not text[end:].startswith(("=", ":=", "["))
    return text[end : end + 1] in (":", ",", ".") and text[end + 1 : end + 2] != "="


def split_value(value: PlaceholderValue) -> PlaceholderValue | None:
    """A variable's value outside quotes, as the shell splits it; None where it would look for files."""
    return None if _wild.search(value.whole) else PlaceholderValue(value.whole, tuple(value.whole.split()), value.ours)


_trims = re.compile(r"(?P<how>:?-|##?|%%?)(?P<any>\*?)(?P<text>[\w./:@+]+)(?P<end>\*?)")


def trim_value(value: PlaceholderValue, operation: str) -> tuple[PlaceholderValue, ...]:
    """What `${name…}` makes of a value, where that is easily told: a default, or a beginning or an end taken off."""
    match = _trims.fullmatch(operation)
    if not match or value.whole.startswith("-"):
        return ()
    text, result = match["text"], value.whole
    if match["how"].endswith("-"):
        return () if match["any"] or match["end"] else (value, PlaceholderValue(text, (text,)))
    if match["how"].startswith("%"):
        return (value,)  # it begins as it did
    if match["end"]:
        return ()
    if not match["any"]:
        result = result.removeprefix(text)
    elif text in result:
        result = result.rpartition(text)[2] if match["how"] == "##" else result.partition(text)[2]
    return (PlaceholderValue(result, (result,)),)
