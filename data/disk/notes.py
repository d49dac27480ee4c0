"""Turns the notes that a labelling left in a memory into a notebook, and keeps it up to date as notes are added."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import Connection, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, get
from stitchjam.data.disk.labels import drop_notes
from stitchjam.data.disk.taint import LABEL_TURN
from stitchjam.data.disk.work import StepKey
from stitchjam.data.disk.worked import last_program
from stitchjam.data.errors import DataError
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Entry

__all__ = ["LABEL_TURN", "Notes", "labelling"]


def labelling(program: str) -> StepKey:
    """The work of labelling turns with a program of that fingerprint."""
    return StepKey(LABEL_TURN, program, "turn")


@dataclass
class _Known:
    """A notebook, the state of the memory that it belongs to, and the number of the last note in it."""

    epoch: int
    notebook: Notebook
    last: int = 0


class Notes:
    """Notebooks of a memory, by program; shared by all that read and label it in this process."""

    def __init__(self, database: Database):
        self._database, self._lock = database, threading.Lock()
        self._known: dict[str, _Known] = {}

    def notebook(self, program: str = "") -> Notebook:
        """The notes of a program, "" for the one that labelled last; empty when there are none.

        Raises:
            DataError: a note cannot be read.
        """
        with self._database.read() as db:
            program = program or last_program(db, LABEL_TURN)
            known = self._at(program, int(get(db, "epoch")), get(db, "encoder"))
            # Not under our own lock: whoever holds that of the notebook, since he reads it, may ask us for it.
            with known.notebook.lock:
                for number, entry in _entries(db, program, known.last):
                    known.notebook.add(entry)
                    known.last = number
            return known.notebook

    def _at(self, program: str, epoch: int, encoder: str) -> _Known:
        """The notebook of a program as far as it was read, at this epoch or a later one."""
        with self._lock:
            known = self._known.get(program)
            # Whatever is forgotten changes the epoch: nothing that was derived from it stays in this process.
            if known is None or known.epoch < epoch:
                known = self._known[program] = _Known(epoch, Notebook(open_encoder(encoder)))
            return known

    def drop(self, program: str) -> None:
        """Remove the notes of a program, so that it labels all turns anew."""
        with self._database.write() as db:
            drop_notes(db, program)


def _entries(db: Connection, program: str, after: int) -> Iterator[tuple[int, Entry]]:
    note = schema.note.c
    mine = (note.step == LABEL_TURN, note.program == program, note.number > after)
    chosen = select(note.number, note.item, note.content).where(*mine).order_by(note.number)
    for row in db.execute(chosen):
        try:
            yield row.number, Entry.model_validate_json(row.content)
        except ValidationError:
            raise DataError(
                f"the note of turn {row.item} cannot be read; make notes anew: stitchjam label --again"
            ) from None
