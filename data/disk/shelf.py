"""Turns one state of the database into a shelf that a store reads through: arrays in memory, words on demand."""

import threading
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get
from stitchjam.data.disk.labels import merged_into
from stitchjam.data.disk.loading import Loaded, load, places_of
from stitchjam.data.disk.memos import Memos
from stitchjam.data.disk.notes import Notes
from stitchjam.data.ids import time_order
from stitchjam.data.index.columns import Mask
from stitchjam.data.index.ranking import Index
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.records import Turn
from stitchjam.data.shelf import require_known
from stitchjam.data.tree.grow import Tree

__all__ = ["DiskShelf"]


class DiskShelf:
    """The turns of a memory up to a generation; those that are forgotten later are gone at once.

    A pickle holds path and generation.

    Raises:
        UsageError: there is no memory in `path`.
        DataError: what stands there is damaged or of another version.
    """

    def __init__(
        self,
        path: Path,
        generation: int,
        database: Database | None = None,
        before: "DiskShelf | None" = None,
        views: tuple[Notes, Memos] | None = None,
    ):
        self.path, self.generation = path, generation
        self._database = database or Database(path, create=False)
        self._notes, self._memos = views or (Notes(self._database), Memos(self._database))
        self._before = before.known if before else Loaded()
        self._lock = threading.Lock()
        self._times: tuple[str, Mapping[str, str]] = ("", {})

    @cached_property
    def _loaded(self) -> Loaded:
        with self._lock:
            if "_loaded" in self.__dict__:  # another thread was faster
                return self.__dict__["_loaded"]
            with self._database.read() as db:
                loaded = load(db, self.generation, self._before)
            self._before = Loaded()
            return loaded

    @property
    def known(self) -> Loaded:
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
                at, there = places_of(numbers, np.array([row.number for row in rows], dtype=np.int64))
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
        find = {"sources": self._of_sources, "labels": self._of_labels}[field]
        mask = np.zeros(len(self._loaded.numbers), dtype=bool)
        with self._database.read() as db:
            mask[find(db, names)] = True
        return mask

    def notebook(self) -> Notebook:
        """The notes of the program that labelled last, with those that were added since it was last asked for."""
        return self._notes.notebook()

    def tree(self) -> Tree:
        """The folders of the program that filed last, with memos that were written since it was last asked for."""
        return self._memos.tree()

    def _of_sources(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        source, origin, file = schema.source.c, schema.origin.c, schema.content.c
        named = select(source.number, source.id, source.name, file.name.label("file"))
        rows = db.execute(named.outerjoin(schema.content, file.sha256 == source.sha256)).all()
        known = {row.number: {row.id, row.name, row.file or row.name} for row in rows}
        require_known("source", names, set().union(*known.values()))
        chosen = [number for number, texts in known.items() if not texts.isdisjoint(names)]
        held = (db.execute(select(origin.turn).where(origin.source.in_(some))) for some in chunked(chosen))
        return self._positions(number for rows in held for number in rows.scalars())

    def _of_labels(self, db: Connection, names: Collection[str]) -> NDArray[np.intp]:
        label, turn, now = schema.note_label.c, schema.turn.c, set(names)
        if now - _labels_there(db, now):  # an id of before a merge, or none
            now = merged_into(db, now)
            if now - _labels_there(db, now):
                borne = set(db.execute(select(label.label).distinct()).scalars())
                require_known("label", sorted(now), borne.union(db.execute(select(schema.label.c.id)).scalars()))
        labelled = select(turn.number).join(schema.note_label, label.item == turn.id).where(label.label.in_(now))
        return self._positions(db.execute(labelled).scalars())

    def _positions(self, numbers: Iterable[int]) -> NDArray[np.intp]:
        return places_of(self._loaded.numbers, np.unique(np.array(list(numbers), dtype=np.int64)))[0]

    def __reduce__(self) -> tuple[type["DiskShelf"], tuple[Path, int]]:
        return DiskShelf, (self.path, self.generation)


def _labels_there(db: Connection, names: Collection[str]) -> set[str]:
    """Those of some labels that a turn bears, or may bear."""
    borne, known, there = schema.note_label.c.label, schema.label.c.id, set[str]()
    for chunk in chunked(names):
        there.update(db.execute(select(known).where(known.in_(chunk))).scalars())
    for name in set(names) - there:  # labels of steps that describe none
        there.update(db.execute(select(borne).where(borne == name).limit(1)).scalars())
    return there


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
