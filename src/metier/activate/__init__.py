"""5. activate: Catalog + Call -> Activation."""

from __future__ import annotations

from .template import Given, fill, pieces
from .words import split, words_of

__all__ = ["Given", "fill", "pieces", "split", "words_of"]
