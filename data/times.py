"""Turns ISO 8601 text into seconds since 1970, for order and for date filters."""

from datetime import datetime, timezone

__all__ = ["seconds"]

_START_WITH_ZONE = datetime(1970, 1, 1, tzinfo=timezone.utc)
_START = _START_WITH_ZONE.replace(tzinfo=None)


def seconds(time: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 date or time, or None where it cannot be read; without a zone it is UTC."""
    if time[-1:] in ("Z", "z"):  # not understood before Python 3.11
        time = f"{time[:-1]}+00:00"
    try:
        moment = datetime.fromisoformat(time)
        return (moment - (_START_WITH_ZONE if moment.tzinfo else _START)).total_seconds()
    except (ValueError, OverflowError):
        return None
