"""Turns dates and times as people write them into ISO 8601."""

import re

from stitchjam.data.times import seconds

__all__ = ["first_time", "iso_time"]

_DATE = r"(?P<date>\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)"
_CLOCK = r"(?P<clock>\d\d?:\d\d(?::\d\d)?)(?P<fraction>\.\d{1,9})?"
_ZONE = r"(?P<zone>Z|[+-]\d\d:?\d\d)"
# A clock of twelve hours is not read: without its "pm" it would be half a day off. The date before it is.
_TIME = re.compile(rf"(?<!\d){_DATE}(?!\d)(?:[T ,]{{1,2}}{_CLOCK}(?:\s?{_ZONE})?(?![\d:.]|\s?[AaPp]\.?[Mm]))?")


def iso_time(text: str) -> str:
    """A text that is a date, or a date and a clock, as ISO 8601; "" where it is anything else.

    "2026/03/02 9:30" becomes "2026-03-02T09:30", "2026-03-02T09:30:05Z" becomes "2026-03-02T09:30:05+00:00".
    """
    return _written(_TIME.fullmatch(text.strip()))


def first_time(text: str) -> str:
    """The first date of a text, with the clock behind it, as ISO 8601; "" where there is none."""
    return _written(_TIME.search(text))


def _written(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    time = match["date"].replace("/", "-")
    if clock := match["clock"]:
        time += f"T{clock if clock[2] == ':' else '0' + clock}"
    if match["fraction"]:
        time += f"{match['fraction']:0<7}"[:7]  # Python 3.10 reads fractions of three or six digits only
    if zone := match["zone"]:
        time += "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
    return "" if seconds(time) is None else time
