"""Small questions that must be answered fast: this module imports almost nothing, and only what it needs."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def query_index(path: str, version: int, query: str, values: tuple[object, ...]) -> list[Any]:
    """One question to an index that is there and well; anything else is no answer."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"file:{_quote_uri_path(path)}?mode=ro", uri=True, timeout=0.05)
    except sqlite3.Error:
        return []
    try:
        if connection.execute("PRAGMA user_version").fetchall() != [(version,)]:
            return []
        return connection.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
    finally:
        connection.close()


def _quote_uri_path(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def search_path(path: str, state: str) -> str:
    """Where programs are looked for: what PATH says, then what metier installed itself."""
    tools_folder = state + "/tools/bin"
    return f"{path}:{tools_folder}" if os.path.isdir(tools_folder) else path


def has_binary(name: str, path: str) -> bool:
    """Whether an executable file of that name is on the path.  It is looked up, never run."""
    return bool(which(name, path))


def which(name: str, path: str) -> str:
    """The executable file of that name on the path; empty where there is none."""
    if not name or not path or "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        return ""
    for folder in path.split(os.pathsep):
        candidate = (folder or ".") + "/" + name
        try:
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return candidate
        except ValueError:
            return ""
    return ""
