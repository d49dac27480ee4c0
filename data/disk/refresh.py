"""Turns new turns of the log into what search reads: vectors and sealed segments. Both can be made anew at any time.

It runs after every add and takes up whatever an earlier run left; until it is through, search covers those turns
itself. Nothing is computed while the write lock is held.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get, insert_missing, put
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.index.lexical import Segment
from stitchjam.data.index.terms import terms

__all__ = ["TAIL", "Tick", "refresh", "segments"]

Tick = Callable[[str, int, int], None]
"""Is given what is being done, how many turns are through, and how many there are."""

TAIL = 512  # turns behind the last segment that search counts by itself
_LARGEST = 100_000  # turns of a segment
_BATCH = 2048  # turns between two ticks


def refresh(database: Database, tick: Tick = lambda what, done, total: None) -> None:
    """Encode what has no vector yet, and seal what lies behind the last segment when it is more than `TAIL` turns."""
    _encode(database, tick)
    while _seal(database, tick):
        pass


def segments(db: Connection) -> list[Any]:
    """First and last turn and number of turns of each segment; together they cover the oldest turns without a gap."""
    segment = schema.segment.c
    return list(db.execute(select(segment.first, segment.last, segment.turns).order_by(segment.first)))


def _encode(database: Database, tick: Tick) -> None:
    encoder = open_encoder(database.get("encoder"))
    if encoder is None:
        return
    with database.read() as db:
        start, end = int(get(db, "encoded")), int(get(db, "last_turn"))
        missing = _uncoded(db, encoder.name, start) if start < end else {}
    done, total = 0, len(missing)
    for hashes in chunked(missing):
        vectors = encoder.encode([missing[key] for key in hashes]).astype(np.float16)
        rows = [
            {"encoder": encoder.name, "content_hash": key, "content": vector.tobytes()}
            for key, vector in zip(hashes, vectors, strict=True)
        ]
        with database.write() as db:
            insert_missing(db, schema.vector, _still_there(db, rows))
        done += len(hashes)
        tick("encode", done, total)
    if start < end:
        with database.write() as db:
            if open_encoder(get(db, "encoder")) is encoder:  # else another process has changed it
                put(db, "encoded", end)


def _uncoded(db: Connection, encoder: str, after: int) -> dict[int, str]:
    """Texts behind a turn that have no vector of this encoder, by content hash."""
    turn, vector = schema.turn.c, schema.vector.c
    coded = select(vector.content_hash).where(vector.encoder == encoder, vector.content_hash == turn.content_hash)
    rows = db.execute(select(turn.content_hash, turn.text).where(turn.number > after, ~coded.exists()))
    return {row.content_hash: row.text for row in rows}


def _still_there(db: Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose text was not forgotten while it was encoded."""
    known: set[int] = set()
    column = schema.turn.c.content_hash
    for chunk in chunked(row["content_hash"] for row in rows):
        known.update(db.execute(select(column).where(column.in_(chunk))).scalars())
    return [row for row in rows if row["content_hash"] in known]


def _seal(database: Database, tick: Tick) -> bool:
    """Seal one run of turns; whether there is more to do."""
    with database.read() as db:
        sealed = segments(db)
        first = sealed[-1].last + 1 if sealed else 0
        waiting = _numbers(db, first)
        if len(waiting) <= TAIL:
            return False
        waiting = waiting[:_LARGEST]
        # Like sizes are joined, so that the number of segments grows with the logarithm of that of turns.
        while sealed and sealed[-1].turns < 2 * len(waiting) and sealed[-1].turns + len(waiting) <= _LARGEST:
            joined = sealed.pop()
            waiting = _numbers(db, joined.first, joined.last) + waiting
        documents = _documents(db, waiting[0], waiting[-1], tick)
    row = {"first": waiting[0], "last": waiting[-1], "turns": len(waiting)}
    return _replace_segments(database, row | {"content": Segment.build(documents).to_bytes()})


def _documents(db: Connection, first: int, last: int, tick: Tick) -> list[list[str]]:
    turn = schema.turn.c
    rows = db.execute(
        select(turn.speaker, turn.text).where(turn.number >= first, turn.number <= last).order_by(turn.number)
    )
    documents: list[list[str]] = []
    for row in rows:
        documents.append(terms(f"{row.speaker} {row.text}"))
        if len(documents) % _BATCH == 0:
            tick("index", len(documents), last - first + 1)
    return documents


def _replace_segments(database: Database, row: dict[str, Any]) -> bool:
    segment, number = schema.segment, schema.turn.c.number
    with database.write() as db:
        inside = select(func.count()).where(number >= row["first"], number <= row["last"])
        if db.execute(inside).scalar() != row["turns"]:  # something was forgotten meanwhile: look again
            return True
        db.execute(segment.delete().where(segment.c.last >= row["first"]))
        db.execute(segment.insert().values(row))
    return True


def _numbers(db: Connection, first: int, last: int | None = None) -> list[int]:
    number = schema.turn.c.number
    chosen = select(number).where(number >= first)
    return list(db.execute((chosen if last is None else chosen.where(number <= last)).order_by(number)).scalars())
