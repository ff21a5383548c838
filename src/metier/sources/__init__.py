"""1. sources: Roots -> Found."""

from __future__ import annotations

from .directory import Reader
from .look import Seen, Shelf, look

__all__ = ["Reader", "Seen", "Shelf", "look"]
