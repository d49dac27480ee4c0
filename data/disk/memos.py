"""Turns the memos that a filing left in a memory into a tree of folders, and keeps it up to date as they are added."""

import json
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, func, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, get, insert_missing, put, replace
from stitchjam.data.disk.memo_taint import WRITE_MEMO
from stitchjam.data.disk.work import StepKey
from stitchjam.data.disk.worked import leading_program
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.tree.grow import Sizes, Tree
from stitchjam.data.tree.records import Memo, Readme

__all__ = ["Memos", "WRITE_MEMO", "filing"]


def filing(program: str) -> StepKey:
    """The work of writing memos of sessions with a program of that fingerprint."""
    return StepKey(WRITE_MEMO, program, "session")


@dataclass
class _Known:
    """A tree, the epoch of the memory that it belongs to, and the last memo, README and session that are in it."""

    epoch: int
    tree: Tree
    memo: int = 0
    readme: int = 0
    session: int = 0


class Memos:
    """The trees of a memory, by program; shared by all that read it and file in it in this process."""

    def __init__(self, database: Database):
        self._database, self._lock = database, threading.Lock()
        self._known: dict[str, _Known] = {}

    @property
    def epoch(self) -> int:
        """Goes up whenever something is forgotten or dropped."""
        with self._database.read() as db:
            return int(get(db, "epoch"))

    def tree(self, program: str = "", behind: bool = False) -> Tree:
        """The tree of a program, "" for the one that filed most, and last; empty when there is none.

        Args:
            program: its fingerprint.
            behind: whether a tree will do that lacks what was written out of order: to make it anew for each such memo
                would take the square of their number.

        Raises:
            DataError: a memo cannot be read.
        """
        with self._lock, self._database.read() as db:
            program = program or leading_program(db, WRITE_MEMO)
            known = self._known.get(program)
            if known is None or known.epoch < int(get(db, "epoch")) or not (_grow(db, program, known) or behind):
                known = self._known[program] = _read(db, program)
            _take_readmes(db, program, known)
            return known.tree

    def before(self, program: str, session_id: str) -> list[str] | None:
        """Ids of the sessions that were added before one; None when none in the tree was added later."""
        session = schema.session.c
        with self._lock, self._database.read() as db:
            place = db.execute(select(session.number).where(session.id == session_id)).scalar_one_or_none() or 0
            known = self._known.get(program)
            if known is not None and known.session < place:
                return None
            return list(db.execute(select(session.id).where(session.number < place)).scalars())

    def begin(self, program: str, sizes: Sizes) -> None:
        """Keep the limits of a program's tree, so that whoever opens the memory sees the same one."""
        with self._database.write() as db:
            insert_missing(db, schema.meta, [{"key": _sizes(program), "value": json.dumps(asdict(sizes))}])

    def write(self, program: str, readmes: Iterable[Readme], epoch: int | None = None) -> bool:
        """Keep what was written about folders, unless something was forgotten since `epoch`; whether it was kept."""
        with self._database.write() as db:
            if epoch is not None and int(get(db, "epoch")) != epoch:
                return False
            for one in readmes:
                number = db.execute(select(func.coalesce(func.max(schema.folder.c.number), 0) + 1)).scalar_one()
                row = {"id": one.folder, "program": program, "content": one.model_dump_json(), "number": number}
                replace(db, schema.folder, row)
        return True

    def drop(self, program: str) -> None:
        """Remove the memos and READMEs of a program, so that it files all sessions anew; the log is left alone."""
        memo, work = schema.memo, schema.work
        fresh = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}
        with self._database.write() as db:
            db.execute(memo.delete().where(memo.c.program == program, memo.c.step == WRITE_MEMO))
            db.execute(schema.folder.delete().where(schema.folder.c.program == program))
            db.execute(schema.meta.delete().where(schema.meta.c.key == _sizes(program)))
            db.execute(update(work).where(work.c.program == program, work.c.step == WRITE_MEMO).values(fresh))
            put(db, "epoch", int(get(db, "epoch")) + 1)


def _sizes(program: str) -> str:
    return f"tree:{program}"


def _read(db: Connection, program: str) -> _Known:
    """The tree of a program as it stands in the memory."""
    kept = db.execute(select(schema.meta.c.value).where(schema.meta.c.key == _sizes(program))).scalar_one_or_none()
    try:
        sizes = Sizes(**json.loads(kept)) if kept else None
    except (ValueError, TypeError, UsageError):
        raise DataError("the limits of the tree cannot be read; file anew: stitchjam memorize --again") from None
    known = _Known(int(get(db, "epoch")), Tree(open_encoder(get(db, "encoder")), sizes=sizes))
    _grow(db, program, known)
    return known


def _grow(db: Connection, program: str, known: _Known) -> bool:
    """Add memos that were written since; False when one does not come last, so that the tree is another one."""
    memo, session = schema.memo.c, schema.session.c
    mine = (memo.step == WRITE_MEMO, memo.program == program, memo.number > known.memo)
    chosen = select(memo.item, memo.content, memo.number, session.number.label("place"))
    rows = db.execute(chosen.join(schema.session, session.id == memo.item).where(*mine).order_by(session.number)).all()
    if not rows:
        return True
    if rows[0].place <= known.session:
        return False
    known.tree.add(*(_memo(row) for row in rows))
    known.memo, known.session = max(row.number for row in rows), rows[-1].place
    return True


def _take_readmes(db: Connection, program: str, known: _Known) -> None:
    folder = schema.folder.c
    mine = (folder.program == program, folder.number > known.readme)
    for row in db.execute(select(schema.folder).where(*mine).order_by(folder.number)):
        try:
            known.tree.write(Readme.model_validate_json(row.content))
        except ValidationError:
            raise DataError("the README of a folder cannot be read; file anew: stitchjam memorize --again") from None
        known.readme = row.number


def _memo(row: Any) -> Memo:
    try:
        return Memo.model_validate_json(row.content)
    except ValidationError:
        raise DataError(
            f"the memo of session {row.item} cannot be read; write memos anew: stitchjam memorize --again"
        ) from None
