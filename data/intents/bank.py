"""Turns names that a model gives into canonical labels: one id for what means the same, and shortlists of a few."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.index.encoders import Encoder
from stitchjam.data.intents.records import FACETS, Facet, Label, Merge
from stitchjam.data.text import name_key

__all__ = ["LabelBank", "Twins", "same_numbers"]

_GROWTH = 64
_LOOKED_AT = 32  # labels among which the twin of one is looked for: those before it may differ in a number
Twins = tuple[Label, Label, float]


class _Vectors:
    """One vector a label, by the order in which they came; rows can be rewritten when what is known of one changes.

    A vector is made when it is first needed: in a notebook that is read from disk most gists were replaced long ago.
    """

    def __init__(self, encoder: Encoder | None, query: Callable[[str], NDArray[np.float32]]):
        self.encoder, self.query = encoder, query
        self.rows: dict[str, int] = {}
        self.ids: list[str] = []
        self.live = np.zeros(0, bool)
        self._block = np.zeros((0, encoder.dim if encoder else 1), np.float32)
        self._texts: dict[int, str] = {}  # of rows whose vector is still to be made

    def put(self, label_id: str, text: str) -> None:
        """Set the vector of a label."""
        row = self.rows.setdefault(label_id, len(self.rows))
        if row == len(self.ids):
            self.ids.append(label_id)
        if row == len(self.live):
            self.live = np.concatenate([self.live, np.zeros(max(_GROWTH, row), bool)])
        self.live[row] = True
        if self.encoder is not None:
            self._texts[row] = text

    def drop(self, label_id: str) -> None:
        """Leave a label out from now on."""
        if label_id in self.rows:
            self.live[self.rows[label_id]] = False

    def known(self) -> list[str]:
        """Ids of those that are not left out, in the order in which they came."""
        return [self.ids[row] for row in np.flatnonzero(self.live[: len(self.ids)])]

    def block(self) -> NDArray[np.float32]:
        """The vectors, shape [labels, dim]."""
        size = len(self.ids)
        if size > len(self._block):
            more = np.zeros((max(size, 2 * len(self._block)) - len(self._block), self._block.shape[1]), np.float32)
            self._block = np.concatenate([self._block, more])
        if self._texts and self.encoder is not None:
            self._block[list(self._texts)] = self.encoder.encode(list(self._texts.values()))
            self._texts = {}
        return self._block[:size]

    def alike(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Similarity of each label to a vector, -1 for those left out; shape [labels]."""
        return np.where(self.live[: len(self.ids)], self.block() @ vector, np.float32(-1))

    def nearest(self, text: str, k: int) -> list[tuple[str, float]]:
        """Ids of the most similar labels with their similarity, best first."""
        if not self.ids or self.encoder is None or k < 1:
            return []
        scores = self.alike(self.query(text))
        least = np.partition(scores, -k)[-k] if k < len(scores) else np.float32(-1)
        places = np.flatnonzero(scores >= least)  # sorting a few, not all, halves the time
        best = places[np.argsort(-scores[places], kind="stable")][:k]
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
        passed = []
        while label_id in self._into:
            passed.append(label_id)
            label_id = self._into[label_id]
        for one in passed[:-1]:  # a long chain is walked once
            self._into[one] = label_id
        return label_id

    def live(self, facet: Facet) -> list[Label]:
        """Labels of a facet that were not merged into others, in the order in which they were made."""
        return [self.labels[one] for one in self._vectors[facet].known()]

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
        found = self._aliases.get((facet, name_key(name)))
        return self.labels[self.canonical(found)] if found else None

    def nearest(self, facet: Facet, text: str, k: int = 1) -> list[tuple[Label, float]]:
        """Labels that are most like a text, with their similarity from -1 to 1, best first."""
        return [(self.labels[one], score) for one, score in self._vectors[facet].nearest(text, k)]

    def similarity(self, label_id: str, text: str) -> float:
        """How alike a label and a text are, from -1 to 1; 0 without an encoder."""
        vectors = self._vectors[self.labels[label_id].facet]
        if vectors.encoder is None:
            return 0.0
        return float(vectors.block()[vectors.rows[label_id]] @ vectors.query(text))

    def shortlist(self, facet: Facet, text: str, k: int, first: Iterable[str] = ()) -> list[Label]:
        """At most `k` labels to choose from: the given ones, then by turns the nearest to a text and the most recent.

        Where there are no more than `k`, all of them, in the order in which they were made.
        """
        order, ahead = self._vectors[facet].rows, [self.canonical(one) for one in first]
        if self._live_count(facet) <= k:
            known = self.live(facet)
            return sorted(known, key=lambda label: ahead.index(label.id) if label.id in ahead else len(ahead))
        near = [label.id for label, _ in self.nearest(facet, text, k)]
        recent = list(islice(reversed(self._recent[facet]), k))
        turns = chain.from_iterable(zip_longest(near, recent))
        chosen = dict.fromkeys(one for one in chain(ahead, turns) if one in order)
        if len(chosen) < k:  # without an encoder, before any was used
            chosen |= dict.fromkeys(self._vectors[facet].known())
        shown = [self.labels[one] for one in list(chosen)[:k]]
        # Scopes: the likely ones ahead. Types: always in one order, so that prefix caches of models hold.
        return shown if facet == "scope" else sorted(shown, key=lambda label: order[label.id])

    def add(self, label: Label) -> None:
        """Make a label known."""
        self.labels[label.id] = label
        self._aliases.setdefault((label.facet, name_key(label.name)), label.id)
        if label.id not in self._into:  # else it is made again, after what made it first was forgotten
            self._vectors[label.facet].put(label.id, _words(label, self.gists.get(label.id, "")))
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
        """Let one label stand for another from now on; its uses count for that one.

        When the other one is not known, since the turn that it was made for is forgotten, nothing changes.
        """
        old, into = self.canonical(merge.old), self.labels.get(self.canonical(merge.into))
        if into is None or old == into.id or (old in self.labels and self.labels[old].facet != into.facet):
            return
        self._into[old] = into.id
        self.counts[into.id] += self.counts.pop(old, 0)
        self._recent[into.facet].pop(old, None)
        self._vectors[into.facet].drop(old)

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
            row, name = vectors.rows[fresh], self.labels[fresh].name
            scores = vectors.alike(vectors.block()[row])
            near = np.flatnonzero((scores >= least) & vectors.live[: len(scores)])
            for at in near[np.argsort(-scores[near], kind="stable")][:_LOOKED_AT]:
                if at != row and same_numbers(self.labels[vectors.ids[at]].name, name):
                    older, newer = (self.labels[vectors.ids[one]] for one in sorted((int(at), row)))
                    yield older, newer, float(scores[at])
                    break

    def _live_count(self, facet: Facet) -> int:
        vectors = self._vectors[facet]
        return int(vectors.live[: len(vectors.ids)].sum())


def same_numbers(one: str, other: str) -> bool:
    """Whether two names hold the same numbers: "day 1" and "day 2" are alike to an encoder, and are not the same."""
    return re.findall(r"\d+", one) == re.findall(r"\d+", other)


def _no_vector(text: str) -> NDArray[np.float32]:
    return np.zeros(1, np.float32)


def _words(label: Label, gist: str) -> str:
    return ". ".join(filter(None, (label.name, label.description, gist)))
