"""Three-way merge of a folder: upstream's changes with local edits kept.

The base of a merge is the text that was fetched last.  A lock holds only digests, so texts are also kept in a store by
digest; local edits that are small enough go into the lock itself, so that everyone who shares it gets them.

Texts merge line by line, as in `git merge`; edits of the same lines are a conflict and never written as markers into a
skill, because a model would read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import Match, SequenceMatcher
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

from ..host import trees
from ..host.trees import read_first_bytes
from ..types.installed import FileManifest, FileRecord, FolderEntry, LockEntry

# --- The store of texts ---

MAX_TEXT_BYTES = 1_048_576
"""Larger files are not merged, and so not stored."""


def keep_texts(state: str, folder: str, files: FileManifest) -> None:
    """Store the texts of a folder by digest."""
    for path, record in files.items():
        text_path = _text_path(state, record.digest)
        if not text_path or trees.touch_file(text_path):  # touched, so that cleaning knows it is in use
            continue
        data = read_first_bytes(f"{folder}/{path}", MAX_TEXT_BYTES + 1)
        if len(data) <= MAX_TEXT_BYTES and is_text(data):
            trees.keep_bytes(text_path, data)


def kept_text(state: str, digest: str) -> bytes | None:
    """The text with that digest, if it is stored and intact."""
    text_path = _text_path(state, digest)
    if not text_path or not trees.inode_of(text_path):
        return None
    data = read_first_bytes(text_path, MAX_TEXT_BYTES + 1)
    return data if "sha256:" + sha256(data).hexdigest() == digest else None


def list_texts(state: str) -> Iterator[tuple[str, str]]:
    """The digest of each stored text, and its file."""
    for prefix in trees.list_names(f"{state}/store"):
        for suffix in trees.list_names(f"{state}/store/{prefix}"):
            yield f"sha256:{prefix}{suffix}", f"{state}/store/{prefix}/{suffix}"


def _text_path(state: str, digest: str) -> str:
    kind, _, hexes = digest.partition(":")
    return f"{state}/store/{hexes[:2]}/{hexes[2:]}" if kind == "sha256" and len(hexes) == 64 else ""


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


# --- Edits in the lock ---

MAX_EDIT_BYTES = 65_536
"""Of one text in a lock: locks are committed and reviewed."""
MAX_SKILL_EDIT_BYTES = 262_144
"""Of all texts of one skill in a lock."""


def collect_edits(folder: str, files: FileManifest, base: Mapping[str, FileRecord | None]) -> dict[str, str]:
    """Edited files of a folder, as far as they are texts small enough for a lock."""
    edits: dict[str, str] = {}
    remaining = MAX_SKILL_EDIT_BYTES
    for path in sorted(base):
        if path not in files or files[path].mode in ("link", "special"):
            continue
        data = read_first_bytes(f"{folder}/{path}", MAX_EDIT_BYTES + 1)
        if len(data) <= min(MAX_EDIT_BYTES, remaining) and is_text(data):
            edits[path] = data.decode()
            remaining -= len(data)
    return edits


def edited_text(entry: LockEntry | FolderEntry, path: str) -> bytes | None:
    """The edited text that the lock has for a path, if its digest matches."""
    data = entry.edits.get(path, "").encode("utf-8", "surrogatepass")
    return data if path in entry.edits and "sha256:" + sha256(data).hexdigest() == entry.files[path].digest else None


def edits_left_out(entry: LockEntry | FolderEntry) -> list[str]:
    """Edited files that are not in the lock, and have to be shared in another way."""
    return [path for path in sorted(entry.base) if path in entry.files and path not in entry.edits]


# --- Merging ---

MergeChoice: TypeAlias = Literal["theirs", "mine", "merge", "clash"]
_MAX_LINES = 20_000
_FEW_PAIRS = 250_000
"""Lines of one text times lines of the other, up to which difflib's exact but quadratic matching is used."""
_CONTEXT_LINES = 3
"""Lines of context around a change."""


class MergeStep(NamedTuple):
    """What happens to one path."""

    path: str
    choice: MergeChoice


def plan_merge(base: Mapping[str, FileRecord], mine: FileManifest, theirs: FileManifest) -> Iterator[MergeStep]:
    """What to do with every path of any version.  Local files are kept; what both sides changed is merged."""
    for path in sorted({*base, *mine, *theirs}):
        old, my_file, their_file = base.get(path), mine.get(path), theirs.get(path)
        if my_file in (their_file, old):
            yield MergeStep(path, "theirs")
        elif their_file == old or (old is not None and (my_file is None or their_file is None)):
            yield MergeStep(path, "mine")  # deleted here stays deleted, and edited here is not lost
        elif old is None:
            yield MergeStep(path, "clash")
        else:
            yield MergeStep(path, "merge")


def merged_mode(old: FileRecord, mine: FileRecord, theirs: FileRecord) -> str:
    """The mode of the side that changed it; theirs if both did."""
    return mine.mode if theirs.mode == old.mode else theirs.mode


def merge_texts(base: str, mine: str, theirs: str) -> str | None:
    """Both changes in one text; None if they touch the same lines."""
    old, my_lines, their_lines = (text.splitlines(keepends=True) for text in (base, mine, theirs))
    if max(map(len, (old, my_lines, their_lines))) > _MAX_LINES:
        return None
    changes = sorted([*_changed_ranges(old, my_lines, 0), *_changed_ranges(old, their_lines, 1)])
    out: list[str] = []
    copied = 0  # lines of the base that are dealt with
    for number, (start, end, side, lines) in enumerate(changes):
        if number and changes[number - 1][:2] == (start, end) and changes[number - 1][3] == lines:
            continue  # both made the same change
        # Adjacent changes of different sides conflict too, as in git: their order would be a guess.
        if start < copied or (number and start <= changes[number - 1][1] and side != changes[number - 1][2]):
            return None
        out += [*old[copied:start], *lines]
        copied = end
    return "".join([*out, *old[copied:]])


def _changed_ranges(old: list[str], new: list[str], side: int) -> Iterator[tuple[int, int, int, list[str]]]:
    for tag, start, end, first, last in _match_lines(old, new).get_opcodes():
        if tag != "equal":
            yield start, end, side, new[first:last]


def diff_texts(path: str, before: str, after: str) -> list[str]:
    """A difference as `diff -u` prints it."""
    old, new = before.splitlines(), after.splitlines()
    out: list[str] = []
    for group in _match_lines(old, new).get_grouped_opcodes(_CONTEXT_LINES):
        (_, start, _, first, _), (_, _, end, _, last) = group[0], group[-1]
        out.append(f"@@ -{_hunk_range(start, end)} +{_hunk_range(first, last)} @@")
        for tag, start, end, first, last in group:
            if tag == "equal":
                out += [f" {line}" for line in old[start:end]]
            else:
                out += [f"-{line}" for line in old[start:end]]
                out += [f"+{line}" for line in new[first:last]]
    names = f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null"
    return [f"--- {names[0]}", f"+++ {names[1]}", *out] if out else []


def _hunk_range(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"


def _match_lines(old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
    if len(old) * len(new) <= _FEW_PAIRS:
        return SequenceMatcher(None, old, new, autojunk=False)
    return _AnchoredMatcher(old, new)


class _AnchoredMatcher(SequenceMatcher[str]):
    """Matches long texts in nearly linear time, as patience diff does: anchored at the lines that both texts have
    exactly once, and extended from there as far as lines are equal."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(autojunk=False)
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[Match]:
        old, new = self.old, self.new
        blocks: list[Match] = []
        left = right = 0
        for old_at, new_at in [*_find_anchors(old, new), (len(old), len(new))]:
            ahead = back = 0
            while left + ahead < old_at and right + ahead < new_at and old[left + ahead] == new[right + ahead]:
                ahead += 1
            most = min(old_at - left, new_at - right) - ahead
            while back < most and old[old_at - back - 1] == new[new_at - back - 1]:
                back += 1
            for block in (Match(left, right, ahead), Match(old_at - back, new_at - back, back)):
                last = blocks[-1] if blocks else block
                if block is not last and last.a + last.size == block.a and last.b + last.size == block.b:
                    blocks[-1] = last._replace(size=last.size + block.size)
                elif block.size:
                    blocks.append(block)
            left, right = old_at, new_at
        return [*blocks, Match(len(old), len(new), 0)]


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that both texts have exactly once: the longest run of them in the same order (patience sorting)."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: place for place, line in enumerate(new) if line in once}
    pairs = [(place, places[line]) for place, line in enumerate(old) if line in once]
    ends: list[int] = []  # for each run length, the smallest position at which such a run ends
    holders: list[int] = []
    before: list[int] = []
    for number, (_, new_at) in enumerate(pairs):
        length = bisect_left(ends, new_at)
        before.append(holders[length - 1] if length else -1)
        ends[length : length + 1], holders[length : length + 1] = [new_at], [number]
    run: list[tuple[int, int]] = []
    number = holders[-1] if holders else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]
