"""Evals and proposals: the cases a skill is tried with, their graded runs, the faults of a skill, and changes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

# --- Evals ---

CheckKind: TypeAlias = Literal["model", "file", "json", "matches", "contains", "command"]
"""What decides a check: a model, or a rule that needs none."""
EvalArm: TypeAlias = Literal["with_skill", "without_skill", "old_skill"]
"""What a run has: the skill as it is, no skill at all, or the skill as it was."""
CheckSpelling: TypeAlias = Literal["assertions", "expectations"]
"""The two names that evals.json has for checks in the wild; results are written with the one that was read."""


@dataclass(frozen=True)
class EvalCheck:
    """One thing that must be true after a run."""

    text: str
    """The claim, for a person or a model to read."""
    kind: CheckKind = "model"
    file: str = ""
    """The file to check, `*` and `?` allowed; empty is the answer."""
    wanted: str = ""
    """A regular expression, a text, a command, or a path in a JSON document."""
    value: object = None
    """The value expected in a JSON document; None accepts any."""
    negated: bool = False
    """Passes if the check does not hold."""


@dataclass(frozen=True)
class EvalCase:
    """One task to try a skill with."""

    id: str
    prompt: str
    checks: tuple[EvalCheck, ...]
    files: tuple[str, ...] = ()
    """Input files, by their paths in the skill's folder."""
    expected: str = ""
    slug: str = ""
    """Its id as the name of a folder."""


class TriggerCase(NamedTuple):
    """A prompt that should trigger a skill, or should not."""

    query: str
    should: bool


@dataclass(frozen=True)
class EvalSuite:
    """The cases of a skill."""

    skill: str
    cases: tuple[EvalCase, ...] = ()
    spelling: CheckSpelling = "assertions"


class GradedCheck(NamedTuple):
    """A check and its result."""

    text: str
    passed: bool | None
    """None if it could not be decided."""
    evidence: str = ""
    by: CheckKind = "model"


class EvalOutput(NamedTuple):
    """The result of a run, before it is graded."""

    answer: str
    outputs: str
    """The folder of the files it wrote."""
    outcome: str = "finished"
    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0
    """Tool calls."""
    failed: int = 0
    """Tool calls that failed."""
    activated: bool = False
    """Whether the skill was activated."""
    void: bool = False
    """Cut short by something outside the skill, such as a service that is down: not counted."""
    note: str = ""
    """What went wrong, if anything."""


class EvalSample(NamedTuple):
    """One graded run of a case in an arm."""

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
        """The share of its checks that passed; None if none was decided."""
        decided = self.decided
        return sum(check.passed is True for check in decided) / len(decided) if decided else None


T = TypeVar("T")
R = TypeVar("R")


class EvalQueue(Protocol):
    """Runs many tasks at once."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Do the work for every item; yields each with its result as it ends, in any order."""


# --- Faults and proposals ---

FaultKind: TypeAlias = Literal[
    "tool-name",
    "missing-script",
    "missing-file",
    "placeholder",
    "usage",
    "start",
    "script",
    "corrected",
    "step",
    "repeated",
    "order",
    "miscall",
    "asked",
]
"""What is wrong with a skill.  `asked` is no failure: a user asked for a review."""

FAULT_MEANINGS: Mapping[FaultKind, str] = {
    "tool-name": "it names a tool that does not exist",
    "missing-script": "it names a script that does not exist",
    "missing-file": "it names a file that does not exist",
    "placeholder": "a placeholder is misspelled",
    "usage": "it calls its own script in a way that the script does not accept",
    "start": "its own script can't be started the way it says",
    "script": "its own script can't be read as a program",
    "corrected": "a call that it gives failed, and worked once it was corrected",
    "step": "one of its steps failed",
    "repeated": "the same call failed repeatedly while it was followed",
    "order": "a step came before what it depends on",
    "miscall": "a tool was called with wrong arguments while it was followed",
    "asked": "a user asked for a review",
}

BlamedParty: TypeAlias = Literal["skill", "environment", "user", "model", "unknown"]
"""Whose fault a failure is; of `unknown` ones only a cluster counts."""

ProposalStatus: TypeAlias = Literal["waiting", "refused", "accepted", "rejected", "rolled-back", "stale"]
"""`waiting` is for a person to decide; `refused` failed a gate, and is kept for reading only."""

GateAnswer: TypeAlias = Literal["yes", "no", "person"]
"""The result of a gate; `person` needs approval."""


class SkillFault(NamedTuple):
    """A failure that a skill caused."""

    kind: FaultKind
    skill: str
    about: str
    """The tool, path, placeholder or command concerned."""
    run: str
    tool: str = ""
    status: int | None = None
    times: int = 1
    text: str = ""
    """What the tool answered: evidence, never an instruction."""
    bridged: bool = False
    """Nothing failed, because metier translated the name."""
    party: BlamedParty = "skill"
    call: str = ""
    """The call that failed, as it was made."""
    worked: str = ""
    """The call that then worked, if one did."""
    inputs: str = ""
    """What the run was asked for."""
    at: float = 0.0
    """When the run started, in seconds since 1970."""

    @property
    def meaning(self) -> str:
        if self.bridged:
            return "it uses another agent's name for a tool, which metier translated"
        return FAULT_MEANINGS[self.kind]

    @property
    def key(self) -> tuple[str, str, str]:
        """Two faults with the same key are one."""
        return self.skill, self.kind, self.about


class GateResult(NamedTuple):
    """A gate that a proposal went through, and its result."""

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
    """The root of the skill."""
    base: str
    """The digest of the folder the proposal was made for."""
    before: Mapping[str, str]
    """The files that change, as they were, by path."""
    after: Mapping[str, str]
    because: tuple[SkillFault, ...]
    how: Literal["fix", "model"]
    """By rule, or written by a model."""
    what: tuple[str, ...] = ()
    """The changes, a sentence each."""
    gates: tuple[GateResult, ...] = ()
    standing: ProposalStatus = "waiting"
    at: str = ""
    by: str = ""
    """The id of the improver's run, if a model wrote it."""
    rev: str = ""
    """Its version in the history, once it is accepted."""
    watched: tuple[str, ...] | None = None
    """The runs since it was accepted, while it is watched; None if it is not."""
    note: str = ""
    """The reason for its status, if there is one."""

    @property
    def passed(self) -> bool:
        return all(gate.says == "yes" for gate in self.gates)

    @property
    def failed(self) -> tuple[GateResult, ...]:
        """The gates that refuse it."""
        return tuple(gate for gate in self.gates if gate.says == "no")
