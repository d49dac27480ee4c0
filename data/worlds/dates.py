"""Turns a date into words as someone says them on a given day ("in nine days"), and such words back into the date."""

import re
from datetime import date, timedelta

__all__ = ["date_phrases", "iso_day", "read_date", "say_day"]

_MONTHS = tuple[str, ...](
    "January February March April May June July August September October November December".split()
)
_WEEKDAYS = tuple[str, ...]("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
_NUMBERS = tuple[str, ...](
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
)
_NEAR = {0: "today", 1: "tomorrow", 2: "the day after tomorrow", -1: "yesterday", -2: "the day before yesterday"}
_WEEKS = 6  # nobody says "in eleven weeks" of a day that is fixed
_ISO, _SPOKEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"), re.compile(r"([0-9]{1,2}) (\w+) ([0-9]{4})")
_FAR = {7: "a week from today", 14: "two weeks from today", 21: "three weeks from today", -7: "a week ago today"}


def date_phrases(day: date, said: date) -> tuple[str, ...]:
    """Ways to say a day, the absolute ones first; each reads after a verb ("we meet ...")."""
    apart = (day - said).days
    spoken = say_day(day)
    phrases = [f"on {spoken}", f"on {_WEEKDAYS[day.weekday()]}, {spoken}"]
    if apart in _NEAR | _FAR:
        phrases.append((_NEAR | _FAR)[apart])
    if 3 <= apart < len(_NUMBERS):
        phrases.append(f"in {_NUMBERS[apart]} days")
    if apart % 7 == 0 and 3 <= apart // 7 <= _WEEKS:
        phrases.append(f"in {_NUMBERS[apart // 7]} weeks")
    if _months(day) - _months(said) == 1:
        phrases.append(f"on the {_ordinal(day.day)} of next month")
    if 3 <= -apart < len(_NUMBERS):
        phrases.append(f"{_NUMBERS[-apart]} days ago")
    if 2 < apart < 7:
        phrases.append(f"this coming {_WEEKDAYS[day.weekday()]}")
    if 7 < apart < 14 and said.weekday() != day.weekday():
        phrases.append(f"a week on {_WEEKDAYS[day.weekday()]}")
    return tuple(phrases)


def say_day(day: date) -> str:
    """A date as an answer gives it: 14 May 2026."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def read_date(words: str, said: date) -> date | None:
    """The day that words mean which were said on a day; None when they are no date that exists."""
    words = words.strip().removeprefix("on ")
    near = {phrase: apart for apart, phrase in (_NEAR | _FAR).items()}
    if words in near:
        return _away(said, near[words])
    if match := re.fullmatch(r"in (\w+) (days|weeks)|(\w+) days ago", words):
        number = match[1] or match[3]
        apart = _NUMBERS.index(number) * (7 if match[2] == "weeks" else 1) if number in _NUMBERS else None
        return _away(said, apart if match[1] else -apart) if apart is not None else None
    if match := re.fullmatch(r"the ([0-9]{1,2}[a-z]{2}) of next month", words):
        return _next_month(match[1], said)
    if match := re.fullmatch(r"(this coming|a week on) (\w+)", words):
        return _coming(match[2], said, weeks=int(match[1] != "this coming"))
    return _absolute(words)


def iso_day(words: str) -> date | None:
    """2026-05-14 as a day; `date.fromisoformat` alone reads more than that, and more from Python 3.11 on."""
    try:
        return date.fromisoformat(words) if _ISO.fullmatch(words) else None
    except ValueError:
        return None


def _away(said: date, apart: int) -> date | None:
    try:
        return said + timedelta(days=apart)
    except OverflowError:
        return None


def _next_month(nth: str, said: date) -> date | None:
    year, month = divmod(_months(said), 12)
    try:
        day = date(year, month + 1, int(nth[:-2]))
    except ValueError:
        return None
    return day if _ordinal(day.day) == nth else None


def _months(day: date) -> int:
    """Months since the year 0, from 1: divided by 12 they give the next month, counted from 0."""
    return 12 * day.year + day.month


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st ..."""
    ending = "th" if 10 < number < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _coming(weekday: str, said: date, weeks: int) -> date | None:
    if weekday not in _WEEKDAYS:
        return None
    apart = (_WEEKDAYS.index(weekday) - said.weekday() - 1) % 7 + 1
    return _away(said, apart + 7 * weeks)


def _absolute(words: str) -> date | None:
    """14 May 2026, with a weekday before it that must be the right one, or 2026-05-14."""
    weekday, comma, spoken = words.rpartition(", ")
    match = _SPOKEN.fullmatch(spoken)
    try:
        day = date(int(match[3]), _MONTHS.index(match[2]) + 1, int(match[1])) if match else iso_day(spoken)
    except ValueError:
        return None
    return day if day and (not comma or weekday == _WEEKDAYS[day.weekday()]) else None
