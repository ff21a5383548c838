"""5. activate: Catalog + Call -> Activation."""

from __future__ import annotations

from .deliver import already_there, confirmation, context, deliver, tool_pair, tool_result, user_message
from .dispatch import dispatch
from .markers import marked
from .render import CommandFailed, Off, Terms, parts, render
from .template import Forms, Given, fill, pieces
from .words import split, words_of

__all__ = [
    "CommandFailed",
    "Forms",
    "Given",
    "Off",
    "Terms",
    "already_there",
    "confirmation",
    "context",
    "deliver",
    "dispatch",
    "fill",
    "marked",
    "parts",
    "pieces",
    "render",
    "split",
    "tool_pair",
    "tool_result",
    "user_message",
    "words_of",
]
