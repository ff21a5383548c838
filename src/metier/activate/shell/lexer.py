"""The shell's lexical rules, for everything here that reads a command line.

Two readers judge commands, and each would be a hole if it saw other words than the shell does: `rewrite` puts arguments
into the commands of a skill, and `agent.shell_rules` holds a command against permission rules.  They differ in what
they do with a token, so each keeps its own grammar; what is a quote, an escape, an expansion, an operator or a
redirection is defined only here.

A token is the longest one that the shell would take at that place.  There are two contexts, as for the shell: plain
text, and the inside of double quotes.  Comments are not tokens: whether a `#` starts one depends on whether a word has
begun, which only the reader knows.  Nothing is refused here, and nothing is skipped: text that is hard to read has a
kind of its own, and the reader decides.

Refused: `shlex`, which knows neither operators nor expansions as the shell does; and one parser for both readers, since
one of them must stop at what it can't read (it is about to run it) and the other must read on after it (a forbidden
command may follow).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

TokenKind: TypeAlias = Literal[
    "blank",
    "newline",
    "continuation",
    "literal",
    "escape",
    "single",
    "double",
    "ansi",
    "locale",
    "parameter",
    "braces",
    "dollar",
    "substitution",
    "arithmetic",
    "old_arithmetic",
    "process",
    "tick",
    "glob",
    "redirect",
    "heredoc",
    "operator",
    "open",
    "double_open",
    "close",
    "split",
    "control",
    "stray",
]

WORD_ENDS: frozenset[TokenKind] = frozenset(
    {"blank", "newline", "operator", "open", "double_open", "close", "redirect", "heredoc"}
)
"""Tokens that end a word; all others are part of one."""


class Token(NamedTuple):
    """A piece of a command line that the shell reads as one."""

    kind: TokenKind
    text: str
    end: int

    @property
    def value(self) -> str:
        """What an escape or a single-quoted text stands for; any other token stands for itself."""
        if self.kind == "escape":
            return self.text[1:]
        return self.text[1:-1] if self.kind == "single" else self.text


# Shells drop `\` + newline before they look at the next character, also inside an operator: `(\⏎(` is `((`.  The
# patterns say so wherever the joined text would be another token; `split` is a `$`, `<` or `>` before such a break,
# which may turn into anything.  Literal runs are short, so that a reader may join the pieces of a word at any time
# without paying for its whole length; they never hold U+0001, by which `words` marks an argument.
_EXPANSIONS = r"""
    (?P<arithmetic>\$\((?:\\\n)*\()|(?P<substitution>\$\()|(?P<tick>`)
    |(?P<old_arithmetic>\$\[)
    |(?P<parameter>\$\{\w+\}|\$\w+|\$[@*\#?$!-])|(?P<braces>\$\{)
"""
_plain_token = re.compile(
    rf"""(?P<blank>[ \t]+)|(?P<newline>\n)|(?P<continuation>\\\n)
    |(?P<literal>[^ \t\n'"\\$`*?\[\]{{}}<>()|&;\x00-\x1f\x7f]{{1,16}}+)
    |(?P<single>'[^']*')|(?P<escape>\\.)|(?P<double>")
    |(?P<split>[$<>]\\\n)|(?P<ansi>\$')|(?P<locale>\$")|{_EXPANSIONS}
    |(?P<glob>[*?\[\]{{}}])
    |(?P<process>[<>]\()|(?P<heredoc><<-?(?!<))|(?P<redirect><<<|<&|>&|>>|>\||<>|<|>)
    |(?P<operator>&&|\|\||;;&|;;|;&|\|&|;|&|\|)
    |(?P<double_open>\((?:\\\n)*\()|(?P<open>\()|(?P<close>\))
    |(?P<dollar>\$)|(?P<stray>[\\'])|(?P<control>.)""",
    re.VERBOSE | re.DOTALL,
).match
_quoted_token = re.compile(
    rf"""(?P<literal>[^"\\$`\x00\x01]{{1,16}}+)|(?P<double>")|(?P<continuation>\\\n)|(?P<escape>\\[$`"\\])
    |(?P<split>\$\\\n)|{_EXPANSIONS}
    |(?P<dollar>\$)|(?P<stray>\\)|(?P<control>\x00)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
).match


def next_token(text: str, at: int, in_quotes: bool = False) -> Token:
    """The token that begins at a place of the text; `in_quotes` is for the inside of double quotes."""
    match = (_quoted_token if in_quotes else _plain_token)(text, at)
    assert match is not None  # the last alternative of both patterns is any character
    kind = match.lastgroup if match.lastgroup != "other" else "literal"
    return Token(kind, match[0], match.end())  # type: ignore[arg-type]
