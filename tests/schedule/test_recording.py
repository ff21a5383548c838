"""What is recorded: a trigger in two fields as ever, a crash as a failure, and an interrupt not at all."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from json import dumps, loads
from typing import cast

import pytest
from tests.schedule.house import House

from metier.schedule import queue, store
from metier.schedule.calls import CallExecutor, QueuedCall, ended_calls
from metier.schedule.database import run_statement
from metier.schedule.durable import DurableExecutor
from metier.schedule.failures import CrashRecorder
from metier.schedule.fire import FiringExecutor
from metier.schedule.queue import QueuedFiring
from metier.types.errors import BadRequest
from metier.types.schedule import CronTrigger, OnceTrigger, RunOutcome, RunTerms, Trigger

NOON = datetime(2026, 6, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("trigger", "when", "once"),
    [(CronTrigger("0 9 * * 1-5"), "0 9 * * 1-5", False), (OnceTrigger(NOON), "2026-06-08T12:00:00+00:00", True)],
)
def test_a_trigger_is_stored_as_when_and_once_and_read_back(house: House, trigger: Trigger, when: str, once: bool):
    made = house.add("ping", when, at=NOON - timedelta(days=1))
    document = loads(store.document_of(made))
    assert (made.trigger, document["when"], document["once"]) == (trigger, when, once)
    assert "trigger" not in document
    assert store.get_schedule(house.engine, "ping") == made


def test_a_firing_and_a_call_with_the_same_fields_are_two_entries():
    firing, call = QueuedFiring("x", 1), QueuedCall("x", 1)
    assert len({firing, call}) == 2
    assert (firing.id, firing.arguments) == (call.id, call.arguments) == ("x@1", ("x", 1))


@pytest.mark.parametrize(
    ("error", "text"),
    [(ZeroDivisionError("by nothing"), "ZeroDivisionError: by nothing"), (BadRequest("no", "do so"), "no; do so")],
)
def test_a_crash_is_recorded_and_goes_on(error: Exception, text: str):
    recorded: list[RunOutcome] = []
    with pytest.raises(type(error)), CrashRecorder(recorded.append):
        raise error
    assert recorded == [RunOutcome(False, text)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_an_interrupt_is_no_failure_of_the_work(error: BaseException):
    recorded: list[RunOutcome] = []
    with pytest.raises(type(error)), CrashRecorder(recorded.append):
        raise error
    assert recorded == []


class DirectExecutor:
    """Does each step at once, and remembers none."""

    def step(self, name: str, work: Callable[[], object]) -> object:
        return work()


def begin(house: House, error: BaseException | None) -> tuple[FiringExecutor, QueuedFiring]:
    """A worker, and a firing for it whose run ends in the error."""

    def fire(*_: object) -> RunOutcome:
        if error is not None:
            raise error
        return RunOutcome(True, "done")

    store.trigger_schedule(house.engine, "ping", NOON)
    taken: list[QueuedFiring] = []
    queue.promote_waiting(house.engine, lambda connection, firing: taken.append(firing))
    durable = cast(DurableExecutor, DirectExecutor())
    executor = FiringExecutor(
        house.place, fire, house.engine, durable, "w", "home", threading.Event(), lambda: NOON, lambda line: None
    )
    return executor, taken[0]


@pytest.mark.parametrize(
    ("error", "state"), [(ZeroDivisionError("by nothing"), "failed"), (KeyboardInterrupt(), "running")]
)
def test_a_run_that_crashed_has_failed_and_one_that_was_interrupted_still_runs(
    house: House, error: BaseException, state: str
):
    house.add("ping")
    executor, firing = begin(house, error)
    with pytest.raises(type(error)):
        executor.work(firing)
    assert house.states() == [state]
    assert not executor.working


def test_a_delivery_that_crashes_leaves_nothing_running(house: House, monkeypatch: pytest.MonkeyPatch):
    def deliver(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("metier.host.http.deliver_result", deliver)
    house.add("ping", terms=RunTerms(sink="file:out"))
    executor, firing = begin(house, None)
    with pytest.raises(ZeroDivisionError):
        executor.work(firing)
    assert [(one.state, one.note) for one in house.firings()] == [("failed", "ZeroDivisionError: by nothing")]


@pytest.mark.parametrize(
    ("error", "ended"),
    [(ZeroDivisionError("by nothing"), ["ZeroDivisionError: by nothing"]), (KeyboardInterrupt(), [])],
)
def test_a_call_that_crashed_has_failed_and_one_that_was_interrupted_is_left(
    house: House, error: BaseException, ended: list[str]
):
    with house.engine.begin() as connection:
        run_statement(
            connection,
            "INSERT INTO metier_calls (batch, number, task, state, note) VALUES ('b', 1, :task, '', '')",
            task=dumps({"text": "hello", "allow": []}),
        )

    def do(*_: object) -> RunOutcome:
        raise error

    executor = CallExecutor(do, house.engine, cast(DurableExecutor, DirectExecutor()), threading.Event())
    with pytest.raises(type(error)):
        executor.work(QueuedCall("b", 1))
    assert [one.outcome.text for one in ended_calls(house.engine, "b")] == ended
    assert not executor.working
