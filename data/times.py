"""Turns ISO 8601 text into seconds since 1970, for order and for date filters."""

from datetime import datetime, timezone

__all__ = ["seconds"]


def seconds(time: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 date or time, or None where it cannot be read; without a zone it is UTC."""
    if time[-1:] in ("Z", "z"):  # not understood before Python 3.11
        time = f"{time[:-1]}+00:00"
    try:
        moment = datetime.fromisoformat(time)
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None
