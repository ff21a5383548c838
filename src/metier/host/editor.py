"""Programs that a person looks at: the editor of their choice, and the browser."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Mapping

from ..types.errors import HostError

_FALLBACKS = ("nano", "vim", "vi")


def edit_text(text: str, env: Mapping[str, str]) -> str | None:
    """The text as the user left it; None where the editor failed, which is how one says "forget it"."""
    command = editor_command(env)
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        # The name tells an editor how to colour it.
        path = f"{folder}/request.md"
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        try:
            done = subprocess.run([*command, path], env=dict(env), check=False)
        except OSError as error:
            hint = "set EDITOR to an editor that is installed"
            raise HostError(f"the editor `{command[0]}` can't be started: {error.strerror}", hint) from error
        if done.returncode != 0:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().removesuffix("\n")


def editor_command(env: Mapping[str, str]) -> list[str]:
    """The editor that `VISUAL` or `EDITOR` names, or one that most machines have."""
    named = env.get("VISUAL") or env.get("EDITOR")
    if named:
        try:
            return shlex.split(named) or [named]
        except ValueError:
            return [named]
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    for name in _FALLBACKS:
        if any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders):
            return [name]
    return [_FALLBACKS[-1]]


def open_in_browser(address: str) -> bool:
    """Show a page in the user's browser; False where there is none to show it in."""
    # Without a display, some systems would open a browser in this very terminal.
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
