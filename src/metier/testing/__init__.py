"""testing: fakes that ship, for tests of what is built on metier.

`models` has `ScriptedModel`, a model that replays a script; `conformance` runs the operations of conformance cases.
"""

from __future__ import annotations

from .models import ScriptedModel

__all__ = ["ScriptedModel"]
