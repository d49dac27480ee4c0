"""Turns the nouns into tables. Plain types only, so that PostgreSQL can take the same schema.

The log: content (bytes of files), source, session, turn, origin (which source brought which turn), tombstone.
Derived from it, and made anew when lost: segment and vector (the index), note, memo, label, folder (the views).
Between both: work, what still has to be derived; replies, where replies of models about this memory are kept.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

__all__ = [
    "FORMAT",
    "content",
    "folder",
    "label",
    "label_event",
    "memo",
    "meta",
    "metadata",
    "note",
    "note_label",
    "origin",
    "replies",
    "segment",
    "session",
    "source",
    "tombstone",
    "turn",
    "vector",
    "work",
]

FORMAT = 1
"""Version of this schema; a memory of another version is refused."""

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", String, nullable=False),
)

content = Table(
    "content",
    metadata,
    Column("sha256", String, primary_key=True),
    Column("name", String, nullable=False),  # path of the file as it was given
    Column("format", String, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
)

source = Table(
    "source",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, index=True),
    Column("format", String, nullable=False),  # of the file, or "history" or "turns" for what came through the API
    Column("sha256", String, nullable=False, index=True),  # of its content; "" when it came through the API
    Column("ingested", Float, nullable=False),  # seconds since 1970
)

session = Table(
    "session",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("time", String, nullable=False),  # event time, ISO 8601, "" where unknown
)

turn = Table(
    "turn",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # ascends, never given twice
    Column("id", String, nullable=False, unique=True),
    Column("session", ForeignKey("session.number"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("speaker", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("time", String, nullable=False),
    Column("external_id", String, nullable=False),  # of one of its sources
    Column("content_hash", BigInteger, nullable=False),  # of the text: key of its vector
    Column("generation", Integer, nullable=False),  # of the memory, in which it was added
    UniqueConstraint("session", "ordinal"),
    Index("turn_by_external_id", "session", "external_id"),
    Index("turn_by_content", "content_hash"),
)

origin = Table(
    "origin",
    metadata,
    Column("source", ForeignKey("source.number"), primary_key=True),
    Column("turn", ForeignKey("turn.number"), primary_key=True, index=True),
    Column("external_id", String, nullable=False),  # in this source; the turn bears that of the first
    sqlite_with_rowid=False,
)

tombstone = Table(
    "tombstone",
    metadata,
    Column("source", String, primary_key=True),  # its id, a hash; the name is forgotten as well
    Column("sha256", String, nullable=False),
    Column("forgotten", Float, nullable=False),
    Column("erased", Float),  # when no byte was left in the files; null until then
)

segment = Table(
    "segment",
    metadata,
    Column("first", BigInteger, primary_key=True),  # numbers of its first and last turn
    Column("last", BigInteger, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

vector = Table(
    "vector",
    metadata,
    Column("encoder", String, primary_key=True),
    Column("content_hash", BigInteger, primary_key=True),
    Column("content", LargeBinary, nullable=False),  # float16
    sqlite_with_rowid=False,
)

work = Table(
    "work",
    metadata,
    Column("item", String, primary_key=True),  # id of a turn or session
    Column("step", String, primary_key=True),
    Column("program", String, primary_key=True),  # fingerprint
    Column("kind", String, nullable=False),  # "turn" or "session"
    Column("status", String, nullable=False),  # pending, running, done, failed
    Column("attempts", Integer, nullable=False),
    Column("error", String, nullable=False),
    Column("until", Float, nullable=False),  # when a running item is free again
    Index("work_by_status", "step", "program", "status"),
)

note = Table(
    "note",
    metadata,
    Column("item", String, primary_key=True),  # id of the turn
    Column("program", String, primary_key=True),
    Column("step", String, primary_key=True),
    Column("content", Text, nullable=False),  # JSON
    Column("number", BigInteger, nullable=False, server_default="0"),  # ascends: the order in which they were made
    Index("note_by_number", "number"),
)

memo = Table(
    "memo",
    metadata,
    Column("item", String, primary_key=True),  # id of the session
    Column("program", String, primary_key=True),
    Column("step", String, primary_key=True),
    Column("content", Text, nullable=False),  # JSON
    Column("number", BigInteger, nullable=False),  # ascends, likewise
    Index("memo_by_number", "number"),
)

folder = Table(
    "folder",
    metadata,
    Column("id", String, primary_key=True),
    Column("program", String, primary_key=True),
    Column("content", Text, nullable=False),  # JSON
    Column("number", BigInteger, nullable=False),  # ascends, likewise
)

label = Table(
    "label",
    metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),  # scope, event or entity
    Column("description", Text, nullable=False),
    Column("aliases", Text, nullable=False),  # JSON list
)

note_label = Table(
    "note_label",
    metadata,
    Column("label", String, primary_key=True),
    Column("item", String, primary_key=True),  # id of the turn
    Column("program", String, primary_key=True),
    sqlite_with_rowid=False,
)

label_event = Table(
    "label_event",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("label", String, nullable=False),
    Column("event", String, nullable=False),  # made, merged, renamed
    Column("detail", Text, nullable=False),
    Column("happened", Float, nullable=False),
)

replies = Table(
    "replies",
    metadata,
    Column("folder", String, primary_key=True),  # absolute path below which replies about this memory are kept
)
