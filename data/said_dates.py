"""Turns a date as it was said on some day ("next Friday", "two weeks ago") into one that stays true: ISO 8601."""

import re
from datetime import date, datetime
from functools import lru_cache
from typing import Any

__all__ = ["meant_date"]

_FORMS = {"year": "%Y", "month": "%Y-%m"}
_ISO = re.compile(r"\d{4}(-\d\d){0,2}", re.ASCII)
_DAY = len("2026-03-02")


def meant_date(phrase: str, claimed: str, said: str) -> str:
    """The day, month or year that words mean; "" when it cannot be known.

    What the words say beats what a model takes them for. Where they may mean two days, as "Friday" may, it chooses
    between these; where they cannot be read, it is believed.

    Args:
        phrase: words of a turn.
        claimed: what a model takes them for, such as "2026-03-02" or "2026-03".
        said: event time of the turn. Where it is not known, or not ISO 8601, only words that name a year can be read.
    """
    claimed, said = (
        claimed if _is_date(claimed) else "",
        said[:_DAY] if len(said) >= _DAY and _is_date(said[:_DAY]) else "",
    )
    readings = {reading for way in ("past", "future") if (reading := _read(phrase, said, way))}
    if not said:
        return next(iter(readings), "") if len(readings) == 1 and next(iter(readings))[:4] in phrase else ""
    if len(readings) == 1:
        return readings.pop()
    return claimed if not readings or claimed in readings else ""


@lru_cache(maxsize=256)
def _read(phrase: str, said: str, way: str) -> str:
    from dateparser.date import DateDataParser  # takes a while to import

    settings: dict[str, Any] = {"PREFER_DATES_FROM": way}
    if said:
        settings["RELATIVE_BASE"] = datetime.fromisoformat(said)
    if not any(map(str.isalpha, phrase)) and "-" not in phrase:
        return ""  # it takes "12" for a month
    try:
        found = DateDataParser(settings=settings).get_date_data(phrase)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # words of anyone, and years without end
        return ""
    form = _FORMS.get(found.period or "", "%Y-%m-%d")
    return found.date_obj.strftime(form) if found.date_obj else ""


def _is_date(text: str) -> bool:
    """Whether a text is a day, month or year of ISO 8601; a date with a time behind it is none."""
    if not _ISO.fullmatch(text):
        return False
    try:
        date.fromisoformat(f"{text}-01-01"[:_DAY])
    except ValueError:
        return False
    return True
