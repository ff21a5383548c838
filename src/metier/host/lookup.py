"""Find programs on a search path."""

from __future__ import annotations

import os


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
