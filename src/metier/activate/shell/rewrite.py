"""Rewrites a command so that its arguments reach it in the environment, and never as source.

Every placeholder becomes a reference to a variable, quoted as its place demands: bare text gets double quotes, single
quotes are closed around it and opened again.  The shell expands the reference after it has parsed the command, so
nothing in a value can end a quote, start a substitution or become another command.  Refused: escaping the values
(`shlex.quote`), which is right in bare text only and wrong in quotes, here-documents and substitutions, where authors
write placeholders too.  What can't be parsed is refused; `hazards` refuses places where a program would read a value as
code.
"""

from __future__ import annotations

from collections.abc import Sequence

from .command_reader import WordReader
from .lexer import WORD_ENDS, Token
from .programs import DECLARATIONS
from .words import (
    ENVIRON,
    HOLE,
    UNKNOWN,
    CommandAtom,
    ParsedCommand,
    PlaceholderValue,
    ShellWord,
    SimpleCommand,
    UnreadableCommand,
    is_assignment,
)

_BETWEEN = (" ", "\t", "\n")
_LEADING_WORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})


def read_command(atoms: Sequence[CommandAtom]) -> ParsedCommand:
    """Parse a command with its placeholders, and rewrite it."""
    reader = _ScriptReader(atoms)
    reader.script("")
    # Only now is it known which here-documents hold an argument: their text comes after the command.
    commands = tuple(
        command._replace(fed=command.fed and not set(command.documents) & reader.tainted_documents)
        for command in reader.commands
    )
    first = ParsedCommand("".join(reader.out), reader.env, commands, reader.reckons, reader.taken)
    return first._replace(pours=reader.pours, written=reader.written, functions=reader.functions)


class _CommandDraft:
    """A simple command in the making."""

    def __init__(self, piped: bool = False) -> None:
        self.words: list[ShellWord] = []
        self.head: list[str] = []
        """Its first words without reserved ones and assignments: enough to tell what it is."""
        self.piped = piped
        self.fed = False
        self.documents: list[int] = []
        self.files: list[str] = []

    def add(self, word: ShellWord, written: Sequence[CommandAtom]) -> None:
        self.words.append(word)
        if len(self.head) < 3 and (self.head or not (word.text in _LEADING_WORDS or is_assignment(word.text))):
            # A quoted word is never a reserved one: `'case'` is a program.
            self.head.append(word.text if list(written) == list(word.text) else f"'{word.text}'")


class _ScriptReader(WordReader):
    """Reads a script and writes its source."""

    def __init__(self, atoms: Sequence[CommandAtom]) -> None:
        super().__init__(atoms)
        self.waiting: list[tuple[str, bool, bool]] = []
        self.documents = 0
        self.tainted_documents: set[int] = set()

    def script(self, until: str) -> None:
        """Commands up to the end, or up to the bracket that closes them."""
        line = _CommandDraft()
        patterns: list[bool] = []  # for each `case` that is open: whether a pattern comes next
        outer, self.waiting = self.waiting, []
        while self.at < len(self.atoms):
            atom, token = self.peek(), self.token()
            if isinstance(atom, PlaceholderValue) or (token.kind not in WORD_ENDS and atom != "#"):
                line = self.next_word(line, patterns)
            elif token.kind == "blank":
                self.take(len(token.text))
            elif atom == "#":
                self.comment()
            elif token.kind in ("redirect", "heredoc"):
                self.redirect(line, token)
            elif patterns and patterns[-1] and atom in "(|)":
                # Before the operators: in a pattern, `((` and `||` are single characters.
                self.take()
                line, patterns[-1] = _CommandDraft(), atom != ")"
            elif atom == ")" and until:
                break
            elif atom == "(" and self.out[-1:] == ["="] and line.words and is_assignment(line.words[-1].text):
                self.array(line)
            else:
                line = self.operator(line, patterns, token)
        else:
            if until:
                raise UnreadableCommand("a bracket is not closed")
        self.finish(line)
        if self.waiting or patterns:
            raise UnreadableCommand("a here-document or a `case` is not closed")
        self.waiting = outer

    def next_word(self, line: _CommandDraft, patterns: list[bool]) -> _CommandDraft:
        first, start = not line.head, self.at
        word = self.word(line.head == ["case"], first or line.head[0] in DECLARATIONS)
        if word is None:
            return line
        line.add(word, self.atoms[start : self.at])
        if line.head[:1] == ["case"] and line.head[2:] == ["in"]:
            self.finish(line)
            patterns.append(True)
            return _CommandDraft()
        if patterns and first and line.head == ["esac"]:
            patterns.pop()
        return line

    def finish(self, line: _CommandDraft, joined: bool = False) -> None:
        if line.words:
            fed = tuple(line.documents), tuple(line.files)
            self.commands.append(SimpleCommand(tuple(line.words), line.piped, line.fed, joined, *fed))

    def operator(self, line: _CommandDraft, patterns: list[bool], token: Token) -> _CommandDraft:
        """`;`, `&`, `|`, brackets and line ends: the command before them is complete."""
        if token.kind == "newline":
            self.take()
            self.finish(line)
            self.heredocs()
            # `a |` goes on in the next line.
            return _CommandDraft(piped=not line.words and line.piped)
        if token.kind == "double_open":
            self.finish(line)
            self.reckons = True
            self.opaque("((", "))", "an argument is used in arithmetic", True)
            return _CommandDraft()
        self.take(len(token.text))
        # `name()` defines a function; what it does is read as commands of this script.
        if token.kind == "open" and len(line.words) == 1 and self.looking_at(")"):
            self.functions.append(line.words[0].text)
        self.finish(line, joined=token.text in ("&&", "||"))
        if patterns and token.text in (";;", ";&", ";;&"):
            patterns[-1] = True
        pipes = token.text in ("|", "|&")
        self.pours = self.pours or pipes
        return _CommandDraft(piped=pipes)

    def array(self, line: _CommandDraft) -> None:
        """`name=(…)`: words, up to the bracket."""
        self.take()
        inside = [line.words.pop()]
        while not self.looking_at(")"):
            if self.peek() in _BETWEEN:
                self.take()
            elif (word := self.word(False)) is not None:
                # `[index]=value` evaluates the index.
                self.reckons = self.reckons or word.text.startswith("[")
                inside.append(word)
            elif self.peek() not in (*_BETWEEN, ")"):
                raise UnreadableCommand("an array can't be read")
        self.take()
        line.words.append(
            ShellWord(
                "".join(element.text for element in inside), tuple(hole for element in inside for hole in element.holes)
            )
        )

    def comment(self) -> None:
        """To the end of the line; an argument in it is dropped."""
        while self.at < len(self.atoms) and self.peek() != "\n":
            if isinstance(self.peek(), PlaceholderValue):
                self.at += 1
            else:
                self.take()

    def redirect(self, line: _CommandDraft, token: Token) -> None:
        """`<`, `>` and what follows."""
        number = ""
        # `2>` right after a digit: the number of a file descriptor, not a word.
        if line.words and (last := line.words[-1].text).isdigit() and self.out[-1] == last[-1]:
            number = last
            line.words.pop()
        text = token.text
        self.take(len(text))
        while self.peek() in (" ", "\t"):
            self.take()
        before = self.at
        target = self.word(True)
        written = self.atoms[before : self.at]
        # A line break inside the target may join it with the operator.
        if target is None or ("\\" in written and "\n" in written):
            raise UnreadableCommand("a redirection has no target")
        if text in ("<<", "<<-"):
            if target.tainted or ENVIRON in target.text:
                raise UnreadableCommand("the end of a here-document must be a plain word")
            line.documents.append(self.documents + len(self.waiting))
            self.waiting.append((target.text, any(atom in ("'", '"', "\\") for atom in written), text == "<<-"))
            line.fed = line.fed or number in ("", "0")
        elif text in ("<", "<<<", "<&", "<>"):
            self.pours = self.pours or target.tainted
            line.fed = text in ("<", "<<<") and not target.tainted and number in ("", "0")
            line.files += [target.text] if text in ("<", "<>") else []
        else:
            # A later command may name the file in any of these ways.
            self.written += (target.text, target.text.removeprefix("./"), f"./{target.text}")

    def heredocs(self) -> None:
        waiting, self.waiting = self.waiting, []
        for end, quoted, tabs in waiting:
            if self.heredoc(end, quoted, tabs):
                self.tainted_documents.add(self.documents)
                self.pours = True
            self.documents += 1

    def heredoc(self, end: str, quoted: bool, tabs: bool) -> bool:
        """The text of a here-document; True if it may hold an argument."""
        stop = self.end_of_heredoc(end, quoted, tabs)
        text: list[str] = []
        holes: list[PlaceholderValue] = []
        while self.at < stop:
            atom = self.peek()
            if isinstance(atom, PlaceholderValue):
                if quoted:
                    raise UnreadableCommand("a here-document with a quoted end can't hold an argument")
                self.put(atom, "{}", text, holes)
            elif quoted or atom not in ("\\", "$", "`"):
                self.take()
            elif atom == "\\":
                self.backslash()
            elif atom == "`":
                raise UnreadableCommand("it has backticks; write `$(…)` instead")
            else:
                text.append(self.dollar(self.token(in_quotes=True), True, holes))
        if self.at > stop:
            raise UnreadableCommand("a here-document ends inside a command")
        while self.at < len(self.atoms) and self.peek() != "\n":
            self.take()
        if self.at < len(self.atoms):
            self.take()
        return bool(holes) or UNKNOWN in text

    def end_of_heredoc(self, end: str, quoted: bool, tabs: bool) -> int:
        """The start of the line that ends a here-document."""
        start = self.at
        while start < len(self.atoms):
            stop = start
            while stop < len(self.atoms) and self.atoms[stop] != "\n":
                stop += 1
            text = "".join(atom if isinstance(atom, str) else HOLE for atom in self.atoms[start:stop])
            if (text.lstrip("\t") if tabs else text) == end:
                return start
            if text.endswith("\\") and not quoted:  # the shell would join the next line, and may miss the end
                raise UnreadableCommand("a line of a here-document ends in a backslash")
            start = stop + 1
        raise UnreadableCommand("a here-document is not closed")
