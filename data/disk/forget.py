"""Turns a source into a tombstone: its turns, bytes, everything derived from them and kept replies are gone.

Two steps, since no database can undo the second: one transaction removes the rows; then files are written anew without
them. What stops in between is completed when the memory is opened next. The tombstone keeps hashes and times only.
"""

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Table, or_, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get, insert_missing, put
from stitchjam.data.shelf import unknown

__all__ = ["Forgotten", "erase", "forget", "keep_replies"]


@dataclass(frozen=True)
class Forgotten:
    """What a forget did.

    `erased` tells whether no byte is left in the files; False while another process reads the memory: then it happens
    when the memory is next opened.
    """

    sources: tuple[str, ...]
    turns: int
    sessions: int
    erased: bool


def forget(database: Database, source: str) -> Forgotten:
    """Forget the sources with this id or name; a turn that another source also brought stays.

    A file is forgotten whole, also when only one of the histories in it is named.

    Raises:
        UsageError: there is no such source.
    """
    with database.write() as db:
        sources = _find(db, source)
        doomed = _doomed(db, [row.number for row in sources])
        sessions = _sessions_of(db, doomed)
        _forget_derived(db, doomed, sessions)
        _delete(db, schema.origin, schema.origin.c.source, [row.number for row in sources])
        _delete(db, schema.turn, schema.turn.c.number, doomed)
        emptied = _drop_empty_sessions(db, sessions)
        _delete(db, schema.content, schema.content.c.sha256, {row.sha256 for row in sources})
        _delete(db, schema.source, schema.source.c.number, [row.number for row in sources])
        now = time.time()
        for row in sources:
            insert_missing(db, schema.tombstone, [{"source": row.id, "sha256": row.sha256, "forgotten": now}])
        put(db, "generation", int(get(db, "generation")) + 1)
        put(db, "epoch", int(get(db, "epoch")) + 1)
    return Forgotten(tuple(row.id for row in sources), len(doomed), emptied, erase(database))


def erase(database: Database) -> bool:
    """Remove what was forgotten from the files as well; whether nothing is left.

    Replies of models are removed below every folder that `keep_replies` named: any of them may quote the memory.
    """
    with database.read() as db:
        pending = db.execute(select(schema.tombstone.c.source).where(schema.tombstone.c.erased.is_(None))).all()
        folders = list(db.execute(select(schema.replies.c.folder)).scalars())
    if not pending:
        return True
    for file in (file for folder in folders for file in Path(folder).rglob("*.jsonl")):
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    if not database.compact():
        return False
    sources = [row.source for row in pending]
    with database.write() as db:
        for chunk in chunked(sources):
            db.execute(update(schema.tombstone).where(schema.tombstone.c.source.in_(chunk)).values(erased=time.time()))
    return True


def keep_replies(database: Database, folder: Path) -> None:
    """Note that replies of models about this memory are kept in jsonl files below a folder."""
    with database.write() as db:
        insert_missing(db, schema.replies, [{"folder": str(folder.absolute())}])


def _find(db: Connection, name: str) -> list[Any]:
    source = schema.source.c
    named = or_(source.id == name, source.name == name, source.name.startswith(f"{name}#", autoescape=True))
    hashes = select(source.sha256).where(named, source.sha256 != "")
    # The histories of a file share its bytes, so the file is forgotten whole.
    rows = list(db.execute(select(schema.source).where(or_(named, source.sha256.in_(hashes)))))
    if not rows:
        known = db.execute(select(source.id, source.name)).all()
        raise unknown("source", name, {text for row in known for text in row})
    return rows


def _doomed(db: Connection, sources: list[int]) -> list[int]:
    """Numbers of the turns that no other source holds."""
    mine, others = schema.origin.alias(), schema.origin.alias()
    held = select(others.c.turn).where(others.c.turn == mine.c.turn, others.c.source.not_in(sources)).exists()
    return list(db.execute(select(mine.c.turn).where(mine.c.source.in_(sources), ~held).distinct()).scalars())


def _sessions_of(db: Connection, turns: list[int]) -> list[int]:
    numbers: set[int] = set()
    for chunk in chunked(turns):
        numbers.update(db.execute(select(schema.turn.c.session).where(schema.turn.c.number.in_(chunk))).scalars())
    return sorted(numbers)


def _forget_derived(db: Connection, doomed: list[int], sessions: list[int]) -> None:
    """Remove what was derived from these turns, or from others while it could see them."""
    items = _items_of(db, sessions)
    for table in (schema.note, schema.note_label, schema.memo):
        _delete(db, table, table.c.item, items)
    for chunk in chunked(items):
        fresh = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}
        db.execute(update(schema.work).where(schema.work.c.item.in_(chunk)).values(fresh))
    _delete(db, schema.work, schema.work.c.item, _ids_of(db, doomed))
    # A README tells of all that lies below it, and a label of all turns that bear it.
    db.execute(schema.folder.delete())
    used = select(schema.note_label.c.label)
    db.execute(schema.label_event.delete().where(schema.label_event.c.label.not_in(used)))
    db.execute(schema.label.delete().where(schema.label.c.id.not_in(used)))
    if doomed:
        db.execute(schema.segment.delete().where(schema.segment.c.last >= min(doomed)))
    _forget_vectors(db, doomed)


def _forget_vectors(db: Connection, doomed: list[int]) -> None:
    gone = set(doomed)
    for chunk in chunked(doomed):
        turn = schema.turn.c
        hashes = select(turn.content_hash).where(turn.number.in_(chunk))
        rows = db.execute(select(turn.content_hash, turn.number).where(turn.content_hash.in_(hashes))).all()
        kept = {row.content_hash for row in rows if row.number not in gone}
        _delete(db, schema.vector, schema.vector.c.content_hash, {row.content_hash for row in rows} - kept)


def _items_of(db: Connection, sessions: list[int]) -> list[str]:
    """Ids of these sessions and of all their turns."""
    items: list[str] = []
    for chunk in chunked(sessions):
        items += db.execute(select(schema.session.c.id).where(schema.session.c.number.in_(chunk))).scalars()
        items += db.execute(select(schema.turn.c.id).where(schema.turn.c.session.in_(chunk))).scalars()
    return items


def _ids_of(db: Connection, turns: list[int]) -> list[str]:
    ids: list[str] = []
    for chunk in chunked(turns):
        ids += db.execute(select(schema.turn.c.id).where(schema.turn.c.number.in_(chunk))).scalars()
    return ids


def _drop_empty_sessions(db: Connection, sessions: list[int]) -> int:
    """Remove sessions without turns, with their work; returns how many."""
    left: set[int] = set()
    for chunk in chunked(sessions):
        left.update(db.execute(select(schema.turn.c.session).where(schema.turn.c.session.in_(chunk))).scalars())
    empty = [number for number in sessions if number not in left]
    for chunk in chunked(empty):
        ids = select(schema.session.c.id).where(schema.session.c.number.in_(chunk))
        db.execute(schema.work.delete().where(schema.work.c.item.in_(ids)))
    _delete(db, schema.session, schema.session.c.number, empty)
    return len(empty)


def _delete(db: Connection, table: Table, column: Column[Any], values: Iterable[Any]) -> None:
    for chunk in chunked(values):
        db.execute(table.delete().where(column.in_(chunk)))
