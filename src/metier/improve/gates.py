"""Gates: what a changed skill has to pass before anybody sees it, or before it is accepted without anybody.

The writer of a change is a model that has read the output of tools, so it is not trusted: assume it was told to add a
command, widen the frontmatter, drop a check, or copy an instruction into the skill.  A second model as a judge was
refused, because it can be talked into the same.  Every gate here is a rule over the texts before and after; it asks
what became possible and what went missing, not what was meant.  A rule's own edits pass through the same gates.

A gate says yes, no, or `person`.  No is for what no improvement needs: new files, other frontmatter, new capabilities,
another text altogether, sentences of a tool's answer.  `person` is for what a good change may contain and a bad one
would too: a command, path or secret that the old text does not have.  What stands in the old text already is known, so
rewording passes.  Gates run from cheap to costly, and those that need a model (`replay.py`, `evaluate.py`) come last.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..agent.permissions import HARMLESS_TOOLS, PARAMETER_ALIASES, TOOL_ALIASES
from ..diagnose.meaning import is_correction, lost_guards, lost_steps, new_words
from ..diagnose.notice import ObservedSkill, ToolEnvironment
from ..diagnose.steps import match_step
from ..diagnose.texts import (
    PROSE_SUFFIXES,
    SKILL_FILE,
    compare_texts,
    misspelled_placeholders,
    names_path,
    names_tool,
    prose_body,
    split_frontmatter,
)
from ..types.improvement import GateResult, SkillFault
from ..types.installed import SkillPowers
from ..types.text import hidden_characters_in

# --- Gates that need no run ---

LARGEST_BODY = 15_000
"""Bytes a body may grow to."""
GROWTH, GROWTH_BYTES = 0.2, 1_000
"""How much a body may grow: a share of its length, or so many characters if that is more."""
MOST_PLACES, MOST_LINES = 8, 40
"""Places and lines that a model may change at once; of a short text at most half the lines."""
_SHINGLE, _WORD, _LETTER = 42, 7, 3
"""A shingle weighs 42: six words in a row, or fourteen characters of a script without spaces, are a quotation."""
_language_words = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|\w+").findall
_code = re.compile(r"`[^`\n]*`|https?://\S+")
_RISKY = re.compile(
    r"\b(?:sudo|doas|eval|base64|crontab|chmod|chown|nc|ncat|socat|ssh|scp|ftp|telnet)\b"
    r"|\brm\s+-\w*[rf]|\|\s*(?:ba|z|da)?sh\b|\b(?:pip3?|npm|uv|cargo|gem|go|brew|apt(?:-get)?)\s+(?:install|add|get)\b"
    r"|--(?:no-verify|force|insecure|dangerously[\w-]*|allow[\w-]*|privileged)\b",
    re.ASCII,  # or `\b` finds no edge between a command and the Chinese text around it
)
"""Commands and options that extend what a skill does, anywhere in its text."""


class SkillInspection(NamedTuple):
    """What an inspection finds in a skill."""

    loads: bool
    faults: frozenset[str]
    """Codes from strict validation."""
    findings: frozenset[str]
    """Codes from the rules for installed skills."""
    powers: SkillPowers
    reach: SkillPowers
    """The same, as if every line of its text were executed: a model does what it reads."""


class SkillDraft(NamedTuple):
    """A change of a skill: its texts before and after."""

    before: Mapping[str, str]
    """Every text file of the skill."""
    after: Mapping[str, str]
    odd: tuple[str, ...] = ()
    """Other differences, in words: files added, removed, or with another mode."""
    modelled: bool = True
    """A model wrote it."""

    @property
    def changed(self) -> list[str]:
        return [path for path in self.after if self.before.get(path) != self.after[path]]


def static_gates(
    draft: SkillDraft, before: SkillInspection, after: SkillInspection, faults: Sequence[SkillFault]
) -> Iterator[GateResult]:
    """The gates that need no run, cheapest first."""
    yield _files_gate(draft)
    yield _valid_gate(before, after)
    yield _frontmatter_gate(draft)
    yield _bounds_gate(draft)
    yield _capabilities_gate(draft, before, after)
    yield _runs_gate(draft, before, after)
    yield _steps_gate(draft, faults)
    yield _lost_gate(draft, faults)
    yield _guards_gate(draft, faults)
    yield _novelty_gate(draft, faults)
    yield _own_words_gate(draft, faults)
    yield _language_gate(draft)


def _make_gate(name: str, wrong: Iterable[str], detail: str = "") -> GateResult:
    problems = "; ".join(wrong)
    return GateResult(name, "no", problems) if problems else GateResult(name, "yes", detail)


def _files_gate(draft: SkillDraft) -> GateResult:
    gone = [f"{path} was removed" for path in draft.before if path not in draft.after]
    new = [f"{path} was added" for path in draft.after if path not in draft.before]
    return _make_gate("files", (*draft.odd, *gone, *new), ", ".join(draft.changed))


def _valid_gate(before: SkillInspection, after: SkillInspection) -> GateResult:
    wrong = sorted(after.faults - before.faults)
    return _make_gate("valid", (["it does not load as a skill"] if not after.loads else []) + wrong)


def _frontmatter_gate(draft: SkillDraft) -> GateResult:
    """Only the description may change; every other line must stay as it is, comments included."""
    old, new = (split_frontmatter(files.get(SKILL_FILE, ""))[0] for files in (draft.before, draft.after))
    if old == new:
        return GateResult("frontmatter", "yes", "unchanged")
    if not new or _without_description(old) != _without_description(new):
        return GateResult("frontmatter", "no", "it changes frontmatter other than the description")
    return GateResult("frontmatter", "yes", "only the description changed")


def _without_description(head: str) -> list[str]:
    lines, inside = [], False
    for line in head.splitlines(keepends=True):
        if line.startswith("description:"):
            inside = True
        elif not inside or (line[:1] not in (" ", "\t") and line.strip()):
            inside = False
            lines.append(line)
    return lines


def changes_description(draft: SkillDraft) -> bool:
    return (
        split_frontmatter(draft.before.get(SKILL_FILE, ""))[0] != split_frontmatter(draft.after.get(SKILL_FILE, ""))[0]
    )


def _bounds_gate(draft: SkillDraft) -> GateResult:
    return _make_gate("bounds", [problem for path in draft.changed for problem in _bounds_problems(path, draft)])


def _bounds_problems(path: str, draft: SkillDraft) -> Iterator[str]:
    old, new = prose_body(path, draft.before.get(path, "")), prose_body(path, draft.after[path])
    # A body that was too large before may shrink, and be edited without growing.
    size, grown = len(new.encode("utf-8", "surrogatepass")), len(new) - len(old)
    if size > LARGEST_BODY and grown > 0:
        yield f"{path} would have {size:,} bytes; the limit is {LARGEST_BODY:,}"
    if grown > max(GROWTH_BYTES, GROWTH * len(old)):
        yield f"{path} would grow by {grown:,} characters"
    if not draft.modelled:
        return
    difference, lines = compare_texts(old, new), max(1, len(old.splitlines()))
    if difference.places > MOST_PLACES or difference.lines > max(4, min(MOST_LINES, lines // 2)):
        yield (
            f"{path} changes in {difference.places} places and {difference.lines} of {lines} lines: that is a rewrite"
        )


def _capabilities_gate(draft: SkillDraft, before: SkillInspection, after: SkillInspection) -> GateResult:
    # Powers come from what runs by itself, reach from all text; of the latter only network and variables count,
    # since prose names files and programs all the time.
    wider = after.powers.beyond(before.powers)
    reach = after.reach.beyond(before.reach)
    problems = [
        f"new {kind}: {', '.join(items)}" for kind, items in wider.named().items() if items and kind != "scripts"
    ]
    problems += [
        f"new {kind}: {', '.join(items)}" for kind, items in reach.named().items() if items and kind in _REACH_KINDS
    ]
    problems += [f"new finding: {code}" for code in sorted(after.findings - before.findings)]
    # Counted, not just found: a second `sudo` is as new as a first one.
    old = Counter(phrase for text in draft.before.values() for phrase in _RISKY.findall(text))
    new = Counter(phrase for text in draft.after.values() for phrase in _RISKY.findall(text))
    problems += [f"new in its text: {' '.join(word.split())}" for word in new - old]
    hidden = {character for text in draft.after.values() for character in hidden_characters_in(text)}
    problems += [
        f"hidden characters: {character}"
        for character in sorted(
            hidden - {character for text in draft.before.values() for character in hidden_characters_in(text)}
        )
    ]
    return _make_gate("capabilities", dict.fromkeys(problems), "not widened")


_REACH_KINDS = ("network", "env")


def _runs_gate(draft: SkillDraft, before: SkillInspection, after: SkillInspection) -> GateResult:
    """A change of scripts or of commands in the body runs without a model deciding: a person approves it."""
    others = [path for path in draft.changed if not path.lower().endswith(PROSE_SUFFIXES)]
    if others or before.powers.commands != after.powers.commands:
        return GateResult("what runs", "person", f"it changes what runs: {', '.join(others or after.powers.commands)}")
    return GateResult("what runs", "yes", "untouched")


def _steps_gate(draft: SkillDraft, faults: Sequence[SkillFault]) -> GateResult:
    """A model may reword what is there and correct its commands; a person approves whatever else an agent is to do."""
    calls = _known_calls(faults)
    steps = find_new_steps(draft.before, draft.after) if draft.modelled else []
    corrected = [step for step in steps if is_correction(step, draft.before, calls)]
    new = [step for step in steps if step not in corrected]
    if new:
        return GateResult("new steps", "person", f"new in its text: {', '.join(f'`{step}`' for step in new)}")
    detail = f"corrected: {', '.join(f'`{step}`' for step in corrected)}" if corrected else ""
    return GateResult("new steps", "yes", detail or "nothing new to run, read or ask for")


def _known_calls(faults: Sequence[SkillFault]) -> list[str]:
    """What of a fault was a call or a request, and so is no text of a tool."""
    return [text for fault in faults for text in (fault.about, fault.call, fault.worked, fault.inputs) if text]


def _lost_gate(draft: SkillDraft, faults: Sequence[SkillFault]) -> GateResult:
    """No command, script, reference or check may go: a fault is cured by correcting a step, not by leaving it out."""
    # A tool that does not exist is what the fault is about; its step may have any other.
    absent = {f"`{fault.about}`" for fault in faults if fault.kind == "tool-name"}
    steps = lost_steps(draft.before, draft.after, draft.before, renamed=not draft.modelled)
    lost = [step for step in steps if step not in absent]
    if lost:
        return GateResult("lost steps", "person", f"no longer in its text: {', '.join(lost)}")
    return GateResult("lost steps", "yes", "every step is still there")


def _guards_gate(draft: SkillDraft, faults: Sequence[SkillFault]) -> GateResult:
    """Lines that forbid, ask or limit stay: no fault is cured by less care.  A wish of the user's may be just that."""
    lost = lost_guards(draft.before, draft.after)
    if not lost:
        return GateResult("guards", "yes", "nothing that forbids, asks or limits is gone")
    asked = any(fault.kind == "asked" for fault in faults)
    return GateResult("guards", "person" if asked else "no", "; ".join(lost))


def _novelty_gate(draft: SkillDraft, faults: Sequence[SkillFault]) -> GateResult:
    """What stands neither in the skill nor in what failed was not needed before: a person approves it."""
    known = [*_known_calls(faults), " ".join(sorted(_KNOWN_WORDS))]
    found = new_words(draft.before, draft.after, known)
    if found.secrets:
        return GateResult("novelty", "no", f"it puts what looks like a secret into the text: {found.secrets[0][:6]}…")
    if found.words:
        return GateResult("novelty", "person", f"new words: {', '.join(found.words[:12])}")
    return GateResult("novelty", "yes", "all its words are the skill's or the fault's")


def _own_words_gate(draft: SkillDraft, faults: Sequence[SkillFault]) -> GateResult:
    """No text of a tool's answer may become an instruction: an attacker may have written it.

    The whole text is compared, not line by line: an instruction may be spread over several.
    """
    answered = set().union(*(_word_shingles(fault.text) for fault in faults)) if faults else set()
    answered -= {shingle for text in draft.before.values() for shingle in _word_shingles(text)}
    for path in draft.changed:
        repeated = sorted(_word_shingles(draft.after[path]) & answered)
        if repeated:
            return GateResult("own words", "no", f"it repeats what a tool answered: “{' '.join(repeated[0])}”")
    return GateResult("own words", "yes")


def _word_shingles(text: str) -> set[tuple[str, ...]]:
    """Every sequence of words that is long enough; numbers, as in lists, do not count as words."""
    plain = (word.strip("_") for word in _language_words(unicodedata.normalize("NFKC", text).casefold()))
    words = [word for word in plain if word and not word.isdecimal()]
    shingles = set()
    for at in range(len(words)):
        weight, end = 0, at
        while weight < _SHINGLE and end < len(words):
            weight += _LETTER if len(words[end]) == 1 and words[end] > "\u2e7f" else _WORD
            end += 1
        if weight >= _SHINGLE:
            shingles.add(tuple(words[at:end]))
    return shingles


def _language_gate(draft: SkillDraft) -> GateResult:
    """A change must be in the script that the text is written in."""
    for path in draft.changed:
        if path.lower().endswith(PROSE_SUFFIXES):
            old, new = prose_body(path, draft.before.get(path, "")), prose_body(path, draft.after[path])
            was = _dominant_alphabet(old.splitlines())
            now = _dominant_alphabet(compare_texts(old, new).added)
            if was and now and was != now:
                return GateResult("language", "no", f"{path} is written in {was.lower()} script, the change is not")
    return GateResult("language", "yes")


def _dominant_alphabet(lines: Iterable[str]) -> str:
    """The script of most of the prose; empty if there is too little of it."""
    # Without code and links, which are Latin in any language.
    letters = [letter for line in lines for letter in _code.sub("", line) if letter.isalpha()]
    if len(letters) < 20:
        return ""
    kinds = Counter(unicodedata.name(letter, "?").split()[0] for letter in letters)
    return kinds.most_common(1)[0][0]


# --- New steps: what the changed text has an agent do ---

_USUAL_TOOLS = HARMLESS_TOOLS | {"write_file", "edit_file", "run_command"}
_KNOWN_WORDS = frozenset(
    {
        *_USUAL_TOOLS,
        *(alias for alias, ours in TOOL_ALIASES.items() if ours in _USUAL_TOOLS),
        *(word for tool in PARAMETER_ALIASES.values() for pair in tool.items() for word in pair),
    }
)
"""The usual tools, by their names here and in other products, and their parameters: naming them runs nothing."""
_fence = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})").match
_span = re.compile(
    r"(`+)(?!`)(.{1,2000}?)(?<!`)\1(?!`)|<(code|pre|kbd)\b[^>]*>(.{1,2000}?)</\3>", re.DOTALL | re.IGNORECASE
)
_DATA = r"(?:md|txt|csv|tsv|json|ya?ml|toml|xml|html|log|pdf)"
_data_file = re.compile(rf"[\w-]+(?:/[\w-]+)*\.{_DATA}").fullmatch
_number = re.compile(r"[\d.,:%+-]+").fullmatch
_ordinary = re.compile(r"[a-z]+").fullmatch
"""A plain word, which may be part of a sentence or the name of a program."""
_command_words = re.compile(r"[^\s`]+").findall
_EDGES = "\"'“”‘’«»()[]{}<>,.;:!?*_、。，；：（）「」"
_PROGRAMS = (
    r"npx|npm|pnpm|bunx|deno|uvx?|pipx?|pip3|python[23]?(?:\.\d+)?|perl|ruby|php|lua|osascript|powershell|pwsh|bash|zsh"
    r"|dash|ksh|sh|curl|wget|aria2c|git|gh|glab|svn|docker|podman|kubectl|helm|terraform|aws|gcloud|openssl|gpg|nmap"
    r"|netcat|rsync|sftp|rclone|tar|unzip|xargs|awk|sed|systemctl|launchctl|umount|mkfs|dd|pkill|killall|shutdown|reboot"
    r"|useradd|usermod|passwd|iptables|sqlite3|psql|mysql|redis-cli|tmux|nohup|rm|mv|cp|ln"
)
# Deliberately broad: a false alarm costs a look, a miss costs a command that runs unseen.
_instruction = re.compile(
    rf"(?<![\w./-])(?:{_PROGRAMS})(?![\w/-]|\.\w)"  # a program that is no word of a sentence
    r"|(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?"  # an option
    r"|(?<![\w.])(?:~|\.{1,2})/[^\s`]+|(?<![\w./:])/[A-Za-z][^\s`]*/[^\s`]*"  # a path that leaves the folder, or runs
    r"|(?<![\w./])\.[A-Za-z][\w.-]*"  # a hidden file
    r"|(?<!\w)[\w./-]+\.(?:sh|bash|py|js|mjs|ts|rb|pl|ps1|bat|exe|jar|so|dylib)(?!\w)"  # a program in a file
    r"|(?<![\w@])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|&&|\|\||<\(|\$\(|[A-Z_]{3,}=\S+"  # pieces of a command line
    r"|(?<!\w)(?:api[ _-]?keys?|access[ _-]?keys?|private[ _-]keys?|passwords?|passphrases?|passcodes?|credentials?"
    r"|secrets?|tokens?|cookies?|ssh|密碼|密码|金鑰|密钥|憑證|凭证)(?!\w)"  # secrets
    r"|(?<!\w)(?:ignore|disregard|override|forget)\s+(?:\w+\s+){0,3}"  # orders to disregard others
    r"(?:said|says|instructions?|rules?|above|previous|user)(?!\w)",
    re.ASCII | re.IGNORECASE,
)
_run_phrase = re.compile(
    r"(?:(?<!\w)(?<!the )(?<!next )(?<!each )(?<!every )(?<!this )(?<!last )(?<!a )"
    r"(?:run|runs|by running|execute|executes|by executing|launch|launches|invoke|invokes|install|installs)\s+"
    r"|(?:執行|执行|運行|运行|安裝|安装)\s*)"
    r"(?:the\s+)?(?:(?:command|program|script|binary|package|tool)\s+)?[\"'“‘*_]*([A-Za-z][\w+-]*(?:\.[\w+-]+)*)",
    re.ASCII | re.IGNORECASE,
)
_FILLER_WORDS = frozenset(
    (
        "it", "its", "them", "this", "that", "these", "those", "the", "a", "an", "all", "each", "every", "any", "both",
        "one", "again", "first", "once", "twice", "then", "only", "nothing", "anything", "something", "everything",
        "more", "no", "not", "into", "out", "when", "if", "before", "after", "on", "in", "at", "for", "with", "without",
        "until", "and", "or", "to", "another", "other", "others", "your", "their", "as", "by", "from", "step", "steps",
        "command", "commands", "script", "scripts", "program", "programs", "tool", "tools", "test", "tests",
    )
)  # fmt: skip
"""Words that follow `run` and do not name a program."""


class _CodeAndProse(NamedTuple):
    pieces: frozenset[str]
    """What is marked as code, line by line."""
    prose: str


def find_new_steps(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What the new texts give an agent to run, read or ask for, and none of the old ones does."""
    # Over all files at once: moving a step from one file to another is nothing new.
    old, new = _split_code(before), _split_code(after)
    known_words = {
        *_bare_words(old.prose),
        *(word for piece in old.pieces for word in _bare_words(piece)),
    } | _KNOWN_WORDS
    known_instructions = {
        instruction.casefold() for text in (old.prose, *old.pieces) for instruction in _instructions_in(text)
    } | known_words
    steps = [
        code
        for code in sorted(new.pieces - old.pieces)
        if not (code in before or _is_known_piece(code, old, known_words))
    ]
    steps += [
        instruction for instruction in _instructions_in(new.prose) if instruction.casefold() not in known_instructions
    ]
    steps += [
        program
        for program in _run_phrase.findall(new.prose)
        if program.casefold() not in _FILLER_WORDS and program not in known_words
    ]
    return list(dict.fromkeys(steps))


def _instructions_in(text: str) -> Iterator[str]:
    return (" ".join(match[0].split()).rstrip(_EDGES) for match in _instruction.finditer(text))


def _is_known_piece(piece: str, old: _CodeAndProse, known_words: set[str]) -> bool:
    """Whether code was in the old text, marked or not, or runs nothing: a data file, a number."""
    words = _bare_words(piece)
    if len(words) > 1:
        return f" {' '.join(words)} " in f" {' '.join(_bare_words(old.prose))} "
    if not words or _data_file(piece) or _number(piece):
        return True
    # A plain word of the old prose is no reason to allow it as code: "the cat" does not make `cat` known.
    marked = {word for old_piece in old.pieces for word in _bare_words(old_piece)} | _KNOWN_WORDS
    return words[0] in marked or (words[0] in known_words and not _ordinary(words[0]))


def _bare_words(text: str) -> list[str]:
    return [bare for word in _command_words(text) if (bare := word.strip(_EDGES))]


def _split_code(files: Mapping[str, str]) -> _CodeAndProse:
    """The prose files, split into what is marked as code and the rest."""
    pieces: list[str] = []
    prose: list[str] = []
    for path, text in files.items():
        if path.lower().endswith(PROSE_SUFFIXES):
            code, remaining = _split_fences(text.splitlines())
            pieces += code
            pieces += [" ".join((span[2] or span[4]).split()) for span in _span.finditer(remaining)]
            # A NUL keeps the words around it from forming a phrase.
            prose.append(_span.sub(" \0 ", remaining))
    return _CodeAndProse(frozenset(pieces), "\n\0\n".join(prose))


def _split_fences(lines: Iterable[str]) -> tuple[list[str], str]:
    """The lines inside fenced code blocks, and the others."""
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


# --- Replay, as far as it needs no model ---


def is_cause_gone(
    fault: SkillFault, texts: Mapping[str, str], skill: ObservedSkill, around: ToolEnvironment
) -> bool | None:
    """Whether a text can't lead to a fault any more; None if only a run can tell."""

    def named(fits: Callable[[str], bool]) -> bool:
        return any(fits(text) for text in texts.values())

    match fault.kind:
        case "tool-name":
            return fault.about in around.tools or not named(lambda text: names_tool(text, fault.about))
        case "missing-script" | "missing-file":
            exists = fault.about in skill.files or f"scripts/{fault.about}" in skill.files
            return exists or not named(lambda text: names_path(text, fault.about))
        case "placeholder":
            return fault.about not in misspelled_placeholders("\n".join(texts.values()), skill.placeholders)
        case "usage" | "start" | "corrected":
            words = fault.call.split()
            # With an interpreter in front it is another call, where the interpreter was what lacked.
            exact = fault.kind == "start"
            return not named(lambda text: match_step(text, words, skill.folder, exact) is not None)
        case "asked":
            return True
    return None
