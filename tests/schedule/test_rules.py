"""What a schedule owes, by its rules."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.schedule.house import House, now

from metier.runtime.scheduling import agreeing
from metier.schedule import book, copies, runs, ticker
from metier.schedule.database import run
from metier.schedule.plan import admitted, due, start_of
from metier.types.errors import BadRequest
from metier.types.schedule import Outcome, Rules, Schedule

NOON = datetime(2026, 6, 8, 12, tzinfo=UTC)


def every_five(catch_up: str = "one", next: datetime = NOON, **more: object) -> Schedule:
    made = Schedule("s", "s", "*/5 * * * *", False, "UTC", "d", "/s", "h", rules=Rules(catch_up=catch_up), next=next)  # type: ignore[arg-type]
    return replace(made, **more)  # type: ignore[arg-type]


def test_three_hours_away_make_one_catch_up_and_the_rest_missed():
    found = due(every_five(), NOON + timedelta(hours=3, minutes=2))
    assert found.fire == (NOON + timedelta(hours=3),)
    assert len(found.missed) == 36
    assert found.next == NOON + timedelta(hours=3, minutes=5)


def test_none_catches_up_with_nothing_and_all_with_ten():
    late = NOON + timedelta(hours=3, minutes=2)
    assert due(every_five("none"), late).fire == ()
    assert len(due(every_five("none"), late).missed) == 37
    assert len(due(every_five("all"), late).fire) == 10
    assert due(every_five("none"), NOON + timedelta(seconds=2)).fire == (NOON,)


def test_a_one_shot_is_caught_up_within_a_day_and_missed_after_it():
    once = every_five(once=True, when=NOON.isoformat())
    assert due(once, NOON + timedelta(hours=23)).fire == (NOON,)
    assert due(once, NOON + timedelta(hours=25)) == ((), (NOON,), None, None)


def test_ten_years_away_are_counted_in_bounded_time():
    began = time.process_time()
    found = due(every_five(when="* * * * *"), NOON + timedelta(days=3_653))
    assert time.process_time() - began < 2
    assert found.uncounted is not None
    assert found.fire == (NOON + timedelta(days=3_653),)


def test_jitter_is_bounded_and_the_same_every_time():
    jittery = replace(every_five(), rules=Rules(jitter=30))
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
    found = admitted(overlap, (NOON,), at_work, waiting)
    assert [one[1] for one in found.new] == [state]
    assert found.stop == (overlap == "replace" and at_work)


# --- In the book ---


def take(house: House) -> list[runs.Turn]:
    found: list[runs.Turn] = []
    runs.promote(house.engine, lambda connection, turn: found.append(turn))
    return found


def fire(house: House, at: datetime, ok: bool = True) -> None:
    ticker.claim(house.engine, at)
    for turn in take(house):
        runs.begin(house.engine, turn, "w", at)
        runs.end(house.engine, turn, Outcome(ok, "said so"), at)


def test_two_workers_cannot_claim_one_instant(any_house):
    any_house.add("ping", "* * * * *", at=NOON)
    later = NOON + timedelta(minutes=1, seconds=1)
    assert ticker.claim(any_house.engine, later).firings == 1
    assert ticker.claim(any_house.engine, later).firings == 0
    assert len(take(any_house)) == 1
    assert take(any_house) == []


def test_failures_in_a_row_pause_and_say_why(any_house):
    any_house.add("ping", "* * * * *", at=NOON)
    for minute in (1, 2, 3, 4):
        fire(any_house, NOON + timedelta(minutes=minute), ok=False)
    found = book.get(any_house.engine, "ping")
    assert found is not None
    assert found.paused == "3 failures in a row, the last one: said so"
    assert any_house.states() == ["failed"] * 3


def test_a_success_in_between_starts_the_count_anew(house):
    house.add("ping", "* * * * *", at=NOON)
    for minute, ok in enumerate((False, False, True, False, False), 1):
        fire(house, NOON + timedelta(minutes=minute), ok=ok)
    found = book.get(house.engine, "ping")
    assert found is not None
    assert (found.paused, found.failures) == ("", 2)


def test_a_one_shot_goes_after_success_and_is_kept_with_the_error_after_failure(any_house):
    for id, ok in (("good", True), ("bad", False)):
        any_house.add(id, (NOON + timedelta(minutes=1)).isoformat(), at=NOON, session=id)
        fire(any_house, NOON + timedelta(minutes=1, seconds=1), ok)
    good = book.get(any_house.engine, "good")
    assert good is not None
    assert good.paused == runs.DONE
    runs.clear_done(any_house.engine, "good")
    runs.clear_done(any_house.engine, "bad")
    assert book.get(any_house.engine, "good") is None
    bad = book.get(any_house.engine, "bad")
    assert bad is not None
    assert bad.paused == "it failed: said so"


def test_a_one_shot_that_fired_is_not_fired_again_though_its_worker_died_before_removing_it(any_house):
    any_house.add("once", (NOON + timedelta(minutes=1)).isoformat(), at=NOON)
    ticker.claim(any_house.engine, NOON + timedelta(minutes=2))
    [turn] = take(any_house)
    runs.begin(any_house.engine, turn, "w", NOON)
    ticker.claim(any_house.engine, NOON + timedelta(minutes=3))
    assert take(any_house) == []
    assert any_house.states() == ["running"]


def test_when_a_zone_changes_its_rules_the_next_time_is_counted_anew_and_nothing_fires_extra(any_house):
    right = any_house.add("ping", "0 9 * * *", at=NOON).next
    assert right is not None
    with any_house.engine.begin() as connection:  # as it was counted by other rules
        early = book.ms(right - timedelta(hours=1))
        run(connection, "UPDATE metier_schedules SET next_due = :due, next_start = :due", due=early)
    assert ticker.recount(any_house.engine, NOON) == 1
    assert ticker.recount(any_house.engine, NOON) == 0
    assert [one.next for one in book.schedules(any_house.engine)] == [right]
    assert ticker.claim(any_house.engine, right - timedelta(minutes=30)).firings == 0
    assert ticker.claim(any_house.engine, right).firings == 1


def test_a_one_shot_whose_day_passed_is_kept_and_says_so(house):
    house.add("once", (NOON + timedelta(minutes=1)).isoformat(), at=NOON)
    ticker.claim(house.engine, NOON + timedelta(days=3))
    assert house.states() == ["missed"]
    found = book.get(house.engine, "once")
    assert found is not None
    assert "its time passed while nobody was there" in found.paused


def test_what_was_missed_is_in_the_book_and_much_of_it_is_summed_up(house):
    house.add("ping", "* * * * *", at=NOON)
    ticker.claim(house.engine, NOON + timedelta(days=2))
    states = house.states()
    assert states.count("waiting") == 1
    assert states.count("missed") == 101
    assert "were missed from 2026-06-08T12:01:00+00:00" in house.firings()[-1].note


def test_replace_stops_the_one_at_work_and_begins_when_it_has_stopped(any_house):
    any_house.add("ping", "* * * * *", Rules(overlap="replace"), at=NOON)
    ticker.claim(any_house.engine, NOON + timedelta(minutes=1))
    [first] = take(any_house)
    runs.begin(any_house.engine, first, "w", NOON)
    ticker.claim(any_house.engine, NOON + timedelta(minutes=2))
    assert runs.must_stop(any_house.engine, first)
    assert take(any_house) == []
    runs.end(any_house.engine, first, Outcome(False, "stopped"), NOON + timedelta(minutes=2))
    assert len(take(any_house)) == 1
    assert any_house.states() == ["replaced", "queued"]


def test_an_edit_while_due_fires_nothing_extra(house):
    made = house.add("ping", "* * * * *", at=NOON)
    later = NOON + timedelta(minutes=1, seconds=1)
    book.change(house.engine, replace(made, when="0 0 * * *"), later)
    assert ticker.claim(house.engine, later).firings == 0
    changed = book.get(house.engine, "ping")
    assert changed is not None
    assert changed.next == datetime(2026, 6, 9, tzinfo=UTC)
    with pytest.raises(BadRequest, match="changed by somebody else"):
        book.change(house.engine, made, later)


def test_a_pause_lets_time_pass_and_resuming_counts_from_now(house):
    house.add("ping", "* * * * *", at=NOON)
    book.pause(house.engine, "ping", "rest", NOON)
    assert ticker.claim(house.engine, NOON + timedelta(hours=1)) == (0, 0)
    one = book.get(house.engine, "ping")
    assert one is not None
    assert book.resume(house.engine, one, NOON + timedelta(hours=1)).next == NOON + timedelta(minutes=61)
    assert house.states() == []


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(hours=-1), timedelta(hours=8), timedelta(seconds=-3)])
def test_a_clock_that_jumps_makes_no_storm_and_no_double_and_the_next_time_is_right(any_house, jump):
    any_house.add("ping", "* * * * *", at=NOON)
    for minute in (1, 2, 3):
        fire(any_house, NOON + timedelta(minutes=minute))
    fire(any_house, NOON + timedelta(minutes=3, seconds=5) + jump)
    fired = [one.due for one in any_house.firings() if one.state == "finished"]
    assert len(fired) == len(set(fired)) <= 4
    one = book.get(any_house.engine, "ping")
    assert one is not None
    assert one.next is not None
    assert one.next - (NOON + timedelta(minutes=3, seconds=5) + jump) <= timedelta(minutes=1, seconds=5)


def test_a_clock_that_ran_ahead_for_a_while_does_not_silence_a_schedule(house):
    house.add("ping", "* * * * *", at=NOON)
    fire(house, NOON + timedelta(days=1))
    fire(house, NOON + timedelta(minutes=2))
    one = book.get(house.engine, "ping")
    assert one is not None
    assert one.next == NOON + timedelta(minutes=3)


def test_triggers_by_hand_are_bounded(house):
    house.add("ping")
    for _ in range(100):
        book.trigger(house.engine, "ping", now())
    with pytest.raises(BadRequest, match="100 runs of `ping` wait already"):
        book.trigger(house.engine, "ping", now())


def test_the_same_skill_at_the_same_time_is_a_duplicate(house):
    house.add("ping", "* * * * *")
    with pytest.raises(BadRequest, match="duplicate cron: ping-12345678 already scheduled with the same expression"):
        house.add("pong", "* * * * *")


def test_old_firings_and_unused_copies_are_forgotten(house):
    house.add("ping", "* * * * *", at=NOON)
    fire(house, NOON + timedelta(minutes=1))
    book.remove(house.engine, "ping", NOON)
    ticker.forget(house.engine, NOON + timedelta(days=100))
    assert house.states() == []
    assert book.pinned(house.engine, copies.pin(str(house.skill())).digest) is None


def test_what_its_owner_accepts_is_agreed_to_anew_by_schedules_that_had_agreed_before(house):
    folder = house.skill()
    agreed, before = house.add("agreed"), house.add("older", "0 1 1 1 *")
    book.repin(house.engine, before, copies.Pin("sha256:other", "{}"))
    with agreeing(house.place, str(folder)):
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "Better.\n")
    after = {one.id: one.digest for one in book.schedules(house.engine)}
    assert after == {"agreed": copies.pin(str(folder)).digest, "older": "sha256:other"}
    assert after["agreed"] != agreed.digest


def test_what_is_asked_of_all_schedules_reads_none_of_them_one_by_one(any_house, monkeypatch):
    for number in range(20):
        any_house.add(f"once-{number}", f"2026-03-{number + 1:02}T12:00:00+00:00", at=NOON - timedelta(days=400))
    done = any_house.add("done", "2026-04-01T12:00:00+00:00", at=NOON - timedelta(days=400))
    with any_house.engine.begin() as connection:
        run(connection, "UPDATE metier_schedules SET paused = :done WHERE id = 'done'", done=runs.DONE)
    read: list[str] = []

    def noted(text: str) -> object:
        read.append(text)
        return json.loads(text)

    monkeypatch.setattr(book, "loads", noted)

    assert ticker.recount(any_house.engine, NOON) == 0
    ticker.forget(any_house.engine, NOON)
    assert book.is_used(any_house.engine, done.skill, but="done")
    assert not book.is_used(any_house.engine, "another")
    assert read == []
    assert [one.id for one in runs.done_with(any_house.engine, done.home)] == ["done"]
    assert len(read) == 1
    assert book.pinned(any_house.engine, done.digest) is not None
