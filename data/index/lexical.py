"""Turns the terms of turns into BM25 postings: sealed segments built by bm25s, and a tail of the newest turns.

bm25s has no way to add a document. Turns are therefore sealed in runs, and those behind the last run are counted when
a query comes. The statistics that tie documents together, how rare a term is and how long a turn is on average, are
taken over all of them at query time, so a turn scores the same in a segment as in the tail.
"""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.index.terms import bm25s

__all__ = ["Lexical", "Postings", "Segment"]

K1, B = 0.9, 0.4  # specs: better than 1.5 and 0.75 on conversations, whose turns are short

Positions = NDArray[np.int32]
Scores = NDArray[np.float32]


class Postings(NamedTuple):
    """Turns that hold a term, ascending, and the BM25 score of each."""

    positions: Positions
    scores: Scores


@dataclass(frozen=True)
class Segment:
    """Postings of a sealed run of turns.

    Term number t of the vocabulary owns `rows[bounds[t]:bounds[t + 1]]`, numbers of turns counted from the start of
    the run, and as many `values`: term frequencies after saturation and length, from 0 to 1, before the weight of
    rarity.
    """

    size: int
    mean_length: float
    vocabulary: dict[str, int]
    bounds: NDArray[np.int64]
    rows: Positions
    values: Scores

    @classmethod
    def build(cls, documents: Sequence[Sequence[str]]) -> "Segment":
        """Seal the terms of a run of turns."""
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in document] for document in documents]
        length = sum(map(len, ids)) / max(len(ids), 1)
        if not vocabulary:  # bm25s raises on an empty corpus and on an empty vocabulary
            return cls(len(ids), length, vocabulary, *_no_postings())
        model = bm25s().BM25(k1=K1, b=B, backend="numpy", csc_backend="numpy")
        model.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        bounds, rows = model.scores["indptr"].astype(np.int64), model.scores["indices"].astype(np.int32)
        frequencies = np.diff(bounds)
        rarity = np.repeat(_rarity(len(ids), frequencies), frequencies)
        return cls(len(ids), length, vocabulary, bounds, rows, (model.scores["data"] / rarity).astype(np.float32))

    def frequency(self, term: str) -> int:
        """Number of turns that hold the term."""
        at = self.vocabulary.get(term)
        return 0 if at is None else int(self.bounds[at + 1] - self.bounds[at])

    def postings(self, term: str, offset: int) -> Postings:
        """The postings of a term, unweighted, with `offset` added to the row numbers."""
        at = self.vocabulary.get(term)
        place = slice(0, 0) if at is None else slice(self.bounds[at], self.bounds[at + 1])
        return Postings(self.rows[place] + np.int32(offset), self.values[place])

    def to_bytes(self) -> bytes:
        """A form for the disk; `from_bytes` checks it."""
        file = io.BytesIO()
        words = np.frombuffer("\n".join(self.vocabulary).encode(), dtype=np.uint8)
        shape = np.array([self.size, self.mean_length], dtype=np.float64)
        np.savez(file, shape=shape, words=words, bounds=self.bounds, rows=self.rows, values=self.values)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Segment":
        """Read what `to_bytes` wrote; raises ValueError or zipfile.BadZipFile when it was damaged."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            words = file["words"].tobytes().decode()
            vocabulary = {word: number for number, word in enumerate(words.split("\n"))} if words else {}
            size, length = file["shape"].tolist()
            return cls(int(size), length, vocabulary, file["bounds"], file["rows"], file["values"])


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
    def _mean_length(self) -> float:
        total = sum(segment.size * segment.mean_length for segment in self.segments)
        return (total + sum(turn.length for turn in self.tail)) / max(self.size, 1)

    def postings(self, term: str) -> Postings:
        """All turns that hold a term, with the BM25 score that it gives them."""
        parts, offset = [], 0
        for segment in self.segments:
            parts.append(segment.postings(term, offset))
            offset += segment.size
        parts.append(self._tail_postings(term))
        positions = np.concatenate([part.positions for part in parts])
        weight = _rarity(self.size, np.array(len(positions)))
        return Postings(positions, np.concatenate([part.scores for part in parts]) * np.float32(weight))

    def _tail_postings(self, term: str) -> Postings:
        found = [(at, turn) for at, turn in enumerate(self.tail, self.sealed) if term in turn.counts]
        counts = np.array([turn.counts[term] for _, turn in found], dtype=np.float32)
        lengths = np.array([turn.length for _, turn in found], dtype=np.float32)
        # The segments keep the average length they were sealed with; newer turns are measured against all.
        saturated = counts / (counts + K1 * (1 - B + B * lengths / max(self._mean_length, 1)))
        return Postings(np.array([at for at, _ in found], dtype=np.int32), saturated.astype(np.float32))


def _rarity(documents: int, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Inverse document frequency as in Lucene, which bm25s uses as well."""
    return np.log(1 + (documents - frequencies + 0.5) / (frequencies + 0.5))


def _no_postings() -> tuple[NDArray[np.int64], Positions, Scores]:
    return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
