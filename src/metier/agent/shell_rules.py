"""Holds a command line against permission rules, although the shell may run more than its words say.

A rule is a pattern for one simple command.  What it must do depends on what it is for.  To *allow*, every simple
command of the line must be covered, word by word and by the very name of its program (`covers_command`).  To *deny* or
*ask*, one command that the pattern names anywhere is enough, however it is spelled or started (`names_command`).  In
between, `may_name_command` answers for everything that can't be ruled out: a line that could not be read, a program
that takes code, a word that the shell works out.  Such a line is asked about, never allowed and never denied outright.

The tokens come from `activate.shell.lexer`, as for the commands of skills.  The parser here never refuses: it marks the
line as not `known` and reads on, since a forbidden command after an unreadable part must still be found.  Refused:
`bash -n`, which only says that a line is valid, not what it runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..activate.shell.lexer import Token, TokenKind, next_token
from ..activate.shell.programs import (
    GIT_RUNS,
    INTERPRETERS,
    NAME_BUILTINS,
    QUIET_PROGRAMS,
    RESERVED_WORDS,
    SHELLS,
    STARTERS,
    base_program,
)


class CommandWord(NamedTuple):
    """A word of a simple command, without its quotes."""

    text: str
    fixed: bool = True
    """False if the shell expands something in it."""


CommandWords = Sequence[CommandWord]


class CommandLine(NamedTuple):
    """The simple commands of a line, and how far they can be relied on."""

    parts: tuple[tuple[CommandWord, ...], ...]
    plain: bool
    """Simple commands only: no redirection, no substitution, no grouping."""
    known: bool
    """False if the line may hold more than was read."""
    written: frozenset[str] = frozenset()
    """The names of the files it writes."""


_MAX_LENGTH = 100_000
"""Characters of a line that are read; a longer line counts as not known."""
_MAX_DEPTH = 3
"""Commands inside the words of commands (`sh -c "env sh -c …"`) that are followed."""
_EXPANDED = CommandWord("", fixed=False)
"""Stands for a word that nothing is known about."""


def command_text(command: object) -> str:
    """The text that is judged and run, whether the model sent a line or a list of words."""
    if isinstance(command, list | tuple):
        return shlex.join(map(str, command))
    return command.strip() if isinstance(command, str) else ""


# --- Patterns ---


def covers_command(pattern: str, part: CommandWords) -> bool:
    """Whether a pattern covers a simple command: its program by the same name, its words one by one."""
    pattern_words = _split_pattern(pattern)
    if not part or not pattern_words or evaluates_subscript(part):
        return False
    program = part[0].text
    # `./git` is not `git`, and a name with a blank in it is a file of somebody's making.
    if pattern_words[0] != "*" and (
        not part[0].fixed or re.search(r"\s", program) or ("/" in program) != ("/" in pattern_words[0])
    ):
        return False
    return _pattern_matches(
        pattern_words,
        part,
        lambda pattern_word, word: fnmatchcase(word.text, pattern_word) and (word.fixed or "$" not in word.text),
    )


def names_command(pattern: str, line: CommandLine) -> bool:
    """Whether a pattern names any of the commands, however it is spelled or started."""
    pattern_words = _open_pattern(pattern)
    return any(
        _pattern_matches(pattern_words, reading, _word_matches)
        for part in line.parts
        for reading in _command_readings(part, _MAX_DEPTH)
    )


def may_name_command(pattern: str, line: CommandLine) -> bool:
    """Whether a pattern could name one of the commands, once the shell has expanded them."""
    if not line.known:
        return True
    pattern_words = _open_pattern(pattern)
    for part in line.parts:
        if is_opaque(part, line.written):
            return True
        for reading in _command_readings(part, _MAX_DEPTH):
            if _pattern_matches(pattern_words, reading, _word_matches, maybe=True) or any(
                _pattern_matches(pattern_words, shorter, _word_matches) for shorter in _without_options(reading)
            ):
                return True
            if is_opaque(reading, line.written) or mentions_pattern(pattern_words, reading):
                return True
    return False


def _word_matches(pattern: str, word: CommandWord) -> bool:
    return fnmatchcase(word.text, pattern)


def _split_pattern(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _open_pattern(text: str) -> list[str]:
    """The words of a rule that denies or asks, with whatever may follow them.

    Who writes `deny = ["run_command(rm)"]` means every use of it, and `rm -f x` least of all is meant to run.  A rule
    that allows is taken as it stands.
    """
    words = _split_pattern(text)
    return words if not words or set(words[-1]) & set("*?[") else [*words, "*"]


def _command_readings(part: CommandWords, depth: int) -> Iterator[CommandWords]:
    """The command as written, with its program's bare name, and every command it may start.

    Where a program starts another, each of its words may be the first of that one: the options of all such programs are
    not known, and a reading too many only makes a deny rule apply more often.
    """
    start = next((at for at, word in enumerate(part) if not _assignment(word.text)), len(part))
    words = part[start:]
    if not words:
        return
    bare = words[0]._replace(text=words[0].text.rpartition("/")[2])
    yield words
    yield [bare, *words[1:]]
    if bare.text not in STARTERS or depth == 0:
        return
    if bare.text in SHELLS and all(word.text.startswith("-") for word in words[1:]):
        yield [_EXPANDED]  # it reads its commands from a pipe
    for at in range(1, len(words)):
        yield words[at:]
        yield [words[at]._replace(text=words[at].text.rpartition("/")[2]), *words[at + 1 :]]
        if re.search(r"[\s;&|(`]", words[at].text):
            inner = parse_command_line(words[at].text)
            for inner_part in inner.parts:
                yield from _command_readings(inner_part, depth - 1)
            if not inner.known:
                yield [_EXPANDED]


def _without_options(words: CommandWords) -> Iterator[CommandWords]:
    """The command without its first options and their values: `git -C dir push` is a push."""
    if len(words) > 1 and words[1].text.startswith("-"):
        for at in range(2, len(words)):
            yield [words[0], *words[at:]]


def _pattern_matches(
    pattern: list[str], words: CommandWords, alike: Callable[[str, CommandWord], bool], maybe: bool = False
) -> bool:
    """Whether words match a pattern, in which `*` is any number of words and a final `x*` also covers what follows.

    All positions in the pattern that the words so far can have led to are followed at once, so the cost is the product
    of both lengths; one position past the end stands for a final star, which takes everything.  With `maybe`, a word
    that the shell expands may turn into anything.
    """
    most = len(pattern)

    def past_stars(positions: set[int]) -> set[int]:
        for position in sorted(positions):
            while position < most and pattern[position] == "*":
                position += 1
                positions.add(position)
        return positions

    positions = past_stars({0})
    for word in words:
        if maybe and not word.fixed and positions:
            return True
        # A star stays where it is, and so does the position past a final one.
        reached = {
            position for position in positions if position > most or (position < most and pattern[position] == "*")
        }
        for position in positions:
            if position < most and pattern[position] != "*" and alike(pattern[position], word):
                reached.add(position + 1)
                if position == most - 1 and pattern[position].endswith("*"):
                    reached.add(most + 1)
        positions = past_stars(reached)
    return any(position >= most for position in positions)


# --- Commands that may run more than they name ---

_GIT_RUN_OPTIONS = (
    "-c",
    "--config-env",
    "--exec",
    "-x",
    "--upload-pack",
    "--receive-pack",
    "--ext-diff",
    "-O",
    "--open-files",
)
_GIT_RUN_COMMANDS = GIT_RUNS | {"rebase"}
_READS_COMMANDS = """
    ed ex vi vim nvim view emacs at batch crontab gdb lldb expect screen tmux sqlite3 psql mysql socat
"""
# Builtins that change what a later word means or run one of their own, and programs that take commands from their
# input, a file of theirs or a line: none of those is among their words.
_NEVER_PLAIN = frozenset({"compgen", "complete", "hash", "enable", "bind", "fc", *_READS_COMMANDS.split()})
"""What may run a program that its words don't name."""
_SUBSCRIPT_BUILTINS = NAME_BUILTINS | {"mapfile", "readarray"}
_LANGUAGES = INTERPRETERS - {"sed", "gsed"}
"""Without sed: nearly every script of it would look like one that runs something, and be asked about for nothing."""
# Options that take code, names by which code starts programs, files that are really a pipe, and subscripts with a
# command in them.
_code = re.compile(r"-\w*[ceErp]|--(?:eval|print|run).*").fullmatch
_runs_more = re.compile(r"system|popen|exec|spawn|subprocess|eval|getattr|__|require|import|child|fork|pty|[`|]").search
_input = re.compile(r"-|.*/?(?:dev/(?:stdin|fd)|proc/).*").fullmatch
_subscript = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL).search
_setting = re.compile(
    r"(?:ENV|PS[0-4]|SHELL|SHELLOPTS|BASHOPTS|BASH_\w+|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|(?:LD|DYLD)_\w+"
    r"|GIT_(?:SSH|EXEC|CONFIG|EXTERNAL|PROXY|SEQUENCE)\w*|\w*(?:PAGER|EDITOR|_COMMAND|ASKPASS))\+?=(?!(?:cat|less|true)?$)"
).match
"""Assignments to variables whose value is a command or chooses one; narrower than `STEERING_VARIABLE`, because asking
about every `PATH=…` or `PYTHONPATH=…` would teach people to approve without reading."""
_word = re.compile(r"[\w.+*?-]+").fullmatch
_between = re.compile(r"[^\w.+-]+").split


def is_opaque(words: CommandWords, written: Collection[str] = ()) -> bool:
    """Whether the words don't tell what runs: code in a word, code from a pipe, or a file that the line writes."""
    for at, word in enumerate(words):
        if "=" in word.text and _setting(word.text) and (at == 0 or words[0].text not in QUIET_PROGRAMS - {"export"}):
            return True
    name = words[0].text.rpartition("/")[2]
    arguments = [word.text for word in words[1:]]
    if evaluates_subscript(words) or name in _NEVER_PLAIN:
        return True
    if name not in QUIET_PROGRAMS and any(_subscript(word.text) for word in words):
        return True
    if name == "rg" and any(argument.startswith("--pre") for argument in arguments):
        return True
    if name in ("mapfile", "readarray"):
        return any(argument.startswith("-C") for argument in arguments)
    reads = name in SHELLS or name in (".", "source") or base_program(name) in _LANGUAGES
    if reads and (any(map(_input, arguments)) or _reads_unseen_code(name, arguments)):
        return True
    # Any program may be a shell under another name; a pipe as its file is asked about.
    if name not in QUIET_PROGRAMS and any(_input(argument) and argument != "-" for argument in arguments):
        return True
    programs = [word.text.rpartition("/")[2] for word in words[: None if reads else 1]]
    return any(program in written for program in programs)


def evaluates_subscript(words: CommandWords) -> bool:
    """Whether a builtin evaluates a subscript in one of its words; quotes don't stop it from running what is inside."""
    name, arguments = words[0].text, words[1:]
    if name in ("[", "[["):
        arguments = arguments[:-1]
    has_bracket = any("[" in word.text or "(" in word.text for word in arguments)
    if name in ("test", "["):
        return has_bracket and any(word.text in ("-v", "-R") for word in arguments)
    if name == "printf":
        return has_bracket and any(word.text.startswith("-v") for word in arguments)
    return has_bracket and (name in _SUBSCRIPT_BUILTINS or name == "[[")


def _reads_unseen_code(name: str, arguments: Sequence[str]) -> bool:
    """Whether a shell or an interpreter reads its code from a pipe, or is given code that may start something."""
    if name in (".", "source"):
        return False
    if name in SHELLS:
        coded = any(re.fullmatch(r"-\w*c", argument) for argument in arguments)
        interactive = any(re.fullmatch(r"-\w*[si]\w*|--(?:rcfile|init-file).*", argument) for argument in arguments)
        return interactive or (not coded and all(argument.startswith("-") for argument in arguments))
    if name.endswith("awk"):
        return any(_runs_more(argument) for argument in arguments if not argument.startswith("-F"))
    if any(map(_code, arguments)):
        return any(map(_runs_more, arguments))
    return all(
        argument.startswith("-") and argument not in ("-v", "-V", "--version", "-h", "--help") for argument in arguments
    )


def mentions_pattern(pattern: Sequence[str], words: CommandWords) -> bool:
    """Whether a program that may start others has all words of the pattern somewhere in its own."""
    expected = [pattern_word for pattern_word in pattern if pattern_word.strip("*") and _word(pattern_word)]
    if not expected or _is_quiet(words):
        return False
    # Pieces of words too: `-exec=rm` and `alias.x=!rm` hide a program inside a word.
    pieces = {piece for word in words for piece in _between(word.text)}
    pieces |= {option[2:] for option in pieces if option.startswith("-")}
    return all(any(fnmatchcase(piece, pattern_word) for piece in pieces) for pattern_word in expected)


def _is_quiet(words: CommandWords) -> bool:
    name, arguments = words[0].text.rpartition("/")[2], [word.text for word in words[1:]]
    if name == "git":
        return not any(argument.startswith(_GIT_RUN_OPTIONS) or argument in _GIT_RUN_COMMANDS for argument in arguments)
    return name in QUIET_PROGRAMS


# --- Reading a line ---

_UNREADABLE_WORDS = frozenset({"case", "select", "function", "coproc", "alias"})
"""Reserved words whose grammar is not read here: a line with one is not `known`."""
_LEADING_WORDS = RESERVED_WORDS | {"time", "-p"}
"""Words after which another command begins."""
_assignment = re.compile(r"\w+(\[[^]]*\])?\+?=").match
_plain_sum = re.compile(r"[\d\s+*/%<>=!-]*\)\)").match
"""The rest of an arithmetic without names: the shell evaluates the value of a name, and runs what that holds."""


def parse_command_line(text: str) -> CommandLine:
    """Read the simple commands of a line."""
    return _CommandLineParser(text[:_MAX_LENGTH]).line(len(text) <= _MAX_LENGTH)


class _OuterState(NamedTuple):
    """What was being read when a quote or a nested command began."""

    kind: str
    part: list[CommandWord]
    word: str | None
    target: bool
    in_test: bool = False


class _CommandLineParser:
    """Reads tokens into simple commands; nested commands become commands of their own, before the outer one ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[tuple[CommandWord, ...]] = []
        self.part: list[CommandWord] = []
        self.word: str | None = None
        self.fixed = self.plain = self.known = True
        self.written: set[str] = set()
        self.target = False
        """Whether the next word is the file of a redirection."""
        self.out = False
        """Whether that file is written."""
        self.in_test = False
        """Whether a `[[` is open: `&&` and `||` split it into several commands, and it has quotes of its own."""
        self.outer: list[_OuterState] = []

    def line(self, complete: bool) -> CommandLine:
        at = 0
        while at < len(self.text):
            inside = bool(self.outer) and self.outer[-1].kind == '"'
            # A `#` begins a comment only where a word could begin.
            if not inside and self.word is None and self.text[at] == "#":
                self.plain = False
                self.known = self.known and not self._is_odd_place()
                at = (self.text.find("\n", at) + len(self.text) + 1) % (len(self.text) + 1)
                continue
            token = next_token(self.text, at, inside)
            self.known = self.known and not self._is_arithmetic(token)
            self._take(token, inside)
            at = token.end
        self.end()
        known = complete and self.known and not self.outer
        return CommandLine(tuple(self.parts), self.plain and known, known, frozenset(self.written))

    def _is_arithmetic(self, token: Token) -> bool:
        """Whether arithmetic begins that is more than a sum of numbers: `#` and quotes mean something else in it."""
        if token.kind in ("arithmetic", "double_open"):
            return not _plain_sum(self.text, token.end)
        return token.kind == "process" and self.text.startswith("(", token.end)

    def _is_odd_place(self) -> bool:
        """Whether what looks like a comment may be none: a backtick ends it, and `[[ … ]]` may hold a `#`."""
        return self.in_test or any(state.kind == "`" for state in self.outer)

    def _take(self, token: Token, inside: bool) -> None:
        kind, text = token.kind, token.value
        in_backticks = any(state.kind == "`" for state in self.outer)
        if kind in ("literal", "dollar", "single", "escape"):
            # The shell takes backslashes off the text in backticks, and looks for the closing one, before it reads it.
            quotes = kind == "escape" or (kind == "single" and "`" in text)
            self.known = self.known and not (quotes and in_backticks)
            self.word = (self.word or "") + text
        elif kind in ("parameter", "glob"):
            self.word, self.fixed = (self.word or "") + text, False
            self.plain = self.plain and text[0] not in "{}" and not text.startswith("${")
        elif kind == "blank":
            self.end_word()
        elif kind == "redirect":
            self._redirect(text)
        elif kind in ("operator", "newline"):
            self.end()
        elif kind == "double":
            self._quote(inside)
        elif kind in ("close", "tick"):
            self._close(kind)
        elif kind in ("open", "substitution"):
            self._open(kind)
        elif kind in ("arithmetic", "double_open"):
            self._open("substitution" if kind == "arithmetic" else "open")
            self._open("open")
        elif kind == "process":
            self._redirect(text[0])
            self._open("open")
        elif kind != "continuation":
            # Here-documents, `$'…'`, `${…:…}`, control characters: their end is not looked for, so what follows may
            # be read wrongly.  It is still read, for deny rules.
            self.known, self.word = False, (self.word or "") + text

    def _redirect(self, operator: str) -> None:
        if (self.word or "").isdigit():  # `2>`: the number of a file, no word
            self.word = None
        self.end_word()
        self.out = ">" in operator or (self.target and self.out)
        self.target, self.plain = True, False

    def _quote(self, inside: bool) -> None:
        if inside:
            self.outer.pop()
        else:
            self.outer.append(_OuterState('"', [], None, False))
            self.word = self.word or ""

    def _close(self, kind: TokenKind) -> None:
        """A bracket or a backtick that ends a nested command; a backtick may also begin one."""
        closing = "(" if kind == "close" else "`"
        if self.outer and self.outer[-1].kind == closing:
            self.plain = False
            self.end()
            was = self.outer.pop()
            self.part, self.word, self.target, self.fixed = was.part, was.word, was.target, was.word is None
            self.in_test = was.in_test
        elif kind == "close":
            self.plain = False
            self.end()  # a pattern of `case`
        else:
            self._open(kind)

    def _open(self, kind: TokenKind) -> None:
        """A nested command begins; the word around it goes on after it."""
        self.plain = False
        if kind == "tick":
            self.known = self.known and not any(state.kind == "`" for state in self.outer)
        if kind == "open":
            self.known = self.known and not self.in_test
            self.end()
        word = None if kind == "open" else self.word or ""
        self.outer.append(_OuterState("`" if kind == "tick" else "(", self.part, word, self.target, self.in_test))
        self.part, self.word, self.target, self.fixed = [], None, False, True
        self.in_test = False

    def end_word(self) -> None:
        text, fixed = self.word, self.fixed
        self.word, self.fixed = None, True
        if text is None:
            return
        if self.target:
            self.target = False
            if self.out:
                self.written.add(text.rpartition("/")[2])
        elif not fixed and text in ("{", "}"):
            self.end()
        else:
            leads = all(word.text in _LEADING_WORDS for word in self.part)
            self.known = self.known and not (leads and text in _UNREADABLE_WORDS)
            # Only an unquoted `]]` closes it; brackets are never `fixed` before this.
            self.in_test = (self.in_test or (leads and text == "[[")) and (fixed or text != "]]")
            self.part.append(CommandWord(text, fixed or text in ("[", "]", "[[", "]]")))

    def end(self) -> None:
        """The end of a simple command."""
        self.end_word()
        if self.part:
            self.parts.append(tuple(self.part))
            if self.part[0].text == "tee":
                self.written |= {word.text.rpartition("/")[2] for word in self.part[1:]}
        self.part, self.target = [], False


# --- Lines that write a repository ---

WRITING_COMMANDS = (
    "add",
    "branch",
    "checkout",
    "cherry-pick",
    "commit",
    "merge",
    "notes",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "switch",
    "tag",
)
"""Subcommands that write objects, refs and the index, and start nothing that their own words name."""
_READING_COMMANDS = ("status", "log", "show", "diff", "rev-parse")
_PATTERN_COMMANDS = ("add", "rm")
"""Subcommands in which a word that the shell expands from a pattern can only be a path."""
_merges_streams = re.compile(r"(?<=\s)2>&1(?=\s|$)")
_inside = re.compile(r"(?:^|[/=:])\.git(?:/|$)", re.IGNORECASE).search


def writes_repository(command: str) -> bool:
    """Whether a line is plain git commands only, and one of them writes the repository."""
    line = parse_command_line(_merges_streams.sub("", command))
    if not line.plain:
        return False
    subcommands = [_git_subcommand(part) for part in line.parts]
    return all(subcommands) and any(subcommand in WRITING_COMMANDS for subcommand in subcommands)


def mentions_git_write(command: str) -> bool:
    """Whether a line seems to write a repository, among other things."""
    parts = parse_command_line(_merges_streams.sub("", command)).parts
    return any(part[0].text == "git" and any(word.text in WRITING_COMMANDS for word in part[1:4]) for part in parts)


def _git_subcommand(part: CommandWords) -> str:
    """The subcommand of a plain git command, or `cd`; empty for anything else."""
    words = [word.text for word in part]
    # No word may reach into `.git`, where hooks and settings are, and `--output` writes any file.
    if not part[0].fixed or any(map(_inside, words)) or any(word.startswith("--ou") for word in words):
        return ""
    if words[0] == "cd":
        return "cd" if len(words) == 2 and part[1].fixed else ""
    at = 1
    while words[0] == "git" and words[at : at + 1] and words[at] in ("--no-pager", "-P", "-C"):
        at += 2 if words[at] == "-C" else 1
    if words[0] != "git" or at >= len(words) or not all(word.fixed for word in part[: at + 1]):
        return ""
    # A pattern may expand to an option, except where git takes only paths.
    spread = any(not word.fixed and re.search(r"[*?\[]", word.text) for word in part)
    return (
        words[at]
        if words[at] in (*WRITING_COMMANDS, *_READING_COMMANDS) and (not spread or words[at] in _PATTERN_COMMANDS)
        else ""
    )
