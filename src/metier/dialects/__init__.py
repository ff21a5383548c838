"""The dialects of SKILL.md, as data.  A root chooses one; no stage knows a product's name."""

from __future__ import annotations

from ..types.dialect import Dialect
from .agentmd import AGENTMD
from .agenvoy import AGENVOY
from .claude import CLAUDE
from .multica import MULTICA
from .openclaw import OPENCLAW
from .standard import STANDARD
from .umbra import UMBRA

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (STANDARD, CLAUDE, UMBRA, AGENTMD, MULTICA, AGENVOY, OPENCLAW)
}

__all__ = ["AGENTMD", "AGENVOY", "ALL", "CLAUDE", "MULTICA", "OPENCLAW", "STANDARD", "UMBRA"]
