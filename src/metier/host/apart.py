"""A program of ours that goes on by itself, whatever becomes of whoever started it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

_MAIN = "metier.faces.cli.door"


def start_metier(words: Sequence[str], cwd: str, env: Mapping[str, str]) -> bool:
    """Begin a command of metier's own, apart from this process and its terminal; False where it can't be begun."""
    argv = [sys.executable, "-P", "-m", _MAIN, *words]  # -P: nothing in the folder it stands in is imported
    quiet = subprocess.DEVNULL
    try:
        begun = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except OSError:
        return False
    threading.Thread(target=begun.wait, name="metier-apart", daemon=True).start()  # so that it leaves no trace
    return True
