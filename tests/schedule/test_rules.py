"""What a schedule owes, by its rules."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from tests.schedule.house import House, now

from metier.schedule import claims, pins, queue, store
from metier.schedule.database import fetch_rows, run_statement
from metier.schedule.plan import apply_overlap, compute_due, start_of
from metier.schedule.runner import preserve_agreements
from metier.schedule.store import schedule_of
from metier.types.errors import BadRequest
from metier.types.schedule import CronTrigger, OnceTrigger, RunOutcome, Schedule, ScheduleRules

NOON = datetime(2026, 6, 8, 12, tzinfo=UTC)


def every_five(catch_up: str = "one", next: datetime = NOON, **more: object) -> Schedule:
    rules = ScheduleRules(catch_up=catch_up)  # type: ignore[arg-type]
    made = Schedule("s", "s", CronTrigger("*/5 * * * *"), "UTC", "d", "/s", "h", rules=rules, next=next)
    return replace(made, **more)  # type: ignore[arg-type]


def test_three_hours_away_make_one_catch_up_and_the_rest_missed():
    found = compute_due(every_five(), NOON + timedelta(hours=3, minutes=2))
    assert found.fire == (NOON + timedelta(hours=3),)
    assert len(found.missed) == 36
    assert found.next == NOON + timedelta(hours=3, minutes=5)


def test_none_catches_up_with_nothing_and_all_with_ten():
    late = NOON + timedelta(hours=3, minutes=2)
    assert compute_due(every_five("none"), late).fire == ()
    assert len(compute_due(every_five("none"), late).missed) == 37
    assert len(compute_due(every_five("all"), late).fire) == 10
    assert compute_due(every_five("none"), NOON + timedelta(seconds=2)).fire == (NOON,)


def test_a_one_shot_is_caught_up_within_a_day_and_missed_after_it():
    once = every_five(trigger=OnceTrigger(NOON))
    assert compute_due(once, NOON + timedelta(hours=23)).fire == (NOON,)
    assert compute_due(once, NOON + timedelta(hours=25)) == ((), (NOON,), None, None)


def test_ten_years_away_are_counted_in_bounded_time():
    began = time.process_time()
    found = compute_due(every_five(trigger=CronTrigger("* * * * *")), NOON + timedelta(days=3_653))
    assert time.process_time() - began < 2
    assert found.uncounted is not None
    assert found.fire == (NOON + timedelta(days=3_653),)


def test_jitter_is_bounded_and_the_same_every_time():
    jittery = replace(every_five(), rules=ScheduleRules(jitter=30))
    starts = [
        start_of(jittery, NOON + timedelta(minutes=5 * n)) - (NOON + timedelta(minutes=5 * n)) for n in range(200)
    ]
    assert min(starts) >= timedelta(0)
    assert timedelta(seconds=20) < max(starts) <= timedelta(seconds=30)
    assert starts[0] == start_of(jittery, NOON) - NOON


@pytest.mark.parametrize(
    ("overlap", "at_work", "waiting", "state"),
    [
        ("skip", False, 0, "waiting"),
        ("skip", True, 0, "skipped"),
        ("skip", False, 1, "skipped"),
        ("queue-one", True, 0, "waiting"),
        ("queue-one", True, 1, "skipped"),
        ("replace", True, 1, "waiting"),
    ],
)
def test_the_overlap_rule_says_what_becomes_of_a_firing(overlap, at_work, waiting, state):
    found = apply_overlap(overlap, (NOON,), at_work, waiting)
    assert [one[1] for one in found.new] == [state]
    assert found.stop == (overlap == "replace" and at_work)


# --- In the book ---


def take(house: House) -> list[queue.QueuedFiring]:
    found: list[queue.QueuedFiring] = []
    queue.promote_waiting(house.engine, lambda connection, turn: found.append(turn))
    return found


def fire(house: House, at: datetime, ok: bool = True) -> None:
    claims.claim_due(house.engine, at)
    for turn in take(house):
        queue.begin_firing(house.engine, turn, "w", at)
        queue.end_firing(house.engine, turn, RunOutcome(ok, "said so"), at)


def test_two_workers_cannot_claim_one_instant(any_house):
    any_house.add("ping", "* * * * *", at=NOON)
    later = NOON + timedelta(minutes=1, seconds=1)
    assert claims.claim_due(any_house.engine, later).firings == 1
    assert claims.claim_due(any_house.engine, later).firings == 0
    assert len(take(any_house)) == 1
    assert take(any_house) == []


def test_workers_that_look_at_the_same_moment_claim_an_instant_once(any_house):
    """Each has read the row before any of them writes it: the compare-and-set decides, not the reading."""
    any_house.add("ping", "* * * * *", at=NOON)
    for minute in range(1, 11):
        together = Barrier(6)
        later = NOON + timedelta(minutes=minute, seconds=1)

        def claim(together: Barrier = together, later: datetime = later) -> int:
            together.wait()
            return claims.claim_due(any_house.engine, later).firings

        with ThreadPoolExecutor(6) as pool:
            assert sum(worker.result() for worker in [pool.submit(claim) for _ in range(6)]) == 1


def test_a_row_that_another_worker_moved_on_claims_nothing(any_house):
    any_house.add("ping", "* * * * *", at=NOON)
    with any_house.engine.connect() as connection:
        stale = fetch_rows(connection, "SELECT * FROM metier_schedules")[0]
    assert claims.claim_due(any_house.engine, NOON + timedelta(minutes=1, seconds=1)).firings == 1
    with any_house.engine.begin() as connection:
        much_later = NOON + timedelta(minutes=5)
        assert claims._claim_schedule(connection, schedule_of(stale), stale, much_later) == 0


def test_failures_in_a_row_pause_and_say_why(any_house):
    any_house.add("ping", "* * * * *", at=NOON)
    for minute in (1, 2, 3, 4):
        fire(any_house, NOON + timedelta(minutes=minute), ok=False)
    found = store.get_schedule(any_house.engine, "ping")
    assert found is not None
    assert found.paused == "3 failures in a row, the last: said so"
    assert any_house.states() == ["failed"] * 3


def test_a_success_in_between_starts_the_count_anew(house):
    house.add("ping", "* * * * *", at=NOON)
    for minute, ok in enumerate((False, False, True, False, False), 1):
        fire(house, NOON + timedelta(minutes=minute), ok=ok)
    found = store.get_schedule(house.engine, "ping")
    assert found is not None
    assert (found.paused, found.failures) == ("", 2)


def test_a_one_shot_goes_after_success_and_is_kept_with_the_error_after_failure(any_house):
    for id, ok in (("good", True), ("bad", False)):
        any_house.add(id, (NOON + timedelta(minutes=1)).isoformat(), at=NOON, session=id)
        fire(any_house, NOON + timedelta(minutes=1, seconds=1), ok)
    good = store.get_schedule(any_house.engine, "good")
    assert good is not None
    assert good.paused == queue.DONE_REASON
    queue.clear_finished(any_house.engine, "good")
    queue.clear_finished(any_house.engine, "bad")
    assert store.get_schedule(any_house.engine, "good") is None
    bad = store.get_schedule(any_house.engine, "bad")
    assert bad is not None
    assert bad.paused == "it failed: said so"


def test_a_one_shot_that_fired_is_not_fired_again_though_its_worker_died_before_removing_it(any_house):
    any_house.add("once", (NOON + timedelta(minutes=1)).isoformat(), at=NOON)
    claims.claim_due(any_house.engine, NOON + timedelta(minutes=2))
    [turn] = take(any_house)
    queue.begin_firing(any_house.engine, turn, "w", NOON)
    claims.claim_due(any_house.engine, NOON + timedelta(minutes=3))
    assert take(any_house) == []
    assert any_house.states() == ["running"]


def test_when_a_zone_changes_its_rules_the_next_time_is_counted_anew_and_nothing_fires_extra(any_house):
    right = any_house.add("ping", "0 9 * * *", at=NOON).next
    assert right is not None
    with any_house.engine.begin() as connection:  # as it was counted by other rules
        early = store.epoch_ms(right - timedelta(hours=1))
        run_statement(connection, "UPDATE metier_schedules SET next_due = :due, next_start = :due", due=early)
    assert claims.recompute_next(any_house.engine, NOON) == 1
    assert claims.recompute_next(any_house.engine, NOON) == 0
    assert [one.next for one in store.all_schedules(any_house.engine)] == [right]
    assert claims.claim_due(any_house.engine, right - timedelta(minutes=30)).firings == 0
    assert claims.claim_due(any_house.engine, right).firings == 1


def test_a_one_shot_whose_day_passed_is_kept_and_says_so(house):
    house.add("once", (NOON + timedelta(minutes=1)).isoformat(), at=NOON)
    claims.claim_due(house.engine, NOON + timedelta(days=3))
    assert house.states() == ["missed"]
    found = store.get_schedule(house.engine, "once")
    assert found is not None
    assert "its time passed while no worker was running" in found.paused


def test_what_was_missed_is_in_the_book_and_much_of_it_is_summed_up(house):
    house.add("ping", "* * * * *", at=NOON)
    claims.claim_due(house.engine, NOON + timedelta(days=2))
    states = house.states()
    assert states.count("waiting") == 1
    assert states.count("missed") == 101
    assert "were missed from 2026-06-08T12:01:00+00:00" in house.firings()[-1].note


def test_replace_stops_the_one_at_work_and_begins_when_it_has_stopped(any_house):
    any_house.add("ping", "* * * * *", ScheduleRules(overlap="replace"), at=NOON)
    claims.claim_due(any_house.engine, NOON + timedelta(minutes=1))
    [first] = take(any_house)
    queue.begin_firing(any_house.engine, first, "w", NOON)
    claims.claim_due(any_house.engine, NOON + timedelta(minutes=2))
    assert queue.must_stop(any_house.engine, first)
    assert take(any_house) == []
    queue.end_firing(any_house.engine, first, RunOutcome(False, "stopped"), NOON + timedelta(minutes=2))
    assert len(take(any_house)) == 1
    assert any_house.states() == ["replaced", "queued"]


def test_an_edit_while_due_fires_nothing_extra(house):
    made = house.add("ping", "* * * * *", at=NOON)
    later = NOON + timedelta(minutes=1, seconds=1)
    store.change_schedule(house.engine, replace(made, trigger=CronTrigger("0 0 * * *")), later)
    assert claims.claim_due(house.engine, later).firings == 0
    changed = store.get_schedule(house.engine, "ping")
    assert changed is not None
    assert changed.next == datetime(2026, 6, 9, tzinfo=UTC)
    with pytest.raises(BadRequest, match="changed by another process"):
        store.change_schedule(house.engine, made, later)


def test_a_pause_lets_time_pass_and_resuming_counts_from_now(house):
    house.add("ping", "* * * * *", at=NOON)
    store.pause_schedule(house.engine, "ping", "rest", NOON)
    assert claims.claim_due(house.engine, NOON + timedelta(hours=1)) == (0, 0)
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert store.resume_schedule(house.engine, one, NOON + timedelta(hours=1)).next == NOON + timedelta(minutes=61)
    assert house.states() == []


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(hours=-1), timedelta(hours=8), timedelta(seconds=-3)])
def test_a_clock_that_jumps_makes_no_storm_and_no_double_and_the_next_time_is_right(any_house, jump):
    any_house.add("ping", "* * * * *", at=NOON)
    for minute in (1, 2, 3):
        fire(any_house, NOON + timedelta(minutes=minute))
    fire(any_house, NOON + timedelta(minutes=3, seconds=5) + jump)
    fired = [one.due for one in any_house.firings() if one.state == "finished"]
    assert len(fired) == len(set(fired)) <= 4
    one = store.get_schedule(any_house.engine, "ping")
    assert one is not None
    assert one.next is not None
    assert one.next - (NOON + timedelta(minutes=3, seconds=5) + jump) <= timedelta(minutes=1, seconds=5)


def test_a_clock_that_ran_ahead_for_a_while_does_not_silence_a_schedule(house):
    house.add("ping", "* * * * *", at=NOON)
    fire(house, NOON + timedelta(days=1))
    fire(house, NOON + timedelta(minutes=2))
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert one.next == NOON + timedelta(minutes=3)


@pytest.mark.parametrize("catch_up", ["one", "none", "all"])
def test_what_a_clock_that_was_ahead_called_missed_fires_when_its_time_comes(any_house, catch_up):
    rules = ScheduleRules(catch_up=catch_up)
    any_house.add("ping", "* * * * *", rules, at=NOON)
    fire(any_house, NOON + timedelta(minutes=1))
    for _ in range(10):  # for a minute; "all" has ten to catch up with
        fire(any_house, NOON + timedelta(days=1, minutes=1, seconds=20))
    ahead = {one.due for one in any_house.firings() if one.state == "finished"}
    for minute in range(2, 30):
        fire(any_house, NOON + timedelta(minutes=minute, seconds=20))
    fired = [one.due for one in any_house.firings() if one.state == "finished"]
    assert {NOON + timedelta(minutes=minute) for minute in range(1, 30)} <= set(fired)
    assert len(fired) == len(set(fired)) == 28 + len(ahead)
    assert [one for one in any_house.firings() if one.state == "missed"] == []


def test_what_came_while_the_clock_was_ahead_is_caught_up_with_as_the_rules_say(house):
    house.add("ping", "*/10 * * * *", ScheduleRules(catch_up="one"), at=NOON)
    fire(house, NOON + timedelta(days=1, minutes=5))
    fire(house, NOON + timedelta(minutes=35))
    states = {one.due: one.state for one in house.firings() if one.due <= NOON + timedelta(hours=1)}
    assert states == {
        NOON + timedelta(minutes=10): "missed",
        NOON + timedelta(minutes=20): "missed",
        NOON + timedelta(minutes=30): "finished",
    }


def test_a_one_shot_whose_time_a_wrong_clock_had_passed_is_open_again(any_house):
    at = NOON + timedelta(hours=1)
    any_house.add("ping", at.isoformat(), ScheduleRules(catch_up="none"), at=NOON, own=False)
    fire(any_house, NOON + timedelta(days=1))
    one = store.get_schedule(any_house.engine, "ping")
    assert one is not None
    assert one.paused.startswith("its time passed")
    fire(any_house, NOON + timedelta(minutes=1))
    one = store.get_schedule(any_house.engine, "ping")
    assert one is not None
    assert (one.paused, one.next) == ("", at)
    fire(any_house, at + timedelta(seconds=1))
    assert any_house.states() == ["finished"]


def test_triggers_by_hand_are_bounded(house):
    house.add("ping")
    for _ in range(100):
        store.trigger_schedule(house.engine, "ping", now())
    with pytest.raises(BadRequest, match="100 runs of `ping` are waiting already"):
        store.trigger_schedule(house.engine, "ping", now())


def test_the_same_skill_at_the_same_time_is_a_duplicate(house):
    house.add("ping", "* * * * *")
    with pytest.raises(BadRequest, match="duplicate cron: ping-12345678 already scheduled with the same expression"):
        house.add("pong", "* * * * *")


def test_old_firings_and_unused_copies_are_forgotten(house):
    house.add("ping", "* * * * *", at=NOON)
    fire(house, NOON + timedelta(minutes=1))
    store.remove_schedule(house.engine, "ping", NOON)
    claims.forget_old(house.engine, NOON + timedelta(days=100))
    assert house.states() == []
    assert store.get_pinned(house.engine, pins.pin_folder(str(house.skill())).digest) is None


def test_what_its_owner_accepts_is_agreed_to_anew_by_schedules_that_had_agreed_before(house):
    folder = house.skill()
    agreed, before = house.add("agreed"), house.add("older", "0 1 1 1 *")
    store.repin_schedule(house.engine, before, pins.PinnedCopy("sha256:other", "{}"))
    with preserve_agreements(house.place, str(folder)):
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "Better.\n")
    after = {one.id: one.digest for one in store.all_schedules(house.engine)}
    assert after == {"agreed": pins.pin_folder(str(folder)).digest, "older": "sha256:other"}
    assert after["agreed"] != agreed.digest


def test_what_is_asked_of_all_schedules_reads_none_of_them_one_by_one(any_house, monkeypatch):
    for number in range(20):
        any_house.add(f"once-{number}", f"2026-03-{number + 1:02}T12:00:00+00:00", at=NOON - timedelta(days=400))
    done = any_house.add("done", "2026-04-01T12:00:00+00:00", at=NOON - timedelta(days=400))
    with any_house.engine.begin() as connection:
        run_statement(
            connection, "UPDATE metier_schedules SET paused = :done WHERE id = 'done'", done=queue.DONE_REASON
        )
    read: list[str] = []

    def noted(text: str) -> object:
        read.append(text)
        return json.loads(text)

    monkeypatch.setattr(store, "loads", noted)

    assert claims.recompute_next(any_house.engine, NOON) == 0
    claims.forget_old(any_house.engine, NOON)
    assert store.is_used(any_house.engine, done.skill, but="done")
    assert not store.is_used(any_house.engine, "another")
    assert read == []
    assert [one.id for one in queue.finished_one_shots(any_house.engine, done.home)] == ["done"]
    assert len(read) == 1
    assert store.get_pinned(any_house.engine, done.digest) is not None
