"""May a skill run here, and if not, every reason at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..light_typing import NamedTuple
from .problem import CODE_FAMILIES, Finding, Problem, ProblemCode, problem_from
from .skill import Skill

ELIGIBILITY_CODES = frozenset(CODE_FAMILIES["eligibility"])
UNTRUSTED: tuple[ProblemCode, ...] = ("untrusted", "changed-since-trust")
UNAPPROVED: tuple[ProblemCode, ...] = (
    "unapproved",
    "package-unapproved",
    "changed-since-approval",
    "lock-unreadable",
    "lock-missing",
)
MISNAMED: ProblemCode = "name-unusable"
WITHHELD = (*UNTRUSTED, *UNAPPROVED, MISNAMED)
"""Codes that mean a person has to approve the skill first, or to rename it."""


class Facts(NamedTuple):
    """What is true of this machine, as far as the skills ask."""

    platform: str
    binaries: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    """Names that are set to something."""
    empty_env: frozenset[str] = frozenset()
    """Names that are set to nothing."""


class RequirementCheck(NamedTuple):
    """One line of the requirements checklist."""

    kind: str
    name: str
    met: bool
    note: str = ""


class Verdict(NamedTuple):
    """What was decided about one skill."""

    skill: Skill
    findings: tuple[Finding, ...] = ()
    """Why it may not run, is not trusted, not allowed or shadowed."""
    shadowed_by: Skill | None = None

    @property
    def eligible(self) -> bool:
        """It may run on this machine."""
        return not any(finding.code in ELIGIBILITY_CODES for finding in self.findings)

    @property
    def usable(self) -> bool:
        """It may run, is trusted, allowed and not shadowed: it is in the catalog or the command table."""
        return not self.findings

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """The codes of eligibility among its findings, each once."""
        return tuple(dict.fromkeys(finding.code for finding in self.findings if finding.code in ELIGIBILITY_CODES))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything found about the skill, in its file and in this place."""
        if not self.findings:
            return self.skill.problems
        return self.skill.problems + tuple(problem_from(finding, self.skill.path) for finding in self.findings)


def state_of(verdict: Verdict) -> str:
    """The state of a skill in a word or two."""
    # The first thing to do comes first: trust, then approval, then what the machine lacks.
    codes = {finding.code for finding in verdict.findings}
    if not codes.isdisjoint(UNTRUSTED):
        return "untrusted"
    if not codes.isdisjoint(UNAPPROVED):
        return "unapproved"
    if MISNAMED in codes:
        return "misnamed"
    if verdict.shadowed_by is not None:
        return "shadowed"
    if "not-allowed" in codes:
        return "not allowed"
    if verdict.diagnostics:
        return _missing_label(verdict.diagnostics)
    skill = verdict.skill
    if not skill.user_may_invoke and skill.origin.dialect.authoring.user_invocable_hides:
        return "hidden"
    if not skill.model_may_invoke:
        return "user only"
    if not skill.user_may_invoke:
        return "model only"
    return "ready"


def _missing_label(diagnostics: Sequence[str]) -> str:
    """What a skill lacks, in a few words; `metier status NAME` has the details."""
    alone = {"disabled": "disabled", "not_in_allowlist": "not allowed", "platform": "other platform"}
    if diagnostics[0] in alone:
        return alone[diagnostics[0]]
    kinds = list(dict.fromkeys("binary" if code == "any_binary" else code for code in diagnostics))
    return "needs " + ", ".join(kinds[:2]) + (", …" if len(kinds) > 2 else "")
