"""Turns a memory into a list of what is wrong with it: every byte that was ingested is read back and compared."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.add import content_hash
from stitchjam.data.disk.database import Database, get, put
from stitchjam.data.disk.refresh import segments
from stitchjam.data.errors import DataError
from stitchjam.data.ids import turn_id
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.index.lexical import Segment
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.readers import read_histories
from stitchjam.data.readers.source import Source

__all__ = ["Verified", "drop_index", "verify"]

_ROUNDING = 0.01  # more than 16 bits a number cost


@dataclass(frozen=True)
class Verified:
    """What was checked, and what is wrong, one line each: in the log itself, and in the index, which can be rebuilt."""

    sources: int
    sessions: int
    turns: int
    bytes: int
    log_problems: tuple[str, ...]
    index_problems: tuple[str, ...]


def verify(database: Database, tick: Tick = quiet) -> Verified:
    """Check the database, the bytes of each source against its turns, the chain of ids, and the index."""
    with database.read() as db:
        sources, sessions, turns = (_count(db, table) for table in (schema.source, schema.session, schema.turn))
        # A file that SQLite finds damaged cannot be relied on any further.
        log = [*_check_database(db)] or [
            *_check_references(db),
            *_check_contents(db, tick),
            *_check_turns(db, turns, tick),
        ]
        size = db.execute(select(func.sum(func.length(schema.content.c.bytes)))).scalar() or 0
        return Verified(sources, sessions, turns, size, tuple(log), tuple(_check_index(db)))


def drop_index(database: Database) -> None:
    """Throw the index away; `refresh` makes it anew."""
    with database.write() as db:
        db.execute(schema.segment.delete())
        db.execute(schema.vector.delete())
        put(db, "encoded", 0)
        put(db, "epoch", int(get(db, "epoch")) + 1)


def _count(db: Connection, table: Any) -> int:
    return db.execute(select(func.count()).select_from(table)).scalar_one()


def _check_database(db: Connection) -> Iterator[str]:
    for (found,) in db.exec_driver_sql("PRAGMA integrity_check").all():
        if found != "ok":
            yield f"database: {found}"


def _check_references(db: Connection) -> Iterator[str]:
    broken = Counter((table, parent) for table, _, parent, _ in db.exec_driver_sql("PRAGMA foreign_key_check"))
    for (table, parent), rows in broken.items():
        yield f"{rows} rows of {table} name a {parent} that is missing"


def _check_contents(db: Connection, tick: Tick) -> Iterator[str]:
    hashes = db.execute(select(schema.content.c.sha256)).scalars().all()
    for done, digest in enumerate(hashes, 1):
        row = db.execute(select(schema.content).where(schema.content.c.sha256 == digest)).one()
        yield from (f"file {row.name!r}: {problem}" for problem in _check_content(db, row))
        tick("files", done, len(hashes))
    lost = schema.source.c.sha256.not_in(["", *hashes])
    for name in db.execute(select(schema.source.c.name).where(lost)).scalars():
        yield f"source {name!r}: its bytes are missing"


def _check_content(db: Connection, row: Any) -> Iterator[str]:
    if sha256(row.bytes).hexdigest() != row.sha256:
        yield "its bytes have changed since they were ingested"
        return
    try:
        histories = read_histories(Source(row.name, row.bytes), row.format)
    except DataError as error:
        yield f"its bytes can no longer be read ({error})"
        return
    wanted = Counter((x.speaker, x.text, x.time, x.external_id) for history in histories for x in history.turns)
    sources = select(schema.source.c.number).where(schema.source.c.sha256 == row.sha256)
    turn, origin = schema.turn.c, schema.origin.c
    held = select(turn.speaker, turn.text, turn.time, origin.external_id).join(
        schema.origin, origin.turn == turn.number
    )
    stored = Counter(tuple(x) for x in db.execute(held.where(origin.source.in_(sources))))
    for speaker, text, *_ in (wanted - stored).elements():
        yield f"a turn is missing: {speaker}: {text[:60]!r}"
    for speaker, text, *_ in (stored - wanted).elements():
        yield f"a turn is not in its bytes: {speaker}: {text[:60]!r}"


def _check_turns(db: Connection, total: int, tick: Tick) -> Iterator[str]:
    turn, origin, names = schema.turn.c, schema.origin.c, schema.session.c
    held = select(origin.turn).where(origin.turn == turn.number).exists()
    same = select(origin.turn).where(origin.turn == turn.number, origin.external_id == turn.external_id).exists()
    columns = names.id.label("session_id"), held.label("held"), same.label("named")
    rows = select(schema.turn, *columns).join(schema.session)
    may_lack = _count(db, schema.tombstone) > 0
    done = 0
    for _, session in groupby(db.execute(rows.order_by(turn.session, turn.ordinal)), key=lambda row: row.session):
        before: tuple[int, str | None] = (-1, None)
        for row in session:
            yield from _check_turn(row, *before, may_lack)
            before, done = (row.ordinal, row.id), done + 1
            if done % 2048 == 0 or done == total:
                tick("turns", done, total)


def _check_turn(row: Any, ordinal: int, previous: str | None, may_lack: bool) -> Iterator[str]:
    """Compare a turn with what its hashes say; `ordinal` and `previous` are those of the turn before."""
    gap = row.ordinal != ordinal + 1
    if content_hash(row.text) != row.content_hash:
        yield f"turn {row.id}: its text has changed"
    elif gap and not may_lack:
        yield f"session {row.session_id!r}: a turn is missing before {row.id}"
    elif not gap and row.id not in _ids(row, previous):
        yield f"turn {row.id}: speaker, time or order has changed"
    if not row.held:
        yield f"turn {row.id}: it belongs to no source"
    elif not row.named:
        yield f"turn {row.id}: its external id has changed"


def _ids(row: Any, previous: str | None) -> set[str]:
    """Ids that a turn may have: the first one of a session hangs on the session's id, where that was given."""
    starts = {"", row.session_id} if previous is None else {previous}
    return {turn_id(start, row.speaker, row.text, row.time) for start in starts}


def _check_index(db: Connection) -> Iterator[str]:
    number, end = schema.turn.c.number, 0
    for row in segments(db):
        content = db.execute(select(schema.segment.c.content).where(schema.segment.c.first == row.first)).scalar_one()
        covered = db.execute(select(func.count()).where(number > end, number <= row.last)).scalar()
        try:
            size = Segment.from_bytes(content).size
        except ValueError as error:
            yield f"segment at turn {row.first} is damaged ({error})"
            continue
        if not covered == row.turns == size:
            yield f"segment at turn {row.first} covers {size} turns, there are {covered}"
        end = row.last
    encoder = open_encoder(get(db, "encoder"))
    if encoder is not None:
        contents = select(schema.vector.c.content).where(schema.vector.c.encoder == encoder.name)
        damaged = sum(not _is_vector(content, encoder.dim) for content in db.execute(contents).scalars())
        if damaged:
            yield f"{damaged} vectors are damaged"


def _is_vector(content: bytes, dim: int) -> bool:
    """Whether it holds as many numbers, of length 1 or 0."""
    length = float(np.linalg.norm(np.frombuffer(content, np.float16).astype(float))) if len(content) == 2 * dim else -1
    return length == 0 or abs(length - 1) < _ROUNDING
