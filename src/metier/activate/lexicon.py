"""The nouns of a command that takes arguments: words, simple commands, and what is known of them."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias


class Value(NamedTuple):
    """What a placeholder stands for: one text, and the words it becomes where it is not quoted."""

    whole: str
    words: tuple[str, ...]
    ours: bool = False
    """A variable of ours, such as the skill's folder: no argument."""


Atom: TypeAlias = str | Value
"""One character of the author's, or a placeholder."""

HOLE, UNKNOWN, ENVIRON = "\x01", "\x00", "\x02"
"""In a word's text: an argument; what only the shell will know, an argument perhaps; what was there before it."""

SOLID = "\x03" + UNKNOWN
"""What only the shell will know, but is one word and begins with no `-`: a number, or the name of a commit."""

HARMLESS = frozenset({"git", "pwd", "date", "whoami", "hostname", "nproc", "uname", "id", "dirname", "which"})
"""Programs whose output is the author's as long as their words are."""

STEADY = frozenset({"git merge-base"})
"""Commands that say the name of a commit, or nothing."""

SETTING = re.compile(
    r"(?:PATH|ENV|IFS|PS[0-4]|SHELL|HOME|XDG_CONFIG_HOME|CDPATH|BROWSER|VISUAL|PROMPT_COMMAND|GCONV_PATH|OPENSSL_CONF"
    r"|CC|CXX|CPP|LD|AR|AS|MAKE\w*|MFLAGS|GZIP|VIRTUAL_ENV|SUDO_\w+|SSH_\w+|CLASSPATH|COMPILER_PATH|GCC_\w+|TERMINFO\w*"
    r"|CARGO\w*|RUST\w*|GO(?:FLAGS|PATH|ROOT|ENV|TOOLCHAIN)|JAVA_\w+|AWK\w+|DOCKER_\w+|KUBECONFIG|AWS_CONFIG_FILE"
    r"|RIPGREP_\w+|FZF_\w+|UV_\w+|PIP_\w+"
    r"|\w*(?:PAGER|EDITOR|OPTS|OPTIONS|PRELOAD|LIBRARY_PATH|_COMMAND|LESSOPEN|LESSCLOSE|ASKPASS|WRAPPER)"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|PERL5|RUBY|NODE|NPM_CONFIG|npm_config|METIER)\w*)"
)
"""Variables that decide what runs, or how."""

HINT = 'as in `bash "${SKILL_DIR}/scripts/run.sh" "$1"`'
"""What to write instead: by its whole path, since a command may run in the project's folder."""


class Unreadable(Exception):
    """A command that takes arguments and can't be given them safely; says why."""


class Word(NamedTuple):
    text: str
    """What it says without its quotes."""
    holes: tuple[Value, ...] = ()
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


class Simple(NamedTuple):
    """A simple command: its words, and what feeds it."""

    words: tuple[Word, ...] = ()
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


class Read(NamedTuple):
    source: str
    """What the shell is given."""
    env: dict[str, str]
    commands: tuple[Simple, ...] = ()
    reckons: bool = False
    """Somewhere in it values are read as numbers or names, which some shells do by running them."""
    taken: list[Value] | tuple[Value, ...] = ()
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
