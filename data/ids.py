"""Turns plain rows of a conversation into turns and sessions whose ids are hashes of what was said.

A turn's id hashes the id before it, so ids form a chain: the same words said twice are two turns, and a session
that only grew keeps the ids it had.
"""

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TypeVar

from stitchjam.data.errors import DataError
from stitchjam.data.records import Session, Turn
from stitchjam.data.times import seconds

__all__ = ["build_session", "in_time_order", "made_id", "next_turn", "time_order", "turn_id"]

_Key = TypeVar("_Key")


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
        turn = next_turn(Session(id=session_id, turns=(), time=time), previous, row, number)
        turns.append(turn)
        previous = turn.id
    return Session(id=session_id, turns=tuple(turns), time=time)


def next_turn(session: Session, previous: str, row: Mapping[str, str], number: int) -> Turn:
    """The turn that continues a session.

    Args:
        session: its id and time count.
        previous: id of the turn before.
        row: speaker and text, and time and external_id where known.
        number: place in the session from 1, for the message of an error.

    Raises:
        DataError: a text cannot be stored as UTF-8.
    """
    speaker, text, when = row["speaker"], row["text"], row.get("time", "") or session.time
    for value in (session.id, speaker, text, when, row.get("external_id", "")):
        _require_utf8(value, f"session {session.id!r}, turn {number}")
    return Turn(
        id=turn_id(previous, speaker, text, when),
        session_id=session.id,
        speaker=speaker,
        text=text,
        time=when,
        external_id=row.get("external_id", ""),
    )


def made_id(session: Session) -> str:
    """The id that was made from the first turn of a session that came without one; "" when its id was given.

    Several conversations that begin alike have it with a number behind it, such as "s0123456789abcdef-2".
    """
    first = session.turns[0]
    made = _start("", session.time, {"speaker": first.speaker, "text": first.text, "time": first.time})[1]
    return made if re.fullmatch(rf"{made}(-\d+)?", session.id) else ""


def in_time_order(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Sessions oldest first; the order given is kept among equals, and throughout when a time cannot be read."""
    by_place = dict(enumerate(sessions))
    return tuple(by_place[place] for place in time_order({at: one.time for at, one in by_place.items()}))


def time_order(times: Mapping[_Key, str]) -> dict[_Key, str]:
    """Times by ascending event time; the order given is kept among equals, and throughout when one cannot be read."""
    moments = {key: seconds(time) for key, time in times.items()}
    known = {key: moment for key, moment in moments.items() if moment is not None}
    if len(known) < len(times):
        return dict(times)
    return {key: times[key] for key in sorted(known, key=known.__getitem__)}


def _start(session_id: str, time: str, first: Mapping[str, str]) -> tuple[str, str]:
    # An id that was made from the first turn is no external id, also when it comes back from a file that we wrote:
    # starting the chain with it would change every turn id of the session.
    made = "s" + turn_id("", first["speaker"], first["text"], first.get("time", "") or time)[1:]
    return ("", made) if session_id in ("", made) else (session_id, session_id)


def _require_utf8(value: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: half of a surrogate pair at character {error.start} cannot be stored; remove that character"
        ) from None
