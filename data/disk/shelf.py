"""Turns one state of the database into a shelf that a store reads through: arrays in memory, words on demand."""

import threading
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, or_, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get
from stitchjam.data.disk.refresh import segments
from stitchjam.data.errors import DataError
from stitchjam.data.ids import time_order
from stitchjam.data.index.columns import Mask, Place
from stitchjam.data.index.encoders import Encoder, open_encoder
from stitchjam.data.index.lexical import Lexical, Segment
from stitchjam.data.index.ranking import Index
from stitchjam.data.index.terms import terms
from stitchjam.data.records import Turn
from stitchjam.data.shelf import require_known, unknown
from stitchjam.data.times import seconds

__all__ = ["DiskShelf"]


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
        self.name = "store:" + sha256(f"{self._database.get('id')} {generation}".encode()).hexdigest()[:4]
        self._lock = threading.Lock()

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

    def position(self, turn_id: str) -> int | None:
        """By its number."""
        with self._database.read() as db:
            number = db.execute(select(schema.turn.c.number).where(schema.turn.c.id == turn_id)).scalar()
        positions = self._positions([] if number is None else [number])
        return int(positions[0]) if len(positions) else None

    def ids_like(self, turn_id: str) -> Collection[str]:
        """Ids with the same beginning."""
        ids = schema.turn.c.id
        alike = select(ids).where(ids.startswith(turn_id[:3], autoescape=True)).limit(2000)
        with self._database.read() as db:
            return list(db.execute(alike).scalars())

    def session_times(self) -> Mapping[str, str]:
        """Sessions that have a turn, oldest first."""
        return self._session_times

    @cached_property
    def _session_times(self) -> Mapping[str, str]:
        with self._database.read() as db:
            rows = db.execute(select(schema.session.c.id, schema.session.c.time).order_by(schema.session.c.number))
            times = {row.id: row.time for row in rows}
        known = self.index().columns.session_ids
        return time_order({name: times[name] for name in times if name in known})

    def mask(self, field: str, names: Collection[str]) -> Mask:
        """Looked up in the tables when asked for, since views change while the log only grows."""
        find = {"sources": self._of_sources, "folders": self._of_folders, "labels": self._of_labels}[field]
        mask = np.zeros(len(self._loaded.numbers), dtype=bool)
        with self._database.read() as db:
            mask[find(db, names)] = True
        return mask

    def _of_sources(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        source, origin = schema.source.c, schema.origin.c
        known = {text: row.number for row in db.execute(select(schema.source)) for text in (row.id, row.name)}
        require_known("source", names, known)
        chosen = select(source.number).where(or_(source.id.in_(names), source.name.in_(names)))
        return self._positions(db.execute(select(origin.turn).where(origin.source.in_(chosen))).scalars())

    def _of_folders(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        memo = schema.memo.c
        below = [or_(memo.folder == name, memo.folder.startswith(f"{name}/", autoescape=True)) for name in names]
        filed = {row.folder: row for row in db.execute(select(memo.folder))}
        for name in names:
            if not any(path == name or path.startswith(f"{name}/") for path in filed):
                raise unknown("folder", name, filed)
        sessions = db.execute(select(memo.item).where(or_(*below))).scalars() if below else ()
        return np.flatnonzero(self.index().columns.session_mask(sessions))

    def _of_labels(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        label, turn = schema.note_label.c, schema.turn.c
        require_known("label", names, list(db.execute(select(label.label).distinct()).scalars()))
        labelled = select(turn.number).join(schema.note_label, label.item == turn.id).where(label.label.in_(names))
        return self._positions(db.execute(labelled).scalars())

    def _positions(self, numbers: Iterable[int]) -> NDArray[np.intp]:
        wanted = np.unique(np.array(list(numbers), dtype=np.int64))
        known = self._loaded.numbers
        at = np.searchsorted(known, wanted)
        there = at < len(known)
        there[there] = known[at[there]] == wanted[there]
        return at[there]

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
    numbers, index = _load_columns(db, generation, before)
    if encoder is not None:
        fresh = numbers[len(before.numbers) :]
        index = replace(index, vectors=index.vectors.extended(_load_vectors(db, encoder, fresh)))
    sealed = _load_segments(db, before, numbers)
    index = replace(index, lexical=_load_lexical(db, before, sealed, numbers))
    return _Loaded(epoch, numbers, index, sealed)


def _load_columns(db: Connection, generation: int, before: _Loaded) -> tuple[NDArray[np.int64], Index]:
    turn, last = schema.turn.c, int(before.numbers[-1]) if len(before.numbers) else 0
    chosen = select(turn.number, schema.session.c.id, turn.ordinal, turn.speaker, turn.time).join(schema.session)
    rows = db.execute(chosen.where(turn.number > last, turn.generation <= generation).order_by(turn.number)).all()
    places = [Place(session, ordinal, speaker, _seconds(time)) for _, session, ordinal, speaker, time in rows]
    numbers = np.concatenate([before.numbers, np.array([row[0] for row in rows], dtype=np.int64)])
    return numbers, replace(before.index, columns=before.index.columns.extended(places))


@lru_cache(maxsize=4096)
def _seconds(time: str) -> float:
    known = seconds(time)
    return nan if known is None else known


def _load_vectors(db: Connection, encoder: Encoder, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Vectors of these turns, shape [turns, dim]; those that are not in the database yet are made here."""
    turn, vector = schema.turn.c, schema.vector.c
    found = np.zeros((len(numbers), encoder.dim), dtype=np.float32)
    if not len(numbers):
        return found
    mine = (vector.content_hash == turn.content_hash) & (vector.encoder == encoder.name)
    chosen = select(turn.number, vector.content).outerjoin(schema.vector, mine).select_from(schema.turn)
    within = turn.number.between(int(numbers[0]), int(numbers[-1]))
    coded = {number: content for number, content in db.execute(chosen.where(within))}
    missing = [at for at, number in enumerate(numbers.tolist()) if coded.get(number) is None]
    there = [at for at, number in enumerate(numbers.tolist()) if coded.get(number) is not None]
    if there:
        packed = b"".join(coded[int(numbers[at])] for at in there)
        found[there] = np.frombuffer(packed, dtype=np.float16).reshape(len(there), encoder.dim)
    if missing:
        found[missing] = encoder.encode([row.text for row in _texts(db, numbers[missing])])
    return found


def _load_segments(db: Connection, before: _Loaded, numbers: NDArray[np.int64]) -> dict[tuple[int, int], Segment]:
    """The segments that lie within these turns; known ones are not read again."""
    sealed: dict[tuple[int, int], Segment] = {}
    segment, end = schema.segment.c, 0
    for row in segments(db):
        key = (row.first, row.last)
        inside = numbers[end : end + row.turns]
        if len(inside) < row.turns or (int(inside[0]), int(inside[-1])) != key:
            break  # an older generation ends within it
        content = select(segment.content).where(segment.first == row.first)
        sealed[key] = before.sealed.get(key) or _decoded(db.execute(content).scalar_one())
        end += row.turns
    return sealed


def _decoded(content: bytes) -> Segment:
    try:
        return Segment.from_bytes(content)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"the index is damaged ({error}); make it anew with: stitchjam verify --rebuild") from None


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
