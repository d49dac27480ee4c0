"""Turns names that a model gives into canonical labels: one id for what means the same, and shortlists of a few."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.index.encoders import Encoder
from stitchjam.data.intents.records import FACETS, Facet, Label, Merge
from stitchjam.data.text import normalise

__all__ = ["LabelBank", "Twins", "same_numbers"]

_GROWTH = 64
Twins = tuple[Label, Label, float]


class _Vectors:
    """One vector a label, by the order in which they came; rows can be rewritten when what is known of one changes."""

    def __init__(self, encoder: Encoder | None, query: Callable[[str], NDArray[np.float32]]):
        self.encoder, self.query = encoder, query
        self.rows: dict[str, int] = {}
        self.ids: list[str] = []
        self.block = np.zeros((0, encoder.dim if encoder else 1), np.float32)
        self.live = np.zeros(0, bool)

    def put(self, label_id: str, text: str) -> None:
        """Set the vector of a label."""
        row = self.rows.setdefault(label_id, len(self.rows))
        if row == len(self.ids):
            self.ids.append(label_id)
        if row == len(self.block):
            more = max(_GROWTH, len(self.block))
            self.block = np.concatenate([self.block, np.zeros((more, self.block.shape[1]), np.float32)])
            self.live = np.concatenate([self.live, np.zeros(more, bool)])
        self.live[row] = True
        if self.encoder is not None:
            self.block[row] = self.encoder.encode([text])[0]

    def drop(self, label_id: str) -> None:
        """Leave a label out from now on."""
        self.live[self.rows[label_id]] = False

    def alike(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Similarity of each label to a vector, -1 for those left out; shape [labels]."""
        size = len(self.ids)
        found = self.block[:size] @ vector if self.encoder else np.zeros(size, np.float32)
        return np.where(self.live[:size], found, np.float32(-1))

    def nearest(self, text: str, k: int) -> list[tuple[str, float]]:
        """Ids of the most similar labels with their similarity, best first."""
        if not self.ids or self.encoder is None or k < 1:
            return []
        scores = self.alike(self.query(text))
        best = np.argsort(-scores, kind="stable")[:k]
        return [(self.ids[at], float(scores[at])) for at in best if self.live[at]]


class LabelBank:
    """The labels of a memory: canonical ids, aliases, how often each was used and when last.

    Args:
        encoder: what nearness goes by; None: names alone, and the recent ones.
    """

    def __init__(self, encoder: Encoder | None = None):
        self.encoder = encoder
        self.labels: dict[str, Label] = {}
        self.counts: Counter[str] = Counter()
        self.gists: dict[str, str] = {}
        self._into: dict[str, str] = {}
        self._aliases: dict[tuple[Facet, str], str] = {}
        # A turn is compared with the labels of all facets, and then with single ones.
        query = lru_cache(maxsize=8)(encoder.encode_query) if encoder else _no_vector
        self._vectors = {facet: _Vectors(encoder, query) for facet in FACETS}
        self._recent: dict[Facet, dict[str, None]] = {facet: {} for facet in FACETS}
        self._fresh: dict[Facet, dict[str, None]] = {facet: {} for facet in FACETS}

    def canonical(self, label_id: str) -> str:
        """The id that a label is known by now, after merges."""
        while label_id in self._into:
            label_id = self._into[label_id]
        return label_id

    def live(self, facet: Facet) -> list[Label]:
        """Labels of a facet that were not merged into others, in the order in which they were made."""
        return [label for label in self.labels.values() if label.facet == facet and label.id not in self._into]

    def name(self, label_id: str) -> str:
        """The name of a label, "" when there is none of that id."""
        label = self.labels.get(self.canonical(label_id))
        return label.name if label else ""

    def aliases(self, label_id: str) -> tuple[str, ...]:
        """Names of the labels that were merged into one."""
        merged = [old for old in self._into if self.canonical(old) == label_id]
        return tuple(self.labels[old].name for old in merged if old in self.labels)

    def find(self, facet: Facet, name: str) -> Label | None:
        """The label of that name or alias; case, punctuation and articles do not count."""
        found = self._aliases.get((facet, _key(name)))
        return self.labels[self.canonical(found)] if found else None

    def nearest(self, facet: Facet, text: str, k: int = 1) -> list[tuple[Label, float]]:
        """Labels that are most like a text, with their similarity from -1 to 1, best first."""
        return [(self.labels[one], score) for one, score in self._vectors[facet].nearest(text, k)]

    def similarity(self, label_id: str, text: str) -> float:
        """How alike a label and a text are, from -1 to 1; 0 without an encoder."""
        vectors = self._vectors[self.labels[label_id].facet]
        if vectors.encoder is None:
            return 0.0
        return float(vectors.block[vectors.rows[label_id]] @ vectors.query(text))

    def shortlist(self, facet: Facet, text: str, k: int, first: Iterable[str] = ()) -> list[Label]:
        """At most `k` labels to choose from: the given ones, then by turns the nearest to a text and the most recent.

        Where there are no more than `k`, all of them, in the order in which they were made.
        """
        if self._live_count(facet) <= k:
            known = self.live(facet)
            ahead = [self.canonical(one) for one in first]
            return sorted(known, key=lambda label: ahead.index(label.id) if label.id in ahead else len(ahead))
        chosen = dict.fromkeys(self.canonical(one) for one in first if one in self.labels)
        near = iter([label.id for label, _ in self.nearest(facet, text, k)])
        recent = iter(list(islice(reversed(self._recent[facet]), k)))
        while len(chosen) < k:
            pair = [next(near, None), next(recent, None)]
            if pair == [None, None]:
                break
            chosen |= dict.fromkeys(one for one in pair if one)
        order = self._vectors[facet].rows
        shown = [self.labels[one] for one in list(chosen)[:k]]
        # Scopes: the likely ones ahead. Types: always in one order, so that prefix caches of models hold.
        return shown if facet == "scope" else sorted(shown, key=lambda label: order[label.id])

    def add(self, label: Label) -> None:
        """Make a label known."""
        self.labels[label.id] = label
        self._aliases.setdefault((label.facet, _key(label.name)), label.id)
        self._vectors[label.facet].put(label.id, _words(label, ""))
        self._fresh[label.facet][label.id] = None

    def use(self, label_id: str, gist: str = "") -> None:
        """Count one use; a new gist of a scope changes what is near to it."""
        label = self.labels[self.canonical(label_id)]
        self.counts[label.id] += 1
        recent = self._recent[label.facet]
        recent.pop(label.id, None)
        recent[label.id] = None
        if gist and gist != self.gists.get(label.id):
            self.gists[label.id] = gist
            self._vectors[label.facet].put(label.id, _words(label, gist))

    def merge(self, merge: Merge) -> None:
        """Let one label stand for another from now on; its uses count for that one."""
        old, into = self.canonical(merge.old), self.canonical(merge.into)
        if old == into:
            return
        self._into[old] = into
        self.counts[into] += self.counts.pop(old, 0)
        if old in self.labels:  # else the turn that it was made for is forgotten
            facet = self.labels[old].facet
            self._recent[facet].pop(old, None)
            self._vectors[facet].drop(old)

    def twins(self, facet: Facet, least: float, k: int) -> list[Twins]:
        """Pairs of labels that may mean the same, the most similar first: one of each is new since the last time.

        Args:
            facet: of which labels.
            least: similarity from which on they may.
            k: at most so many pairs; no label is in two.
        """
        pairs, taken = [], set[str]()
        for older, newer, score in sorted(self._alike(facet, least), key=lambda pair: -pair[2]):
            if not taken & {older.id, newer.id}:
                taken |= {older.id, newer.id}
                pairs.append((older, newer, score))
        return pairs[:k]

    def checked(self) -> None:
        """All labels made so far were compared with the others."""
        for fresh in self._fresh.values():
            fresh.clear()

    def _alike(self, facet: Facet, least: float) -> Iterator[Twins]:
        vectors = self._vectors[facet]
        if vectors.encoder is None:
            return
        for fresh in [one for one in self._fresh[facet] if one not in self._into]:
            row = vectors.rows[fresh]
            scores = vectors.alike(vectors.block[row])
            scores[row] = -1
            at = int(np.argmax(scores))
            if scores[at] >= least and same_numbers(self.labels[vectors.ids[at]].name, self.labels[fresh].name):
                pair = sorted((vectors.ids[at], fresh), key=lambda one: vectors.rows[one])
                yield self.labels[pair[0]], self.labels[pair[1]], float(scores[at])

    def _live_count(self, facet: Facet) -> int:
        vectors = self._vectors[facet]
        return int(vectors.live[: len(vectors.ids)].sum())


def same_numbers(one: str, other: str) -> bool:
    """Whether two names hold the same numbers: "day 1" and "day 2" are alike to an encoder, and are not the same."""
    return re.findall(r"\d+", one) == re.findall(r"\d+", other)


def _no_vector(text: str) -> NDArray[np.float32]:
    return np.zeros(1, np.float32)


def _key(name: str) -> str:
    return normalise(name) or name.strip()  # a name of signs alone is that


def _words(label: Label, gist: str) -> str:
    return ". ".join(filter(None, (label.name, label.description, gist)))
