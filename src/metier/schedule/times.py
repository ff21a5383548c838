"""Cron with Debian's rules when clocks change: cronsim matches the fields, and the zone is minded here.

A job that has `*` for its minute or hour follows real time.  One at a fixed time fires once a day: of two such times
the first, and after a gap where the time was skipped.  cronsim knows these rules too, but passes over firings where
clocks move by half an hour, and gives a time that has passed when it is asked within a repeated hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias
from unicodedata import normalize
from zoneinfo import ZoneInfo

from ..types.errors import BadRequest

_ONE_WEEK = timedelta(days=7)
"""No zone changes its clocks twice in a week."""

_LARGEST_STEPS = (59, 23, 31, 12, 7)
_steps = re.compile(r"/0*([0-9]+)").findall


def expression_fault(expression: str) -> str:
    """What is wrong with five fields: they can't be read, step over all there is, or name a date that never comes."""
    for field, most in zip(expression.split(), _LARGEST_STEPS, strict=True):
        if wide := next((step for step in _steps(field) if len(step) > 2 or int(step) > most), ""):
            return f"a step of {wide[:20]} does not fit, {most} is the largest"
    from cronsim import CronSim, CronSimError  # a tenth of what starting takes

    try:
        next(CronSim(expression, datetime(2026, 1, 1)))
    except (CronSimError, AssertionError, ValueError, StopIteration, RecursionError) as error:
        return str(error).lower() or "it never comes"
    return ""


def cron_instants(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The firings after an instant, in UTC."""
    minute, hour = expression.split()[:2]
    start = after.astimezone(UTC)
    candidates = (
        _real_time_instants(expression, zone, start)
        if "*" in (minute[0], hour[0])
        else _fixed_instants(expression, zone, start)
    )
    return (instant for instant in candidates if instant > start)


def _wall_times(expression: str, after: datetime) -> Iterator[datetime]:
    """What a wall clock shows when the fields match, as if no clock ever changed."""
    from cronsim import CronSim

    return iter(CronSim(expression, after))


def _fixed_instants(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    last = None
    for wall in _wall_times(expression, start.astimezone(zone).replace(tzinfo=None, fold=0) - timedelta(days=2)):
        local = wall.replace(tzinfo=zone)
        at = local.astimezone(UTC)
        if at.astimezone(zone).replace(tzinfo=None) != wall:  # skipped: the clock was moved past it
            at = _offset_change(zone, at - timedelta(days=2), at)
        if last is None or at > last:
            last = at
            yield at


def _real_time_instants(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """One stretch of a constant offset after the other; each begins a second early, to count its first instant."""
    while True:
        offset = _utc_offset(zone, start)
        for wall in _wall_times(expression, (start + offset).replace(tzinfo=None) - timedelta(seconds=1)):
            at = (wall - offset).replace(tzinfo=UTC)
            if _utc_offset(zone, at) != offset:
                start = _offset_change(zone, start, at)
                break
            yield at
            start = at
        else:
            return


def _utc_offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _offset_change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first instant with another offset than `before` had; there is one up to `after`."""
    offset = _utc_offset(zone, before)
    while before + _ONE_WEEK < after and _utc_offset(zone, before + _ONE_WEEK) == offset:
        before += _ONE_WEEK
    after = min(after, before + _ONE_WEEK)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        before, after = (middle, after) if _utc_offset(zone, middle) == offset else (before, middle)
    return after.replace(microsecond=0)


FORMS_HINT = (
    "say `+5m`, `14:30`, `tomorrow at 9am`, `2026-12-31 23:59`, `every 10 minutes`, `weekdays at 9:00`, `每天 9 點`, "
    "or five cron fields"
)

_LONGEST_TEXT = 200


class BadTime(BadRequest):
    """A text that names no time; it is quoted in the message."""


@dataclass(frozen=True)
class OneShotTime:
    """One instant, in UTC."""

    at: datetime


@dataclass(frozen=True)
class CronExpression:
    """Five fields, as they were written or as the words mean them."""

    expression: str


ScheduleTime: TypeAlias = OneShotTime | CronExpression


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name; a name that leads elsewhere is no zone."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadRequest(f"`{name}` is not a time zone", "give a name such as `Asia/Taipei` or `UTC`") from None


def schedule_time(text: str, now: datetime, zone: str) -> ScheduleTime:
    """What a text means, said at `now` in a zone."""
    place = zone_of(zone)
    if len(text) > _LONGEST_TEXT:
        raise BadTime(f'unrecognized time format: "{text[:_LONGEST_TEXT]}…"', FORMS_HINT)
    plain = text.strip()
    folded = _fold_text(plain)
    if plain.startswith("+"):
        return _instant_later(_parse_duration(plain[1:], text), now, text)
    if _looks_like_cron(plain):
        return checked_cron(plain, text)
    for form, meaning in _TIME_FORMS:
        match = form(folded)
        if match is not None:
            return meaning(_TimePhrase(match, text, now, place))
    if not folded or folded in _VAGUE_TIMES or _no_hour(folded):
        raise BadTime(f'no time of day in "{text}"', FORMS_HINT)
    if plain.startswith("@"):
        raise BadTime(f'unrecognized time format: "{text}"; {_five_fields_fault(text)}', FORMS_HINT)
    raise BadTime(f'unrecognized time format: "{text}"', FORMS_HINT)


# Simplified characters as traditional ones, so that each word is in the grammar once.
_TRADITIONAL = str.maketrans("钟后时点周号礼个两", "鐘後時點週號禮個兩")
_between_wide = re.compile(r"(?<=[^\x00-\x7f])\s+|\s+(?=[^\x00-\x7f])")


def _fold_text(text: str) -> str:
    """Small letters, single blanks, none beside Chinese words, and wide digits as plain ones."""
    plain = normalize("NFKC", text).translate(_TRADITIONAL)
    return " ".join(_between_wide.sub("", plain).lower().split())


# --- Durations ---

_parts = re.compile(r"([0-9]+(?:\.[0-9]+)?)([hms])")
_durations = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[hms])+").fullmatch
_UNIT_SECONDS = {"h": 3_600, "m": 60, "s": 1}


def _parse_duration(written: str, text: str) -> timedelta:
    if _durations(written) is None:
        raise BadTime(f'bad duration: "{text}"', "say it as `+5m`, `+1h30m`, `+90s` or `+1.5h`")
    return _bounded_seconds(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _parts.findall(written)), text)


def _bounded_seconds(seconds: float, text: str) -> timedelta:
    try:
        duration = timedelta(seconds=seconds)
    except OverflowError:
        duration = timedelta.max
    if not timedelta(0) < duration < timedelta(days=36_525):
        raise BadTime(f'bad duration: "{text}" is no time ahead of now, or a lifetime', "say it as `+5m` or `+1h30m`")
    return duration


def _instant_later(ahead: timedelta, now: datetime, text: str) -> OneShotTime:
    try:
        return OneShotTime((now.astimezone(UTC) + ahead).astimezone(UTC))
    except OverflowError:
        raise BadTime(f'bad duration: "{text}" leaves the calendar', "say a shorter one") from None


# --- Words ---


@dataclass(frozen=True)
class _TimePhrase:
    """A text that matched a form, where and when it was said."""

    found: re.Match[str]
    text: str
    now: datetime
    zone: ZoneInfo

    def number(self, name: str) -> int:
        return int(self.found[name])

    def unrecognized(self) -> BadTime:
        return BadTime(f'unrecognized time format: "{self.text}"', FORMS_HINT)

    @property
    def clock(self) -> tuple[int, int]:
        """Hour and minute of T."""
        if self.found.groupdict().get("noon"):
            return 12, 0
        hour, minute = int(self.found["hour"]), int(self.found["minute"] or 0)
        half, part = self.found.groupdict().get("half"), self.found.groupdict().get("part") or ""
        if self.found.groupdict().get("halfpast"):
            minute = 30
        late = part in ("下午", "晚上")
        if half:
            if not 1 <= hour <= 12 or (part and late != (half == "pm")):
                raise self.unrecognized()
            hour = hour % 12 + (12 if half == "pm" else 0)
        elif late:
            if not 1 <= hour <= 11:  # twelve at night is two different days to different people
                raise self.unrecognized()
            hour += 12
        if hour > 23 or minute > 59:
            raise self.unrecognized()
        return hour, minute


def _time_on_day(day: date, phrase: _TimePhrase) -> OneShotTime:
    """T of a day.  A time that is skipped moves forward by the gap; of two, the first is meant."""
    hour, minute = phrase.clock
    try:
        at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=phrase.zone).astimezone(UTC)
    except OverflowError:
        raise phrase.unrecognized() from None
    return _require_future(at, phrase)


def _require_future(at: datetime, phrase: _TimePhrase) -> OneShotTime:
    if at <= phrase.now:
        local = at.astimezone(phrase.zone).strftime("%Y-%m-%d %H:%M:%S")
        raise BadTime(f'already gone: "{phrase.text}" was {local}', "say a time ahead of now")
    return OneShotTime(at)


def _days_ahead(ahead: int) -> Callable[[_TimePhrase], OneShotTime]:
    def meaning(phrase: _TimePhrase) -> OneShotTime:
        return _time_on_day(phrase.now.astimezone(phrase.zone).date() + timedelta(days=ahead), phrase)

    return meaning


def _on_date(phrase: _TimePhrase) -> OneShotTime:
    try:
        day = date.fromisoformat(phrase.found["date"])
    except ValueError:
        raise phrase.unrecognized() from None
    return _time_on_day(day, phrase)


def _exact_instant(phrase: _TimePhrase) -> OneShotTime:
    try:
        at = datetime.fromisoformat(phrase.found[0].upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise phrase.unrecognized() from None
    return _require_future(at, phrase)


def _after_units(unit: int) -> Callable[[_TimePhrase], OneShotTime]:
    def meaning(phrase: _TimePhrase) -> OneShotTime:
        return _instant_later(_bounded_seconds(phrase.number("n") * unit, phrase.text), phrase.now, phrase.text)

    return meaning


def _every_step(limit: int, expression: str, unit: str) -> Callable[[_TimePhrase], CronExpression]:
    def meaning(phrase: _TimePhrase) -> CronExpression:
        step = phrase.number("n")
        if not 1 <= step < limit:
            message = f'steps that do not fit: "{phrase.text}"; the time between can be 1 to {limit - 1} {unit}'
            raise BadTime(message, "say a smaller step, or five cron fields")
        return CronExpression(expression.format(step))

    return meaning


def _fixed_cron(expression: str) -> Callable[[_TimePhrase], CronExpression]:
    return lambda phrase: CronExpression(expression)


def _cron_at(days: str) -> Callable[[_TimePhrase], CronExpression]:
    def meaning(phrase: _TimePhrase) -> CronExpression:
        hour, minute = phrase.clock
        return CronExpression(f"{minute} {hour} {days}")

    return meaning


def _on_weekday(phrase: _TimePhrase) -> CronExpression:
    return _cron_at(f"* * {_DAYS.index(phrase.found['day'])}")(phrase)


def _on_zh_weekday(phrase: _TimePhrase) -> CronExpression:
    return _cron_at(f"* * {_ZH_DAYS[phrase.found['day']]}")(phrase)


def _on_month_day(phrase: _TimePhrase) -> CronExpression:
    day = phrase.number("n")
    if not 1 <= day <= 31:
        raise phrase.unrecognized()
    return _cron_at(f"{day} * *")(phrase)


_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_ZH_DAYS = {"日": 0, "天": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6}
_NUMBER = r"(?P<n>[0-9]{1,9})"
_AM_PM = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?(?: ?(?P<half>am|pm))"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_POINT = r"(?P<hour>[0-9]{1,2})點(?:(?P<minute>[0-9]{1,2})分?|(?P<halfpast>半))?"
_PART = r"(?P<part>早上|上午|下午|晚上)?"
_WORD = r"(?P<noon>noon)"
_TIMES_OF_DAY = (_PART + _CLOCK, _PART + _AM_PM, _PART + _POINT, _WORD)
_AT = r"(?: at)?(?: |(?=[早上下晚]))"
_WEEK = r"每(?:個)?(?:週|星期|禮拜)"
_NICKNAMES = {
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "midnight": "0 0 * * *",
    "weekly": "0 0 * * 0",
    "monthly": "0 0 1 * *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
}
_DATE = r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"


def _compile_forms() -> Iterator[tuple[Callable[[str], re.Match[str] | None], Callable[[_TimePhrase], ScheduleTime]]]:
    for pattern, meaning in (
        (rf"in {_NUMBER} ?(?:minutes?|mins?)", _after_units(60)),
        (rf"in {_NUMBER} ?(?:hours?)", _after_units(3_600)),
        (rf"in {_NUMBER} ?(?:seconds?)", _after_units(1)),
        (rf"{_NUMBER}分鐘?後", _after_units(60)),
        (rf"{_NUMBER}個?小時後", _after_units(3_600)),
        (rf"{_NUMBER}秒鐘?後", _after_units(1)),
        (_CLOCK, _days_ahead(0)),
        (_WORD, _days_ahead(0)),
        (rf"{_DATE} {_CLOCK}", _on_date),
        (
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:z|[+-][0-9]{2}:[0-9]{2})",
            _exact_instant,
        ),
        (rf"every {_NUMBER} ?(?:minutes?|mins?)", _every_step(60, "*/{} * * * *", "minutes")),
        (rf"every {_NUMBER} ?hours?", _every_step(24, "0 */{} * * *", "hours")),
        (rf"每{_NUMBER}分鐘?", _every_step(60, "*/{} * * * *", "minutes")),
        (rf"每{_NUMBER}個?小時", _every_step(24, "0 */{} * * *", "hours")),
        (r"every minute|每分鐘", _fixed_cron("* * * * *")),
        (r"every hour|每個?小時", _fixed_cron("0 * * * *")),
    ):
        yield re.compile(pattern, re.ASCII).fullmatch, meaning
    for name, expression in _NICKNAMES.items():
        yield re.compile(f"@{name}").fullmatch, _fixed_cron(expression)
    worded = (
        (rf"today{_AT}", _days_ahead(0)),
        (rf"tomorrow{_AT}", _days_ahead(1)),
        (rf"(?:daily|every day){_AT}", _cron_at("* * *")),
        (rf"(?:weekdays|every weekday){_AT}", _cron_at("* * 1-5")),
        (rf"every (?P<day>{'|'.join(_DAYS)}){_AT}", _on_weekday),
        (rf"(?:monthly|every month) on the {_NUMBER}(?:st|nd|rd|th)?{_AT}", _on_month_day),
        (r"今天", _days_ahead(0)),
        (r"明天", _days_ahead(1)),
        (r"後天", _days_ahead(2)),
        (r"每[天日]", _cron_at("* * *")),
        (rf"{_WEEK}(?P<day>[日天一二三四五六])", _on_zh_weekday),
        (rf"每個?月{_NUMBER}[日號]", _on_month_day),
    )
    for before, meaning in worded:
        for time in _TIMES_OF_DAY:
            yield re.compile(before + time, re.ASCII).fullmatch, meaning


_TIME_FORMS = tuple(_compile_forms())
_VAGUE_TIMES = frozenset(
    (
        "later",
        "soon",
        "someday",
        "sometime",
        "now",
        "after work",
        "in the morning",
        "in the evening",
        "等等",
        "之後",
        "找時間",
        "下班後",
        "有空時",
        "稍後",
        "晚點",
    )
)
_no_hour = re.compile(
    rf"(?:today|tomorrow|every day|daily|weekdays|every weekday|every (?:{'|'.join(_DAYS)})|今天|明天|後天|每[天日]"
    rf"|{_WEEK}[日天一二三四五六]?|每個?月(?:[0-9]+[日號])?|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})"
    r"(?: (?:in the )?(?:morning|noon|afternoon|evening|night)|早上|上午|中午|下午|晚上)?"
).fullmatch


# --- Cron ---

_field = re.compile(
    r"(?:[0-9*?LW#,/-]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+"
).fullmatch


def _looks_like_cron(text: str) -> bool:
    fields = text.split()
    if "*" in text:
        return True
    return len(fields) > 2 and all(_field(field.upper()) for field in fields)


def _five_fields_fault(text: str) -> str:
    return f"expression must be 5 fields '{{min}} {{hour}} {{dom}} {{mon}} {{dow}}' (got \"{text}\")"


def checked_cron(expression: str, text: str = "") -> CronExpression:
    """A cron expression that comes true some day; anything else is refused with the reason."""
    text = text or expression
    if len(expression.split()) != 5 or not expression.isascii() or not expression.isprintable():
        raise BadTime(_five_fields_fault(text), "a cron expression such as `*/5 * * * *`")
    fault = expression_fault(expression)
    if fault:
        raise BadTime(f'cron "{text}" can\'t be: {fault}', "a cron expression such as `*/5 * * * *`")
    return CronExpression(expression)


_step = re.compile(r"\*/([0-9]+)").fullmatch


def uneven_steps(expression: str) -> str:
    """What is odd about steps that do not divide the hour or the day; empty when they do."""
    minute, hour, *_ = expression.split()
    for field, limit, unit, span in ((minute, 60, "minutes", "hour"), (hour, 24, "hours", "day")):
        match = _step(field)
        if match and limit % int(match[1]):
            return f"{match[1]} {unit} do not divide the {span}: they are counted anew each {span}"
    return ""


def cron_firings(cron: CronExpression, zone: str, after: datetime) -> Iterator[datetime]:
    """The instants after one, in the zone's own time."""
    place = zone_of(zone)
    return (instant.astimezone(place) for instant in cron_instants(cron.expression, place, after))


def next_instant(when: ScheduleTime, zone: str, after: datetime) -> datetime | None:
    """The first instant after one, in UTC; None when there is no more."""
    if isinstance(when, OneShotTime):
        return when.at if when.at > after else None
    return next(cron_instants(when.expression, zone_of(zone), after), None)
