"""Options: a value that begins with `-`, and what may come to begin with one, before the author's `--`."""

from __future__ import annotations

from collections.abc import Sequence

from .known import DATA, FINDS, executed, is_script
from .lexicon import ENVIRON, HOLE, UNKNOWN, Read, Unreadable, Word
from .programs import READERS, SHELLS, base_of, git_command, name_of, runs_option

_NONE = frozenset({"[", "[[", "test", "echo", ":", "true", "false", "for", "select", "case", "set", "printf"})
"""What has no options that matter, or is looked at by itself."""
_READS = _NONE | frozenset(
    {
        "grep", "egrep", "fgrep", "ggrep", "ls", "cat", "head", "ghead", "tail", "gtail", "wc", "cut", "tr", "diff",
        "cmp", "comm", "basename", "dirname", "realpath", "readlink", "which", "type", "stat", "gstat", "jq", "cd",
        "date", "gdate", "mkdir", "rmdir", "touch", "read", "export", "local", "declare", "typeset", "readonly",
        "unset", "printenv", "seq", "sleep", "exit", "nl", "tac", "rev", "fold", "fmt", "paste", "join", "column",
        "expand", "unexpand", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shasum",
        "cksum", "b2sum", "sum", "base32", "base64", "od", "hexdump", "strings", "du", "df", "numfmt", "expr", "id",
        "command", "in", "return", "break", "continue", "shift", "wait", "pwd", "getopts", "let", "pgrep", "pidof",
        "look", "cal", "nproc", "uname", "whoami", "awk", "gawk", "mawk", "nawk",
    }
)  # fmt: skip
"""Programs whose options only change what they print, or that take none behind their code."""
_RUNS = FINDS | frozenset(
    {"rg", "ag", "sort", "gsort", "tar", "zip", "split", "install", "man", "wget", "curl", "bat", "batcat"}
)
"""Programs that read and print, but have an option that runs or loads something."""
_GIT_RUNS = frozenset({"grep", "clone", "fetch", "pull", "push", "ls-remote", "archive", "rebase", "merge", "init"}) | {
    "cherry-pick", "revert", "am", "config", "worktree", "apply", "format-patch",
}  # fmt: skip
_NO_END = (FINDS - {"fd", "fdfind"}) | {"env"}
"""Programs for which `--` does not end the options."""


def check_options(words: Sequence[Word], found: Read, by_user: bool) -> None:
    """A value that begins with `-` is an option: only a person may have typed one, or the author wrote `--`.

    What the shell works out (from a pipe, `$(…)` or a variable that holds no argument as it came) may begin so too.
    """
    if not any(word.tainted for word in words):
        return
    name = name_of(words[0])
    program = f"git {git_command(words)}" if name == "git" else name
    for place, word in enumerate(words[1:], 1):
        if word.text == "--" and name not in _NO_END:
            break
        if not word.tainted:
            continue
        if runs_option(words[place - 1].text, program) or (not word.leads and runs_option(word.text, program)):
            raise Unreadable(f"`{program} {words[place - 1].text.lstrip(HOLE)}` would run an argument")
        if not word.leads or name in _NONE:
            continue
        if _is_unsure(word) and not _is_harmless(words[0], program, found.functions, by_user):
            ends = "" if name in _NO_END else "; write `--` before it"
            raise Unreadable(f"what the shell works out may begin with `-` and be an option of `{program}`{ends}")
        options = [one for value in word.holes for one in (value.whole, *value.words) if one.startswith("-")]
        if any(runs_option(option, program) for option in options) or (options and name in ("make", "gmake")):
            raise Unreadable(f"an argument is an option that makes `{program}` run something")
        if options and not by_user:
            raise Unreadable("an argument begins with `-` and would be an option; write `--` before it")
    for inner in executed(words, "./"):
        check_options(inner, found, by_user)


def _is_unsure(word: Word) -> bool:
    """Whether it can't be told what a word begins with."""
    if UNKNOWN not in word.text:
        return False
    first = word.text.lstrip(ENVIRON)[:1]
    return word.loose or first != HOLE or not all(hole.whole for hole in word.holes)


def _is_harmless(first: Word, program: str, functions: Sequence[str], by_user: bool) -> bool:
    """Whether no option of a program does harm; where a person typed the argument, whether none runs anything."""
    name = name_of(first)
    if name in _READS or first.text in functions:
        return True
    if not by_user or name in _RUNS:
        return False
    if name == "git":
        return program.partition(" ")[2] not in _GIT_RUNS
    return name in DATA or name == "gh" or is_script(first) or base_of(name) in SHELLS | READERS
