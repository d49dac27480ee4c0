"""Turns a source into a tombstone: its turns, bytes, everything derived from them and kept replies are gone.

Two steps, since no database can undo the second: one transaction removes the rows; then files are written anew without
them. What stops in between is completed when the memory is opened next. The tombstone keeps hashes and times only.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, or_, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, delete, get, insert_missing, put, replace
from stitchjam.data.disk.labels import forget_labels, labels_anew, labels_of
from stitchjam.data.disk.memo_taint import WRITE_MEMO, tainted_memos
from stitchjam.data.disk.taint import LABEL_TURN, Words, noted, only_in, tainted
from stitchjam.data.errors import UsageError
from stitchjam.data.shelf import unknown

__all__ = ["Forgotten", "erase", "forget", "keep_replies"]

_MARKER = ".stitchjam-replies"
_STEPS = (LABEL_TURN, WRITE_MEMO)


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
        _disown(db, [row.number for row in sources], set(doomed))
        delete(db, schema.turn, schema.turn.c.number, doomed)
        emptied = _drop_empty_sessions(db, sessions)
        delete(db, schema.content, schema.content.c.sha256, {row.sha256 for row in sources})
        delete(db, schema.source, schema.source.c.number, [row.number for row in sources])
        now = time.time()
        for row in sources:
            stone = {"source": row.id, "sha256": row.sha256, "forgotten": now, "erased": None}
            replace(db, schema.tombstone, stone)
        put(db, "generation", int(get(db, "generation")) + 1)
        put(db, "epoch", int(get(db, "epoch")) + 1)
    return Forgotten(tuple(row.id for row in sources), len(doomed), emptied, erase(database))


def erase(database: Database, patience: float | None = None) -> bool:
    """Remove what was forgotten from the files as well; whether nothing is left.

    Others who read or write are waited for so many seconds; None is as long as a writer waits.

    Replies of models are removed below every folder that `keep_replies` made: any of them may quote the memory.
    """
    with database.read() as db:
        pending = db.execute(select(schema.tombstone.c.source).where(schema.tombstone.c.erased.is_(None))).all()
        folders = list(db.execute(select(schema.replies.c.folder)).scalars())
    if not pending:
        return True
    for folder in folders:
        _erase_replies(Path(folder))
    if not database.compact(patience):
        return False
    sources = [row.source for row in pending]
    with database.write() as db:
        for chunk in chunked(sources):
            db.execute(update(schema.tombstone).where(schema.tombstone.c.source.in_(chunk)).values(erased=time.time()))
    return True


def _erase_replies(folder: Path) -> None:
    if not (folder / _MARKER).exists():  # it is not the folder it was
        return
    for file in folder.rglob("*.jsonl"):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"{file} may quote what was forgotten and cannot be removed ({error.strerror}); remove it, "
                f"and the memory opens again"
            ) from None


def keep_replies(database: Database, folder: Path) -> None:
    """Make a folder for replies of models about this memory; `forget` removes every jsonl file below it.

    Raises:
        UsageError: there are other files in it, which must not be removed.
    """
    marker = folder / _MARKER
    if not marker.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} holds other files; replies about a memory need a new or empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        marker.write_text("Replies of models about a memory; stitchjam removes them with what it forgets.\n", "utf-8")
    with database.write() as db:
        insert_missing(db, schema.replies, [{"folder": str(folder.absolute())}])


def _find(db: Connection, name: str) -> list[Any]:
    source = schema.source.c
    file = select(schema.content.c.sha256).where(schema.content.c.name == name)
    named = or_(source.id == name, source.name == name, source.sha256.in_(file))
    hashes = select(source.sha256).where(named, source.sha256 != "")
    # The histories of a file share its bytes, so the file is forgotten whole.
    rows = list(db.execute(select(schema.source).where(or_(named, source.sha256.in_(hashes)))))
    if not rows:
        known = db.execute(select(source.id, source.name)).all()
        raise unknown("source", name, {text for row in known for text in row})
    return rows


def _doomed(db: Connection, sources: list[int]) -> list[int]:
    """Numbers of the turns that no other source holds."""
    origin, mine, turns = schema.origin.c, set(sources), set[int]()
    for chunk in chunked(sources):
        turns.update(db.execute(select(origin.turn).where(origin.source.in_(chunk))).scalars())
    for chunk in chunked(sorted(turns)):
        held = db.execute(select(schema.origin).where(origin.turn.in_(chunk)))
        turns.difference_update([row.turn for row in held if row.source not in mine])
    return sorted(turns)


def _disown(db: Connection, sources: list[int], doomed: set[int]) -> None:
    """Remove what these sources hold; a turn that stays takes the external id that another source gives it."""
    origin, shared = schema.origin.c, set[int]()
    for chunk in chunked(sources):
        held = set(db.execute(select(origin.turn).where(origin.source.in_(chunk))).scalars())
        shared |= held - doomed
    delete(db, schema.origin, origin.source, sources)
    for chunk in chunked(shared):
        given = {row.turn: row.external_id for row in db.execute(select(schema.origin).where(origin.turn.in_(chunk)))}
        for number, external_id in given.items():
            db.execute(update(schema.turn).where(schema.turn.c.number == number).values(external_id=external_id))


def _sessions_of(db: Connection, turns: list[int]) -> list[int]:
    numbers: set[int] = set()
    for chunk in chunked(turns):
        numbers.update(db.execute(select(schema.turn.c.session).where(schema.turn.c.number.in_(chunk))).scalars())
    return sorted(numbers)


def _forget_derived(db: Connection, doomed: list[int], sessions: list[int]) -> None:
    """Remove what was derived from these turns, or from others while it could see them."""
    begun = _items_of(db, sessions)
    words = only_in(db, doomed, begun) if _has_views(db) else Words()
    notes = list(noted(db, words=words))
    items = sorted(tainted(notes, begun) | tainted_memos(db, begun, words))
    forget_labels(db, items, labels_of(notes))
    for table in (schema.note, schema.memo):
        delete(db, table, table.c.item, items)
    for chunk in chunked(items):
        fresh = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}
        db.execute(update(schema.work).where(schema.work.c.item.in_(chunk)).values(fresh))
    delete(db, schema.work, schema.work.c.item, _ids_of(db, doomed))
    _stop_work(db, words)
    gone = set(items)
    for program in sorted({one.program for one in notes if one.item in gone}):
        labels_anew(db, program, labels_of(one for one in notes if one.program == program))
    db.execute(schema.folder.delete())  # a README tells of all that lies below it
    if doomed:
        db.execute(schema.segment.delete().where(schema.segment.c.last >= min(doomed)))
    _forget_vectors(db, doomed)


def _has_views(db: Connection) -> bool:
    """Whether a model has been asked about this memory: what it said may quote any of it."""
    work = schema.work.c
    asked = select(work.item).where(work.step.in_(_STEPS), work.status != "pending")
    return db.execute(asked.limit(1)).first() is not None


def _stop_work(db: Connection, words: Words) -> None:
    """Whoever is at work was shown the views that go, so what he makes is not kept; errors quote replies."""
    work = schema.work.c
    running = (work.step.in_(_STEPS), work.status == "running")
    db.execute(update(schema.work).where(*running).values(status="pending", attempts=0, until=0.0))
    failed = db.execute(
        select(work.item, work.step, work.program, work.error).where(work.step.in_(_STEPS), work.error != "")
    )
    for row in [row for row in failed if words.within(row.error)]:
        mine = (work.step == row.step, work.item == row.item, work.program == row.program)
        db.execute(update(schema.work).where(*mine).values(error=""))


def _forget_vectors(db: Connection, doomed: list[int]) -> None:
    gone = set(doomed)
    for chunk in chunked(doomed):
        turn = schema.turn.c
        hashes = select(turn.content_hash).where(turn.number.in_(chunk))
        rows = db.execute(select(turn.content_hash, turn.number).where(turn.content_hash.in_(hashes))).all()
        kept = {row.content_hash for row in rows if row.number not in gone}
        delete(db, schema.vector, schema.vector.c.content_hash, {row.content_hash for row in rows} - kept)


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
    delete(db, schema.session, schema.session.c.number, empty)
    return len(empty)
