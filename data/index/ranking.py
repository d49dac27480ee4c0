"""Turns a query into one score a turn and one a session, from terms, meaning, and the speaker it names.

What was measured to work on conversations (specs/retrieval.md), each part of it kept exact and cheap:
- a turn is found by its own words and by those of the two turns before and after it, and returned alone;
- names of speakers are cut from what the encoder sees, since they pull all turns of a person alike;
- both scores are divided by the best one under the filter and added, which beats fusing ranks.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.index.columns import Columns, Mask, Place
from stitchjam.data.index.encoders import Encoder
from stitchjam.data.index.lexical import Lexical, Postings
from stitchjam.data.index.terms import terms
from stitchjam.data.index.vectors import Vectors

__all__ = ["BM25", "DENSE", "Entry", "Index", "LEXICAL", "Scored", "Weights", "top_k"]

Scores = NDArray[np.float32]
_LONGEST_QUERY = 256  # terms: each costs a pass over the turns
# Names that tell a role, not a person; as words of a question they mean something else.
_ROLES = frozenset({"agent", "assistant", "developer", "document", "environment", "function", "system", "tool", "user"})


@dataclass(frozen=True)
class Weights:
    """How the parts of a score are weighed. Chosen on LoCoMo; `stitchjam eval --system search` chooses them anew.

    `lexical` is the share of BM25, the rest is the encoder's. A word found one (`near`) or two turns away (`far`)
    counts for that much; `beside` is the weight of the similarity of the turns before and after. `speaker` is added
    to turns of the one speaker whom the question names.
    """

    lexical: float = 0.55
    near: float = 0.7
    far: float = 0.5
    beside: float = 0.4
    speaker: float = 0.1


BM25 = Weights(lexical=1, near=0, far=0, beside=0, speaker=0)  # a turn's own words and nothing else
LEXICAL, DENSE = Weights(lexical=1, beside=0), Weights(lexical=0)  # the search of this package without its other half


@dataclass(frozen=True)
class Entry:
    """What the index needs to know of a turn: where it stands, and its words with their speaker."""

    place: Place
    text: str

    @property
    def terms(self) -> list[str]:
        """Terms of the words and the speaker."""
        return terms(f"{self.place.speaker} {self.text}")


@dataclass(frozen=True)
class Scored:
    """Scores of one query: `turns` of shape [turns], `sessions` of shape [sessions]; 0 where nothing was found."""

    turns: Scores
    _places: NDArray[np.int32]  # number of each turn's session
    _found: list[Postings]

    @cached_property
    def sessions(self) -> Scores:
        """How well a session covers the terms of the query, plus its best turn, both divided by the best one."""
        count = self._places.max(initial=-1) + 1
        cover, best = np.zeros(count, np.float32), np.zeros(count, np.float32)
        for positions, scores in self._found:
            term = np.zeros(count, np.float32)
            np.maximum.at(term, self._places[positions], scores)
            cover += term
        np.maximum.at(best, self._places, self.turns)
        return _scaled(cover) + _scaled(best)


@dataclass(frozen=True)
class Index:
    """Everything that search knows of some turns; never changed after building, so threads may share it."""

    encoder: Encoder | None = None
    columns: Columns = field(default_factory=Columns)
    lexical: Lexical = field(default_factory=Lexical)
    vectors: Vectors = field(default_factory=Vectors)
    weights: Weights = Weights()

    def extended(self, entries: list[Entry], vectors: NDArray[np.float32] | None = None) -> "Index":
        """With more turns behind; their vectors are made here when they are not given."""
        if not entries:
            return self
        if vectors is None and self.encoder is not None:
            vectors = self.encoder.encode([entry.text for entry in entries])
        return replace(
            self,
            columns=self.columns.extended(*zip(*(entry.place for entry in entries), strict=True)),
            lexical=self.lexical.extended(entry.terms for entry in entries),
            vectors=self.vectors if vectors is None else self.vectors.extended(vectors),
        )

    def score(self, query: str, mask: Mask | None = None) -> Scored:
        """Score all turns and sessions for a query.

        Args:
            query: words to look for; BM25 takes the first 256 different ones.
            mask: one boolean a turn; others score 0. It acts first: scores are relative to the best one under it.
        """
        near = None if mask is None else self.columns.widened(mask, 2)  # what can be in a window of the mask
        wanted = islice(dict.fromkeys(terms(query)), _LONGEST_QUERY)
        found = [self.lexical.postings(term, near) for term in wanted]
        windows = self._windows(found)
        lexical = _scaled(windows if mask is None else windows * mask)
        dense = _scaled(self._similarities(query, mask))
        share = self.weights.lexical if dense.any() else 1.0
        turns = np.float32(share) * lexical + np.float32(1 - share) * dense
        named = self._named(query)
        if named is not None:
            turns += np.float32(self.weights.speaker) * ((self.columns.speakers == named) & (turns > 0))
        if mask is not None:
            found = [postings.within(mask) for postings in found]
        return Scored(turns, self.columns.sessions, found)

    def _windows(self, found: list[Postings]) -> Scores:
        """Sum over terms of the best score that a turn or, at a discount, one of the turns around it has."""
        total, best = np.zeros(self.columns.size, np.float32), np.zeros(self.columns.size, np.float32)
        for postings in found:
            best[postings.positions] = postings.scores
            for step in (-1, 1):
                positions, scores = postings
                for weight in (self.weights.near, self.weights.far):
                    positions = self.columns.hop(positions, step)
                    there = positions >= 0
                    positions, scores = positions[there], scores[there]
                    # A hop never meets a position twice.
                    best[positions] = np.maximum(best[positions], scores * np.float32(weight))
            total += best
            best[:] = 0
        return total

    def _similarities(self, query: str, mask: Mask | None) -> Scores:
        if self.encoder is None or not self.columns.size:
            return np.zeros(self.columns.size, np.float32)
        vector = self.encoder.encode_query(self._without_names(query))
        before, after, beside = self.columns.before, self.columns.after, np.float32(self.weights.beside)
        if mask is None:
            own = np.append(self.vectors.similarities(vector), np.float32(0))  # position -1 scores 0
            return np.maximum(own[:-1] + beside * (own[before] + own[after]), 0)
        rows, near = np.flatnonzero(mask), np.flatnonzero(self.columns.widened(mask, 1))
        own = np.append(self.vectors.similarities(vector, near), np.float32(0))
        scores = np.zeros(self.columns.size, np.float32)
        scores[rows] = np.maximum(own[rows] + beside * (own[before[rows]] + own[after[rows]]), 0)
        return scores

    @cached_property
    def _people(self) -> dict[str, set[int]]:
        """Numbers of the speakers that bear a name, by each word of their names."""
        people: dict[str, set[int]] = {}
        for name, number in self.columns.speaker_names.items():
            if name.partition(":")[0].casefold() not in _ROLES:
                for word in filter(terms, re.findall(r"\w{2,}", name)):  # a stop word such as "will" names no one
                    people.setdefault(word.casefold(), set()).add(number)
        return people

    def _named(self, query: str) -> int | None:
        """The one speaker whom the query names, if it is one."""
        words = (word.casefold() for word in re.findall(r"\w+", query))
        named: set[int] = set().union(*(self._people.get(word, ()) for word in words))
        return named.pop() if len(named) == 1 else None

    def _without_names(self, query: str) -> str:
        return re.sub(r"(\w+)(['’]s\b)?", lambda found: "" if self._is_name(found[1]) else found[0], query)

    def _is_name(self, word: str) -> bool:
        return word.casefold() in self._people


def top_k(scores: Scores, k: int) -> list[tuple[int, float]]:
    """At most `k` pairs of position and score above 0, best first, equal scores by position."""
    hits = np.flatnonzero(scores > 0)
    if k <= 0 or not len(hits):
        return []
    values = scores[hits]
    if len(hits) > k:  # sort only what can be among the best: at 100k turns this is most of the time
        hits = hits[values >= np.partition(values, -k)[-k]]
    best = hits[np.argsort(-scores[hits], kind="stable")][:k]
    return [(int(position), float(scores[position])) for position in best]


def _scaled(scores: Scores) -> Scores:
    best = scores.max(initial=0)
    return scores / best if best > 0 else np.zeros_like(scores)
