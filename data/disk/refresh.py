"""Turns new turns of the log into what search reads: vectors and sealed segments. Both can be made anew at any time.

It runs after every add and takes up whatever an earlier run left; until it is through, search covers those turns
itself. Nothing is computed while the write lock is held.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get, insert_missing, put
from stitchjam.data.errors import DataError
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.index.lexical import Segment
from stitchjam.data.index.terms import terms
from stitchjam.data.progress import Tick, quiet

__all__ = ["TAIL", "read_segment", "refresh", "segments"]

"""Is given what is being done, how many turns are through, and how many there are."""

TAIL = 512  # turns behind the last segment that search counts by itself
_LARGEST = 100_000  # turns of a segment
_ENCODED = 500  # turns that are encoded at once
_RUN = 8192  # turns whose terms are counted at once


def refresh(database: Database, tick: Tick = quiet) -> None:
    """Encode what has no vector yet, and seal what lies behind the last segment when it is more than `TAIL` turns."""
    _encode(database, tick)
    while _seal(database, tick):
        pass


def segments(db: Connection) -> list[Any]:
    """First and last turn and number of turns of each segment; together they cover the oldest turns without a gap."""
    segment = schema.segment.c
    return list(db.execute(select(segment.first, segment.last, segment.turns).order_by(segment.first)))


def read_segment(db: Connection, first: int) -> Segment:
    """The segment that begins with this turn; raises DataError when it is damaged."""
    content = db.execute(select(schema.segment.c.content).where(schema.segment.c.first == first)).scalar_one()
    try:
        return Segment.from_bytes(content)
    except ValueError as error:
        raise DataError(f"the index is damaged ({error}); make it anew with: stitchjam verify --rebuild") from None


def _encode(database: Database, tick: Tick) -> None:
    encoder = open_encoder(database.get("encoder"))
    if encoder is None:
        return
    with database.read() as db:
        done, total = int(get(db, "encoded")), int(get(db, "last_turn"))
    while done < total:
        with database.read() as db:
            rows = _uncoded(db, encoder.name, done, total)
        done = rows[-1].number if len(rows) == _ENCODED else total
        texts = {row.content_hash: row.text for row in rows}
        vectors = encoder.encode(list(texts.values())).astype(np.float16)
        coded = [
            {"encoder": encoder.name, "content_hash": key, "content": vector.tobytes()}
            for key, vector in zip(texts, vectors, strict=True)
        ]
        with database.write() as db:
            there = _hashes(db, [row.number for row in rows])  # the rest was forgotten while it was encoded
            insert_missing(db, schema.vector, [row for row in coded if row["content_hash"] in there])
            if open_encoder(get(db, "encoder")) is not encoder:  # another process has changed it
                return
            put(db, "encoded", done)
        tick("encode", done, total)


def _uncoded(db: Connection, encoder: str, after: int, last: int) -> Sequence[Any]:
    """The first turns behind one whose text has no vector of this encoder."""
    turn, vector = schema.turn.c, schema.vector.c
    coded = select(vector.content_hash).where(vector.encoder == encoder, vector.content_hash == turn.content_hash)
    waiting = select(turn.number, turn.content_hash, turn.text).where(turn.number > after, turn.number <= last)
    return db.execute(waiting.where(~coded.exists()).order_by(turn.number).limit(_ENCODED)).all()


def _hashes(db: Connection, numbers: list[int]) -> set[int]:
    """Content hashes of these turns, without those that are not there any more."""
    hashes: set[int] = set()
    for chunk in chunked(numbers):
        hashes.update(db.execute(select(schema.turn.c.content_hash).where(schema.turn.c.number.in_(chunk))).scalars())
    return hashes


def _seal(database: Database, tick: Tick) -> bool:
    """Seal one run of turns; whether there is more to do."""
    with database.read() as db:
        seen = _seen(db)
        sealed = list(seen[1])
        waiting = _numbers(db, sealed[-1].last + 1 if sealed else 0)
        if len(waiting) <= TAIL:
            return False
        run = waiting[:_RUN]
        row = {"first": run[0], "last": run[-1], "turns": len(run)}
        parts = [Segment.build(_documents(db, run[0], run[-1]))]
        # Like sizes are joined, so that the number of segments grows with the logarithm of that of turns.
        while sealed and sealed[-1].turns < 2 * row["turns"] and sealed[-1].turns + row["turns"] <= _LARGEST:
            before = sealed.pop()
            row |= {"first": before.first, "turns": before.turns + row["turns"]}
            parts.insert(0, read_segment(db, before.first))
    _replace_segments(database, row | {"content": Segment.joined(parts).to_bytes()}, seen)
    done = sum(segment.turns for segment in seen[1])
    tick("index", done + len(run), done + len(waiting))
    return True


def _documents(db: Connection, first: int, last: int) -> list[list[str]]:
    turn = schema.turn.c
    rows = select(turn.speaker, turn.text).where(turn.number >= first, turn.number <= last).order_by(turn.number)
    return [terms(f"{row.speaker} {row.text}") for row in db.execute(rows)]


def _seen(db: Connection) -> tuple[str, list[Any]]:
    """What a new segment is made from: as long as it stays the same, the segment fits behind the others."""
    return get(db, "epoch"), segments(db)


def _replace_segments(database: Database, row: dict[str, Any], seen: tuple[str, list[Any]]) -> None:
    segment = schema.segment
    with database.write() as db:
        if _seen(db) == seen:  # else something was forgotten or sealed meanwhile: the caller looks again
            db.execute(segment.delete().where(segment.c.last >= row["first"]))
            db.execute(segment.insert().values(row))


def _numbers(db: Connection, first: int) -> list[int]:
    number = schema.turn.c.number
    return list(db.execute(select(number).where(number >= first).order_by(number)).scalars())
