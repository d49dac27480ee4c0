"""Turns plain rows of a conversation into turns and sessions whose ids are hashes of what was said.

A turn's id hashes the id before it, so ids form a chain: the same words said twice are two turns, and a session
that only grew keeps the ids it had.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from hashlib import sha256

from stitchjam.data.errors import DataError
from stitchjam.data.records import Session, Turn

__all__ = ["build_session", "in_time_order", "turn_id"]


def turn_id(previous: str, speaker: str, text: str, time: str) -> str:
    """The id of a turn: "t" and 16 hex digits of a sha256 over a canonical JSON list.

    Args:
        previous: id of the turn before, or the external session id for the first turn ("" where there is none).
        speaker: who said it.
        text: what was said, byte for byte.
        time: event time, "" where unknown.
    """
    canonical = json.dumps([previous, speaker, text, time], separators=(",", ":"))
    return "t" + sha256(canonical.encode()).hexdigest()[:16]


def build_session(session_id: str, time: str, rows: Iterable[Mapping[str, str]]) -> Session:
    """Chain rows into a session.

    Args:
        session_id: external id; "" makes it "s" and the hash of the first turn.
        time: when the session began; "" takes the first row's time. Rows without a time inherit it.
        rows: mappings with speaker and text, and time and external_id where known; at least one.

    Raises:
        DataError: there is no row, or a text cannot be stored as UTF-8.
    """
    rows = list(rows)
    if not rows:
        raise DataError(f"session {session_id!r} has no turns; leave it out or give it at least one")
    time = time or rows[0].get("time", "")
    previous, session_id = _start(session_id, time, rows[0])
    turns = []
    for number, row in enumerate(rows, 1):
        turn = _turn(session_id, time, previous, row, number)
        turns.append(turn)
        previous = turn.id
    return Session(id=session_id, turns=tuple(turns), time=time)


def in_time_order(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Sessions oldest first; the order given is kept among equals, and throughout when a time cannot be read."""
    sessions = tuple(sessions)
    times = [_moment(session.time) for session in sessions]
    known = [moment for moment in times if moment is not None]
    if len(known) < len(sessions):
        return sessions
    return tuple(sessions[at] for at in sorted(range(len(sessions)), key=known.__getitem__))


def _start(session_id: str, time: str, first: Mapping[str, str]) -> tuple[str, str]:
    # An id that was made from the first turn is no external id, also when it comes back from a file that we wrote:
    # starting the chain with it would change every turn id of the session.
    made = "s" + turn_id("", first["speaker"], first["text"], first.get("time", "") or time)[1:]
    return ("", made) if session_id in ("", made) else (session_id, session_id)


def _turn(session_id: str, time: str, previous: str, row: Mapping[str, str], number: int) -> Turn:
    speaker, text, when = row["speaker"], row["text"], row.get("time", "") or time
    for value in (session_id, speaker, text, when):
        _require_utf8(value, f"session {session_id!r}, turn {number}")
    return Turn(
        id=turn_id(previous, speaker, text, when),
        session_id=session_id,
        speaker=speaker,
        text=text,
        time=when,
        external_id=row.get("external_id", ""),
    )


def _require_utf8(value: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: half of a surrogate pair at character {error.start} cannot be stored; remove that character"
        ) from None


def _moment(time: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
