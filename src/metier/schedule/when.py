"""`schedule_time`: a person's words, in English or Chinese, as one instant or a cron expression.

A closed grammar that matches whole texts only.  What is not in it is refused, and never completed by a guess.
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
from .cron import fault_of, instants

FORMS = (
    "say `+5m`, `14:30`, `tomorrow at 9am`, `2026-12-31 23:59`, `every 10 minutes`, `weekdays at 9:00`, `每天 9 點`, "
    "or five cron fields"
)

_LONGEST = 200


class BadTime(BadRequest):
    """A text that names no time; it is quoted in the message."""


@dataclass(frozen=True)
class Once:
    """One instant, in UTC."""

    at: datetime


@dataclass(frozen=True)
class Cron:
    """Five fields, as they were written or as the words mean them."""

    expression: str


When: TypeAlias = Once | Cron


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name; a name that leads elsewhere is no zone."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadRequest(f"`{name}` is not a time zone", "give a name such as `Asia/Taipei` or `UTC`") from None


def schedule_time(text: str, now: datetime, zone: str) -> When:
    """What a text means, said at `now` in a zone."""
    place = zone_of(zone)
    if len(text) > _LONGEST:
        raise BadTime(f'unrecognized time format: "{text[:_LONGEST]}…"', FORMS)
    plain = text.strip()
    folded = _folded(plain)
    if plain.startswith("+"):
        return _later(_duration(plain[1:], text), now, text)
    if _looks_like_cron(plain):
        return checked_cron(plain, text)
    for form, meaning in _FORMS:
        found = form(folded)
        if found is not None:
            return meaning(_Said(found, text, now, place))
    if not folded or folded in _VAGUE or _no_hour(folded):
        raise BadTime(f'no time of day in "{text}"', FORMS)
    if plain.startswith("@"):
        raise BadTime(f'unrecognized time format: "{text}"; {_five(text)}', FORMS)
    raise BadTime(f'unrecognized time format: "{text}"', FORMS)


# Simplified characters as traditional ones, so that each word is in the grammar once.
_TRADITIONAL = str.maketrans("钟后时点周号礼个两", "鐘後時點週號禮個兩")
_between_wide = re.compile(r"(?<=[^\x00-\x7f])\s+|\s+(?=[^\x00-\x7f])")


def _folded(text: str) -> str:
    """Small letters, single blanks, none beside Chinese words, and wide digits as plain ones."""
    plain = normalize("NFKC", text).translate(_TRADITIONAL)
    return " ".join(_between_wide.sub("", plain).lower().split())


# --- Durations ---

_parts = re.compile(r"([0-9]+(?:\.[0-9]+)?)([hms])")
_durations = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[hms])+").fullmatch
_SECONDS = {"h": 3_600, "m": 60, "s": 1}


def _duration(written: str, text: str) -> timedelta:
    if _durations(written) is None:
        raise BadTime(f'bad duration: "{text}"', "say it as `+5m`, `+1h30m`, `+90s` or `+1.5h`")
    return _seconds(sum(float(number) * _SECONDS[unit] for number, unit in _parts.findall(written)), text)


def _seconds(seconds: float, text: str) -> timedelta:
    try:
        found = timedelta(seconds=seconds)
    except OverflowError:
        found = timedelta.max
    if not timedelta(0) < found < timedelta(days=36_525):
        raise BadTime(f'bad duration: "{text}" is no time ahead of now, or a lifetime', "say it as `+5m` or `+1h30m`")
    return found


def _later(ahead: timedelta, now: datetime, text: str) -> Once:
    try:
        return Once((now.astimezone(UTC) + ahead).astimezone(UTC))
    except OverflowError:
        raise BadTime(f'bad duration: "{text}" leaves the calendar', "say a shorter one") from None


# --- Words ---


@dataclass(frozen=True)
class _Said:
    """A text that matched a form, where and when it was said."""

    found: re.Match[str]
    text: str
    now: datetime
    zone: ZoneInfo

    def number(self, name: str) -> int:
        return int(self.found[name])

    def unrecognized(self) -> BadTime:
        return BadTime(f'unrecognized time format: "{self.text}"', FORMS)

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


def _on(day: date, said: _Said) -> Once:
    """T of a day.  A time that is skipped moves forward by the gap; of two, the first is meant."""
    hour, minute = said.clock
    try:
        at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=said.zone).astimezone(UTC)
    except OverflowError:
        raise said.unrecognized() from None
    return _ahead(at, said)


def _ahead(at: datetime, said: _Said) -> Once:
    if at <= said.now:
        local = at.astimezone(said.zone).strftime("%Y-%m-%d %H:%M:%S")
        raise BadTime(f'already gone: "{said.text}" was {local}', "say a time ahead of now")
    return Once(at)


def _day(ahead: int) -> Callable[[_Said], Once]:
    def meaning(said: _Said) -> Once:
        return _on(said.now.astimezone(said.zone).date() + timedelta(days=ahead), said)

    return meaning


def _date(said: _Said) -> Once:
    try:
        day = date.fromisoformat(said.found["date"])
    except ValueError:
        raise said.unrecognized() from None
    return _on(day, said)


def _instant(said: _Said) -> Once:
    try:
        at = datetime.fromisoformat(said.found[0].upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise said.unrecognized() from None
    return _ahead(at, said)


def _after(unit: int) -> Callable[[_Said], Once]:
    def meaning(said: _Said) -> Once:
        return _later(_seconds(said.number("n") * unit, said.text), said.now, said.text)

    return meaning


def _every(whole: int, expression: str, unit: str) -> Callable[[_Said], Cron]:
    def meaning(said: _Said) -> Cron:
        step = said.number("n")
        if not 1 <= step < whole:
            message = f'steps that do not fit: "{said.text}"; the time between can be 1 to {whole - 1} {unit}'
            raise BadTime(message, "say a smaller step, or five cron fields")
        return Cron(expression.format(step))

    return meaning


def _fixed(expression: str) -> Callable[[_Said], Cron]:
    return lambda said: Cron(expression)


def _at(days: str) -> Callable[[_Said], Cron]:
    def meaning(said: _Said) -> Cron:
        hour, minute = said.clock
        return Cron(f"{minute} {hour} {days}")

    return meaning


def _weekday(said: _Said) -> Cron:
    return _at(f"* * {_DAYS.index(said.found['day'])}")(said)


def _zh_weekday(said: _Said) -> Cron:
    return _at(f"* * {_ZH_DAYS[said.found['day']]}")(said)


def _monthly(said: _Said) -> Cron:
    day = said.number("n")
    if not 1 <= day <= 31:
        raise said.unrecognized()
    return _at(f"{day} * *")(said)


_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_ZH_DAYS = {"日": 0, "天": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6}
_N = r"(?P<n>[0-9]{1,9})"
_EN = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?(?: ?(?P<half>am|pm))"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_POINT = r"(?P<hour>[0-9]{1,2})點(?:(?P<minute>[0-9]{1,2})分?|(?P<halfpast>半))?"
_PART = r"(?P<part>早上|上午|下午|晚上)?"
_WORD = r"(?P<noon>noon)"
_T = (_PART + _CLOCK, _PART + _EN, _PART + _POINT, _WORD)
_AT = r"(?: at)?(?: |(?=[早上下晚]))"
_WEEK = r"每(?:個)?(?:週|星期|禮拜)"
_NICKNAMES = {
    "hourly": "0 * * * *", "daily": "0 0 * * *", "midnight": "0 0 * * *", "weekly": "0 0 * * 0",
    "monthly": "0 0 1 * *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *",
}  # fmt: skip
_DATE = r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"


def _forms() -> Iterator[tuple[Callable[[str], re.Match[str] | None], Callable[[_Said], When]]]:
    for pattern, meaning in (
        (rf"in {_N} ?(?:minutes?|mins?)", _after(60)),
        (rf"in {_N} ?(?:hours?)", _after(3_600)),
        (rf"in {_N} ?(?:seconds?)", _after(1)),
        (rf"{_N}分鐘?後", _after(60)),
        (rf"{_N}個?小時後", _after(3_600)),
        (rf"{_N}秒鐘?後", _after(1)),
        (_CLOCK, _day(0)),
        (_WORD, _day(0)),
        (rf"{_DATE} {_CLOCK}", _date),
        (
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:z|[+-][0-9]{2}:[0-9]{2})",
            _instant,
        ),
        (rf"every {_N} ?(?:minutes?|mins?)", _every(60, "*/{} * * * *", "minutes")),
        (rf"every {_N} ?hours?", _every(24, "0 */{} * * *", "hours")),
        (rf"每{_N}分鐘?", _every(60, "*/{} * * * *", "minutes")),
        (rf"每{_N}個?小時", _every(24, "0 */{} * * *", "hours")),
        (r"every minute|每分鐘", _fixed("* * * * *")),
        (r"every hour|每個?小時", _fixed("0 * * * *")),
    ):
        yield re.compile(pattern, re.ASCII).fullmatch, meaning
    for name, expression in _NICKNAMES.items():
        yield re.compile(f"@{name}").fullmatch, _fixed(expression)
    worded = (
        (rf"today{_AT}", _day(0)),
        (rf"tomorrow{_AT}", _day(1)),
        (rf"(?:daily|every day){_AT}", _at("* * *")),
        (rf"(?:weekdays|every weekday){_AT}", _at("* * 1-5")),
        (rf"every (?P<day>{'|'.join(_DAYS)}){_AT}", _weekday),
        (rf"(?:monthly|every month) on the {_N}(?:st|nd|rd|th)?{_AT}", _monthly),
        (r"今天", _day(0)),
        (r"明天", _day(1)),
        (r"後天", _day(2)),
        (r"每[天日]", _at("* * *")),
        (rf"{_WEEK}(?P<day>[日天一二三四五六])", _zh_weekday),
        (rf"每個?月{_N}[日號]", _monthly),
    )
    for before, meaning in worded:
        for time in _T:
            yield re.compile(before + time, re.ASCII).fullmatch, meaning


_FORMS = tuple(_forms())
_VAGUE = frozenset(
    ("later", "soon", "someday", "sometime", "now", "after work", "in the morning", "in the evening",
     "等等", "之後", "找時間", "下班後", "有空時", "稍後", "晚點")
)  # fmt: skip
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


def _five(text: str) -> str:
    return f"expression must be 5 fields '{{min}} {{hour}} {{dom}} {{mon}} {{dow}}' (got \"{text}\")"


def checked_cron(expression: str, text: str = "") -> Cron:
    """A cron expression that comes true some day; anything else is refused with the reason."""
    text = text or expression
    if len(expression.split()) != 5 or not expression.isascii() or not expression.isprintable():
        raise BadTime(_five(text), "a cron expression such as `*/5 * * * *`")
    fault = fault_of(expression)
    if fault:
        raise BadTime(f'cron "{text}" can\'t be: {fault}', "a cron expression such as `*/5 * * * *`")
    return Cron(expression)


_step = re.compile(r"\*/([0-9]+)").fullmatch


def uneven(expression: str) -> str:
    """What is odd about steps that do not divide the hour or the day; empty when they do."""
    minute, hour, *_ = expression.split()
    for field, whole, unit, span in ((minute, 60, "minutes", "hour"), (hour, 24, "hours", "day")):
        found = _step(field)
        if found and whole % int(found[1]):
            return f"{found[1]} {unit} do not divide the {span}: they are counted anew each {span}"
    return ""


def firings(cron: Cron, zone: str, after: datetime) -> Iterator[datetime]:
    """The instants after one, in the zone's own time."""
    place = zone_of(zone)
    return (one.astimezone(place) for one in instants(cron.expression, place, after))


def following(when: When, zone: str, after: datetime) -> datetime | None:
    """The first instant after one, in UTC; None when there is no more."""
    if isinstance(when, Once):
        return when.at if when.at > after else None
    return next(instants(when.expression, zone_of(zone), after), None)
