"""Turns the terms of turns into BM25 postings: sealed segments that are read from disk, and a tail of the newest turns.

A library for BM25 has no way to add a document. Turns are therefore sealed in runs, and those behind the last run are
counted when a query comes. What ties documents together, how rare a term is and how long a turn is on average, is taken
over all of them at query time, so a turn scores the same in a segment as in the tail.
"""

import io
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lexical", "Postings", "Segment"]

K1, B = 0.9, 0.4  # specs: better than 1.5 and 0.75 on conversations, whose turns are short
_CHECKSUM = 4  # bytes

Ints = NDArray[np.int32]
Scores = NDArray[np.float32]


class Postings(NamedTuple):
    """Turns that hold a term, ascending, and the BM25 score of each."""

    positions: Ints
    scores: Scores

    def within(self, mask: NDArray[np.bool_]) -> "Postings":
        """Those of the turns of a mask."""
        inside = mask[self.positions]
        return Postings(self.positions[inside], self.scores[inside])


class _Found(NamedTuple):
    """Turns that hold a term, ascending, and how often each does."""

    positions: Ints
    counts: Ints


@dataclass(frozen=True)
class Segment:
    """Terms of a sealed run of turns; `lengths` is the number of terms of each turn.

    Term number t of the vocabulary owns `rows[bounds[t]:bounds[t + 1]]`, numbers of turns counted from the start of
    the run, and as many `counts`: how often the turn holds the term.
    """

    vocabulary: dict[str, int]
    lengths: Ints
    bounds: NDArray[np.int64]
    rows: Ints
    counts: Ints

    @classmethod
    def build(cls, documents: Sequence[Sequence[str]]) -> "Segment":
        """Seal the terms of a run of turns."""
        vocabulary: dict[str, int] = {}
        lengths = np.array([len(document) for document in documents], dtype=np.int32)
        numbers = (vocabulary.setdefault(term, len(vocabulary)) for term in chain.from_iterable(documents))
        terms = np.fromiter(numbers, dtype=np.int64, count=int(lengths.sum()))
        size = max(len(documents), 1)
        pairs, counts = np.unique(terms * size + np.repeat(np.arange(len(lengths)), lengths), return_counts=True)
        bounds = np.searchsorted(pairs, np.arange(len(vocabulary) + 1) * size)
        return cls(
            vocabulary, lengths, bounds.astype(np.int64), (pairs % size).astype(np.int32), counts.astype(np.int32)
        )

    @classmethod
    def joined(cls, parts: Sequence["Segment"]) -> "Segment":
        """What `build` would make of the turns of segments that lie one behind the other."""
        vocabulary: dict[str, int] = {}
        terms, rows, offset = [], [], 0
        for part in parts:
            numbers = [vocabulary.setdefault(term, len(vocabulary)) for term in part.vocabulary]
            terms.append(np.repeat(np.array(numbers, dtype=np.int64), np.diff(part.bounds)))
            rows.append(part.rows + np.int32(offset))
            offset += part.size
        owners = np.concatenate(terms)
        order = np.argsort(owners, kind="stable")  # turns of a term stay in order
        bounds = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(vocabulary)))])
        lengths, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "counts"))
        return cls(vocabulary, lengths, bounds.astype(np.int64), np.concatenate(rows)[order], counts[order])

    @property
    def size(self) -> int:
        """Number of turns."""
        return len(self.lengths)

    def found(self, term: str, offset: int) -> _Found:
        """Where a term stands, with `offset` added to the row numbers."""
        at = self.vocabulary.get(term)
        place = slice(0, 0) if at is None else slice(self.bounds[at], self.bounds[at + 1])
        return _Found(self.rows[place] + np.int32(offset), self.counts[place])

    def to_bytes(self) -> bytes:
        """A form for the disk; `from_bytes` checks it."""
        file = io.BytesIO()
        words = np.frombuffer("\n".join(self.vocabulary).encode(), dtype=np.uint8)
        np.savez(file, words=words, lengths=self.lengths, bounds=self.bounds, rows=self.rows, counts=self.counts)
        content = file.getvalue()
        return zlib.crc32(content).to_bytes(_CHECKSUM, "big") + content

    @classmethod
    def from_bytes(cls, content: bytes) -> "Segment":
        """Read what `to_bytes` wrote; raises ValueError when it was damaged."""
        checksum, content = content[:_CHECKSUM], content[_CHECKSUM:]
        if zlib.crc32(content).to_bytes(_CHECKSUM, "big") != checksum:
            raise ValueError("its checksum is another")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            words = file["words"].tobytes().decode()
            vocabulary = {word: number for number, word in enumerate(words.split("\n"))} if words else {}
            return cls(vocabulary, *(file[name] for name in ("lengths", "bounds", "rows", "counts")))


class _Counted(NamedTuple):
    """Terms of a turn in the tail, with their number."""

    counts: Counter[str]
    length: int


@dataclass(frozen=True)
class Lexical:
    """BM25 over sealed segments, one behind the other from position 0, and the tail behind them."""

    segments: tuple[Segment, ...] = ()
    tail: tuple[_Counted, ...] = ()

    def extended(self, documents: Iterable[Sequence[str]]) -> "Lexical":
        """With the terms of more turns in the tail."""
        return Lexical(self.segments, (*self.tail, *(_Counted(Counter(terms), len(terms)) for terms in documents)))

    @cached_property
    def sealed(self) -> int:
        """Number of turns in segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def size(self) -> int:
        """Number of turns."""
        return self.sealed + len(self.tail)

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """Number of terms of each turn, divided by the average."""
        tail = np.array([turn.length for turn in self.tail], dtype=np.int32)
        lengths = np.concatenate([*(segment.lengths for segment in self.segments), tail])
        return lengths / max(lengths.sum() / max(self.size, 1), 1)

    def postings(self, term: str, mask: NDArray[np.bool_] | None = None) -> Postings:
        """All turns that hold a term, or those of a mask, with the BM25 score that it gives them."""
        parts, offset = [], 0
        for segment in self.segments:
            parts.append(segment.found(term, offset))
            offset += segment.size
        positions, counts = map(np.concatenate, zip(*parts, self._found_in_tail(term), strict=True))
        rarity = _rarity(self.size, len(positions))
        if mask is not None:
            inside = mask[positions]
            positions, counts = positions[inside], counts[inside]
        saturated = counts / (counts + K1 * (1 - B + B * self._lengths[positions]))
        return Postings(positions, (saturated * rarity).astype(np.float32))

    def _found_in_tail(self, term: str) -> _Found:
        found = [(at, turn) for at, turn in enumerate(self.tail, self.sealed) if term in turn.counts]
        columns = [at for at, _ in found], [turn.counts[term] for _, turn in found]
        return _Found(*(np.array(column, dtype=np.int32) for column in columns))


def _rarity(documents: int, frequency: int) -> float:
    """Inverse document frequency as in Lucene."""
    return float(np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)))
