"""Typos: whether a name can only be another one misspelled.

A typo is one slip of the hand in one word.  Two names that differ by more than that, or by something that carries
meaning, are two names: a number or a date, a negation (`lock`, `unlock`), a pair of opposites, the case of a variable.
A rule that guesses there changes what a skill does, and nobody looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_name_words = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+").findall
_SHORTEST, _LONG = 4, 8
"""A word of fewer than four letters is too short to tell a typo; one of eight may have two slips."""
_PREFIXES = ("un", "de", "dis", "non", "no", "not", "in", "im", "ir", "re", "pre", "post", "sub", "anti", "mis", "out")
"""What turns a word into another one, often its opposite."""
_OPPOSITE_WORDS = (
    "add/remove add/delete allow/deny asc/desc attach/detach before/after begin/end block/allow close/open"
    " commit/revert create/delete debug/release dev/prod down/up dst/src end/start even/odd export/import fail/pass"
    " false/true first/last get/set grant/revoke head/tail hide/show high/low hot/cold in/out input/output"
    " left/right live/test load/save local/remote login/logout major/minor max/min merge/split near/far new/old"
    " next/prev no/yes off/on parent/child pause/resume pop/push prod/staging prod/test pull/push read/write"
    " receive/send request/response row/col run/stop server/client short/long source/target stage/prod start/stop"
    " stdin/stdout sync/async top/bottom upload/download encrypt/decrypt encode/decode enable/disable from/form"
    " user/used sent/send sort/sorted build/built lose/loose price/prize cost/host test/text post/port month/mouth"
)
_OPPOSITES = frozenset(frozenset(pair.split("/")) for pair in _OPPOSITE_WORDS.split())
"""Words that are near in letters or in use and far in meaning."""
_CALENDAR_WORDS = (
    "jan feb mar apr may jun jul aug sep oct nov dec january february march april june july august september"
    " october november december mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday"
    " sunday spring summer autumn winter daily weekly monthly yearly hourly today tomorrow yesterday"
)
_CALENDAR = frozenset(_CALENDAR_WORDS.split())


def is_typo(wrong: str, right: str) -> bool:
    """Whether a name can only be the other one, misspelled."""
    if not wrong or not right or wrong == right:
        return False
    if wrong.casefold() == right.casefold() or _letters(wrong) == _letters(right):
        return True  # only its case, or how its words are joined
    if _digits(wrong) != _digits(right):
        return False
    theirs, ours = name_words(wrong), name_words(right)
    if len(theirs) != len(ours):
        return False
    different = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and _is_slip(*different[0])


def name_words(name: str) -> list[str]:
    """The words of a name, without case: `lockVault-2` has `lock`, `vault` and `2`."""
    return [word.casefold() for word in _name_words(name)]


def _letters(name: str) -> str:
    return "".join(name_words(name))


def _digits(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _is_slip(wrong: str, right: str) -> bool:
    """Whether one word is another with a letter too many, missing, wrong or out of order."""
    if wrong.isdecimal() or right.isdecimal() or differ_in_meaning(wrong, right):
        return False
    if min(len(wrong), len(right)) < _SHORTEST:
        # The same letters in another order are a typo even in a short word: `dri`, `dir`.
        return len(wrong) > 2 and sorted(wrong) == sorted(right) and wrong[0] == right[0]
    most = 2 if min(len(wrong), len(right)) >= _LONG else 1
    # Nobody mistypes the first letter and then leaves it: another first letter is another word.
    return wrong[0] == right[0] and edit_distance(wrong, right) <= most


def differ_in_meaning(first: str, second: str) -> bool:
    """Whether two words are opposites, two dates, or one with a prefix that makes it another."""
    if frozenset((first, second)) in _OPPOSITES or {first, second} <= _CALENDAR:
        return True
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    return any(longer == prefix + shorter for prefix in _PREFIXES)


def edit_distance(first: str, second: str) -> int:
    """How many letters are to be added, removed, replaced, or exchanged with their neighbour."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        older, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]


def only_reading(wrong: str, names: Iterable[str]) -> str:
    """The one name that a misspelled one can mean; empty if there is none, or more than one."""
    fitting = [name for name in names if is_typo(wrong, name)]
    return fitting[0] if len(fitting) == 1 else ""


# --- Paths ---

_KINDS = (
    frozenset({"py", "sh", "bash", "js", "mjs", "cjs", "ts", "rb", "pl", "ps1"}),
    frozenset({"md", "markdown", "txt", "rst", "adoc"}),
    frozenset({"yaml", "yml"}),
    frozenset({"jpg", "jpeg"}),
    frozenset({"html", "htm"}),
    frozenset({"csv", "tsv"}),
)
"""Suffixes of one kind: a reference is never what was meant by a script."""


def same_kind(first: str, second: str) -> bool:
    """Whether two paths end in the same suffix, or in two of one kind."""
    ends = tuple(path.rpartition("/")[2].rpartition(".")[2].casefold() for path in (first, second))
    return ends[0] == ends[1] or any(set(ends) <= kind for kind in _KINDS)


def path_reading(path: str, files: Iterable[str], anywhere: bool = True) -> str:
    """The one file that a path which does not exist can mean; empty if there is none, or more than one.

    It is in the same folder, of the same kind, and its own name is the same or has a typo.  With `anywhere`, a path
    without a folder may also be one inside a folder.  Folders are compared apart from the name: what they share must
    not make two names look alike.
    """
    fitting = [file for file in files if _fits(path, file, anywhere)]
    # An exact name in a folder that is spelled differently is surer than another name with a typo.
    exact = [file for file in fitting if _base(file) == _base(path)] or fitting
    return exact[0] if len(exact) == 1 else ""


def _fits(path: str, file: str, anywhere: bool) -> bool:
    if not same_kind(path, file):
        return False
    named, folder = path.rpartition("/")[0], file.rpartition("/")[0]
    stems = tuple(_base(name).partition(".")[0] for name in (path, file))
    same_name = _base(path) == _base(file)
    if named == folder:
        return same_name or stems[0] == stems[1] or is_typo(*stems)
    # Another folder, and another name in it, is a guess too many.
    return same_name and ((anywhere and not named) or _same_folder(named, folder))


def _same_folder(wrong: str, right: str) -> bool:
    """Whether a folder is another one, shortened (`refs`, `references`) or misspelled."""
    theirs, ours = wrong.split("/"), right.split("/")
    if len(theirs) != len(ours):
        return False
    different = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and (is_typo(*different[0]) or _is_short_form(*different[0]))


def _is_short_form(first: str, second: str) -> bool:
    shorter, longer = sorted((first.casefold().rstrip("s"), second.casefold().rstrip("s")), key=len)
    return len(shorter) >= 3 and shorter.isalpha() and longer.startswith(shorter)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
