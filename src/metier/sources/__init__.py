"""1. sources: Roots -> Found."""

from __future__ import annotations

from .look import Seen, look

__all__ = ["Seen", "look"]
