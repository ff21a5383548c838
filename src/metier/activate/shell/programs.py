"""What programs do with their words: which take code, run another program, or have options that do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .words import (
    SCRIPT_HINT,
    UNKNOWN,
    ShellWord,
    UnreadableCommand,
    is_assignment,
)

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

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "nu", "xonsh"})
INTERPRETERS = frozenset(
    {
        "python",
        "pypy",
        "ipython",
        "perl",
        "ruby",
        "node",
        "nodejs",
        "deno",
        "bun",
        "php",
        "lua",
        "luajit",
        "tclsh",
        "expect",
        "osascript",
        "pwsh",
        "powershell",
        "Rscript",
        "R",
        "julia",
        "scala",
        "groovy",
        "elixir",
        "erl",
        "ghci",
        "runghc",
        "jshell",
        "swift",
        "racket",
        "guile",
        "sbcl",
        "clojure",
        "ts-node",
        "tsx",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "sed",
        "gsed",
    }
)
"""Programs that take code, or the name of a program: in an option, as their first operand, or from a pipe."""
FORBIDDEN_PROGRAMS = frozenset(
    {
        "eval",
        "trap",
        "alias",
        "bind",
        "complete",
        "compgen",
        "enable",
        "fc",
        "hash",
        "mapfile",
        "readarray",
        "jobs",
        "coproc",
        "function",
        "ssh",
        "su",
        "runuser",
        "parallel",
        "watch",
        "script",
        "at",
        "batch",
        "crontab",
        "rsh",
        "tmux",
        "screen",
        "dtach",
        "systemd-run",
        "chroot",
        "nsenter",
        "flock",
        "entr",
        "gdb",
        "lldb",
        "ed",
        "ex",
        "vi",
        "vim",
        "nvim",
        "emacs",
        "m4",
        "dc",
        "gnuplot",
        "octave",
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "mongosh",
    }
)
"""Programs that read what they are given, or what a pipe gives them, as commands."""
CODE_RUNNERS = SHELLS | INTERPRETERS | {"eval", "source", "trap"}
"""What may stand behind another program that runs it."""
PLAIN_PROGRAMS = frozenset(
    {
        "echo", "printf", ":", "true", "false", "test", "[", "[[", "grep", "egrep", "fgrep", "rg", "ls", "cat", "head",
        "tail", "wc", "sort", "uniq", "cut", "tr", "diff", "which", "type", "file", "stat", "basename", "dirname",
        "realpath", "readlink", "jq", "gh", "man", "date", "cd", "mkdir", "touch", "rm", "cp", "mv", "read", "export",
        "local", "declare", "typeset", "readonly", "unset", "set", "printenv", "curl", "wget", "seq", "sleep", "exit",
    }
)  # fmt: skip
"""Programs that run no other: a shell's name among their words is a word."""
RESERVED_WORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac"})
_WRAPPERS = {
    "env": "uC",
    "nohup": "",
    "time": "fo",
    "timeout": "sk",
    "nice": "n",
    "ionice": "cnp",
    "exec": "a",
    "command": "",
    "builtin": "",
    "sudo": "ughpCDRTU",
    "doas": "uC",
    "stdbuf": "ioe",
    "setsid": "",
    "xargs": "IndPLsEa",
    "strace": "eop",
    "unshare": "",
    "ltrace": "eo",
    "chrt": "TPD",
    "taskset": "",
    "setpriv": "",
    "unbuffer": "",
    "caffeinate": "tw",
    "busybox": "",
}
"""Programs that run another, and their short options that take a word of their own."""
_STARTERS = frozenset({"npx", "bunx", "uvx"})
_PROJECTS = dict.fromkeys(("pipx", "uv", "poetry", "pipenv", "pdm", "rye", "hatch"), "run") | {"bundle": "exec"}
"""Programs that run another by its name; these do so when they are told to."""
_START_FLAGS = frozenset({"--", "-y", "--yes", "-q", "--quiet", "--frozen", "--locked", "--no-sync"}) | {
    "--no-project",
    "--isolated",
    "--offline",
    "--no-install",
    "--script",
    "--prefer-offline",
}
_START_TAKES = frozenset({"--with", "--python", "-p", "--package", "--extra", "--group", "--from"})
_WRAPPER_FLAGS = frozenset(
    {"--null", "--no-run-if-empty", "--foreground", "--preserve-status", "--ignore-environment", "--"}
)
_RUNNING_OPTIONS = frozenset(
    {
        "exec",
        "eval",
        "pre",
        "rsh",
        "rsh-command",
        "rsync-path",
        "to-command",
        "exec-path",
        "use-compress-program",
        "compress-program",
        "upload-pack",
        "receive-pack",
        "upload-archive",
        "config-env",
        "open-files-in-pager",
        "extcmd",
        "use-askpass",
        "info-script",
        "new-volume-script",
        "unzip-command",
        "rcfile",
        "init-file",
        "split-string",
        "script-shell",
        "hostname-bin",
        "pager",
        "template",
        "wrapper",
        "exec-batch",
        "strip-program",
        "expression",
        "tree-filter",
        "msg-filter",
    }
)
"""Long options that name a program, whatever program has them."""
_SHORTENED = frozenset({"tar", "gtar", "bsdtar", "rsync", "sort", "gsort", "wget", "curl", "git", "sed", "gsed"}) | {
    "zip",
    "man",
    "split",
    "gsplit",
    "install",
    "ginstall",
    "env",
    "awk",
    "gawk",
}
"""Programs that take a long option by its first letters, and have some that run something."""
_SHORT_OPTIONS = {
    "tar": "IF",
    "rsync": "e",
    "sed": "efs",
    "gsed": "efs",
    "wget": "e",
    "man": "PHC",
    "scp": "So",
    "sftp": "SoDb",
    "zip": "T",
    "git clone": "cu",
    "git rebase": "x",
    "git difftool": "x",
    "git grep": "O",
    "git archive": "",
}
_LONG_OPTIONS = {
    "split": ("filter",),
    "sed": ("file",),
    "wget": ("execute", "config"),
    "tar": ("checkpoint-action",),
    "man": ("html", "preprocessor", "config-file"),
    "curl": ("engine", "config"),
}
_FIND_ACTION = re.compile(r"--?(?:exec|execdir|ok|okdir|fprint\w*|fls|delete)")
_GIT_TAKES = ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
_READER_TAKES = {
    "sed": "efl",
    "gsed": "efl",
    "awk": "vFf",
    "mawk": "vFfW",
    "nawk": "vFf",
    "gawk": "vFfeil",
    "python": "WXcm",
    "pypy": "WXcm",
    "perl": "eEIMm",
    "node": "erCp",
    "ruby": "eErICF",
    "php": "drfBREFcz",
}
"""Their short options that take a word of their own, where these are known."""
_version = re.compile(r"[0-9.]+$")


def program_name(word: ShellWord) -> str:
    """A program by its name alone."""
    return word.text.rpartition("/")[2] or word.text


def base_program(name: str) -> str:
    """`python3.11` is python."""
    return _version.sub("", name).rstrip("-") or name


def effective_words(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """The words from the program on: assignments, reserved words and programs that run another come off."""
    place = 0
    while place < len(words):
        name = program_name(words[place])
        if name in RESERVED_WORDS or is_assignment(words[place].text):
            place += 1
        elif name == "command" and len(words) > place + 1 and words[place + 1].text in ("-v", "-V"):
            break
        elif name in _STARTERS or (
            name in _PROJECTS and words[place + 1 : place + 2] and words[place + 1].text == _PROJECTS[name]
        ):
            words, place = words[_after_flags(words, place + 1 + (name in _PROJECTS), name) :], 0
        elif name in _WRAPPERS:
            after = _after_options(words, place + 1, name)
            words = _fill_xargs(words[:after], words[after:]) if name == "xargs" else words[after:]
            place = 0
        else:
            break
    return words[place:]


def _after_options(words: Sequence[ShellWord], place: int, wrapper: str) -> int:
    """Past a wrapper's options, its assignments and, for `timeout` and its like, its own operand."""
    operands = 1 if wrapper in ("timeout", "chrt", "taskset") else 0
    while place < len(words):
        word, text = words[place], words[place].text
        option = text.startswith("-") and text != "-"
        if is_assignment(text) and wrapper in ("env", "sudo", "doas"):
            place += 1
            continue
        if not option and not operands:
            break
        if word.tainted or (text.startswith(("-S", "--split-string")) and wrapper == "env"):
            raise UnreadableCommand(f"an argument stands among the options of `{wrapper}`")
        if text.startswith("--") and "=" not in text and text not in _WRAPPER_FLAGS:
            raise UnreadableCommand(f"what `{wrapper} {text}` runs can't be told; write its value behind `=`")
        operands -= not option
        place += 2 if option and len(text) == 2 and text[1] in _WRAPPERS[wrapper] else 1
        if place <= len(words) and words[place - 1].tainted:
            raise UnreadableCommand(f"an argument stands among the options of `{wrapper}`")
    return place


def _after_flags(words: Sequence[ShellWord], place: int, starter: str) -> int:
    """Past the options of a program that runs another by its name."""
    while place < len(words) and words[place].text.startswith("-") and words[place].text != "-":
        text = words[place].text
        if text not in _START_FLAGS | _START_TAKES or any(word.tainted for word in words[place : place + 2]):
            raise UnreadableCommand(
                f"what `{starter} {text}` runs can't be told; name the program right behind `{starter}`"
            )
        place += 2 if text in _START_TAKES else 1
    return place


def _fill_xargs(before: Sequence[ShellWord], words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """What `xargs` runs, with the words from its input where it puts them: in place of a mark, or at the end."""
    texts = [word.text for word in before]
    marks = [text[2:] for text in texts if text.startswith("-I") and text != "-I"]
    marks += [after for text, after in pairwise(texts) if text == "-I"]
    if any(text.startswith(("-i", "--replace")) for text in texts):
        marks.append("{}")
    for mark in filter(None, marks):
        words = [word._replace(text=word.text.replace(mark, UNKNOWN)) for word in words]
    return words if marks else [*(words or [ShellWord("echo")]), ShellWord(UNKNOWN, (), True)]


def check_settings(words: Sequence[ShellWord]) -> None:
    """An argument may be the value of a variable, but of none that decides what runs."""
    for word in words:
        if is_assignment(word.text) and word.tainted:
            name = word.text.partition("=")[0].removesuffix("+")
            if STEERING_VARIABLE.fullmatch(name):
                raise UnreadableCommand(f"an argument would be the value of `{name}`, which decides what runs")


def option_runs_program(text: str, program: str) -> bool:
    """Whether an option makes that program run something."""
    if not text.startswith("-"):
        return False
    name = program.partition(" ")[0]
    if name in ("find", "gfind", "bfs", "fd", "fdfind"):
        return bool(_FIND_ACTION.match(text)) or (name in ("fd", "fdfind") and text[:2] in ("-x", "-X"))
    if text.startswith("--"):
        option_name = text[2:].partition("=")[0]
        known_options = (*_RUNNING_OPTIONS, *_LONG_OPTIONS.get(name, ()))
        return option_name in known_options or (
            name in _SHORTENED
            and len(option_name) > 2
            and any(option.startswith(option_name) for option in known_options)
        )
    return any(letter in text[1:] for letter in _SHORT_OPTIONS.get(program, _SHORT_OPTIONS.get(name, "")))


def git_command(words: Sequence[ShellWord]) -> str:
    """What `git` is told to do; an argument must not say it."""
    option = ""
    for word in words[1:]:
        if option or (word.text.startswith("-") and not word.leads):
            if word.tainted:
                raise UnreadableCommand(
                    "an argument would choose the folder or the settings of `git`, which may run programs there; "
                    f"let a script of the skill do it, {SCRIPT_HINT}"
                )
            option = word.text if not option and word.text in _GIT_TAKES else ""
            continue
        if word.tainted:
            raise UnreadableCommand("an argument would choose what `git` does")
        return word.text
    return ""


def code_letters(base: str) -> str:
    """The short options behind which code stands, or the name of a program."""
    return {"sed": "ef", "gsed": "ef", "python": "cm", "pypy": "cm"}.get(base, "ceEfmrRpx")


def stands_alone(option: str, base: str) -> bool:
    """Whether an option of a program that takes code is known to take no word of its own."""
    takes = _READER_TAKES.get(base)
    return takes is not None and not option.startswith("--") and option[-1] not in takes


def program_places(words: Sequence[ShellWord]) -> Iterator[int]:
    """The places in a command where a program may be named: the first, and behind a program that may run another."""
    yield 0
    name = program_name(words[0])
    if name in PLAIN_PROGRAMS or base_program(name) in CODE_RUNNERS or "/" in words[0].text:
        return
    for place, word in enumerate(words[1:], 1):
        if base_program(program_name(word)) in CODE_RUNNERS:
            yield place


_AWK = re.compile(r"\bsystem\b|\bgetline\b|@\s*\w+\s*\(|@(?:load|include)")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)|\|{3,}")
_AWK_QUIET = re.compile(
    r'"(?:\\.|[^"\\\n])*+"|#[^\n]*|(?:\A|(?<=[(,{};!~&|\n]))(?P<blank>[ \t]*)/(?:\\.|\[[^\]/\n]*+\]|[^/\\\[\n])*+/'
)
"""In a program for awk: texts, comments and patterns, in which a `|` is a letter."""
_RUNS_CODE = re.compile(
    r"\b(?:exec\w*|eval|compile|system|popen\w*|subprocess|pty|spawn\w*|fork|__import__|importlib|runpy|child_process"
    r"|Function|qx|shell_exec|passthru|proc_open|pickle|marshal|builtins|globals|getattr|modules|runIn\w+"
    r"|__\w*(?:dict|class|builtins|globals)\w*__|ctypes)\b|`|/[a-z]*ee",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w./=:,-]*")
_OPENS = re.compile(r"\bopen\b|\bIO\b")
"""In these, a file name that begins with `|` is a command."""
_SET = r"\[\^?+\]?+(?:\[:\w++:\]|[^\]\n])*+\]"
_REGEX = rf"/(?:\\.|[^/\\\[\n]|{_SET})*+/[IM]*+"
_FROM = rf"(?:\\.|{_SET}|(?!(?P={{0}}))[^\\\[])*+(?P={{0}})"
_TO = r"(?:\\.|(?!(?P={0}))[^\\])*+(?P={0})"
_sed = re.compile(
    rf"[\s;{{}}]*+(?:(?:\d++(?:~\d++)?|\$|{_REGEX})(?:\s*+,\s*+(?:[+~]?\d++|\$|{_REGEX}))?)?\s*+!*+\s*+(?:\{{|(?:"
    rf"s(?P<s>[^\w\s\\\[\]]){_FROM.format('s')}{_TO.format('s')}[gpIiMm0-9]*+|"
    rf"y(?P<y>[^\w\s\\\[\]]){_TO.format('y')}{_TO.format('y')}|"
    r"[aic](?:\s|\\)[^\\\n]*+(?=\n|\Z)|[:bt][ ]*+[a-zA-Z0-9]*+|[qQl][ ]*+\d*+|[pdPDnNgGhHxzF=])?"
    r"[^\S\n]*+(?=[;}\n]|\Z)[\s;}]*+)",
    re.DOTALL,
)
"""One command for sed of those that only change and print: its `e` runs, its `w` and `r` go to files.  Nothing in it
is tried twice, so that it costs what its length does."""


def check_code(base: str, words: Sequence[ShellWord]) -> None:
    """Refuse code that runs what it reads."""
    if base in ("sed", "gsed"):
        if not all(map(_is_plain_sed, _sed_scripts(words))):
            raise UnreadableCommand(f"`{base}` may run or write what it reads; use only `s`, `p`, `d` and their like")
        return
    for before, word in pairwise(words):
        code = "" if _PATH.fullmatch(word.text) or before.text == "-F" else word.text
        bad = (_AWK if base.endswith("awk") else _RUNS_CODE).search(code)
        if base.endswith("awk") and not code.startswith("-"):
            bad = bad or _PIPE.search(_AWK_QUIET.sub(" ", code))
        if base in ("ruby", "perl"):
            bad = bad or _OPENS.search(code)
        if bad and not word.tainted:
            raise UnreadableCommand(f"the program for `{base}` may run what it is given: `{bad[0].strip()}`")


def _sed_scripts(words: Sequence[ShellWord]) -> Iterator[str]:
    awaits, has_script = "", False
    for word in words[1:]:
        text = word.text
        if awaits:
            if awaits == "e":
                yield text
            awaits, has_script = "", True
        elif text.startswith("--"):
            if text.startswith("--e"):
                yield text.partition("=")[2]
            has_script = has_script or text.startswith(("--e", "--f"))
            awaits = "e" if text == "--expression" else "f" if text in ("--file", "--line-length") else ""
        elif text.startswith("-") and len(text) > 1 and not word.tainted:
            letters = text[1:].partition("i")[0]
            place = min((letters.find(letter) for letter in "efl" if letter in letters), default=-1)
            if place >= 0:
                has_script, value = has_script or letters[place] != "l", text[place + 2 :]
                awaits = "" if value else letters[place]
                if value and letters[place] == "e":
                    yield value
        elif not has_script:
            has_script = True
            yield text


def _is_plain_sed(script: str) -> bool:
    """Whether a script for sed only changes and prints."""
    at = 0
    while at < len(script):
        match = _sed.match(script, at)
        if not match or match.end() == at:
            return False
        at = match.end()
    return True
