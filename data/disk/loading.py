"""Turns rows of the database into the arrays that a shelf keeps in memory: places, terms and vectors of turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import chunked, get
from stitchjam.data.disk.refresh import read_segment, segments
from stitchjam.data.index.columns import Mask
from stitchjam.data.index.encoders import Encoder, open_encoder
from stitchjam.data.index.lexical import Lexical, Segment
from stitchjam.data.index.ranking import Index
from stitchjam.data.index.terms import terms
from stitchjam.data.times import seconds

__all__ = ["Loaded", "load", "places_of"]

_ROWS = 500  # that are read at once: more objects would have Python's garbage collector go through all there are


@dataclass(frozen=True)
class Loaded:
    """What was read of a database so far; a later state is read on top of it as long as nothing was forgotten.

    `numbers` gives the number of the turn at each position; `sealed` holds the segments in use, by first and last turn.
    """

    epoch: int = -1
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    index: Index = field(default_factory=Index)
    sealed: Mapping[tuple[int, int], Segment] = field(default_factory=dict)


def load(db: Connection, generation: int, before: Loaded) -> Loaded:
    """The turns up to a generation, read on top of what was read before."""
    epoch, encoder = int(get(db, "epoch")), open_encoder(get(db, "encoder"))
    if before.epoch != epoch:  # something was forgotten, or the encoder is another
        before = Loaded(epoch, index=Index(encoder))
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
    return Loaded(epoch, numbers, index, sealed)


def _load_turns(db: Connection, generation: int, before: Loaded) -> list[list[Any]]:
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
        at, there = places_of(distinct, np.array([key for key, _ in rows], dtype=np.int64))
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


def places_of(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], Mask]:
    """Places in `known`, which ascends, of the wanted that are there, and which of the wanted these are."""
    at = np.searchsorted(known, wanted)
    there = at < len(known)
    there[there] = known[at[there]] == wanted[there]
    return at[there], there


def _load_segments(db: Connection, before: Loaded, numbers: NDArray[np.int64]) -> dict[tuple[int, int], Segment]:
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
    db: Connection, before: Loaded, sealed: Mapping[tuple[int, int], Segment], numbers: NDArray[np.int64]
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
