"""Clusters: what many runs show that one can't.

A failure that nothing explains may be the skill's, or of a bad day.  It counts once the same step failed in several
runs, with different inputs, on different days, and did not succeed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..host.facts import local_stamp
from ..types.event import Used
from ..types.improvement import SkillFault
from .steps import call_words, match_step

if TYPE_CHECKING:
    from ..record.trace import Trace

CLUSTER_FAULTS, CLUSTER_RUNS = 3, 2
"""Outside `auto`, a model is asked only after so many failures in so many runs."""
_DAYS, _INPUTS = 2, 2
"""On how many days, and with how many inputs, an unexplained failure has to occur."""


def is_cluster(faults: Sequence[SkillFault]) -> bool:
    """Whether enough failed to ask a model, and in more than one run."""
    return (
        sum(fault.times for fault in faults) >= CLUSTER_FAULTS and len({fault.run for fault in faults}) >= CLUSTER_RUNS
    )


def counted_faults(faults: Sequence[SkillFault], traces: Sequence[Trace], folder: str) -> list[SkillFault]:
    """The faults that count without anybody asking: those that are the skill's, and clusters of unknown ones."""
    keys = {fault.key for fault in faults if fault.party == "unknown"}
    proven = {
        key for key in keys if _is_unknown_cluster([fault for fault in faults if fault.key == key], traces, folder)
    }
    return [fault for fault in faults if fault.party == "skill" or fault.key in proven]


def _is_unknown_cluster(same: Sequence[SkillFault], traces: Sequence[Trace], folder: str) -> bool:
    runs, inputs = {fault.run for fault in same}, {(fault.inputs, fault.call) for fault in same}
    days = {local_stamp(int(fault.at * 1e9))[:8] for fault in same}
    if len(runs) < CLUSTER_RUNS or len(inputs) < _INPUTS or len(days) < _DAYS:
        return False
    first, last = min(fault.at for fault in same), max(fault.at for fault in same)
    between = [trace for trace in traces if first <= trace.at <= last]
    return not any(_succeeded(trace, same[0], folder) for trace in between)


def _succeeded(trace: Trace, fault: SkillFault, folder: str) -> bool:
    """Whether the step went well in a run, whatever was filled in."""
    return any(
        isinstance(event, Used)
        and not event.failed
        and bool(event.text)
        and (
            event.call.name == fault.about or match_step(f"`{fault.about}`", call_words(event.call), folder) is not None
        )
        for event in trace.events
    )
