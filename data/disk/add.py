"""Turns histories and single turns into rows of the log, in one transaction: all of it is there, or nothing.

Content that is there already adds nothing. A session may only grow: turns that begin like the stored ones continue it,
others are refused. The chain of ids tells which is the case.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, insert, or_, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, get, insert_missing, put
from stitchjam.data.disk.work import enqueue
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.ids import build_session, made_id, next_turn, turn_id
from stitchjam.data.records import History, Session, Turn
from stitchjam.data.text import one_line

__all__ = ["Added", "Provenance", "add_histories", "add_turn", "content_hash", "find_content"]

_NAMED_BY_FILE = ("document", "swe-agent", "tau-bench", "transcript")


@dataclass(frozen=True)
class Provenance:
    """Where turns come from: a name to call it by, the format, and the bytes of a file; None for the API."""

    name: str
    format: str
    content: bytes | None = None


@dataclass(frozen=True)
class Added:
    """What an add did: ids of the sources, and how many sessions and turns are new; 0 when all was there.

    `pending` says why the index could not take the new turns yet; they are stored, and search counts them itself.
    """

    sources: tuple[str, ...]
    sessions: int
    turns: int
    pending: str = ""


class _Placed(NamedTuple):
    """A turn and its place in its session, from 0."""

    turn: Turn
    ordinal: int


def add_histories(database: Database, histories: Sequence[History], origin: Provenance) -> Added:
    """Add histories, all of them or none; a source for each. Sessions that are there already are continued.

    Raises:
        DataError: a session begins otherwise than the stored one of the same id; nothing was added.
        UsageError: the bytes are there already, read under another name or format.
    """
    sessions = turns = 0
    with database.write() as db:
        digest = _keep_content(db, origin)
        parts = ["" if len(histories) == 1 else history.id for history in histories]
        sources = [_source(db, origin, digest, part) for part in parts]
        for source, history in zip(sources, histories, strict=True):
            made, added = _add_sessions(db, source, history.sessions)
            sessions, turns = sessions + made, turns + added
        return _counted(db, Added(tuple(source.id for source in sources), sessions, turns))


def add_turn(database: Database, session_id: str, row: Mapping[str, str], name: str) -> Added:
    """Add one turn at the end of a session; with an external id that is there already it adds nothing.

    Args:
        database: where.
        session_id: the session; made when it is new.
        row: speaker and text, and time and external_id where known.
        name: of the source; all turns that are added under one name are forgotten together.

    Raises:
        DataError: the external id is there with other words, or a text cannot be stored as UTF-8.
    """
    with database.write() as db:
        source = _source(db, Provenance(name, "turns"), "")
        began = _stored_session(db, session_id)
        if began is None:
            made, added = _add_sessions(db, source, [build_session(session_id, "", [row])])
            return _counted(db, Added((source.id,), made, added))
        last = _last_turn(db, began.number)
        turn = next_turn(Session(id=session_id, turns=(), time=began.time), last.id, row, last.ordinal + 2)
        if turn.external_id and (known := _known(db, began.number, turn)):
            _claim(db, source, {known.number: turn.external_id})
            return Added((source.id,), 0, 0)
        added = _insert(db, source, began.number, [_Placed(turn, last.ordinal + 1)])
        return _counted(db, Added((source.id,), 0, added))


def find_content(database: Database, content: bytes) -> Provenance | None:
    """How these bytes came in, if they are there: read otherwise, they would be other sessions."""
    table = schema.content.c
    chosen = select(table.name, table.format).where(table.sha256 == sha256(content).hexdigest())
    with database.read() as db:
        row = db.execute(chosen).first()
    return Provenance(row.name, row.format, content) if row else None


def content_hash(text: str) -> int:
    """Key of a text's vector: the first 8 bytes of its sha256 as a signed integer."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)


def _counted(db: Connection, added: Added) -> Added:
    if added.turns:
        put(db, "generation", int(get(db, "generation")) + 1)
    return added


def _keep_content(db: Connection, origin: Provenance) -> str:
    """Write the bytes of a file, once; returns their hash."""
    if origin.content is None:
        return ""
    digest = sha256(origin.content).hexdigest()
    row = {"sha256": digest, "name": origin.name, "format": origin.format, "bytes": origin.content}
    insert_missing(db, schema.content, [row])
    kept = db.execute(select(schema.content).where(schema.content.c.sha256 == digest)).one()
    if (kept.name, kept.format) != (origin.name, origin.format):
        raise UsageError(
            f"{origin.name} is there already, as {kept.name} of the format {kept.format!r}; "
            f"forget that first to read it otherwise"
        )
    return digest


def _source(db: Connection, origin: Provenance, digest: str, part: str = "") -> Any:
    """Number and id of a source, made when it is new; when the bytes of a file come back, its tombstone is lifted.

    `part` is the id of a history that is one of several in a file.
    """
    source, name = schema.source.c, f"{origin.name}#{part}" if part else origin.name
    same = and_(source.format == origin.format, source.name == name, source.sha256 == digest)
    stored = db.execute(select(schema.source).where(same)).first()
    if stored is not None:
        return stored
    made = "f" + sha256(json.dumps([origin.format, part if digest else name, digest]).encode()).hexdigest()[:12]
    # Under the name of what came through the API something else may come, so that sessions still lack turns.
    if digest:
        lifted = and_(schema.tombstone.c.source == made, schema.tombstone.c.erased.is_not(None))
        db.execute(schema.tombstone.delete().where(lifted))
    row = {"id": made, "name": name, "format": origin.format, "sha256": digest, "ingested": time.time()}
    db.execute(insert(schema.source).values(row))
    return db.execute(select(schema.source).where(schema.source.c.id == made)).one()


def _add_sessions(db: Connection, source: Any, sessions: Iterable[Session]) -> tuple[int, int]:
    """Number of sessions and of turns that are new."""
    made = added = 0
    for session in sessions:
        session, stored = _fitting(db, _told_apart(db, source, session))
        number = stored.number if stored else _make_session(db, session)
        known = _stored_turns(db, number) if stored else {}
        fresh = [_Placed(turn, at) for at, turn in enumerate(session.turns) if at not in known]
        _claim(db, source, {known[at].number: x.external_id for at, x in enumerate(session.turns) if at in known})
        made, added = made + (stored is None), added + _insert(db, source, number, fresh)
    return made, added


def _told_apart(db: Connection, source: Any, session: Session) -> Session:
    """A session under the path of its file, when one of its name came from another file.

    Readers of texts name sessions by the file, and many files are called README.md; given names mean one session.
    """
    if source.format not in _NAMED_BY_FILE or (stored := _stored_session(db, session.id)) is None:
        return session
    turn, origin = schema.turn.c, schema.origin.c
    joined = schema.turn.join(schema.origin, origin.turn == turn.number).join(schema.source)
    same = and_(turn.session == stored.number, schema.source.c.name == source.name)
    if db.execute(select(turn.number).select_from(joined).where(same).limit(1)).first():
        return session
    return _renamed(session, f"{source.name}:{session.id}")


def _fitting(db: Connection, session: Session) -> tuple[Session, Any]:
    """A session and the stored one that it continues, if there is one.

    An id that was made from the first turn says only how a conversation begins, and those of one agent begin alike:
    one that goes on otherwise gets a free name instead of being refused.
    """
    if _renamed(session, session.id).turns != session.turns:
        raise DataError(f"session {session.id!r}: ids of turns do not fit; build it with data.ids.build_session")
    if not (made := made_id(session)):
        stored = _stored_session(db, session.id)
        if stored and (problem := _divergence(session, _stored_turns(db, stored.number))):
            raise DataError(problem)
        return session, stored
    for stored in _alike(db, made, session):
        named = _renamed(session, stored.id)
        if _divergence(named, _stored_turns(db, stored.number)) is None:
            return named, stored
    names = chain([session.id, made], (f"{made}-{number}" for number in count(2)))
    return _renamed(session, next(name for name in names if _stored_session(db, name) is None)), None


def _alike(db: Connection, made: str, session: Session) -> list[Any]:
    """Stored sessions that begin with the same turn and, as far as they go, the same second one."""
    stored, second = schema.session.c, schema.turn.c
    named = and_(stored.id >= made, stored.id < f"{made}.")  # the id itself, and those with "-" and a number behind it
    chosen = select(schema.session).where(named).order_by(stored.number)
    if len(session.turns) > 1:
        chosen = chosen.outerjoin(schema.turn, and_(second.session == stored.number, second.ordinal == 1))
        chosen = chosen.where(or_(second.text.is_(None), second.text == session.turns[1].text))
    return list(db.execute(chosen))


def _renamed(session: Session, name: str) -> Session:
    rows = [turn.model_dump(include={"speaker", "text", "time", "external_id"}) for turn in session.turns]
    return build_session(name, session.time, rows)


def _divergence(session: Session, stored: Mapping[int, Any]) -> str | None:
    turns, end = session.turns, len(session.turns)
    for at, turn in enumerate(turns):
        # Where turns were forgotten, what fills the gap must lead to the turn behind it.
        behind = stored.get(end) if at == end - 1 and at not in stored else None
        leads = behind is None or turn_id(turn.id, behind.speaker, behind.text, behind.time) == behind.id
        if not leads or (at in stored and stored[at].id != turn.id):
            there, here = (one_line(f"{x.speaker}: {x.text} {x.time}")[:80] for x in (behind or stored[at], turn))
            return (
                f"session {session.id!r} differs from the stored one at turn {at + 1}: there {there!r}, here {here!r}. "
                f"Give the session another id, or forget the source that holds it first"
            )
    return None


def _stored_turns(db: Connection, session: int) -> dict[int, Any]:
    rows = db.execute(select(schema.turn).where(schema.turn.c.session == session))
    return {row.ordinal: row for row in rows}


def _last_turn(db: Connection, session: int) -> Any:
    turns = select(schema.turn).where(schema.turn.c.session == session)
    return db.execute(turns.order_by(schema.turn.c.ordinal.desc()).limit(1)).first()


def _known(db: Connection, session: int, turn: Turn) -> Any:
    """The turn of the same external id, if there is one."""
    same = (schema.turn.c.session == session) & (schema.turn.c.external_id == turn.external_id)
    stored = db.execute(select(schema.turn).where(same)).first()
    if stored is not None and (stored.speaker, stored.text) != (turn.speaker, turn.text):
        raise DataError(
            f"session {turn.session_id!r} has a turn {turn.external_id!r} with other words; a turn is never changed: "
            f"add it under another id, or forget its source first"
        )
    return stored


def _stored_session(db: Connection, session_id: str) -> Any:
    return db.execute(select(schema.session).where(schema.session.c.id == session_id)).first()


def _make_session(db: Connection, session: Session) -> int:
    made = insert(schema.session).values(id=session.id, time=session.time).returning(schema.session.c.number)
    return db.execute(made).scalar_one()


def _insert(db: Connection, source: Any, session: int, placed: list[_Placed]) -> int:
    """Write new turns with their origin and the work that they bring; returns how many."""
    if not placed:
        return 0
    generation, last = int(get(db, "generation")) + 1, int(get(db, "last_turn"))
    rows = [
        {
            "number": number,
            "session": session,
            "ordinal": ordinal,
            "content_hash": content_hash(turn.text),
            "generation": generation,
            **turn.model_dump(include={"id", "speaker", "text", "time", "external_id"}),
        }
        for number, (turn, ordinal) in enumerate(placed, last + 1)
    ]
    db.execute(insert(schema.turn), rows)
    _claim(db, source, {row["number"]: row["external_id"] for row in rows})
    put(db, "last_turn", last + len(rows))
    enqueue(db, {"turn": [turn.id for turn, _ in placed], "session": [placed[0].turn.session_id]})
    return len(rows)


def _claim(db: Connection, source: Any, turns: Mapping[int, str]) -> None:
    """Note that a source holds these turns, and the external ids that it gives them."""
    rows = [{"source": source.number, "turn": number, "external_id": given} for number, given in turns.items()]
    insert_missing(db, schema.origin, rows)
