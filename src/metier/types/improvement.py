"""Evals and improvements: what a skill is tried with, what must hold afterwards, what went wrong, what is proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

CheckKind: TypeAlias = Literal["model", "file", "json", "matches", "contains", "command"]
"""How a check is decided: by a model, or without one."""
EvalArm: TypeAlias = Literal["with_skill", "without_skill", "old_skill"]
"""What a run could use: the skill as it is, no skill at all, or the skill as it was."""
CheckSpelling: TypeAlias = Literal["assertions", "expectations"]


@dataclass(frozen=True)
class EvalCheck:
    """One thing that must be true after a run."""

    text: str
    """What is claimed, for a person or a model to read."""
    kind: CheckKind = "model"
    file: str = ""
    """The file that it is about, `*` and `?` allowed; empty is the answer."""
    wanted: str = ""
    """A regular expression, a text, a command, or where in a JSON document to look."""
    value: object = None
    """What must be there in a JSON document; None where anything will do."""
    negated: bool = False
    """It must not be so."""


@dataclass(frozen=True)
class EvalCase:
    """One task to try a skill with."""

    id: str
    prompt: str
    checks: tuple[EvalCheck, ...]
    files: tuple[str, ...] = ()
    """Files of the skill that the task needs, by their paths in its folder."""
    expected: str = ""
    slug: str = ""
    """Its name as a folder."""


class TriggerCase(NamedTuple):
    """A prompt that a skill must be chosen for, or must not."""

    query: str
    should: bool


@dataclass(frozen=True)
class EvalSuite:
    """The cases that a skill is tried with."""

    skill: str
    cases: tuple[EvalCase, ...] = ()
    spelling: CheckSpelling = "assertions"


class GradedCheck(NamedTuple):
    """A check, decided."""

    text: str
    passed: bool | None
    """None where it could not be decided."""
    evidence: str = ""
    by: CheckKind = "model"


class EvalOutput(NamedTuple):
    """The result of a run, before it is graded."""

    answer: str
    outputs: str
    """The folder with the files that it made."""
    outcome: str = "finished"
    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0
    """Calls of tools."""
    failed: int = 0
    """Of those, the ones that went wrong."""
    activated: bool = False
    """Whether the skill's instructions were part of it."""
    void: bool = False
    """It was cut short by something other than the skill, such as a service that is down; it is not counted."""
    note: str = ""
    """What went wrong, where something did."""


class EvalSample(NamedTuple):
    """One run of one case in one arm, judged."""

    case: str
    arm: EvalArm
    number: int
    made: EvalOutput
    graded: tuple[GradedCheck, ...] = ()

    @property
    def decided(self) -> tuple[GradedCheck, ...]:
        return tuple(check for check in self.graded if check.passed is not None)

    @property
    def score(self) -> float | None:
        """The share of its checks that passed; None where none was decided."""
        decided = self.decided
        return sum(check.passed is True for check in decided) / len(decided) if decided else None


T = TypeVar("T")
R = TypeVar("R")


class EvalQueue(Protocol):
    """Runs many pieces of work concurrently."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Do the work for every item; each comes back with its result as it is done, in any order."""


FaultKind: TypeAlias = Literal[
    "tool-name", "missing-script", "missing-file", "placeholder", "step", "repeated", "order", "miscall", "asked"
]
"""What a skill did wrong; `asked` is not a fault that was seen, but a request to review the skill."""

FAULT_MEANINGS: Mapping[FaultKind, str] = {
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

ProposalStatus: TypeAlias = Literal["waiting", "refused", "accepted", "rejected", "rolled-back", "stale"]
"""Where a proposal stands: for a person to decide, kept for reading only, in place, or not any more."""

GateAnswer: TypeAlias = Literal["yes", "no", "person"]
"""What a check came to; `person` is what only a person may let pass."""


class SkillFault(NamedTuple):
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
        return (
            "it gives a tool another agent's name, which was understood" if self.bridged else FAULT_MEANINGS[self.kind]
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two of them the same."""
        return self.skill, self.kind, self.about


class GateResult(NamedTuple):
    """One check of a proposal, and what it came to."""

    name: str
    says: GateAnswer
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
    because: tuple[SkillFault, ...]
    how: Literal["fix", "model"]
    """By rule, or written by a model."""
    what: tuple[str, ...] = ()
    """What was done, a sentence each."""
    gates: tuple[GateResult, ...] = ()
    standing: ProposalStatus = "waiting"
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
    def failed(self) -> tuple[GateResult, ...]:
        """The checks that say no."""
        return tuple(gate for gate in self.gates if gate.says == "no")
