"""What programs do with their words: which take code, run another program, or have options that do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .lexicon import HINT, SETTING, UNKNOWN, Unreadable, Word, is_assignment

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "nu", "xonsh"})
READERS = frozenset(
    {
        "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit",
        "tclsh", "expect", "osascript", "pwsh", "powershell", "Rscript", "R", "julia", "scala", "groovy", "elixir",
        "erl", "ghci", "runghc", "jshell", "swift", "racket", "guile", "sbcl", "clojure", "ts-node", "tsx",
        "awk", "gawk", "mawk", "nawk", "sed", "gsed",
    }
)  # fmt: skip
"""Programs that take code, or the name of a program: in an option, as their first operand, or from a pipe."""
NEVER = frozenset(
    {
        "eval", "trap", "alias", "bind", "complete", "compgen", "enable", "fc", "hash", "mapfile", "readarray", "jobs",
        "coproc", "function", "ssh", "su", "runuser", "parallel", "watch", "script", "at", "batch", "crontab", "rsh",
        "tmux", "screen", "dtach", "systemd-run", "chroot", "nsenter", "flock", "entr", "gdb", "lldb", "ed", "ex",
        "vi", "vim", "nvim", "emacs", "m4", "dc", "gnuplot", "octave", "psql", "mysql", "mariadb", "sqlite3", "mongosh",
    }
)  # fmt: skip
"""Programs that read what they are given, or what a pipe gives them, as commands."""
ANYWHERE = SHELLS | READERS | {"eval", "source", "trap"}
"""What may stand behind another program that runs it."""
PLAIN = frozenset(
    {
        "echo", "printf", ":", "true", "false", "test", "[", "[[", "grep", "egrep", "fgrep", "rg", "ls", "cat", "head",
        "tail", "wc", "sort", "uniq", "cut", "tr", "diff", "which", "type", "file", "stat", "basename", "dirname",
        "realpath", "readlink", "jq", "gh", "man", "date", "cd", "mkdir", "touch", "rm", "cp", "mv", "read", "export",
        "local", "declare", "typeset", "readonly", "unset", "set", "printenv", "curl", "wget", "seq", "sleep", "exit",
    }
)  # fmt: skip
"""Programs that run no other: a shell's name among their words is a word."""
RESERVED = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac"})
_WRAPPERS = {
    "env": "uC", "nohup": "", "time": "fo", "timeout": "sk", "nice": "n", "ionice": "cnp", "exec": "a", "command": "",
    "builtin": "", "sudo": "ughpCDRTU", "doas": "uC", "stdbuf": "ioe", "setsid": "", "xargs": "IndPLsEa",
    "strace": "eop", "unshare": "", "ltrace": "eo", "chrt": "TPD", "taskset": "", "setpriv": "", "unbuffer": "",
    "caffeinate": "tw", "busybox": "",
}  # fmt: skip
"""Programs that run another, and their short options that take a word of their own."""
_STARTERS = frozenset({"npx", "bunx", "uvx"})
_PROJECTS = dict.fromkeys(("pipx", "uv", "poetry", "pipenv", "pdm", "rye", "hatch"), "run") | {"bundle": "exec"}
"""Programs that run another by its name; these do so when they are told to."""
_START_FLAGS = frozenset({"--", "-y", "--yes", "-q", "--quiet", "--frozen", "--locked", "--no-sync"}) | {
    "--no-project", "--isolated", "--offline", "--no-install", "--script", "--prefer-offline",
}  # fmt: skip
_START_TAKES = frozenset({"--with", "--python", "-p", "--package", "--extra", "--group", "--from"})
_FLAGS = frozenset({"--null", "--no-run-if-empty", "--foreground", "--preserve-status", "--ignore-environment", "--"})
_RUNS = frozenset(
    {
        "exec", "eval", "pre", "rsh", "rsh-command", "rsync-path", "to-command", "exec-path",
        "use-compress-program", "compress-program", "upload-pack", "receive-pack", "upload-archive", "config-env",
        "open-files-in-pager", "extcmd", "use-askpass", "info-script", "new-volume-script", "unzip-command",
        "rcfile", "init-file", "split-string", "script-shell", "hostname-bin", "pager", "template", "wrapper",
        "exec-batch", "strip-program", "expression", "tree-filter", "msg-filter",
    }
)  # fmt: skip
"""Long options that name a program, whatever program has them."""
_SHORTENED = frozenset({"tar", "gtar", "bsdtar", "rsync", "sort", "gsort", "wget", "curl", "git", "sed", "gsed"}) | {
    "zip", "man", "split", "gsplit", "install", "ginstall", "env", "awk", "gawk",
}  # fmt: skip
"""Programs that take a long option by its first letters, and have some that run something."""
_SHORT = {
    "tar": "IF", "rsync": "e", "sed": "efs", "gsed": "efs", "wget": "e", "man": "PHC", "scp": "So", "sftp": "SoDb",
    "zip": "T", "git clone": "cu", "git rebase": "x", "git difftool": "x", "git grep": "O", "git archive": "",
}  # fmt: skip
_LONG = {
    "split": ("filter",), "sed": ("file",), "wget": ("execute", "config"), "tar": ("checkpoint-action",),
    "man": ("html", "preprocessor", "config-file"), "curl": ("engine", "config"),
}  # fmt: skip
_FIND = re.compile(r"--?(?:exec|execdir|ok|okdir|fprint\w*|fls|delete)")
_GIT_TAKES = ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
_READER_TAKES = {
    "sed": "efl", "gsed": "efl", "awk": "vFf", "mawk": "vFfW", "nawk": "vFf", "gawk": "vFfeil", "python": "WXcm",
    "pypy": "WXcm", "perl": "eEIMm", "node": "erCp", "ruby": "eErICF", "php": "drfBREFcz",
}  # fmt: skip
"""Their short options that take a word of their own, where these are known."""
_version = re.compile(r"[0-9.]+$")


def name_of(word: Word) -> str:
    """A program by its name alone."""
    return word.text.rpartition("/")[2] or word.text


def base_of(name: str) -> str:
    """`python3.11` is python."""
    return _version.sub("", name).rstrip("-") or name


def effective(words: Sequence[Word]) -> Sequence[Word]:
    """The words from the program on: assignments, reserved words and programs that run another come off."""
    place = 0
    while place < len(words):
        name = name_of(words[place])
        if name in RESERVED or is_assignment(words[place].text):
            place += 1
        elif name == "command" and len(words) > place + 1 and words[place + 1].text in ("-v", "-V"):
            break
        elif name in _STARTERS or (
            name in _PROJECTS and words[place + 1 : place + 2] and words[place + 1].text == _PROJECTS[name]
        ):
            words, place = words[_after_flags(words, place + 1 + (name in _PROJECTS), name) :], 0
        elif name in _WRAPPERS:
            after = _after_options(words, place + 1, name)
            words = _filled(words[:after], words[after:]) if name == "xargs" else words[after:]
            place = 0
        else:
            break
    return words[place:]


def _after_options(words: Sequence[Word], place: int, wrapper: str) -> int:
    """Past a wrapper's options, its assignments and, for `timeout` and its like, its own operand."""
    own = 1 if wrapper in ("timeout", "chrt", "taskset") else 0
    while place < len(words):
        word, text = words[place], words[place].text
        option = text.startswith("-") and text != "-"
        if is_assignment(text) and wrapper in ("env", "sudo", "doas"):
            place += 1
            continue
        if not option and not own:
            break
        if word.tainted or (text.startswith(("-S", "--split-string")) and wrapper == "env"):
            raise Unreadable(f"an argument stands among the options of `{wrapper}`")
        if text.startswith("--") and "=" not in text and text not in _FLAGS:
            raise Unreadable(f"what `{wrapper} {text}` runs can't be told; write its value behind `=`")
        own -= not option
        place += 2 if option and len(text) == 2 and text[1] in _WRAPPERS[wrapper] else 1
        if place <= len(words) and words[place - 1].tainted:
            raise Unreadable(f"an argument stands among the options of `{wrapper}`")
    return place


def _after_flags(words: Sequence[Word], place: int, starter: str) -> int:
    """Past the options of a program that runs another by its name."""
    while place < len(words) and words[place].text.startswith("-") and words[place].text != "-":
        text = words[place].text
        if text not in _START_FLAGS | _START_TAKES or any(one.tainted for one in words[place : place + 2]):
            raise Unreadable(f"what `{starter} {text}` runs can't be told; name the program right behind `{starter}`")
        place += 2 if text in _START_TAKES else 1
    return place


def _filled(before: Sequence[Word], words: Sequence[Word]) -> Sequence[Word]:
    """What `xargs` runs, with the words from its input where it puts them: in place of a mark, or at the end."""
    texts = [word.text for word in before]
    marks = [text[2:] for text in texts if text.startswith("-I") and text != "-I"]
    marks += [after for text, after in pairwise(texts) if text == "-I"]
    if any(text.startswith(("-i", "--replace")) for text in texts):
        marks.append("{}")
    for mark in filter(None, marks):
        words = [word._replace(text=word.text.replace(mark, UNKNOWN)) for word in words]
    return words if marks else [*(words or [Word("echo")]), Word(UNKNOWN, (), True)]


def check_settings(words: Sequence[Word]) -> None:
    """An argument may be the value of a variable, but of none that decides what runs."""
    for word in words:
        if is_assignment(word.text) and word.tainted:
            name = word.text.partition("=")[0].removesuffix("+")
            if SETTING.fullmatch(name):
                raise Unreadable(f"an argument would be the value of `{name}`, which decides what runs")


def runs_option(text: str, program: str) -> bool:
    """Whether an option makes that program run something."""
    if not text.startswith("-"):
        return False
    name = program.partition(" ")[0]
    if name in ("find", "gfind", "bfs", "fd", "fdfind"):
        return bool(_FIND.match(text)) or (name in ("fd", "fdfind") and text[:2] in ("-x", "-X"))
    if text.startswith("--"):
        given = text[2:].partition("=")[0]
        known = (*_RUNS, *_LONG.get(name, ()))
        return given in known or (name in _SHORTENED and len(given) > 2 and any(one.startswith(given) for one in known))
    return any(letter in text[1:] for letter in _SHORT.get(program, _SHORT.get(name, "")))


def git_command(words: Sequence[Word]) -> str:
    """What `git` is told to do; an argument must not say it."""
    option = ""
    for word in words[1:]:
        if option or (word.text.startswith("-") and not word.leads):
            if word.tainted:
                raise Unreadable(
                    "an argument would choose the folder or the settings of `git`, which may run programs there; "
                    f"let a script of the skill do it, {HINT}"
                )
            option = word.text if not option and word.text in _GIT_TAKES else ""
            continue
        if word.tainted:
            raise Unreadable("an argument would choose what `git` does")
        return word.text
    return ""


def code_letters(base: str) -> str:
    """The short options behind which code stands, or the name of a program."""
    return {"sed": "ef", "gsed": "ef", "python": "cm", "pypy": "cm"}.get(base, "ceEfmrRpx")


def stands_alone(option: str, base: str) -> bool:
    """Whether an option of a program that takes code is known to take no word of its own."""
    takes = _READER_TAKES.get(base)
    return takes is not None and not option.startswith("--") and option[-1] not in takes


def starts(words: Sequence[Word]) -> Iterator[int]:
    """The places in a command where a program may be named: the first, and behind a program that may run another."""
    yield 0
    name = name_of(words[0])
    if name in PLAIN or base_of(name) in ANYWHERE or "/" in words[0].text:
        return
    for place, word in enumerate(words[1:], 1):
        if base_of(name_of(word)) in ANYWHERE:
            yield place
