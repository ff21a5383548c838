"""Paths inside an archive or a repository: judged as text, all of them before anything is written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from ..types.errors import Refused

_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search


def inner_path(text: str) -> str:
    """A path inside a folder, as an archive or a repository names it, without `./` and trailing slashes."""
    fault = _path_fault(text)
    if fault:
        raise Refused(f"`{text[:200]}` is refused: {fault}", "nothing was written; tell whoever made it")
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def _path_fault(text: str) -> str:
    if not text:
        return "an entry has no name"
    if text.startswith("/") or re.match(r"[A-Za-z]:", text):
        return "its path is absolute"
    if "\\" in text:
        return "its path holds a backslash"
    if _control(text):
        return "its path holds a control character"
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        return "its path leads out of the folder"
    if any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts) or len(text) > 1024:
        return "its path is too long"
    if any(_is_git(part) for part in parts):
        return "it would bring a git repository of its own"
    return ""


def _is_git(part: str) -> bool:
    """`.git` in every spelling that some file system takes for it."""
    plain = "".join(one for one in part if unicodedata.category(one) != "Cf").lower().rstrip(". ")
    return plain.partition(":")[0] == ".git" or plain == "git~1"


def check_together(files: Iterable[str]) -> None:
    """Refuse files that would be one on some system, and a file that is a folder to another."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in files:
        folded = _folded(path)
        if folded in seen:
            raise Refused(f"`{path}` is there twice, as `{seen[folded]}` too", "nothing was written")
        seen[folded] = path
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if folders.setdefault(_folded(above), above) != above:
                raise Refused(f"`{above}` is there twice, as `{folders[_folded(above)]}` too", "nothing was written")
    for folded, path in seen.items():
        if folded in folders:
            raise Refused(f"`{path}` is a file and a folder at once", "nothing was written")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
