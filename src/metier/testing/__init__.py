"""testing: fakes that ship, for tests of what is built on metier."""

from __future__ import annotations

from .models import ScriptedModel

__all__ = ["ScriptedModel"]
