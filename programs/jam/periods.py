"""Turns the dates in what a model wrote into a period: "2026-03", "from 2026-03-02 to 2026-03-09", "after 2026"."""

import re
from datetime import date, timedelta
from typing import NamedTuple

__all__ = ["Period", "period_in"]

_DATE = re.compile(r"\b(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?\b")
_BEHIND = re.compile(r"\b(after|since|from|before|until|till|to|up to)\W+$")
_DECEMBER = 12


class Period(NamedTuple):
    """`after` (inclusive) and `before` (exclusive) as ISO dates, "" for open; `rest` is the text without its dates."""

    after: str
    before: str
    rest: str


def period_in(text: str) -> Period:
    """The period that a text names: from its first date up to the end of its last one.

    Behind "after", "since" or "from" a single date is a beginning, behind "before" or "until" an end. What is no date,
    such as "2026-13", stays in `rest`.
    """
    found = [(match, *ends) for match in _DATE.finditer(text) if (ends := _ends(match))]
    if not found:
        return Period("", "", text)
    words = [_word_before(text[: match.start()].lower()) for match, _, _ in found]
    after: date | None = min(begin for _, begin, _ in found)
    before: date | None = max(end for _, _, end in found)
    if len(found) == 1:
        _, begin, end = found[0]
        after = {"after": end, "before": None, "until": None, "till": None, "to": None, "up to": None}.get(
            words[0], begin
        )
        before = {"before": begin, "after": None, "since": None, "from": None}.get(words[0], end)
    rest = text
    for match, _, _ in reversed(found):
        head = (
            _BEHIND.sub("", rest[: match.start()])
            if _BEHIND.search(rest[: match.start()].lower())
            else rest[: match.start()]
        )
        rest = head + " " + rest[match.end() :]
    return Period(after.isoformat() if after else "", before.isoformat() if before else "", rest)


def _word_before(head: str) -> str:
    match = _BEHIND.search(head)
    return match[1] if match else ""


def _ends(match: re.Match[str]) -> tuple[date, date] | None:
    """The first day of a day, a month or a year, and the day after its last one; None for what is no date."""
    year, month, day = (int(part) if part else 0 for part in match.groups())
    try:
        begin = date(year, month or 1, day or 1)
        if day:
            return begin, begin + timedelta(days=1)
        if month:
            return begin, date(year + month // _DECEMBER, month % _DECEMBER + 1, 1)
        return begin, date(year + 1, 1, 1)
    except (ValueError, OverflowError):
        return None
