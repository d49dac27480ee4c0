"""Turns a folder into a memory on disk that histories and turns are added to, and into stores that programs read."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from stitchjam.data.disk import schema, work, worked
from stitchjam.data.disk.add import Added, Provenance, add_histories, add_turn, find_content
from stitchjam.data.disk.database import Database, get
from stitchjam.data.disk.forget import Forgotten, erase, forget, keep_replies
from stitchjam.data.disk.memos import Memos
from stitchjam.data.disk.notes import Notes
from stitchjam.data.disk.refresh import refresh, segments
from stitchjam.data.disk.shelf import DiskShelf
from stitchjam.data.disk.verify import Verified, drop_index, verify
from stitchjam.data.errors import StitchjamError, UsageError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.readers import detect_format, read_histories
from stitchjam.data.readers.source import Source
from stitchjam.data.records import History
from stitchjam.data.store import Store

__all__ = ["DiskStore"]

_FIELDS = {"speaker", "text", "time", "external_id"}


_PATIENCE = 1.0  # seconds that opening waits for others when something forgotten is still to be erased


class DiskStore:
    """A memory in a folder; safe to use from several threads and processes at once.

    What an `add` returns from is on disk. Writers queue; readers see what was committed before they asked.

    Args:
        path: the folder.
        encoder: a name that `open_encoder` knows, from now on; None keeps the one it has, "static" for a new memory.
        create: make it when it is not there.

    Raises:
        UsageError: it is not there and must not be made, or another process has been writing for 30 seconds.
        DataError: what stands there is damaged, of another version, or something else.
    """

    def __init__(self, path: str | Path, encoder: str | None = None, create: bool = True):
        self.database = Database(Path(path), create, encoder)
        self.path = self.database.path
        self._lock = threading.Lock()
        self.notes, self.memos = Notes(self.database), Memos(self.database)
        self._shelf: DiskShelf | None = None
        erase(self.database, patience=_PATIENCE)

    @property
    def store(self) -> Store:
        """What is remembered now; it does not change when more is added."""
        with self.database.read() as db:
            state = int(get(db, "generation")), get(db, "epoch")
        with self._lock:
            if self._shelf is None or self._state != state:
                self._shelf = DiskShelf(self.path, state[0], self.database, self._shelf, (self.notes, self.memos))
                self._state = state
                self._store = Store(self._shelf)
            return self._store

    def add_file(self, path: str | Path, format: str | None = None, tick: Tick = quiet) -> Added:
        """Add a file of a known format; each history in it becomes a source.

        Raises:
            UsageError: the file cannot be opened, there is no such format, or it is there in another format.
            DataError: it is not of the format, or a session contradicts a stored one. Nothing of it was added.
        """
        content = Source.of(path).content
        known = find_content(self.database, content)
        source = Source(known.name if known else _name(path), content)
        format = format or (known.format if known else detect_format(source))
        added = add_histories(self.database, read_histories(source, format), Provenance(source.name, format, content))
        return self._indexed(added, tick)

    def add_history(self, history: History, name: str = "", tick: Tick = quiet) -> Added:
        """Add a history that was made in Python; `name` (default: its id) is what it is forgotten by."""
        added = add_histories(self.database, [history], Provenance(name or history.id, "history"))
        return self._indexed(added, tick)

    def add_turn(self, session_id: str, turn: Mapping[str, str], source: str = "") -> Added:
        """Add a turn at the end of a session: speaker and text, and time and external_id where known.

        `source` is what it is forgotten by; default: the session's id.
        """
        texts = all(isinstance(value, str) for value in (session_id, source, *turn.values()))
        if not texts or not session_id or not {"speaker", "text"} <= set(turn) <= _FIELDS:
            raise UsageError(
                "a turn needs the id of its session, a speaker and a text, and may have time and external_id; "
                "all of them are text"
            )
        added = add_turn(self.database, session_id, turn, source or session_id)
        return self._indexed(added)

    def _indexed(self, added: Added, tick: Tick = quiet) -> Added:
        try:
            refresh(self.database, tick)
        except StitchjamError as error:  # what was added is there all the same; the next add looks again
            return replace(added, pending=str(error))
        return added

    def forget(self, source: str, tick: Tick = quiet) -> Forgotten:
        """Forget the sources of that id or name, with all that was derived from them and all kept replies.

        Raises:
            UsageError: there is no such source; the message names the nearest.
        """
        forgotten = forget(self.database, source)
        refresh(self.database, tick)
        return forgotten

    def keep_replies(self, folder: Path) -> None:
        """Note that replies of models about this memory are kept below a folder, so that `forget` removes them."""
        keep_replies(self.database, folder)

    def verify(self, rebuild: bool = False, tick: Tick = quiet) -> Verified:
        """Check that all that was ingested can be read back; with `rebuild`, make the index anew first."""
        if rebuild:
            drop_index(self.database)
            refresh(self.database, tick)
        return verify(self.database, tick)

    def register(self, key: work.StepKey) -> None:
        """Make a step part of the memory: it has work for all that is there and for all that is added."""
        work.register(self.database, key)

    def release(self, key: work.StepKey) -> None:
        """Give back what workers that died had claimed; see `data.disk.work.release`."""
        work.release(self.database, key)

    def given_up(self, key: work.StepKey) -> int:
        """How many items failed three times; see `retry`."""
        return worked.given_up(self.database, key)

    def retry(self, key: work.StepKey) -> None:
        """Let items that failed three times be tried again."""
        work.retry(self.database, key)

    def process(
        self, key: work.StepKey, run: work.Run, limit: int | None = None, tick: work.Tick = work.quiet
    ) -> work.Processed:
        """Run a step on the items that wait for it; see `data.disk.work.process`."""
        return work.process(self.database, key, run, limit, tick)

    def stats(self) -> dict[str, Any]:
        """What is there, what waits, what failed, what was forgotten; sizes in bytes, times in seconds since 1970."""
        with self.database.read() as db:
            sources = [dict(row._mapping) for row in db.execute(_sources())]
            sealed = sum(row.turns for row in segments(db))
            count = {
                table.name: db.execute(select(func.count()).select_from(table)).scalar_one()
                for table in (schema.source, schema.session, schema.turn, schema.vector, schema.note, schema.memo)
            }
            tombstones = [dict(row._mapping) for row in db.execute(select(schema.tombstone))]
            return {
                "path": str(self.path),
                "format": int(get(db, "format")),
                "generation": int(get(db, "generation")),
                "encoder": get(db, "encoder"),
                "bytes": self.database.file.stat().st_size,
                "counts": count,
                "sealed_turns": sealed,
                "sources": sources,
                "work": worked.counts(db),
                "tombstones": tombstones,
            }

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


def _sources() -> Any:
    source, origin = schema.source.c, schema.origin.c
    held = select(func.count()).where(origin.source == source.number).scalar_subquery()
    return select(source.id, source.name, source.format, source.ingested, held.label("turns")).order_by(source.number)


def _name(path: str | Path) -> str:
    """The path as it was given; a bare turns.jsonl, which every trajectory has, gets its folder before it."""
    path = Path(path)
    return path.as_posix() if path.name.split(".")[0] != "turns" else f"{path.resolve().parent.name}/{path.name}"
