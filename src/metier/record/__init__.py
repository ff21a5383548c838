"""7. record: Events -> Traces."""

from __future__ import annotations

from .encode import decode, encode, line_of
from .journal import Journal, Recorded, new_id
from .trace import Trace, runs, trace_of

__all__ = ["Journal", "Recorded", "Trace", "decode", "encode", "line_of", "new_id", "runs", "trace_of"]
