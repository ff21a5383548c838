"""What people say, as times: a closed grammar that never guesses."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.schedule.times import (
    BadTime,
    checked_cron,
    firing_times,
    next_instant,
    schedule_time,
    uneven_steps,
)
from metier.types.errors import BadRequest
from metier.types.schedule import CronTrigger, OnceTrigger

NOW = datetime.fromisoformat("2026-06-08T08:00:30+08:00")
ZONES = ["Asia/Taipei", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Europe/Dublin", "UTC"]
SOME = "in every 5 90 minutes hours hour tomorrow today at 9 9:00 9am 12pm 每 天 週 一 分鐘 小時 後 早上 下午 點 明天 月 1 日 * */5 1-5 , + m h"
WORDS = st.sampled_from(SOME.split())


def meant(text: str, zone: str = "Asia/Taipei") -> OnceTrigger | CronTrigger:
    return schedule_time(text, NOW, zone)


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("每小時", "0 * * * *"),
        ("EVERY HOUR", "0 * * * *"),
        ("每週一 9:00", "0 9 * * 1"),
        ("每周日下午3点", "0 15 * * 0"),
        ("每星期天 晚上 11:05", "5 23 * * 0"),
        ("每 月 31 號 23:59", "59 23 31 * *"),
        ("每天早上 9 點半", "30 9 * * *"),
        ("daily at 9:30PM", "30 21 * * *"),
        ("every day 12pm", "0 12 * * *"),
        ("  every saturday at 0:05 ", "5 0 * * 6"),
        ("0 9 * * MON-FRI", "0 9 * * MON-FRI"),
        ("0 0 29 2 *", "0 0 29 2 *"),
        ("@daily", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("every day at noon", "0 12 * * *"),
        ("every month on the 1st at 9:00", "0 9 1 * *"),
        ("monthly on the 22nd 5pm", "0 17 22 * *"),
        ("every 7 minutes", "*/7 * * * *"),
        ("每 59 分", "*/59 * * * *"),
        ("every 23 hours", "0 */23 * * *"),
        ("每天 9:30pm", "30 21 * * *"),
        ("每週一 早上 9am", "0 9 * * 1"),
        ("weekdays at 9 點", "0 9 * * 1-5"),
        ("every monday 下午 3 點", "0 15 * * 1"),
    ],
)
def test_what_repeats_is_a_cron_expression(text, cron):
    assert meant(text) == CronTrigger(cron)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("2 小時後", "2026-06-08T10:00:30"),
        ("90 秒後", "2026-06-08T08:02:00"),
        ("in 1 hour", "2026-06-08T09:00:30"),
        ("今天下午 3:30", "2026-06-08T15:30:00"),
        ("後天 9 點", "2026-06-10T09:00:00"),
        ("明天 9am", "2026-06-09T09:00:00"),
        ("tomorrow at 下午 3:30", "2026-06-09T15:30:00"),
        ("今天 晚上 9pm", "2026-06-08T21:00:00"),
        ("９：０５", "2026-06-08T09:05:00"),
        ("today at 12am", None),
        ("noon", "2026-06-08T12:00:00"),
        ("tomorrow at noon", "2026-06-09T12:00:00"),
        ("2026-06-09 9:00", "2026-06-09T09:00:00"),
        ("2026-06-09t09:00:00.5+08:00", "2026-06-09T09:00:00.500000"),
        ("2026-06-09 09:00:00Z", "2026-06-09T17:00:00"),
    ],
)
def test_what_happens_once_is_an_instant(text, local):
    if local is None:
        with pytest.raises(BadTime, match="already gone"):
            meant(text)
        return
    found = meant(text)
    assert isinstance(found, OnceTrigger)
    assert found.at.astimezone(ZoneInfo("Asia/Taipei")).replace(tzinfo=None) == datetime.fromisoformat(local)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("@every 5m", "5 fields"),
        ("@reboot", "5 fields"),
        ("* * * * * *", "5 fields"),
        ("0 0 1 1", "5 fields"),
        ("0 0 30 2 *", "0 0 30 2"),
        ("1-0 * * * *", "1-0"),
        ("*/99999999999999999999999 * * * 9", "9"),
        ("every 90 minutes", "90"),
        ("every 60 minutes", "60"),
        ("*/90 * * * *", "a step of 90 is too large"),
        ("0 */24 * * *", "a step of 24 is too large"),
        ("0 9 1-31/32 * *", "a step of 32 is too large"),
        ("每 0 小時", "0"),
        ("明天 下午 9am", "unrecognized"),
        ("tomorrow 早上 9pm", "unrecognized"),
        ("every month on the 32nd at 9:00", "32nd"),
        ("tomorrow at midnight", "midnight"),
        ("every 24 hours", "24"),
        ("每 0 分鐘", "0"),
        ("in 0 minutes", "duration"),
        ("+-5m", "duration"),
        ("+1d", "duration"),
        ("tomorrow at 9", "unrecognized"),
        ("2026-06-09T09:00:00", "unrecognized"),
        ("晚上 12 點", "time"),
        ("每月 32 日 9:00", "unrecognized"),
        ("24:00", "unrecognized"),
        ("13pm", "unrecognized"),
        ("2026-06-09", "time"),
        ("每週一", "time"),
        ("每天早上", "time"),
        ("之後", "time"),
        ("later", "time"),
        ("9999-12-31T23:59:59-23:59", "unrecognized"),
        ("x" * 100_000, "unrecognized"),
    ],
)
def test_what_is_no_exact_time_is_refused_and_quoted(text, part):
    with pytest.raises(BadTime) as refused:
        meant(text)
    assert part in refused.value.message
    assert text[:150] in refused.value.message


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Asia", "a\0b"])
def test_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(BadRequest, match="not a time zone"):
        schedule_time("9:05", NOW, zone)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=7).map(" ".join) | st.text(max_size=30), st.sampled_from(ZONES))
def test_every_text_is_a_time_ahead_or_refused_with_the_text_in_the_message(text, zone):
    found: OnceTrigger | CronTrigger | str
    try:
        found = schedule_time(text, NOW, zone)
    except BadTime as error:
        found = error.message
    if isinstance(found, str):
        assert text in found
        return
    if isinstance(found, OnceTrigger):
        assert found.at > NOW
    else:
        assert len(found.expression.split()) == 5
        assert next_instant(found, zone, NOW) is not None


@settings(deadline=None)
@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 20_000), st.sampled_from(ZONES))
def test_a_local_time_of_any_day_comes_out_as_itself_or_moved_past_a_gap(hour, minute, day, zone):
    when = datetime(2001, 1, 1) + timedelta(days=day, hours=hour, minutes=minute)
    found = schedule_time(f"{when:%Y-%m-%d %H:%M}", datetime(2000, 1, 1, tzinfo=UTC), zone)
    assert isinstance(found, OnceTrigger)
    shown = found.at.astimezone(ZoneInfo(zone))
    assert shown.fold == 0
    assert timedelta(0) <= shown.replace(tzinfo=None) - when <= timedelta(hours=24)


def shown(cron: str, zone: str, after: str, count: int) -> list[str]:
    return [
        one.isoformat() for one in islice(firing_times(CronTrigger(cron), zone, datetime.fromisoformat(after)), count)
    ]


def test_a_fixed_time_that_happens_twice_fires_once_and_one_that_is_skipped_fires_after_the_gap():
    assert shown("30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", 2) == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]
    assert shown("30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", 2) == [
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_every_half_hour_follows_real_time_over_a_change_of_clocks():
    every = firing_times(checked_cron("*/30 * * * *"), "Australia/Lord_Howe", datetime(2026, 4, 4, 12, tzinfo=UTC))
    found = [one.astimezone(UTC) for one in islice(every, 8)]
    assert {later - sooner for sooner, later in pairwise(found)} == {timedelta(minutes=30)}


def test_a_day_that_never_was_is_passed_over():
    [first, second] = shown("0 9 * * *", "Pacific/Apia", "2011-12-29T08:00:00-10:00", 2)
    assert first.startswith("2011-12-29T09:00")
    assert second.startswith("2011-12-31")


def matches(expression: str, wall: datetime) -> bool:
    """Whether five simple fields match what a wall clock shows, told in the slowest way there is."""

    def one(field: str, value: int, least: int, most: int) -> bool:
        for part in field.split(","):
            span, _, step = part.partition("/")
            low, _, high = (str(least), "", str(most)) if span == "*" else span.partition("-")
            if value in range(int(low), int(high or low) + 1, int(step or 1)):
                return True
        return False

    minute, hour, day, month, weekday = expression.split()
    days = one(day, wall.day, 1, 31), one(weekday, wall.isoweekday() % 7, 0, 7)
    both = day.startswith("*") or weekday.startswith("*")
    return (
        one(minute, wall.minute, 0, 59)
        and one(hour, wall.hour, 0, 23)
        and one(month, wall.month, 1, 12)
        and (all(days) if both else any(days))
    )


CHANGES = [
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ("Europe/Dublin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC)),
    ("Asia/Taipei", datetime(2026, 2, 15, 2, tzinfo=UTC)),
]
MINUTES = st.sampled_from(["*", "*/5", "*/7", "0", "30", "15,45", "59", "0-10"])
HOURS = st.sampled_from(["*", "*/2", "*/6", "1", "2", "1-3", "0", "23"])
DAYS = st.sampled_from(["*", "1", "8", "*/2", "30", "31"])
WEEKDAYS = st.sampled_from(["*", "0", "1-5", "6"])


@settings(deadline=None, max_examples=60)
@given(MINUTES, HOURS, DAYS, WEEKDAYS, st.sampled_from(CHANGES), st.integers(-3_000, 3_000))
def test_firings_are_what_a_walk_minute_by_minute_finds_whatever_the_clocks_do(
    minute, hour, day, weekday, change, begin
):
    zone, at = change
    expression = f"{minute} {hour} {day} * {weekday}"
    start = at + timedelta(minutes=begin)
    end = start + timedelta(days=3)
    walk = [start + timedelta(minutes=n) for n in range(1, 3 * 1_440 + 1)]
    if "*" in (minute[0], hour[0]):
        wanted = [one for one in walk if matches(expression, one.astimezone(ZoneInfo(zone)).replace(tzinfo=None))]
    else:
        wanted = fixed(expression, zone, start, end)
    found = []
    for one in firing_times(CronTrigger(expression), zone, start):
        if one > end:
            break
        found.append(one.astimezone(UTC))
    assert found == wanted


def fixed(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Each wall time once: of two the first, and one that is skipped at the end of the gap."""
    place, found = ZoneInfo(zone), set()
    wall = start.astimezone(place).replace(tzinfo=None, fold=0) - timedelta(days=3)
    while wall < end.astimezone(place).replace(tzinfo=None) + timedelta(days=3):
        if matches(expression, wall):
            later = wall
            while later.replace(tzinfo=place).astimezone(UTC).astimezone(place).replace(tzinfo=None) != later:
                later += timedelta(minutes=1)
            found.add(later.replace(tzinfo=place).astimezone(UTC))
        wall += timedelta(minutes=1)
    return sorted(one for one in found if start < one <= end)


@pytest.mark.parametrize(
    ("cron", "part"),
    [
        ("*/7 * * * *", "7 minutes do not divide the hour"),
        ("0 */5 * * *", "5 hours do not divide the day"),
        ("*/15 * * * *", ""),
        ("0 */12 * * *", ""),
        ("5 9 * * 1-5", ""),
    ],
)
def test_steps_that_do_not_divide_are_told(cron, part):
    assert uneven_steps(cron).startswith(part)
    assert bool(uneven_steps(cron)) == bool(part)
