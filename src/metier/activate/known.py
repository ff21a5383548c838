"""The programs that may be given an argument, or what came of one: of each it is known that it takes it as data."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .lexicon import ENVIRON, HINT, UNKNOWN, Unreadable, Word
from .programs import PLAIN, READERS, SHELLS, base_of, effective, git_command, name_of
from .scripts import check_code

DATA = (PLAIN - {"gh"}) | frozenset(
    {
        "for", "select", "case", "in", "return", "break", "continue", "shift", "wait", "pwd", "getopts", "let",
        "command", "ag", "fd", "fdfind", "find", "gfind", "bfs", "tree", "du", "df", "cmp", "comm", "paste",
        "join", "nl", "tac", "rev", "fold", "fmt", "pr", "column", "expand", "unexpand", "shuf", "split", "iconv",
        "tee", "ln", "dd", "install", "chmod", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum",
        "sha512sum", "shasum", "cksum", "b2sum", "sum", "base32", "base64", "xxd", "od", "hexdump", "strings",
        "numfmt", "expr", "cal", "whoami", "id", "hostname", "uname", "nproc", "ps", "pgrep", "pidof", "uptime",
        "free", "host", "dig", "nslookup", "ping", "getent", "uuidgen", "mktemp", "rmdir", "gzip", "gunzip", "zcat",
        "bzip2", "bunzip2", "bzcat", "xz", "unxz", "xzcat", "zstd", "zstdcat", "tar", "zip", "unzip", "zipinfo",
        "yq", "xq", "dasel", "tokei", "scc", "shellcheck", "yamllint", "ruff",
        "black", "ffprobe", "pdftotext", "pdfinfo", "lsof", "json.tool", "journalctl",
        "true", "tput", "look", "ggrep", "gdate", "gstat", "ghead", "gtail", "gsort", "bat", "batcat", "eza",
    }
)  # fmt: skip
"""Programs that read, write or print what they are given and run nothing; options that would are refused elsewhere."""
GIT = frozenset(
    {
        "log", "diff", "show", "status", "blame", "annotate", "branch", "tag", "rev-parse", "rev-list", "shortlog",
        "ls-files", "ls-tree", "ls-remote", "describe", "name-rev", "merge-base", "cat-file", "grep",
        "for-each-ref", "show-ref", "diff-tree", "diff-index", "diff-files", "format-patch", "archive", "remote",
        "notes", "whatchanged", "reflog", "range-diff", "cherry", "check-ignore", "check-ref-format",
        "symbolic-ref", "count-objects", "config", "add", "commit", "checkout", "switch", "restore", "reset", "rm",
        "mv", "merge", "rebase", "stash", "cherry-pick", "revert", "clone", "fetch", "pull", "push", "worktree",
        "apply", "am", "init", "var", "version", "clean", "show-branch",
    }
)  # fmt: skip
GIT_WRITES = frozenset(
    {"checkout", "switch", "restore", "reset", "merge", "rebase", "stash", "cherry-pick", "revert", "clone", "pull"}
) | {"worktree", "apply", "am", "mv", "init"}
_SCRIPTS = frozenset({"test", "t", "start", "run", "run-script", "view", "info", "show", "search", "ls", "list", "why"})
_PACKAGES = _SCRIPTS | {"outdated", "explain", "audit", "docs"}
BUILDS: dict[str, frozenset[str]] = {
    "npm": _PACKAGES, "pnpm": _PACKAGES, "yarn": _PACKAGES,
    "cargo": frozenset({"test", "build", "check", "clippy", "doc", "search", "tree", "metadata", "info", "run"}),
    "gh": frozenset(
        {"pr", "issue", "repo", "run", "release", "search", "api", "label", "workflow", "gist", "status", "project"}
    ),
    "docker": frozenset(
        {"ps", "images", "inspect", "logs", "stats", "top", "port", "version", "info", "search", "history", "diff"}
    ),
    "podman": frozenset({"ps", "images", "inspect", "logs", "stats", "top", "port", "version", "info", "history"}),
    "kubectl": frozenset({"get", "describe", "logs", "top", "explain", "version", "api-resources"}),
    "helm": frozenset({"list", "status", "history", "get", "search"}),
    "systemctl": frozenset({"status", "is-active", "is-enabled", "show", "list-units"}),
    "go": frozenset({"doc", "version"}), "pip": frozenset({"show", "index", "list", "freeze"}),
    "brew": frozenset({"info", "list", "search", "desc"}),
}  # fmt: skip
"""What these are told to do by their first word, where an argument behind it is data."""
_CHECKS = frozenset(
    {
        "pytest", "py.test", "unittest", "coverage", "mypy", "pyright", "flake8", "pylint", "bandit", "isort", "radon",
        "eslint", "tsc", "jest", "vitest", "mocha", "playwright", "prettier", "biome", "stylelint", "rspec", "rubocop",
        "phpunit", "golangci-lint", "gofmt", "rustfmt",
    }
)  # fmt: skip
_TYPED: dict[str, frozenset[str]] = {
    "go": frozenset({"test", "build", "vet", "list"}), "npm": frozenset({"run", "run-script"}),
    "pnpm": frozenset({"run"}), "yarn": frozenset({"run"}), "deno": frozenset({"test", "check", "lint"}),
    "bun": frozenset({"test"}), "dotnet": frozenset({"test", "build"}), "swift": frozenset({"test", "build"}),
}  # fmt: skip
"""What runs the project's own code, or its settings: a person who typed an argument may choose which, nobody else."""
_FETCHES = frozenset({"install", "i", "add", "dlx", "create", "init", "ci", "update", "upgrade", "get"})
_AFTER = {"pytest": ("-k", "-m"), "go": ("-run", "-bench")}
"""The options whose value may be an argument, where an operand would choose code."""
_NAMES_FIRST = ("-n", "--namespace", "--context", "-R", "--repo")
_STEERS = re.compile(
    r"-C|-[KH]|--?[\w-]*(?:config|prefix|dir|root|path|exec|wrapper|shell|plugin|script|options|cwd|file|host|template)"
)
"""Options whose value leads a program to settings or code elsewhere."""
_SYSTEM = re.compile(r"/+(?:usr/+(?:local/+)?|opt/+homebrew/+|snap/+)?(?:s?bin|lib(?:32|64|exec)?)/")
_SCRIPT = re.compile(r".+\.(?:py|sh|bash|js|mjs|cjs|ts|rb|pl|php)")
_PATTERN = re.compile(r"[*?{}]|\[.")
_MODULES = frozenset(
    {"pip", "pytest", "coverage", "nox", "tox", "poetry", "uv", "pipx", "invoke", "IPython", "ipykernel"}
)
_FROM = {"tar": re.compile(r"-?[a-zA-Z]*T|--(?:files|fi)"), "curl": re.compile(r"-[a-zA-Z]*K|--config")}
"""Options that make a program read more options."""
_RUNS_NEXT = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
FINDS = frozenset({"find", "gfind", "bfs", "fd", "fdfind"})


def check_name(first: Word) -> None:
    """The program's name must be written out: what the environment, a pattern or braces say may be a shell."""
    if ENVIRON in name_of(first):
        raise Unreadable("the environment or another command would choose the program; write its name")
    if first.text not in ("[", "[[", "{") and _PATTERN.search(first.text):
        raise Unreadable("a pattern or braces would choose the program; write its name")


def is_script(word: Word) -> bool:
    """Whether a program is a file of the author's: named by a path, and by none of the system's."""
    text = word.text
    if "/" not in text:
        return bool(_SCRIPT.fullmatch(text))
    return not _SYSTEM.match(text) and ".." not in text.split("/")[1:]


def check_known(words: Sequence[Word], functions: Sequence[str], by_user: bool = False) -> None:
    """Refuse a program that is given an argument unless it is known what it does with it."""
    name = name_of(words[0])
    base = base_of(name)
    if base in SHELLS or name in ("source", ".") or (by_user and _is_for_typing(name, words)):
        return
    if base in READERS:
        check_code(base, words)
        _check_module(base, words, by_user)
        told = next((word for word in words[1:] if not word.text.startswith("-")), None)
        if base in ("bun", "deno") and told and told.text != "run" and not is_script(told):
            raise _unknown(f"{base} {told.text}")
    elif name in ("make", "gmake"):
        _check_make(words)
    elif name == "git":
        if (command := git_command(words)) not in GIT and (command or any(word.tainted for word in words)):
            raise _unknown(f"git {command}".rstrip())
    elif name in BUILDS or name in _AFTER:
        _check_build(name, words)
    elif name in _FROM and any(_FROM[name].match(word.text) for word in words[1:]):
        raise Unreadable(f"`{name}` would read options or settings that an argument may be in")
    elif name not in DATA and not is_script(words[0]) and words[0].text not in functions:
        raise _unknown(name)
    for inner in executed(words):
        check_name(inner[0])
        check_known(inner, functions, by_user)


def _is_for_typing(name: str, words: Sequence[Word]) -> bool:
    """Whether a program runs what is in the project, and gets nothing but arguments as they came."""
    told = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
    if name not in _CHECKS and told not in _TYPED.get(name, ()):
        return False
    steered = any(
        word.tainted and (_STEERS.match(one.text) or _STEERS.match(word.text)) for one, word in pairwise(words)
    )
    return not steered and not any(UNKNOWN in word.text for word in words)


def executed(words: Sequence[Word], file: str = UNKNOWN) -> Iterator[Sequence[Word]]:
    """The commands that `find` and its like run for each file."""
    if name_of(words[0]) not in FINDS:
        return
    for place, word in enumerate(words):
        if word.text not in _RUNS_NEXT:
            continue
        inner = []
        for follows in words[place + 1 :]:
            if follows.text in (";", "+"):
                break
            inner.append(follows._replace(text=follows.text.replace("{}", file)))
        found = effective(inner)
        if not found or found[0].tainted:
            raise Unreadable(f"`{word.text}` would run an argument")
        yield found


def _unknown(name: str) -> Unreadable:
    program, _, told = name.partition(" ")
    why = "is not known to take an argument as plain data"
    if told in _FETCHES:
        why = "would fetch code that an argument names"
    elif program in _CHECKS or told in _TYPED.get(program, ()):
        why = "runs code of the project, and only what a person typed may choose it"
    return Unreadable(f"`{name}` {why}; let a script of the skill run it, {HINT}")


def _check_make(words: Sequence[Word]) -> None:
    for before, word in pairwise(words):
        if UNKNOWN in word.text:
            raise Unreadable("`make` may run what the shell works out; give it an argument as it came, or write it out")
        option = before.text.startswith("-") and before.text != "--"
        if word.tainted and (option or word.text.startswith("-")):
            raise Unreadable("an argument would choose what `make` reads; only a target may be one")
        if word.text in ("-", "-f-") or (word.text.startswith("-") and word.text.endswith("=-")) or _feeds(word.text):
            raise Unreadable("`make` may read an argument as its rules")


def _feeds(text: str) -> bool:
    return bool(re.search(r"/+(?:dev|proc)/", text))


def _check_module(base: str, words: Sequence[Word], by_user: bool) -> None:
    """`python -m name`: a module of the author's, or one that takes data."""
    if base not in ("python", "pypy"):
        return
    for place, word in enumerate(words[1:], 1):
        if not word.text.startswith("-"):
            return
        if re.fullmatch(r"-[A-Za-z]*m", word.text) and place + 1 < len(words):
            rest = words[place + 1 :]
            top = rest[0].text.partition(".")[0]
            own = "." in rest[0].text and top not in sys.stdlib_module_names and top not in _MODULES
            if not own and any(one.tainted for one in rest):
                check_known(rest, (), by_user)
            return
        if word.text in ("-W", "-X") or "c" in word.text:
            return


def _check_build(name: str, words: Sequence[Word]) -> None:
    """Tools that run the project's own code: an argument may be data of a known command, and choose nothing."""
    told: list[str] = []
    for before, word in pairwise(words):
        if word.tainted or word.text == "--":
            break
        if not word.text.startswith("-") and before.text not in _NAMES_FIRST:
            told.append(word.text)
    scripted = name in ("npm", "pnpm", "yarn") and told[:1] in (["run"], ["run-script"])
    known = bool(told) and told[0] in BUILDS.get(name, ()) and not (scripted and len(told) < 2)
    known = known or (name == "go" and told[:1] == ["run"] and len(told) > 1)
    known = known or (
        name == "docker" and told[:1] == ["compose"] and told[1:2] in (["logs"], ["ps"], ["top"], ["images"])
    )
    for before, word in pairwise(words):
        if word.text == "--" and known:
            return
        if not word.tainted or before.text in _AFTER.get(name, ()):
            continue
        if not known:
            raise _unknown(" ".join([name, *told[:1]]))
        if name != "gh" and (_STEERS.match(before.text) or _STEERS.match(word.text)):
            raise Unreadable(f"an argument would choose what `{name}` reads or runs")
    if not known and name not in _AFTER:
        raise _unknown(" ".join([name, *told[:1]]))
