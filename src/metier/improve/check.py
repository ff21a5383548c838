"""Check: what must be true of a change before anybody takes it.  Each gate says yes, no, or that a person must say."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..types.installed import Powers
from ..types.proposal import Fault, Gate
from ..types.text import hidden_in
from .mentions import names_path, names_tool, slips
from .notice import Around, Known
from .steps import new_steps
from .texts import PROSE, SKILL, body_of, differing, parted

LARGEST = 15_000
"""Bytes that a body may grow to."""
GROWTH, GROWTH_BYTES = 0.2, 1_000
"""What it may grow by: a share of what it is, or so many bytes where that is more."""
PLACES, LINES = 8, 40
"""How many places and lines a model may change at once; a small text may change by half, and never as a whole."""
_SHINGLE, _WORD, _LETTER = 42, 7, 3
"""Six words in a row, or fourteen letters of a writing without blanks, are somebody's own."""
_word = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|\w+").findall
_code = re.compile(r"`[^`\n]*`|https?://\S+")
_RISKY = re.compile(
    r"\b(?:sudo|doas|eval|base64|crontab|chmod|chown|nc|ncat|socat|ssh|scp|ftp|telnet)\b"
    r"|\brm\s+-\w*[rf]|\|\s*(?:ba|z|da)?sh\b|\b(?:pip3?|npm|uv|cargo|gem|go|brew|apt(?:-get)?)\s+(?:install|add|get)\b"
    r"|--(?:no-verify|force|insecure|dangerously[\w-]*|allow[\w-]*|privileged)\b",
    re.ASCII,  # or a word among Chinese ones has no edges
)
"""Words that do more than the skill did, wherever in its text they stand."""


class Look(NamedTuple):
    """A skill as an inspection sees it."""

    loads: bool
    faults: frozenset[str]
    """Codes of what strict validation says."""
    findings: frozenset[str]
    """Codes of what the rules for installed skills find."""
    powers: Powers
    reach: Powers
    """The same, as if every line of its text were run: a model does what it reads."""


class Draft(NamedTuple):
    """A change, before and after."""

    before: Mapping[str, str]
    """Every text file of the skill."""
    after: Mapping[str, str]
    odd: tuple[str, ...] = ()
    """What else became different, in words: files that came, went, or have other modes."""
    modelled: bool = True
    """A model wrote it."""

    @property
    def changed(self) -> list[str]:
        return [path for path in self.after if self.before.get(path) != self.after[path]]


def static(draft: Draft, before: Look, after: Look, faults: Sequence[Fault]) -> Iterator[Gate]:
    """Everything that needs no run, the cheapest first."""
    yield _files(draft)
    yield _valid(before, after)
    yield _frontmatter(draft)
    yield _bounds(draft)
    yield _capabilities(draft, before, after)
    yield _runs(draft, before, after)
    yield _steps(draft)
    yield _own_words(draft, faults)
    yield _language(draft)


def _gate(name: str, wrong: Iterable[str], right: str = "") -> Gate:
    told = "; ".join(wrong)
    return Gate(name, "no", told) if told else Gate(name, "yes", right)


def _files(draft: Draft) -> Gate:
    gone = [f"{path} is gone" for path in draft.before if path not in draft.after]
    new = [f"{path} is new" for path in draft.after if path not in draft.before]
    return _gate("files", (*draft.odd, *gone, *new), ", ".join(draft.changed))


def _valid(before: Look, after: Look) -> Gate:
    wrong = sorted(after.faults - before.faults)
    return _gate("valid", (["it can't be read as a skill"] if not after.loads else []) + wrong)


def _frontmatter(draft: Draft) -> Gate:
    """Only the description may change; every other line stays as it is, comments too."""
    old, new = (parted(files.get(SKILL, ""))[0] for files in (draft.before, draft.after))
    if old == new:
        return Gate("frontmatter", "yes", "as it was")
    if not new or _without_description(old) != _without_description(new):
        return Gate("frontmatter", "no", "it changes frontmatter other than the description")
    return Gate("frontmatter", "yes", "only the description changed")


def _without_description(head: str) -> list[str]:
    kept, inside = [], False
    for line in head.splitlines(keepends=True):
        if line.startswith("description:"):
            inside = True
        elif not inside or (line[:1] not in (" ", "\t") and line.strip()):
            inside = False
            kept.append(line)
    return kept


def changed_description(draft: Draft) -> bool:
    return parted(draft.before.get(SKILL, ""))[0] != parted(draft.after.get(SKILL, ""))[0]


def _bounds(draft: Draft) -> Gate:
    return _gate("bounds", [words for path in draft.changed for words in _beyond(path, draft)])


def _beyond(path: str, draft: Draft) -> Iterator[str]:
    old, new = body_of(path, draft.before.get(path, "")), body_of(path, draft.after[path])
    size, grown = len(new.encode("utf-8", "surrogatepass")), len(new) - len(old)
    if size > LARGEST and grown > 0:
        yield f"{path} would have {size:,} bytes, of {LARGEST:,} that are allowed"
    if grown > max(GROWTH_BYTES, GROWTH * len(old)):
        yield f"{path} would grow by {grown:,} characters"
    if not draft.modelled:
        return
    made, lines = differing(old, new), max(1, len(old.splitlines()))
    if made.places > PLACES or made.lines > max(4, min(LINES, lines // 2)):
        yield f"{path} is changed in {made.places} places and {made.lines} of {lines} lines: that is another text"


def _capabilities(draft: Draft, before: Look, after: Look) -> Gate:
    wider = after.powers.beyond(before.powers)
    reach = after.reach.beyond(before.reach)
    told = [f"new {kind}: {', '.join(items)}" for kind, items in wider.named().items() if items and kind != "scripts"]
    told += [f"new {kind}: {', '.join(items)}" for kind, items in reach.named().items() if items and kind in _REACH]
    told += [f"a new finding: {code}" for code in sorted(after.findings - before.findings)]
    old = Counter(found for text in draft.before.values() for found in _RISKY.findall(text))
    new = Counter(found for text in draft.after.values() for found in _RISKY.findall(text))
    told += [f"new in its text: {' '.join(word.split())}" for word in new - old]
    hidden = {one for text in draft.after.values() for one in hidden_in(text)}
    told += [
        f"hidden characters: {one}"
        for one in sorted(hidden - {one for text in draft.before.values() for one in hidden_in(text)})
    ]
    return _gate("capabilities", dict.fromkeys(told), "not widened")


_REACH = ("network", "env")


def _runs(draft: Draft, before: Look, after: Look) -> Gate:
    """What runs by itself may be put right, but a person must have seen it."""
    others = [path for path in draft.changed if not path.lower().endswith(PROSE)]
    if others or before.powers.commands != after.powers.commands:
        return Gate("what runs", "person", f"it changes what can run: {', '.join(others or after.powers.commands)}")
    return Gate("what runs", "yes", "untouched")


def _steps(draft: Draft) -> Gate:
    """A model may say what there is in other words; what it has an agent do anew, a person must have seen."""
    found = new_steps(draft.before, draft.after) if draft.modelled else []
    if found:
        return Gate("new steps", "person", f"new in its text: {', '.join(f'`{one}`' for one in found)}")
    return Gate("new steps", "yes", "nothing new to run, read or ask for")


def _own_words(draft: Draft, faults: Sequence[Fault]) -> Gate:
    """Nothing of what a tool answered becomes part of the instructions: it may be somebody's order.

    The whole text is looked at, not line by line: an order may be spread over several.
    """
    said = set().union(*(_shingles(fault.text) for fault in faults)) if faults else set()
    said -= {one for text in draft.before.values() for one in _shingles(text)}
    for path in draft.changed:
        found = sorted(_shingles(draft.after[path]) & said)
        if found:
            return Gate("own words", "no", f"it repeats what a tool answered: “{' '.join(found[0])}”")
    return Gate("own words", "yes")


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Every few words in a row; numbers, which lists have, are none."""
    plain = (one.strip("_") for one in _word(unicodedata.normalize("NFKC", text).casefold()))
    words = [one for one in plain if one and not one.isdecimal()]
    found = set()
    for at in range(len(words)):
        weight, end = 0, at
        while weight < _SHINGLE and end < len(words):
            weight += _LETTER if len(words[end]) == 1 and words[end] > "\u2e7f" else _WORD
            end += 1
        if weight >= _SHINGLE:
            found.add(tuple(words[at:end]))
    return found


def _language(draft: Draft) -> Gate:
    """A text goes on in the writing that it is in."""
    for path in draft.changed:
        if path.lower().endswith(PROSE):
            old, new = body_of(path, draft.before.get(path, "")), body_of(path, draft.after[path])
            was = _writing(old.splitlines())
            now = _writing(differing(old, new).added)
            if was and now and was != now:
                return Gate("language", "no", f"{path} is written in {was.lower()} letters, and the change is not")
    return Gate("language", "yes")


def _writing(lines: Iterable[str]) -> str:
    """The letters that most of the prose is in; empty where there is too little of it."""
    letters = [one for line in lines for one in _code.sub("", line) if one.isalpha()]
    if len(letters) < 20:
        return ""
    kinds = Counter(unicodedata.name(one, "?").split()[0] for one in letters)
    return kinds.most_common(1)[0][0]


def cause_gone(fault: Fault, texts: Mapping[str, str], skill: Known, around: Around) -> bool | None:
    """Whether a text can still lead to a failure; None where only a run can say."""

    def named(fits: Callable[[str], bool]) -> bool:
        return any(fits(text) for text in texts.values())

    match fault.kind:
        case "tool-name":
            return fault.about in around.tools or not named(lambda text: names_tool(text, fault.about))
        case "missing-script" | "missing-file":
            there = fault.about in skill.files or f"scripts/{fault.about}" in skill.files
            return there or not named(lambda text: names_path(text, fault.about))
        case "placeholder":
            return fault.about not in slips("\n".join(texts.values()), skill.placeholders)
        case "asked":
            return True
    return None


def replayed(faults: Sequence[Fault], texts: Mapping[str, str], skill: Known, around: Around) -> Gate:
    """The recorded failures against the new text, as far as that can be told without asking anybody."""
    still = [fault for fault in faults if cause_gone(fault, texts, skill, around) is False]
    if still:
        return Gate("replay", "no", f"it would happen again: {still[0].kind} `{still[0].about}`")
    return Gate("replay", "yes", "what failed can't happen again")
