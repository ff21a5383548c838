"""The files of a skill as one value, and the digests that are stored of them.

Whatever copies, compares, pins or replaces a skill holds its files as `SkillFiles`.  Two digests are stored, and they
answer different questions:

- `content_digest` says whether two folders hold the same skill.  Of a file's mode only the executable bit counts:
  a umask, a copy or an archive changes the other bits.  It is stored in `bundled.json`, with pinned schedules, in
  approvals of scripts and with trials.
- `manifest_digest` is the checksum of a lock's list of files.  It counts every mode bit and where links lead, and
  needs no bytes: the list already holds the digest of each file.  It is stored in locks and with proposals.

One algorithm for both was refused: with exact modes a pinned copy unpacked under another umask would not match its
pin, and without them a lock could not tell that a file was made executable for everybody.  Neither algorithm may
change, because both values are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..host import files, paths

if TYPE_CHECKING:
    from ..types.installed import FileManifest

LINK_MODE = 0o120000
"""The mode of a link; its data is the path it leads to."""
_MAX_FILE_BYTES = 16_777_216
"""Of one file that is digested; a larger one is an error, not a part of the digest."""


class SkillFile(NamedTuple):
    """One file: its permission bits (or `LINK_MODE`), and its bytes."""

    mode: int
    data: bytes

    @property
    def executable(self) -> bool:
        return bool(self.mode & 0o100)


@dataclass(frozen=True)
class SkillFiles(Mapping[str, SkillFile]):
    """The files of a skill's folder at one moment, by their path inside it."""

    files: Mapping[str, SkillFile] = field(default_factory=dict)

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, tuple[int, bytes]]) -> SkillFiles:
        """The same of plain (mode, bytes) pairs, as a history returns them."""
        return cls({path: SkillFile(*pair) for path, pair in pairs.items()})

    def __getitem__(self, path: str) -> SkillFile:
        return self.files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The files that are UTF-8 text, byte for byte: line endings and a BOM stay."""
        texts = {}
        for path, file in self.files.items():
            try:
                text = file.data.decode("utf-8")
            except UnicodeDecodeError:
                continue
            if "\0" not in text:
                texts[path] = text
        return texts

    @cached_property
    def digest(self) -> str:
        """The content digest: the same as `folder_digest` of a folder with these files."""
        return content_digest(sorted(self.files.items()))

    def with_texts(self, texts: Mapping[str, str]) -> SkillFiles:
        """These files with other texts.  Modes stay, and a path that is not here already is not added."""
        changed = {
            path: self.files[path]._replace(data=text.encode("utf-8", "surrogatepass"))
            for path, text in texts.items()
            if path in self.files
        }
        return SkillFiles({**self.files, **changed})


def content_digest(skill_files: Iterable[tuple[str, SkillFile]]) -> str:
    """The digest of files that come sorted by path: each path, executable bit, length and bytes."""
    from hashlib import sha256  # slow to load, and every command imports this module

    hasher = sha256()
    for path, file in skill_files:
        executable = "x" if file.executable else "-"
        # The length makes the end of each file unambiguous: bytes can't be moved from one file into the next.
        hasher.update(f"{path}\0{executable}\0{len(file.data)}\0".encode("utf-8", "surrogatepass"))
        hasher.update(file.data)
    return "sha256:" + hasher.hexdigest()


def folder_digest(directory: str) -> str:
    """The content digest of a folder; one file at a time is in memory."""
    return content_digest(_read_folder(directory))


def _read_folder(directory: str) -> Iterator[tuple[str, SkillFile]]:
    for path, status in paths.tree_of(directory):
        _, data = files.read_skill_file(directory, path, _MAX_FILE_BYTES)
        yield path, SkillFile(status.st_mode & 0o777, data)


def manifest_digest(manifest: FileManifest) -> str:
    """The digest of a lock's list of files: every path, mode and file digest, each with its length before it."""
    from hashlib import sha256

    hasher = sha256()
    for path, record in sorted(manifest.items()):
        for part in (path, record.mode, record.digest):
            data = part.encode("utf-8", "surrogateescape")
            hasher.update(f"{len(data)}:".encode() + data)
    return "sha256:" + hasher.hexdigest()
