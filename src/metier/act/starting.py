"""Commands that may run more than their words say: programs that start others, code in a word, what a shell reckons."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Word(NamedTuple):
    text: str
    fixed: bool = True
    """False where the shell makes something else of it."""


Words = Sequence[Word]

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "rbash", "ash", "mksh", "yash", "fish", "csh", "tcsh"})
STARTERS = SHELLS | {
    "!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "env", "command", "builtin", "exec",
    "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout", "sudo", "doas", "su", "runuser", "xargs", "parallel",
    "find", "watch", "strace", "ltrace", "busybox", "toybox", "chroot", "unshare", "nsenter", "bwrap", "eval",
    "source", ".", "trap", "flock", "setpriv", "taskset", "chrt", "prlimit", "script", "start-stop-daemon", "ld.so",
    "setarch", "numactl", "systemd-run", "fakeroot", "catchsegv", "unbuffer",
}  # fmt: skip
"""Programs and words of the shell that start another program, which stands somewhere in their own words."""
_QUIET = frozenset(
    {
        "echo", "printf", "cat", "ls", "pwd", "cd", "true", "false", ":", "test", "[", "[[", "head", "tail", "wc",
        "cut", "tr", "uniq", "grep", "egrep", "fgrep", "rg", "stat", "file", "du", "df", "basename", "dirname",
        "realpath", "readlink", "mkdir", "rmdir", "touch", "rm", "chmod", "date", "sleep", "seq", "diff", "cmp", "id",
        "whoami", "uname", "which", "type", "tree", "jq", "export", "read", "unset", "set", "exit", "return",
    }
)  # fmt: skip
"""What starts nothing, whatever it is told."""
_GIT = ("-c", "--config-env", "--exec", "-x", "--upload-pack", "--receive-pack", "--ext-diff", "-O", "--open-files")
_GIT_RUNS = frozenset({"config", "bisect", "submodule", "filter-branch", "difftool", "mergetool", "rebase"})
_NEVER_PLAIN = frozenset({"compgen", "complete", "hash", "enable", "bind", "fc"})
_NAMES = frozenset(
    {
        "read", "unset", "let", "wait", "getopts", "mapfile", "readarray", "declare", "typeset", "local", "export",
        "readonly",
    }
)  # fmt: skip
"""Builtins that take the name of a variable, and run what stands between its brackets."""
_interpreter = re.compile(r"(?:python|perl|ruby|node|php|lua|tclsh|deno|bun|Rscript)[\d.]*|[gmn]?awk").fullmatch
_code = re.compile(r"-\w*[ceErp]|--(?:eval|print|run).*").fullmatch
_runs_more = re.compile(r"system|popen|exec|spawn|subprocess|eval|getattr|__|require|import|child|fork|pty|[`|]").search
_input = re.compile(r"-|.*/?(?:dev/(?:stdin|fd)|proc/).*").fullmatch
_subscript = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL).search
_setting = re.compile(
    r"(?:ENV|PS[0-4]|SHELL|SHELLOPTS|BASHOPTS|BASH_\w+|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|(?:LD|DYLD)_\w+"
    r"|GIT_(?:SSH|EXEC|CONFIG|EXTERNAL|PROXY|SEQUENCE)\w*|\w*(?:PAGER|EDITOR|_COMMAND|ASKPASS))\+?=(?!(?:cat|less|true)?$)"
).match
"""Variables whose value is a command, or chooses one."""
_word = re.compile(r"[\w.+*?-]+").fullmatch
_between = re.compile(r"[^\w.+-]+").split


def reckons(words: Words) -> bool:
    """Whether a builtin runs what stands between brackets in one of its words, however it is quoted."""
    name, rest = words[0].text, words[1:]
    if name in ("[", "[["):
        rest = rest[:-1]
    held = any("[" in word.text or "(" in word.text for word in rest)
    if name in ("test", "["):
        return held and any(word.text in ("-v", "-R") for word in rest)
    if name == "printf":
        return held and any(word.text.startswith("-v") for word in rest)
    return held and (name in _NAMES or name == "[[")


def is_opaque(words: Words, written: Collection[str] = ()) -> bool:
    """Whether nobody can tell from the words what runs, also because the line itself has written it."""
    for at, word in enumerate(words):
        if "=" in word.text and _setting(word.text) and (at == 0 or words[0].text not in _QUIET - {"export"}):
            return True
    name = words[0].text.rpartition("/")[2]
    rest = [word.text for word in words[1:]]
    if reckons(words) or name in _NEVER_PLAIN:
        return True
    if name not in _QUIET and any(_subscript(word.text) for word in words):
        return True
    if name in ("mapfile", "readarray"):
        return any(one.startswith("-C") for one in rest)
    reads = name in SHELLS or name in (".", "source") or _interpreter(name) is not None
    if reads and (any(map(_input, rest)) or _is_told(name, rest)):
        return True
    if name not in _QUIET and any(_input(one) and one != "-" for one in rest):
        return True
    made = [word.text.rpartition("/")[2] for word in words[: None if reads else 1]]
    return any(one in written for one in made)


def _is_told(name: str, rest: Sequence[str]) -> bool:
    """Whether a shell or an interpreter is told what to do by a pipe, or by code that may start something."""
    if name in (".", "source"):
        return False
    if name in SHELLS:
        coded = any(re.fullmatch(r"-\w*c", one) for one in rest)
        asked = any(re.fullmatch(r"-\w*[si]\w*|--(?:rcfile|init-file).*", one) for one in rest)
        return asked or (not coded and all(one.startswith("-") for one in rest))
    if name.endswith("awk"):
        return any(_runs_more(one) for one in rest if not one.startswith("-F"))
    if any(map(_code, rest)):
        return any(map(_runs_more, rest))
    return all(one.startswith("-") and one not in ("-v", "-V", "--version", "-h", "--help") for one in rest)


def mentions(pattern: Sequence[str], words: Words) -> bool:
    """Whether a program that may start others has all the words of a pattern somewhere in its own."""
    wanted = [one for one in pattern if one.strip("*") and _word(one)]
    if not wanted or _is_quiet(words):
        return False
    told = {piece for word in words for piece in _between(word.text)}
    told |= {one[2:] for one in told if one.startswith("-")}
    return all(any(fnmatchcase(piece, one) for piece in told) for one in wanted)


def _is_quiet(words: Words) -> bool:
    name, rest = words[0].text.rpartition("/")[2], [word.text for word in words[1:]]
    if name == "git":
        return not any(one.startswith(_GIT) or one in _GIT_RUNS for one in rest)
    return name in _QUIET
