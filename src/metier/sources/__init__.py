"""1. sources: Roots -> Found."""

from __future__ import annotations

from .look import Seen, Shelf, look

__all__ = ["Seen", "Shelf", "look"]
