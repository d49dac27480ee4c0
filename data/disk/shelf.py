"""Turns one state of the database into a shelf that a store reads through: arrays in memory, words on demand."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get
from stitchjam.data.disk.refresh import read_segment, segments
from stitchjam.data.ids import time_order
from stitchjam.data.index.columns import Mask
from stitchjam.data.index.encoders import Encoder, open_encoder
from stitchjam.data.index.lexical import Lexical, Segment
from stitchjam.data.index.ranking import Index
from stitchjam.data.index.terms import terms
from stitchjam.data.records import Turn
from stitchjam.data.shelf import require_known, unknown
from stitchjam.data.times import seconds

__all__ = ["DiskShelf"]

_ROWS = 500  # that are read at once: more objects would have Python's garbage collector go through all there are


@dataclass(frozen=True)
class _Loaded:
    """What was read of a database so far; a later state is read on top of it as long as nothing was forgotten.

    `numbers` gives the number of the turn at each position; `sealed` holds the segments in use, by first and last turn.
    """

    epoch: int = -1
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    index: Index = field(default_factory=Index)
    sealed: Mapping[tuple[int, int], Segment] = field(default_factory=dict)


class DiskShelf:
    """The turns of a memory up to a generation; those that are forgotten later are gone at once.

    A pickle holds path and generation.

    Raises:
        UsageError: there is no memory in `path`.
        DataError: what stands there is damaged or of another version.
    """

    def __init__(
        self, path: Path, generation: int, database: Database | None = None, before: "DiskShelf | None" = None
    ):
        self.path, self.generation = path, generation
        self._database = database or Database(path, create=False)
        self._before = before.known if before else _Loaded()
        self._lock = threading.Lock()
        self._times: tuple[str, Mapping[str, str]] = ("", {})

    @cached_property
    def _loaded(self) -> _Loaded:
        with self._lock:
            if "_loaded" in self.__dict__:  # another thread was faster
                return self.__dict__["_loaded"]
            with self._database.read() as db:
                loaded = _load(db, self.generation, self._before)
            self._before = _Loaded()
            return loaded

    @property
    def known(self) -> _Loaded:
        """What was read so far, for a shelf of a later generation."""
        return self.__dict__.get("_loaded", self._before)

    def turn_ids(self) -> Iterable[str]:
        """Of the turns that are still there."""
        turn = schema.turn.c
        with self._database.read() as db:
            return list(db.execute(select(turn.id).where(turn.generation <= self.generation)).scalars())

    def index(self) -> Index:
        """Read when first asked for."""
        return self._loaded.index

    def turns_at(self, positions: Iterable[int]) -> dict[int, Turn]:
        """Read from the database each time, so that what is forgotten is never shown."""
        numbers = {int(self._loaded.numbers[position]): position for position in positions}
        turns = {}
        with self._database.read() as db:
            for chunk in chunked(numbers):
                for row in db.execute(_turns().where(schema.turn.c.number.in_(chunk))):
                    turns[numbers[row.number]] = _turn(row)
        return turns

    def positions(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Looked up by the numbers of the turns."""
        turn, numbers = schema.turn.c, self._loaded.numbers
        found: dict[str, int] = {}
        with self._database.read() as db:
            for chunk in chunked(turn_ids):
                rows = list(db.execute(select(turn.number, turn.id).where(turn.id.in_(chunk)).order_by(turn.number)))
                at, there = _search(numbers, np.array([row.number for row in rows], dtype=np.int64))
                ids = (row.id for row, known in zip(rows, there, strict=True) if known)
                found |= dict(zip(ids, at.tolist(), strict=True))
        return found

    def ids_like(self, turn_id: str) -> Collection[str]:
        """Ids with the same beginning."""
        ids = schema.turn.c.id
        alike = select(ids).where(ids.startswith(turn_id[:3], autoescape=True)).limit(2000)
        with self._database.read() as db:
            return list(db.execute(alike).scalars())

    def session_times(self) -> Mapping[str, str]:
        """Sessions that have a turn, oldest first; read anew when something was forgotten."""
        known = self.index().columns.session_ids
        with self._database.read() as db:
            epoch = get(db, "epoch")
            if self._times[0] != epoch:
                turn, session = schema.turn.c, schema.session.c
                # One that was added again after it was forgotten is another one.
                older = select(turn.number).where(turn.session == session.number, turn.generation <= self.generation)
                rows = db.execute(select(session.id, session.time).where(older.exists()).order_by(session.number))
                self._times = epoch, time_order({row.id: row.time for row in rows if row.id in known})
            return self._times[1]

    def mask(self, field: str, names: Collection[str]) -> Mask:
        """Looked up in the tables when asked for, since views change while the log only grows."""
        find = {"sources": self._of_sources, "folders": self._of_folders, "labels": self._of_labels}[field]
        mask = np.zeros(len(self._loaded.numbers), dtype=bool)
        with self._database.read() as db:
            mask[find(db, names)] = True
        return mask

    def _of_sources(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        source, origin, file = schema.source.c, schema.origin.c, schema.content.c
        named = select(source.number, source.id, source.name, file.name.label("file"))
        rows = db.execute(named.outerjoin(schema.content, file.sha256 == source.sha256)).all()
        known = {row.number: {row.id, row.name, row.file or row.name} for row in rows}
        require_known("source", names, set().union(*known.values()))
        chosen = [number for number, texts in known.items() if not texts.isdisjoint(names)]
        held = (db.execute(select(origin.turn).where(origin.source.in_(some))) for some in chunked(chosen))
        return self._positions(number for rows in held for number in rows.scalars())

    def _of_folders(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        memo = schema.memo.c
        filed = [path for path in db.execute(select(memo.folder).distinct()).scalars() if path]
        below = {name: [path for path in filed if f"{path}/".startswith(f"{name}/")] for name in names}
        for name, paths in below.items():
            if not paths:
                raise unknown("folder", name, filed)
        chosen = chunked({path for paths in below.values() for path in paths})
        held = (db.execute(select(memo.item).where(memo.folder.in_(some))) for some in chosen)
        sessions = [item for rows in held for item in rows.scalars()]
        return np.flatnonzero(self.index().columns.session_mask(sessions))

    def _of_labels(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        label, turn = schema.note_label.c, schema.turn.c
        require_known("label", names, list(db.execute(select(label.label).distinct()).scalars()))
        labelled = select(turn.number).join(schema.note_label, label.item == turn.id).where(label.label.in_(names))
        return self._positions(db.execute(labelled).scalars())

    def _positions(self, numbers: Iterable[int]) -> NDArray[np.intp]:
        return _search(self._loaded.numbers, np.unique(np.array(list(numbers), dtype=np.int64)))[0]

    def __reduce__(self) -> tuple[type["DiskShelf"], tuple[Path, int]]:
        return DiskShelf, (self.path, self.generation)


def _turns() -> Select[Any]:
    return select(schema.turn, schema.session.c.id.label("session_id")).join(schema.session)


def _turn(row: Any) -> Turn:
    return Turn(
        id=row.id,
        session_id=row.session_id,
        speaker=row.speaker,
        text=row.text,
        time=row.time,
        external_id=row.external_id,
    )


def _load(db: Connection, generation: int, before: _Loaded) -> _Loaded:
    epoch, encoder = int(get(db, "epoch")), open_encoder(get(db, "encoder"))
    if before.epoch != epoch:  # something was forgotten, or the encoder is another
        before = _Loaded(epoch, index=Index(encoder))
    fresh, sessions, ordinals, speakers, times, hashes = _load_turns(db, generation, before)
    numbers = np.concatenate([before.numbers, np.array(fresh, dtype=np.int64)])
    columns = before.index.columns.extended(sessions, ordinals, speakers, [_seconds(time) for time in times])
    index = replace(before.index, columns=columns)
    if encoder is not None and fresh:
        index = replace(
            index, vectors=index.vectors.extended(_load_vectors(db, encoder, numbers, np.array(hashes, np.int64)))
        )
    sealed = _load_segments(db, before, numbers)
    index = replace(index, lexical=_load_lexical(db, before, sealed, numbers))
    return _Loaded(epoch, numbers, index, sealed)


def _load_turns(db: Connection, generation: int, before: _Loaded) -> list[list[Any]]:
    """Numbers, sessions, ordinals, speakers, times and content hashes of the turns behind those that are known."""
    turn, last = schema.turn.c, int(before.numbers[-1]) if len(before.numbers) else 0
    chosen = select(turn.number, schema.session.c.id, turn.ordinal, turn.speaker, turn.time, turn.content_hash)
    behind = chosen.join(schema.session).where(turn.number > last, turn.generation <= generation)
    columns: list[list[Any]] = [[] for _ in chosen.selected_columns]
    for rows in db.execute(behind.order_by(turn.number)).partitions(_ROWS):
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(values)
    return columns


@lru_cache(maxsize=4096)
def _seconds(time: str) -> float:
    known = seconds(time)
    return nan if known is None else known


def _load_vectors(
    db: Connection, encoder: Encoder, numbers: NDArray[np.int64], hashes: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Vectors of the last turns, shape [hashes, dim]; those that are not in the database yet are made here."""
    fresh = numbers[-len(hashes) :]
    distinct, first, places = np.unique(hashes, return_index=True, return_inverse=True)
    vectors = np.zeros((len(hashes), encoder.dim), dtype=np.float32)
    missing = np.ones(len(distinct), dtype=bool)
    for rows in _stored_vectors(db, encoder, distinct, 2 * len(fresh) < len(numbers)):
        at, there = _search(distinct, np.array([key for key, _ in rows], dtype=np.int64))
        packed = b"".join(content for _, content in rows)
        vectors[first[at]] = np.frombuffer(packed, dtype=np.float16).reshape(len(rows), encoder.dim)[there]
        missing[at] = False
    if missing.any():
        turns = np.sort(first[missing])
        vectors[turns] = encoder.encode([row.text for row in _texts(db, fresh[turns])]).astype(np.float16)
    again = np.flatnonzero(first[places] != np.arange(len(hashes)))  # turns with words that were said before
    vectors[again] = vectors[first[places[again]]]
    return vectors


def _stored_vectors(db: Connection, encoder: Encoder, hashes: NDArray[np.int64], few: bool) -> Iterator[Sequence[Any]]:
    """Hash and vector, some at once; unless few are wanted all are read, which is faster than to look each up."""
    vector = schema.vector.c
    whole = func.length(vector.content) == 2 * encoder.dim  # a damaged one is made anew
    chosen = select(vector.content_hash, vector.content).where(vector.encoder == encoder.name, whole)
    parts = [chosen.where(vector.content_hash.in_(some)) for some in chunked(hashes.tolist())] if few else [chosen]
    for part in parts:
        yield from db.execute(part).partitions(_ROWS)


def _search(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], Mask]:
    """Places in `known`, which ascends, of the wanted that are there, and which of the wanted these are."""
    at = np.searchsorted(known, wanted)
    there = at < len(known)
    there[there] = known[at[there]] == wanted[there]
    return at[there], there


def _load_segments(db: Connection, before: _Loaded, numbers: NDArray[np.int64]) -> dict[tuple[int, int], Segment]:
    """The segments that lie within these turns; known ones are not read again."""
    sealed: dict[tuple[int, int], Segment] = {}
    end = 0
    for row in segments(db):
        key = (row.first, row.last)
        inside = numbers[end : end + row.turns]
        if len(inside) < row.turns or (int(inside[0]), int(inside[-1])) != key:
            break  # an older generation ends within it
        sealed[key] = before.sealed.get(key) or read_segment(db, row.first)
        end += row.turns
    return sealed


def _load_lexical(
    db: Connection, before: _Loaded, sealed: Mapping[tuple[int, int], Segment], numbers: NDArray[np.int64]
) -> Lexical:
    known = before.index.lexical
    lexical = known if tuple(sealed) == tuple(before.sealed) else Lexical(tuple(sealed.values()))
    return lexical.extended(terms(f"{row.speaker} {row.text}") for row in _texts(db, numbers[lexical.size :]))


def _texts(db: Connection, numbers: NDArray[np.int64]) -> list[Any]:
    """Speaker and text of turns, in order of their numbers."""
    turn = schema.turn.c
    rows: list[Any] = []
    for chunk in chunked(numbers.tolist()):
        chosen = select(turn.speaker, turn.text).where(turn.number.in_(chunk))
        rows.extend(db.execute(chosen.order_by(turn.number)))
    return rows
