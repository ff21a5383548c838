"""A change to one skill that is proposed: what led to it, what it says, and what was checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

FaultKind: TypeAlias = Literal[
    "tool-name", "missing-script", "missing-file", "placeholder", "step", "repeated", "order", "miscall", "asked"
]
"""What a skill did wrong; `asked` is nothing that was seen, but somebody's wish that it be looked over."""

KINDS: Mapping[FaultKind, str] = {
    "tool-name": "it names a tool that is not there",
    "missing-script": "it names a script that is not there",
    "missing-file": "it names a file that is not there",
    "placeholder": "a placeholder is misspelled",
    "step": "a step that it gives failed",
    "repeated": "the same failed again and again while it was followed",
    "order": "a step came before what it needs",
    "miscall": "a tool was called wrongly while it was followed",
    "asked": "somebody asked for it to be looked over",
}

Standing: TypeAlias = Literal["waiting", "refused", "accepted", "rejected", "rolled-back", "stale"]
"""Where a proposal stands: for a person to decide, kept for reading only, in place, or not any more."""

Says: TypeAlias = Literal["yes", "no", "person"]
"""What a check came to; `person` is what only a person may let pass."""


class Fault(NamedTuple):
    """A failure that a skill is to blame for."""

    kind: FaultKind
    skill: str
    about: str
    """The tool, the path, the placeholder or the command that it is about."""
    run: str
    tool: str = ""
    status: int | None = None
    times: int = 1
    text: str = ""
    """What the tool answered: evidence, and never an instruction."""
    bridged: bool = False
    """Nothing failed: metier knew what was meant."""

    @property
    def meaning(self) -> str:
        return "it gives a tool another agent's name, which was understood" if self.bridged else KINDS[self.kind]

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two of them the same."""
        return self.skill, self.kind, self.about


class Gate(NamedTuple):
    """One check of a proposal, and what it came to."""

    name: str
    says: Says
    words: str = ""


@dataclass(frozen=True)
class Proposal:
    """A change to the text files of one skill."""

    id: str
    skill: str
    folder: str
    root: str
    """The root that the skill lies in."""
    base: str
    """The digest of the folder that it was made for."""
    before: Mapping[str, str]
    """The files that change, as they were, by their paths in the folder."""
    after: Mapping[str, str]
    because: tuple[Fault, ...]
    how: Literal["fix", "model"]
    """By rule, or written by a model."""
    what: tuple[str, ...] = ()
    """What was done, a sentence each."""
    gates: tuple[Gate, ...] = ()
    standing: Standing = "waiting"
    at: str = ""
    by: str = ""
    """The improver's own run, where it was a model's."""
    rev: str = ""
    """Its version in the history, once it is in place."""
    watched: tuple[str, ...] | None = None
    """The runs since it came into place, while it is watched."""
    note: str = ""
    """Why it stands where it stands, where that needs words."""

    @property
    def passed(self) -> bool:
        return all(gate.says == "yes" for gate in self.gates)

    @property
    def failed(self) -> tuple[Gate, ...]:
        """The checks that say no."""
        return tuple(gate for gate in self.gates if gate.says == "no")
