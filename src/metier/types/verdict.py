"""May a skill run here, and if not, every reason at once."""

from __future__ import annotations

from ..light_typing import NamedTuple
from .problem import CODE_FAMILIES, Finding, Problem, problem_from
from .skill import Skill

ELIGIBILITY_CODES = frozenset(CODE_FAMILIES["eligibility"])


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
