"""Where the stages meet: open() looks at the disk once, and a Library is what it saw."""

from __future__ import annotations

from .library import Library
from .opening import open, open_at
from .versions import Snapshot

__all__ = ["Library", "Snapshot", "open", "open_at"]
