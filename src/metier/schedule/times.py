"""Times: what a phrase such as `tomorrow at 9am` means as a trigger, and when a trigger fires.

Phrases are a closed grammar in English and Chinese, one pattern for each form.  A phrase names an exact time or is
refused with the accepted forms; nothing is guessed, because a wrong guess is noticed only after it has fired.  A date
parser that accepts anything, or a model, would turn `tomorrow morning` into an hour nobody chose.  Durations and
instants become a `OnceTrigger` in UTC; whatever repeats becomes a `CronTrigger`, so there is one kind of recurrence.

Cron follows Debian's rules when clocks change.  A job with `*` for its minute or hour follows real time.  A job at a
fixed time fires once a day: at the first of two such times, and right after a gap that skipped it.  cronsim matches the
fields on a wall clock without a zone, and the zone is applied here: cronsim knows the same rules, but skips firings in
zones that move by half an hour, and returns a past time when asked within a repeated hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import assert_never
from unicodedata import normalize
from zoneinfo import ZoneInfo

from ..types.errors import BadRequest
from ..types.schedule import CronTrigger, OnceTrigger, Trigger

FORMS_HINT = (
    "say `+5m`, `14:30`, `tomorrow at 9am`, `2026-12-31 23:59`, `every 10 minutes`, `weekdays at 9:00`, `每天 9 點`, "
    "or five cron fields"
)
_CRON_HINT = "use a cron expression such as `*/5 * * * *`"
_LONGEST_TEXT = 200
"""Longer texts are refused before any pattern sees them."""


class BadTime(BadRequest):
    """A text that names no exact time; the message quotes it."""


def zone_of(name: str) -> ZoneInfo:
    """The time zone of a name; ZoneInfo itself refuses names that lead out of its folder."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadRequest(f"`{name}` is not a time zone", "give a name such as `Asia/Taipei` or `UTC`") from None


def schedule_time(text: str, now: datetime, zone: str) -> Trigger:
    """The trigger that a text means when written at `now` in a zone."""
    local_zone = zone_of(zone)
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
            return meaning(_TimePhrase(match, text, now, local_zone))
    if not folded or folded in _VAGUE_TIMES or _no_hour(folded):
        raise BadTime(f'no time of day in "{text}"', FORMS_HINT)
    if plain.startswith("@"):
        raise BadTime(f'unrecognized time format: "{text}"; {_five_fields_fault(text)}', FORMS_HINT)
    raise BadTime(f'unrecognized time format: "{text}"', FORMS_HINT)


# --- Triggers ---


def firing_times(trigger: Trigger, zone: str, after: datetime) -> Iterator[datetime]:
    """The instants after a given one at which a trigger fires, in the zone's own time."""
    local_zone = zone_of(zone)
    match trigger:
        case CronTrigger(expression):
            instants = cron_instants(expression, local_zone, after)
        case OnceTrigger(at):
            instants = iter([at] if at > after else [])
        case _:
            assert_never(trigger)
    return (instant.astimezone(local_zone) for instant in instants)


def next_instant(trigger: Trigger, zone: str, after: datetime) -> datetime | None:
    """The first of these, in UTC; None if there is none."""
    first = next(firing_times(trigger, zone, after), None)
    return None if first is None else first.astimezone(UTC)


def fires_once(trigger: Trigger) -> bool:
    """Whether a trigger is over after its first firing."""
    match trigger:
        case CronTrigger():
            return False
        case OnceTrigger():
            return True
        case _:
            assert_never(trigger)


def trigger_text(trigger: Trigger) -> str:
    """A trigger as text, which `schedule_time` reads back: the cron fields, or the instant in ISO 8601."""
    match trigger:
        case CronTrigger(expression):
            return expression
        case OnceTrigger(at):
            return at.isoformat()
        case _:
            assert_never(trigger)


def trigger_label(trigger: Trigger, zone: str = "") -> str:
    """A trigger in a list: its cron fields, with the zone if it is given, or `once`."""
    match trigger:
        case CronTrigger(expression):
            return f"{expression} ({zone})" if zone else expression
        case OnceTrigger():
            return "once"
        case _:
            assert_never(trigger)


def trigger_warning(trigger: Trigger) -> str:
    """What is surprising about a trigger; empty if nothing is."""
    match trigger:
        case CronTrigger(expression):
            return uneven_steps(expression)
        case OnceTrigger():
            return ""
        case _:
            assert_never(trigger)


# --- Folding ---

# Simplified characters become traditional ones, so that the grammar has each word once.
_TRADITIONAL = str.maketrans("钟后时点周号礼个两", "鐘後時點週號禮個兩")
_between_wide = re.compile(r"(?<=[^\x00-\x7f])\s+|\s+(?=[^\x00-\x7f])")


def _fold_text(text: str) -> str:
    """Lowercase, single spaces, none next to Chinese words, and full-width digits as ASCII."""
    plain = normalize("NFKC", text).translate(_TRADITIONAL)
    return " ".join(_between_wide.sub("", plain).lower().split())


# --- Durations ---

_parts = re.compile(r"([0-9]+(?:\.[0-9]+)?)([hms])")
_durations = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[hms])+").fullmatch
_UNIT_SECONDS = {"h": 3_600, "m": 60, "s": 1}
_LONGEST_DURATION = timedelta(days=36_525)


def _parse_duration(written: str, text: str) -> timedelta:
    if _durations(written) is None:
        raise BadTime(f'bad duration: "{text}"', "write `+5m`, `+1h30m`, `+90s` or `+1.5h`")
    return _bounded_seconds(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _parts.findall(written)), text)


def _bounded_seconds(seconds: float, text: str) -> timedelta:
    try:
        duration = timedelta(seconds=seconds)
    except OverflowError:
        duration = timedelta.max
    if not timedelta(0) < duration < _LONGEST_DURATION:
        raise BadTime(f'bad duration: "{text}" must be more than 0 and less than 100 years', "write `+5m` or `+1h30m`")
    return duration


def _instant_later(ahead: timedelta, now: datetime, text: str) -> OnceTrigger:
    try:
        return OnceTrigger((now.astimezone(UTC) + ahead).astimezone(UTC))
    except OverflowError:
        raise BadTime(f'bad duration: "{text}" ends after the year 9999', "give a shorter one") from None


# --- Phrases ---


@dataclass(frozen=True)
class _TimePhrase:
    """A text that matched a form, with the time and the zone it was written in."""

    match: re.Match[str]
    text: str
    now: datetime
    zone: ZoneInfo

    def number(self, name: str) -> int:
        return int(self.match[name])

    def unrecognized(self) -> BadTime:
        return BadTime(f'unrecognized time format: "{self.text}"', FORMS_HINT)

    @property
    def clock(self) -> tuple[int, int]:
        """The hour and minute of its time of day."""
        if self.match.groupdict().get("noon"):
            return 12, 0
        hour, minute = int(self.match["hour"]), int(self.match["minute"] or 0)
        half, part = self.match.groupdict().get("half"), self.match.groupdict().get("part") or ""
        if self.match.groupdict().get("halfpast"):
            minute = 30
        late = part in ("下午", "晚上")
        if half:
            if not 1 <= hour <= 12 or (part and late != (half == "pm")):
                raise self.unrecognized()
            hour = hour % 12 + (12 if half == "pm" else 0)
        elif late:
            # 晚上 12 點 means the end of today to some, its beginning to others: refuse it.
            if not 1 <= hour <= 11:
                raise self.unrecognized()
            hour += 12
        if hour > 23 or minute > 59:
            raise self.unrecognized()
        return hour, minute


def _time_on_day(day: date, phrase: _TimePhrase) -> OnceTrigger:
    """The time of day on a date.  A time that clocks skip moves forward by the gap; of a repeated one, the first."""
    hour, minute = phrase.clock
    try:
        at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=phrase.zone).astimezone(UTC)
    except OverflowError:
        raise phrase.unrecognized() from None
    return _require_future(at, phrase)


def _require_future(at: datetime, phrase: _TimePhrase) -> OnceTrigger:
    if at <= phrase.now:
        local = at.astimezone(phrase.zone).strftime("%Y-%m-%d %H:%M:%S")
        raise BadTime(f'already gone: "{phrase.text}" was {local}', "give a time in the future")
    return OnceTrigger(at)


def _days_ahead(ahead: int) -> Callable[[_TimePhrase], OnceTrigger]:
    def meaning(phrase: _TimePhrase) -> OnceTrigger:
        return _time_on_day(phrase.now.astimezone(phrase.zone).date() + timedelta(days=ahead), phrase)

    return meaning


def _on_date(phrase: _TimePhrase) -> OnceTrigger:
    try:
        day = date.fromisoformat(phrase.match["date"])
    except ValueError:
        raise phrase.unrecognized() from None
    return _time_on_day(day, phrase)


def _exact_instant(phrase: _TimePhrase) -> OnceTrigger:
    try:
        at = datetime.fromisoformat(phrase.match[0].upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise phrase.unrecognized() from None
    return _require_future(at, phrase)


def _after_units(unit: int) -> Callable[[_TimePhrase], OnceTrigger]:
    def meaning(phrase: _TimePhrase) -> OnceTrigger:
        return _instant_later(_bounded_seconds(phrase.number("n") * unit, phrase.text), phrase.now, phrase.text)

    return meaning


def _every_step(limit: int, expression: str, unit: str) -> Callable[[_TimePhrase], CronTrigger]:
    def meaning(phrase: _TimePhrase) -> CronTrigger:
        step = phrase.number("n")
        if not 1 <= step < limit:
            message = f'step out of range: "{phrase.text}"; use 1 to {limit - 1} {unit}'
            raise BadTime(message, "give a smaller step, or five cron fields")
        return CronTrigger(expression.format(step))

    return meaning


def _fixed_cron(expression: str) -> Callable[[_TimePhrase], CronTrigger]:
    return lambda phrase: CronTrigger(expression)


def _cron_at(days: str) -> Callable[[_TimePhrase], CronTrigger]:
    def meaning(phrase: _TimePhrase) -> CronTrigger:
        hour, minute = phrase.clock
        return CronTrigger(f"{minute} {hour} {days}")

    return meaning


def _on_weekday(phrase: _TimePhrase) -> CronTrigger:
    return _cron_at(f"* * {_DAYS.index(phrase.match['day'])}")(phrase)


def _on_zh_weekday(phrase: _TimePhrase) -> CronTrigger:
    return _cron_at(f"* * {_ZH_DAYS[phrase.match['day']]}")(phrase)


def _on_month_day(phrase: _TimePhrase) -> CronTrigger:
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


# The first form that matches the whole text gives its meaning.  A prefix such as `tomorrow at` combines with every way
# to write a time of day, so each is in the table once.
def _compile_forms() -> Iterator[tuple[Callable[[str], re.Match[str] | None], Callable[[_TimePhrase], Trigger]]]:
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
# These get an error of their own, which says that the hour is missing: an agent then asks the user for it.
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


# --- Cron expressions ---

_field = re.compile(
    r"(?:[0-9*?LW#,/-]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+"
).fullmatch


def _looks_like_cron(text: str) -> bool:
    fields = text.split()
    # In no phrase: an error about the cron fields helps more than one about phrases.
    if "*" in text:
        return True
    return len(fields) > 2 and all(_field(field.upper()) for field in fields)


def _five_fields_fault(text: str) -> str:
    return f"expression must be 5 fields '{{min}} {{hour}} {{dom}} {{mon}} {{dow}}' (got \"{text}\")"


def checked_cron(expression: str, text: str = "") -> CronTrigger:
    """A trigger of a cron expression that matches some day; any other is refused with the reason."""
    text = text or expression
    if len(expression.split()) != 5 or not expression.isascii() or not expression.isprintable():
        raise BadTime(_five_fields_fault(text), _CRON_HINT)
    fault = expression_fault(expression)
    if fault:
        raise BadTime(f'invalid cron expression "{text}": {fault}', _CRON_HINT)
    return CronTrigger(expression)


_step = re.compile(r"\*/([0-9]+)").fullmatch


def uneven_steps(expression: str) -> str:
    """A warning about steps that do not divide the hour or the day; empty if they do."""
    minute, hour, *_ = expression.split()
    for field, limit, unit, span in ((minute, 60, "minutes", "hour"), (hour, 24, "hours", "day")):
        match = _step(field)
        if match and limit % int(match[1]):
            return f"{match[1]} {unit} do not divide the {span}: the count restarts every {span}"
    return ""


# --- Cron and the zone ---

_ONE_WEEK = timedelta(days=7)
"""No zone changes its clocks twice in a week."""
_LARGEST_STEPS = (59, 23, 31, 12, 7)
"""Of each field.  cronsim takes larger ones, and then matches the first value alone: never what was meant."""
_steps = re.compile(r"/0*([0-9]+)").findall


def expression_fault(expression: str) -> str:
    """What is wrong with five cron fields: invalid, a step beyond the range, or a date that never comes."""
    for field, most in zip(expression.split(), _LARGEST_STEPS, strict=True):
        if wide := next((step for step in _steps(field) if len(step) > 2 or int(step) > most), ""):
            return f"a step of {wide[:20]} is too large, the maximum is {most}"
    # Imported late: it would be a tenth of the start-up time.
    from cronsim import CronSim, CronSimError

    try:
        next(CronSim(expression, datetime(2026, 1, 1)))
    except (CronSimError, AssertionError, ValueError, StopIteration, RecursionError) as error:
        return str(error).lower() or "it never comes"
    return ""


def cron_instants(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The firings after an instant, in UTC, as Debian's cron has them."""
    minute, hour = expression.split()[:2]
    start = after.astimezone(UTC)
    candidates = (
        _real_time_instants(expression, zone, start)
        if "*" in (minute[0], hour[0])
        else _fixed_instants(expression, zone, start)
    )
    return (instant for instant in candidates if instant > start)


def _wall_times(expression: str, after: datetime) -> Iterator[datetime]:
    """What a wall clock shows when the fields match, as if clocks never changed."""
    from cronsim import CronSim

    return iter(CronSim(expression, after))


def _fixed_instants(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    last = None
    # Two days early: a gap of up to a day (a zone that crosses the date line) moves a firing past the start.
    for wall in _wall_times(expression, start.astimezone(zone).replace(tzinfo=None, fold=0) - timedelta(days=2)):
        local = wall.replace(tzinfo=zone)
        at = local.astimezone(UTC)
        # Clocks skip this time: fire right after the gap.
        if at.astimezone(zone).replace(tzinfo=None) != wall:
            at = _offset_change(zone, at - timedelta(days=2), at)
        # Several times in one gap are one firing.
        if last is None or at > last:
            last = at
            yield at


def _real_time_instants(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """Stretch after stretch of a constant UTC offset; each starts a second early, to include its first instant."""
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
    """The first instant whose offset differs from that of `before`, by bisection; `after` must have another one."""
    offset = _utc_offset(zone, before)
    while before + _ONE_WEEK < after and _utc_offset(zone, before + _ONE_WEEK) == offset:
        before += _ONE_WEEK
    after = min(after, before + _ONE_WEEK)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        before, after = (middle, after) if _utc_offset(zone, middle) == offset else (before, middle)
    return after.replace(microsecond=0)
