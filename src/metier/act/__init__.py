"""6. act: Activation + Messages -> Events."""

from __future__ import annotations

from .conversation import Conversation, conversation_of
from .loop import Ports, turn
from .restore import Offer, repairs
from .toolset import Ending, Toolset, toolset

__all__ = ["Conversation", "Ending", "Offer", "Ports", "Toolset", "conversation_of", "repairs", "toolset", "turn"]
