"""What a changed text has an agent do that it did not before: commands, files, secrets.  A person looks at that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..act.permission import HARMLESS
from ..act.rules import ALIASES, PARAMETERS
from .texts import PROSE

_TOOLS = HARMLESS | {"write_file", "edit_file", "run_command"}
_KNOWN = frozenset(
    {
        *_TOOLS,
        *(other for other, ours in ALIASES.items() if ours in _TOOLS),
        *(word for tool in PARAMETERS.values() for pair in tool.items() for word in pair),
    }
)
"""The usual tools, here and elsewhere, and what their parameters are called: to name them starts nothing."""
_fence = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})").match
_span = re.compile(
    r"(`+)(?!`)(.{1,2000}?)(?<!`)\1(?!`)|<(code|pre|kbd)\b[^>]*>(.{1,2000}?)</\3>", re.DOTALL | re.IGNORECASE
)
_DATA = r"(?:md|txt|csv|tsv|json|ya?ml|toml|xml|html|log|pdf)"
_data_file = re.compile(rf"[\w-]+(?:/[\w-]+)*\.{_DATA}").fullmatch
_number = re.compile(r"[\d.,:%+-]+").fullmatch
_ordinary = re.compile(r"[a-z]+").fullmatch
"""A word that a sentence may have by chance, and a program for a name."""
_word = re.compile(r"[^\s`]+").findall
_EDGES = "\"'“”‘’«»()[]{}<>,.;:!?*_、。，；：（）「」"
_PROGRAMS = (
    r"npx|npm|pnpm|bunx|deno|uvx?|pipx?|pip3|python[23]?(?:\.\d+)?|perl|ruby|php|lua|osascript|powershell|pwsh|bash|zsh"
    r"|dash|ksh|sh|curl|wget|aria2c|git|gh|glab|svn|docker|podman|kubectl|helm|terraform|aws|gcloud|openssl|gpg|nmap"
    r"|netcat|rsync|sftp|rclone|tar|unzip|xargs|awk|sed|systemctl|launchctl|umount|mkfs|dd|pkill|killall|shutdown|reboot"
    r"|useradd|usermod|passwd|iptables|sqlite3|psql|mysql|redis-cli|tmux|nohup|rm|mv|cp|ln"
)
_told = re.compile(
    rf"(?<![\w./-])(?:{_PROGRAMS})(?![\w/-]|\.\w)"  # a program that no sentence has by chance
    r"|(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?"  # an option
    r"|(?<![\w.])(?:~|\.{1,2})/[^\s`]+|(?<![\w./:])/[A-Za-z][^\s`]*/[^\s`]*"  # a path that leaves the folder, or runs
    r"|(?<![\w./])\.[A-Za-z][\w.-]*"  # a hidden file
    r"|(?<!\w)[\w./-]+\.(?:sh|bash|py|js|mjs|ts|rb|pl|ps1|bat|exe|jar|so|dylib)(?!\w)"  # a program in a file
    r"|(?<![\w@])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # somebody's address
    r"|&&|\|\||<\(|\$\(|[A-Z_]{3,}=\S+"  # pieces of a command line
    r"|(?<!\w)(?:api[ _-]?keys?|access[ _-]?keys?|private[ _-]keys?|passwords?|passphrases?|passcodes?|credentials?"
    r"|secrets?|tokens?|cookies?|ssh|密碼|密码|金鑰|密钥|憑證|凭证)(?!\w)"  # what nobody is asked for by the way
    r"|(?<!\w)(?:ignore|disregard|override|forget)\s+(?:\w+\s+){0,3}"  # what somebody else has said
    r"(?:said|says|instructions?|rules?|above|previous|user)(?!\w)",
    re.ASCII | re.IGNORECASE,
)
_run = re.compile(
    r"(?:(?<!\w)(?<!the )(?<!next )(?<!each )(?<!every )(?<!this )(?<!last )(?<!a )"
    r"(?:run|runs|by running|execute|executes|by executing|launch|launches|invoke|invokes|install|installs)\s+"
    r"|(?:執行|执行|運行|运行|安裝|安装)\s*)"
    r"(?:the\s+)?(?:(?:command|program|script|binary|package|tool)\s+)?[\"'“‘*_]*([A-Za-z][\w+-]*(?:\.[\w+-]+)*)",
    re.ASCII | re.IGNORECASE,
)
_FILLING = frozenset(
    (
        "it", "its", "them", "this", "that", "these", "those", "the", "a", "an", "all", "each", "every", "any", "both",
        "one", "again", "first", "once", "twice", "then", "only", "nothing", "anything", "something", "everything",
        "more", "no", "not", "into", "out", "when", "if", "before", "after", "on", "in", "at", "for", "with", "without",
        "until", "and", "or", "to", "another", "other", "others", "your", "their", "as", "by", "from", "step", "steps",
        "command", "commands", "script", "scripts", "program", "programs", "tool", "tools", "test", "tests",
    )
)  # fmt: skip
"""Words that follow `run` and are no program's name."""


class _Text(NamedTuple):
    pieces: frozenset[str]
    """What is marked as code, each line of it for itself."""
    prose: str


def new_steps(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What stands in the new texts for an agent to run, read or ask for, and in none of the old ones."""
    old, new = _text(before), _text(after)
    known = {*_words(old.prose), *(word for piece in old.pieces for word in _words(piece))} | _KNOWN
    told = {one.casefold() for text in (old.prose, *old.pieces) for one in _told_in(text)} | known
    found = [one for one in sorted(new.pieces - old.pieces) if not (one in before or _is_known(one, old, known))]
    found += [one for one in _told_in(new.prose) if one.casefold() not in told]
    found += [one for one in _run.findall(new.prose) if one.casefold() not in _FILLING and one not in known]
    return list(dict.fromkeys(found))


def _told_in(text: str) -> Iterator[str]:
    return (" ".join(one[0].split()).rstrip(_EDGES) for one in _told.finditer(text))


def _is_known(piece: str, old: _Text, known: set[str]) -> bool:
    """A piece of code that was there without being marked as such, or that starts nothing."""
    said = _words(piece)
    if len(said) > 1:
        return f" {' '.join(said)} " in f" {' '.join(_words(old.prose))} "
    if not said or _data_file(piece) or _number(piece):
        return True
    marked = {word for one in old.pieces for word in _words(one)} | _KNOWN
    return said[0] in marked or (said[0] in known and not _ordinary(said[0]))


def _words(text: str) -> list[str]:
    return [bare for word in _word(text) if (bare := word.strip(_EDGES))]


def _text(files: Mapping[str, str]) -> _Text:
    """What an agent reads, parted into code and prose."""
    pieces: list[str] = []
    prose: list[str] = []
    for path, text in files.items():
        if path.lower().endswith(PROSE):
            code, rest = _fenced(text.splitlines())
            pieces += code
            pieces += [" ".join((one[2] or one[4]).split()) for one in _span.finditer(rest)]
            prose.append(_span.sub(" \0 ", rest))
    return _Text(frozenset(pieces), "\n\0\n".join(prose))


def _fenced(lines: Iterable[str]) -> tuple[list[str], str]:
    """The lines of blocks of code, and all the others."""
    code: list[str] = []
    plain: list[str] = []
    fence = ""
    for line in lines:
        mark = _fence(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            elif line.strip():
                code.append(" ".join(line.split()))
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
        else:
            plain.append(line)
    return code, "\n".join(plain)
