"""Folders and files that several commands share: none may run what an argument has chosen or written.

The other checks judge one command at a time.  `cd $1 && make` and `echo $1 > run.sh; sh run.sh` are harmless command by
command; so all commands are looked at together: where the folder changes, which files are written, which of the
programs run files or take settings from them.  A written file is harmless if its name is none that a program runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from .operands import is_script
from .programs import (
    BUILD_COMMANDS,
    DATA_PROGRAMS,
    FIND_PROGRAMS,
    GIT_WRITES,
    INTERPRETERS,
    SHELLS,
    STREAM_EDITORS,
    base_program,
    program_name,
)
from .words import ENVIRON, HOLE, SCRIPT_HINT, UNKNOWN, ParsedCommand, ShellWord, SimpleCommand, UnreadableCommand
from .wrappers import effective_words, git_command

_COPIERS = frozenset({"cp", "mv", "ln", "dd", "install", "rsync", "scp", "tar", "unzip", "split", "wget"})
_SAVE_OPTIONS = ("-o", "-O", "-K", "-c", "-D", "--output", "--remote-name", "--config", "--cookie-jar", "--dump-header")
_UNPACKERS = frozenset({"gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd"})
_OUTPUT_PROGRAMS = frozenset(
    {"sort", "gsort", "shuf", "iconv", "zstd", "tree", "yq", "xq", "dasel", "base64", "numfmt"}
)
_output_option = re.compile(r"-[a-zA-Z0-9]*[oi]|--(?:o|in)")
"""Options that name a file to write, or edit files in place."""
_relative = re.compile(r"[\w.+@-]+(?:/[\w.+@-]+)*")
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})
# Endings that no known tool takes code or settings from, and the names among them that some tool does.
_PLAIN_ENDS = (".txt", ".md", ".log", ".csv", ".tsv", ".diff", ".patch", ".out", ".html", ".xml", ".svg")
_RULE_FILES = frozenset({"CMakeLists.txt", "requirements.txt", "package.json", "deno.json", "tsconfig.json"})
_SCRIPT_ADVICE = f"; let a script of the skill do both, {SCRIPT_HINT}"


def check_places(parsed: ParsedCommand) -> None:
    """Refuse a command that runs files in a folder that an argument chose, or files that may hold an argument."""
    commands = [(command, words) for command in parsed.commands if (words := effective_words(command.words))]
    running = [(*words, *map(ShellWord, command.files)) for command, words in commands if _runs_files(words, parsed)]
    # The order of commands is not looked at: a loop or a function may run the earlier one last.
    if any(_changes_folder(words) for _, words in commands):
        for words in running:
            if not _is_absolute(words):
                raise UnreadableCommand(
                    f"`{program_name(words[0])}` would run in a folder that an argument chose" + _SCRIPT_ADVICE
                )
    targets = list(_written_files(parsed, commands))
    moves = [
        words for command, words in commands if _writes_elsewhere(words, targets or _is_touched(command, words, parsed))
    ]
    for words in running:
        # git runs hooks and settings from `.git`, which git itself does not check out: git after git is fine.
        git = program_name(words[0]) == "git"
        moved = any(not (git and program_name(mover[0]) == "git") for mover in moves)
        if moved or any(not _is_apart(target, words) for target in targets):
            raise UnreadableCommand(
                f"a file that `{program_name(words[0])}` reads or runs may hold an argument" + _SCRIPT_ADVICE
            )


def relative_scripts(parsed: ParsedCommand) -> Iterator[str]:
    """The scripts that a command runs by a relative path; none if it changes its folder."""
    named = [words for command in parsed.commands if (words := _readable_words(command.words))]
    if any(program_name(words[0]) in ("cd", "pushd") for words in named):
        return
    for words in named:
        first = words[0]
        if base_program(program_name(first)) in SHELLS | INTERPRETERS or program_name(first) in ("source", "."):
            first = next((word for word in words[1:] if not word.text.startswith("-")), first)
        path = first.text.removeprefix("./")
        if _relative.fullmatch(path) and is_script(ShellWord(path)) and not path.startswith("/"):
            yield path


def _readable_words(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    try:
        return effective_words(words)
    except UnreadableCommand:
        return ()


def _is_touched(command: SimpleCommand, words: Sequence[ShellWord], parsed: ParsedCommand) -> bool:
    return any(word.tainted for word in words) or (parsed.pours and not command.fed)


def _runs_files(words: Sequence[ShellWord], parsed: ParsedCommand) -> bool:
    """Whether a program runs files, or may do so by settings in its folder."""
    name = program_name(words[0])
    # They only read their operands, but take settings from the folder.
    if name in ("ruff", "black"):
        return True
    if name in DATA_PROGRAMS or words[0].text in parsed.functions:
        return False
    return base_program(name) not in STREAM_EDITORS or any(word.text.startswith(("-f", "--file")) for word in words)


def _changes_folder(words: Sequence[ShellWord]) -> bool:
    return program_name(words[0]) in ("cd", "pushd") and any(
        HOLE in word.text or UNKNOWN in word.text for word in words[1:]
    )


def _is_absolute(words: Sequence[ShellWord]) -> bool:
    """Whether it runs a script by an absolute path, so that the folder does not matter."""
    name = program_name(words[0])
    if is_script(words[0]):
        return words[0].text.startswith("/")
    if base_program(name) not in SHELLS | INTERPRETERS and name not in ("source", "."):
        return False
    return len(words) > 1 and words[1].text.startswith("/")


def _written_files(
    parsed: ParsedCommand, commands: Sequence[tuple[SimpleCommand, Sequence[ShellWord]]]
) -> Iterator[str]:
    """The files that redirections and `tee` write."""
    for text in parsed.written[::3]:  # each file is listed in three spellings
        if text not in _NOWHERE and not text.rstrip("-").isdigit():
            yield text
    for _, words in commands:
        if program_name(words[0]) == "tee":
            yield from (word.text for word in words[1:] if not word.text.startswith("-"))


def _writes_elsewhere(words: Sequence[ShellWord], touched: object) -> bool:
    """Whether a program writes its input to files that it names itself."""
    name = program_name(words[0])
    texts = [word.text for word in words[1:]]
    if not touched:
        return False
    if name == "git":
        writes = git_command(words) in GIT_WRITES or any(_output_option.match(text) for text in texts)
        return writes and any(word.tainted for word in words)
    if name == "gh":
        return "checkout" in texts or "clone" in texts or "download" in texts
    if name == "curl":
        return any(
            text.startswith(_SAVE_OPTIONS) or (text[:1] == "-" and text[1:2] != "-" and "O" in text) for text in texts
        )
    if base_program(name) in STREAM_EDITORS:
        edits = any(text.startswith(("-i", "--in-place")) for text in texts)
        return edits or (base_program(name).endswith("awk") and any("print" in text and ">" in text for text in texts))
    # Only listing (`t`) writes nothing.
    if name == "tar":
        return not any("t" in text and "x" not in text for text in texts[:1])
    if name in FIND_PROGRAMS:
        return any(text.startswith(("-fprint", "-fls")) for text in texts)
    # They replace the file, unless they write to standard output, list or test.
    if name in _UNPACKERS:
        return not any(text[:1] == "-" and set(text[1:]) & set("clt") for text in texts)
    if name in ("uniq", "xxd", "pdftotext") and sum(text == "-" or text[:1] != "-" for text in texts) > 1:
        return True
    return name in _COPIERS or (name in _OUTPUT_PROGRAMS and any(_output_option.match(text) for text in texts))


def _may_be(text: str, name: str) -> bool:
    """Whether a word may be a file of that name: it is one, or is a pattern for it."""
    # `{a,b}` may be anything between the brackets: read as `*`.
    last = re.sub(r"\{[^}]*\}", "*", text).rpartition("/")[2]
    return last == name or fnmatchcase(name, last)


def _is_apart(target: str, words: Sequence[ShellWord]) -> bool:
    """Whether a written file is none that the program runs or takes its settings from."""
    if any(mark in target for mark in (HOLE, UNKNOWN)):
        return False
    last = target.rpartition("/")[2].rstrip("/") or target
    name = program_name(words[0])
    if name == "git":
        return ".git" not in target
    # Files with a leading dot are settings of somebody.
    if last in _RULE_FILES or last.startswith(".") or any(_may_be(word.text, last) for word in words):
        return False
    if ENVIRON in last:
        return False
    if name in BUILD_COMMANDS or not (
        is_script(words[0]) or base_program(name) in SHELLS | INTERPRETERS or name in ("source", ".")
    ):
        return last.endswith(_PLAIN_ENDS)
    return "." not in last or last.endswith((*_PLAIN_ENDS, ".json"))
