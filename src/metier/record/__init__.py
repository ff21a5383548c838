"""7. record: Events -> Traces."""

from __future__ import annotations

from .encode import decode, encode, line_of, plain, read
from .journal import Journal, Recorded, new_id
from .trace import Trace, runs, trace_of

__all__ = ["Journal", "Recorded", "Trace", "decode", "encode", "line_of", "new_id", "plain", "read", "runs", "trace_of"]
