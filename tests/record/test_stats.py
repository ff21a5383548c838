"""What journals say of skills."""

from pathlib import Path

from tests.home import make_world

from metier.record.journal import Journal, RecordedEvent, prune_journals, run_ids, runs_folder
from metier.record.stats import collect_stats
from metier.record.trace import Trace, read_traces
from metier.types.activation import InvokedBy, ToolCall
from metier.types.event import Activated, Ended, Event, Heard, Offered, Started, Suggested, TurnOutcome, Usage, Used


def trace(*events: Event, run: str = "20260101-000000-abcdef") -> Trace:
    return Trace(run, tuple(RecordedEvent(1.0, one) for one in (Started(run, skills=("pdf", "csv", "old")), *events)))


def used(tool: str = "run_command", skill: str = "", **more: object) -> Used:
    return Used(ToolCall("1", tool, {}), skill=skill, **more)  # type: ignore[arg-type]


def ended(outcome: TurnOutcome = "finished") -> Ended:
    return Ended(outcome, usage=Usage(1, 90, 10, cost=0.5), seconds=2.0)


def turn(skill: str, by: InvokedBy = "model", outcome: TurnOutcome = "finished", touched: bool = True) -> list[Event]:
    calls = [used("skill_use", skill), *([used()] if touched else [])]
    return [Heard("do it"), calls[0], Activated(skill, by=by), *calls[1:], ended(outcome)]


def test_each_skill_is_counted_by_what_became_of_it():
    found = {
        one.name: one for one in collect_stats([trace(*turn("pdf"), *turn("pdf", "user", "failed"), *turn("csv"))])
    }
    pdf = found["pdf"]
    assert (pdf.offered, pdf.activated, pdf.succeeded, pdf.failed) == (3, 2, 1, 1)
    assert pdf.by == {"model": 1, "user": 1}
    assert (pdf.tokens, pdf.cost, pdf.seconds) == (200, 1.0, 4.0)
    assert (found["old"].offered, found["old"].activated) == (3, 0)
    assert list(found) == ["pdf", "csv", "old"]


def test_failing_calls_are_told_apart_by_reason_and_never_by_text():
    events: list[Event] = [
        Heard("do it"),
        Activated("pdf"),
        used("skill_run_script", "pdf", status=1, reason="exit-status"),
        used("skill_run_script", "pdf", error=True, reason="timeout"),
        used("skill_read_file", "pdf", text="Error: this is how errors look"),
        ended(),
    ]
    (pdf, *_) = collect_stats([trace(*events)])
    assert (pdf.calls, pdf.failures) == (3, {"exit-status": 1, "timeout": 1})


def test_what_a_person_stopped_counts_for_nothing():
    (pdf, *_) = collect_stats([trace(*turn("pdf", outcome="interrupted"))])
    assert (pdf.activated, pdf.succeeded, pdf.failed) == (1, 0, 0)


def test_dead_stuck_and_over_firing_skills_are_named():
    events = [event for _ in range(6) for event in turn("pdf", touched=False)]
    events += [event for _ in range(4) for event in turn("csv", "user", "failed")]
    found = {one.name: one.oddity for one in collect_stats([trace(*events)])}
    assert found == {"pdf": "over-firing", "csv": "stuck", "old": "dead"}


def test_a_skill_that_is_used_well_has_nothing_odd():
    events = [event for _ in range(6) for event in turn("pdf")] + [event for _ in range(8) for event in turn("csv")]
    assert {one.name: one.oddity for one in collect_stats([trace(*events)])}["pdf"] == ""


def test_what_is_offered_later_counts_from_then_on():
    swapped = Offered(added=("new",), removed=("old",))
    events: list[Event] = [Heard("one"), ended(), Heard("two"), swapped, ended(), Heard("three"), ended()]
    found = {one.name: one.offered for one in collect_stats([trace(*events)])}
    assert (found["new"], found["old"], found["pdf"]) == (2, 2, 3)


def test_what_is_suggested_for_a_request_counts_as_offered():
    found = {
        one.name: one.offered for one in collect_stats([trace(Heard("a"), Suggested(("/s/rare/SKILL.md",)), ended())])
    }
    assert found["rare"] == 1


def test_a_journal_with_a_torn_end_still_counts(tmp_path: Path):
    journal = Journal(f"{runs_folder(str(tmp_path))}/20260101-000000-abcdef.jsonl")
    for event in (Started("r", skills=("pdf",)), *turn("pdf")):
        journal.keep(event)
    with open(journal.path, "ab") as file:
        file.write(b'{"event":"ended","outc')
    (pdf,) = collect_stats(read_traces(str(tmp_path)))
    assert pdf.succeeded == 1


def test_journals_go_when_they_are_old_or_too_many_and_a_run_that_goes_on_stays(tmp_path: Path):
    state = str(make_world(tmp_path).state)
    names = [f"2020010{number}-000000-abcdef" for number in range(1, 6)] + ["99990101-000000-abcdef"]
    for name in names:
        Journal(f"{runs_folder(state)}/{name}.jsonl").keep(Heard("hello"))
    prune_journals(state, 0, 0)
    assert run_ids(state) == names
    with Journal(f"{runs_folder(state)}/{names[0]}.jsonl").claimed():
        prune_journals(state, 0, 4)
    assert run_ids(state) == [names[0], *names[2:]]
    prune_journals(state, 30, 0)
    assert run_ids(state) == [names[-1]]
