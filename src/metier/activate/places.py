"""Where a command goes and what it writes: nothing may run there that an argument has chosen or written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from .known import BUILDS, DATA, FINDS, GIT_WRITES, is_script
from .lexicon import ENVIRON, HINT, HOLE, UNKNOWN, Read, Simple, Unreadable, Word
from .programs import READERS, SHELLS, base_of, effective, git_command, name_of

_MOVES = frozenset({"cp", "mv", "ln", "dd", "install", "rsync", "scp", "tar", "unzip", "split", "wget"})
_SAVES = ("-o", "-O", "-K", "-c", "-D", "--output", "--remote-name", "--config", "--cookie-jar", "--dump-header")
_UNPACKS = frozenset({"gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd"})
_OUTPUTS = frozenset({"sort", "gsort", "shuf", "iconv", "zstd", "tree", "yq", "xq", "dasel", "base64", "numfmt"})
_outputs = re.compile(r"-[a-zA-Z0-9]*[oi]|--(?:o|in)")
"""Options that name a file to write, or change files where they are."""
_relative = re.compile(r"[\w.+@-]+(?:/[\w.+@-]+)*")
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})
_PLAIN_ENDS = (".txt", ".md", ".log", ".csv", ".tsv", ".diff", ".patch", ".out", ".html", ".xml", ".svg")
_RULES = frozenset({"CMakeLists.txt", "requirements.txt", "package.json", "deno.json", "tsconfig.json"})
_STREAMS = frozenset({"sed", "gsed", "awk", "gawk", "mawk", "nawk"})
_WHAT_NEXT = f"; let a script of the skill do both, {HINT}"


def check_places(found: Read) -> None:
    """Refuse a command that runs files after an argument has chosen its folder, or may be in files it wrote."""
    commands = [(one, words) for one in found.commands if (words := effective(one.words))]
    running = [(*words, *map(Word, one.files)) for one, words in commands if _runs_files(words, found)]
    if any(_goes(words) for _, words in commands):
        for words in running:
            if not _is_absolute(words):
                raise Unreadable(f"`{name_of(words[0])}` would run in a folder that an argument chose" + _WHAT_NEXT)
    targets = list(_targets(found, commands))
    moves = [words for one, words in commands if _moves(words, targets or _is_touched(one, words, found))]
    for words in running:
        git = name_of(words[0]) == "git"
        moved = any(not (git and name_of(one[0]) == "git") for one in moves)
        if moved or any(not _is_apart(target, words) for target in targets):
            raise Unreadable(f"an argument may be in a file that `{name_of(words[0])}` reads or runs" + _WHAT_NEXT)


def scripts_of(found: Read) -> Iterator[str]:
    """The scripts that a command runs by a path that depends on its folder; none where it changes that."""
    named = [words for one in found.commands if (words := _effective(one.words))]
    if any(name_of(words[0]) in ("cd", "pushd") for words in named):
        return
    for words in named:
        first = words[0]
        if base_of(name_of(first)) in SHELLS | READERS or name_of(first) in ("source", "."):
            first = next((word for word in words[1:] if not word.text.startswith("-")), first)
        path = first.text.removeprefix("./")
        if _relative.fullmatch(path) and is_script(Word(path)) and not path.startswith("/"):
            yield path


def _effective(words: Sequence[Word]) -> Sequence[Word]:
    try:
        return effective(words)
    except Unreadable:
        return ()


def _is_touched(command: Simple, words: Sequence[Word], found: Read) -> bool:
    return any(word.tainted for word in words) or (found.pours and not command.fed)


def _runs_files(words: Sequence[Word], found: Read) -> bool:
    """Whether a program runs files, or may by settings that it looks for in its folder."""
    name = name_of(words[0])
    if name in ("ruff", "black"):
        return True
    if name in DATA or words[0].text in found.functions:
        return False
    return base_of(name) not in _STREAMS or any(word.text.startswith(("-f", "--file")) for word in words)


def _goes(words: Sequence[Word]) -> bool:
    return name_of(words[0]) in ("cd", "pushd") and any(HOLE in word.text or UNKNOWN in word.text for word in words[1:])


def _is_absolute(words: Sequence[Word]) -> bool:
    """Whether it runs a script by its whole path, so that the folder does not matter."""
    name = name_of(words[0])
    if is_script(words[0]):
        return words[0].text.startswith("/")
    if base_of(name) not in SHELLS | READERS and name not in ("source", "."):
        return False
    return len(words) > 1 and words[1].text.startswith("/")


def _targets(found: Read, commands: Sequence[tuple[Simple, Sequence[Word]]]) -> Iterator[str]:
    """The files that are written, by redirections and by `tee`."""
    for text in found.written[::3]:
        if text not in _NOWHERE and not text.rstrip("-").isdigit():
            yield text
    for _, words in commands:
        if name_of(words[0]) == "tee":
            yield from (word.text for word in words[1:] if not word.text.startswith("-"))


def _moves(words: Sequence[Word], touched: object) -> bool:
    """Whether a program puts what it is given into files of other names."""
    name = name_of(words[0])
    texts = [word.text for word in words[1:]]
    if not touched:
        return False
    if name == "git":
        writes = git_command(words) in GIT_WRITES or any(_outputs.match(text) for text in texts)
        return writes and any(word.tainted for word in words)
    if name == "gh":
        return "checkout" in texts or "clone" in texts or "download" in texts
    if name == "curl":
        return any(text.startswith(_SAVES) or (text[:1] == "-" and text[1:2] != "-" and "O" in text) for text in texts)
    if base_of(name) in _STREAMS:
        edits = any(text.startswith(("-i", "--in-place")) for text in texts)
        return edits or (base_of(name).endswith("awk") and any("print" in text and ">" in text for text in texts))
    if name == "tar":
        return not any("t" in text and "x" not in text for text in texts[:1])
    if name in FINDS:
        return any(text.startswith(("-fprint", "-fls")) for text in texts)
    if name in _UNPACKS:
        return not any(text[:1] == "-" and set(text[1:]) & set("clt") for text in texts)
    if name in ("uniq", "xxd", "pdftotext") and sum(text == "-" or text[:1] != "-" for text in texts) > 1:
        return True
    return name in _MOVES or (name in _OUTPUTS and any(_outputs.match(text) for text in texts))


def _may_be(text: str, name: str) -> bool:
    """Whether a word of a command may be a file of that name: it is, or is a pattern for it."""
    last = re.sub(r"\{[^}]*\}", "*", text).rpartition("/")[2]
    return last == name or fnmatchcase(name, last)


def _is_apart(target: str, words: Sequence[Word]) -> bool:
    """Whether a file that is written is none that the program runs or takes its settings from."""
    if any(mark in target for mark in (HOLE, UNKNOWN)):
        return False
    last = target.rpartition("/")[2].rstrip("/") or target
    name = name_of(words[0])
    if name == "git":
        return ".git" not in target
    if last in _RULES or last.startswith(".") or any(_may_be(word.text, last) for word in words):
        return False
    if ENVIRON in last:
        return False
    if name in BUILDS or not (is_script(words[0]) or base_of(name) in SHELLS | READERS or name in ("source", ".")):
        return last.endswith(_PLAIN_ENDS)
    return "." not in last or last.endswith((*_PLAIN_ENDS, ".json"))
