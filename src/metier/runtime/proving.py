"""A changed skill held against its own evals: as it was, and as it would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..improve.check import Draft
from ..improve.evals import suite_of
from ..improve.prove import HELD_OUT, confirmed, weighed
from ..improve.score import Comparison, by_case, compared
from ..types.dialect import Improving
from ..types.errors import MetierError
from ..types.proposal import Gate
from ..types.skill import Skill
from .bench import Contents, Plan, contents_of
from .evaluating import evaluated
from .queueing import Pool

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library

RUNS = 3
"""How often each case is run, before and after."""


def proven(library: Library, skill: Skill, draft: Draft, model: Model, mode: Improving) -> Gate:
    """Its evals in two arms, side by side.  Where there are enough of them, a gain must show twice."""
    try:
        cases = len(suite_of(skill.directory, skill.name).cases)
        if not cases:
            return weighed(None, 0, mode)
        there = contents_of(skill.directory)
        old, new = _with(there, draft.before), _with(there, draft.after)
        plan = Plan(("old_skill", "with_skill"), RUNS, model, model, new=new, old=old)
        first = weighed(_compared(library, skill, plan), cases, mode)
        if first.says != "yes" or cases < HELD_OUT:
            return first
        return confirmed(first, _compared(library, skill, plan))
    except MetierError as error:
        return Gate("evals", "person", f"they could not be run: {error.message}")


def _with(there: Contents, texts: Mapping[str, str]) -> Contents:
    changed = {
        path: (there[path][0], text.encode("utf-8", "surrogatepass")) for path, text in texts.items() if path in there
    }
    return {**there, **changed}


def _compared(library: Library, skill: Skill, plan: Plan) -> Comparison:
    samples = evaluated(library, skill, plan, Pool(), lambda what, done, total: None).samples
    return compared(by_case(samples, "old_skill"), by_case(samples, "with_skill"))
