"""Turns a folder into a database that reads and writes whole transactions, or says clearly why it cannot.

A write holds SQLite's one write lock from its beginning, so that two writers queue; readers go on with what was
committed before. A transaction is there completely or not at all, also after kill -9.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import URL, Column, Connection, Engine, Table, create_engine, event, inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from stitchjam.data.disk import schema
from stitchjam.data.errors import DataError, StitchjamError, UsageError
from stitchjam.data.index.encoders import open_encoder

__all__ = ["DEFAULT_ENCODER", "Database", "chunked", "get", "insert_missing", "put", "replace"]

FILE = "memory.db"
DEFAULT_ENCODER = "static"
_PARAMETERS = 500  # of one query, far below SQLite's limit
_T = TypeVar("_T")
_PATIENCE = 30.0  # seconds that a writer waits for another one


class Database:
    """The database in a folder.

    Args:
        path: the folder.
        create: make it when it is not there.
        encoder: name of the encoder; None keeps the one the memory has.

    Raises:
        UsageError: it is not there and must not be made, or cannot be used.
        DataError: it is no memory, was written by another version, or is damaged.
    """

    def __init__(self, path: Path, create: bool = True, encoder: str | None = None):
        self.path, self.file = path.absolute(), path.absolute() / FILE
        self._inode: int | None = None
        if encoder is not None:
            open_encoder(encoder)  # one that does not exist must not become part of the memory
        try:
            if not self.file.exists():
                self._make_folder(create)
        except (OSError, ValueError) as error:
            raise UsageError(f"{str(path)!r:.200} cannot be the folder of a memory ({error}); name another") from None
        self._writer = _engine(self.file, "BEGIN IMMEDIATE")
        self._reader = _engine(self.file, "BEGIN")
        try:
            self._prepare(encoder, create)
        except BaseException:
            self.close()
            raise

    def _make_folder(self, create: bool) -> None:
        taken = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        if taken and not self.file.exists():  # else another process has made it just now
            raise UsageError(f"{self.path} is no memory of stitchjam; name the folder of one, or a new or empty folder")
        if not create:
            raise self._missing()
        self.path.mkdir(parents=True, exist_ok=True)

    def _missing(self) -> UsageError:
        return UsageError(f"there is no memory in {self.path}; make one with: stitchjam ingest FILE --memory PATH")

    def _prepare(self, encoder: str | None, create: bool) -> None:
        # Nothing may be written before it is sure that this is a memory of ours, or nothing at all.
        ready = self._is_ready()
        if not ready and not create:
            raise self._missing()
        if not ready:
            self._use_wal()
            self._make_tables(encoder or DEFAULT_ENCODER)
        self._check_format()
        self._number_notes()
        self._make_views_anew()
        if encoder is not None and encoder != self.get("encoder"):
            self.set_encoder(encoder)

    def _is_ready(self) -> bool:
        with self.read() as db:
            tables = set(inspect(db).get_table_names())
        if tables and not {"meta", "turn"} <= tables:
            raise DataError(f"{self.file} is a database of something else; choose another folder")
        return bool(tables)

    def _use_wal(self) -> None:
        """Let readers go on while one writes; the file remembers it."""
        with _explained(self.file):
            connection, patient_until = sqlite3.connect(self.file, timeout=_PATIENCE), time.monotonic() + _PATIENCE
            try:
                while not _switched_to_wal(connection, time.monotonic() < patient_until):
                    time.sleep(0.01)
            finally:
                connection.close()

    def _make_tables(self, encoder: str) -> None:
        with self.write() as db:
            if inspect(db).has_table("meta"):  # another process was faster
                return
            schema.metadata.create_all(db)
            values = {"format": schema.FORMAT, "id": uuid4().hex, "encoder": encoder}
            counters = {"generation": 0, "epoch": 0, "last_turn": 0, "encoded": 0, "steps": "[]"}
            rows = [{"key": key, "value": str(value)} for key, value in (values | counters).items()]
            db.execute(schema.meta.insert(), rows)

    def _check_format(self) -> None:
        version = self.get("format")
        if version != str(schema.FORMAT):
            raise DataError(
                f"{self.file} has format {version}, this version of stitchjam reads {schema.FORMAT}; "
                f"install the version that wrote it, or ingest its sources into a new memory"
            )

    def _number_notes(self) -> None:
        """Give the table of notes its order, in a memory that was made before anything was noted."""
        with self.read() as db:
            ready = any(column["name"] == "number" for column in inspect(db).get_columns("note"))
        if not ready:
            with self.write() as db:
                if not any(column["name"] == "number" for column in inspect(db).get_columns("note")):
                    db.exec_driver_sql("ALTER TABLE note ADD COLUMN number BIGINT NOT NULL DEFAULT 0")
                    db.exec_driver_sql("CREATE INDEX note_by_number ON note (number)")

    def _make_views_anew(self) -> None:
        """Make the tables of memos and folders anew in a memory of before there was a tree; nothing else held them."""
        with self.read() as db:
            ready = any(column["name"] == "number" for column in inspect(db).get_columns("memo"))
        if ready:
            return
        with self.write() as db:
            if not any(column["name"] == "number" for column in inspect(db).get_columns("memo")):
                for table in (schema.memo, schema.folder):
                    table.drop(db)
                    table.create(db)
                work = schema.work
                db.execute(update(work).where(work.c.kind == "session").values(status="pending", attempts=0, error=""))

    def set_encoder(self, encoder: str) -> None:
        """Use another encoder from now on; vectors of the one before are kept."""
        with self.write() as db:
            put(db, "encoder", encoder)
            put(db, "encoded", 0)
            put(db, "epoch", int(get(db, "epoch")) + 1)

    def get(self, key: str) -> str:
        """A value of the table meta."""
        with self.read() as db:
            return get(db, key)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database, whatever others write meanwhile."""
        self._require_same_file()
        with _explained(self.file), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or undone when it raises."""
        self._require_same_file()
        with _explained(self.file), self._writer.begin() as connection:
            yield connection

    def _require_same_file(self) -> None:
        """Refuse to go on with a file that was deleted or replaced: what is written to it, no one would find again."""
        inode = self.file.stat().st_ino if self.file.exists() else None
        if self._inode is not None and inode != self._inode:
            raise UsageError(f"{self.file} was deleted or replaced while it was open; open the memory again")
        self._inode = inode

    def compact(self, patience: float | None = None) -> bool:
        """Write the file anew without what was deleted, and empty the write-ahead log.

        Args:
            patience: seconds to wait for others who read or write; None for as long as a writer waits.

        Returns:
            Whether nothing deleted is left; False while another process reads or writes.
        """
        with _explained(self.file):
            connection = sqlite3.connect(
                self.file, timeout=_PATIENCE if patience is None else patience, isolation_level=None
            )
            try:
                connection.execute("VACUUM")
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                busy = True
            finally:
                connection.close()
        return not busy

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._reader.dispose()
        self._writer.dispose()


def _switched_to_wal(connection: sqlite3.Connection, may_fail: bool) -> bool:
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:  # SQLite itself does not wait when two processes switch at once
        if not may_fail or "locked" not in str(error):
            raise
        return False
    return True


def get(db: Connection, key: str) -> str:
    """A value of the table meta, inside a transaction."""
    return db.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar_one()


def put(db: Connection, key: str, value: object) -> None:
    """Replace a value of the table meta."""
    db.execute(update(schema.meta).where(schema.meta.c.key == key).values(value=str(value)))


def insert_missing(db: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows whose primary key is not there yet."""
    dialect = {"sqlite": sqlite, "postgresql": postgresql}[db.dialect.name]
    if rows:
        db.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def replace(db: Connection, table: Table, row: dict[str, Any]) -> None:
    """Insert a row, or overwrite the one with its primary key."""
    dialect = {"sqlite": sqlite, "postgresql": postgresql}[db.dialect.name]
    db.execute(dialect.insert(table).values(row).on_conflict_do_update(index_elements=table.primary_key, set_=row))


def delete(db: Connection, table: Table, column: Column[Any], values: Iterable[Any]) -> None:
    """Delete the rows that have one of these values in a column."""
    for chunk in chunked(values):
        db.execute(table.delete().where(column.in_(chunk)))


def chunked(values: Iterable[_T]) -> Iterator[list[_T]]:
    """Lists of values that one query can take as parameters."""
    values = iter(values)
    while chunk := list(islice(values, _PARAMETERS)):
        yield chunk


def _engine(file: Path, begin: str) -> Engine:
    url = URL.create("sqlite", database=str(file))
    engine = create_engine(url, connect_args={"timeout": _PATIENCE}, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves: sqlite3 would not lock before a write
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        raise _explain(file, str(getattr(error, "orig", error))) from error
    except UnicodeEncodeError:
        raise DataError("half of a surrogate pair cannot be stored or looked up; remove that character") from None


def _explain(file: Path, reason: str) -> StitchjamError:
    if "locked" in reason:
        return UsageError(f"{file}: another process has been writing for {_PATIENCE:.0f} seconds; try again later")
    if any(word in reason for word in ("malformed", "not a database", "disk image", "decode")):
        return DataError(f"{file} is damaged ({reason}); restore it from a backup, or ingest its sources again")
    return UsageError(f"{file} cannot be used ({reason}); check disk space and permissions")
