"""Turns the intent of a request into the turns to recall (STITCH section 3.6, "retrieval", made safe).

The paper ranks by label density and breaks ties by similarity. Wrong labels then push out what similarity would have
found, so here both rankings take turns: label density, weighted by how rare the labels are, and similarity, one each.
Facets whose labels are put on by chance do not count. A label never excludes a turn.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.intents.structure import TRUSTED
from stitchjam.data.records import Filter, Turn
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens

__all__ = ["Limits", "Matched", "Ranked", "match_intent"]

By = Literal["intent", "similarity"]


@dataclass(frozen=True)
class Ranked:
    """A turn in the order of recall: why it is there, what of the intent it bears, and whether it was taken."""

    turn: Turn
    by: By
    facets: tuple[Facet, ...]
    density: float
    similarity: float
    tokens: int
    taken: bool


@dataclass(frozen=True)
class Limits:
    """How much is recalled: at most `k` turns, of at most so many tokens of "speaker: text", as CAME-Bench counts.

    A turn that does not fit is left out, and smaller ones behind it may still fit. `trusted`: from which structure on
    labels count; see `structure.py`. 0 trusts all. `alone`: label density ranks alone, as in the paper.
    """

    k: int = 40
    tokens: int = 4096
    trusted: float = TRUSTED
    alone: bool = False


@dataclass(frozen=True)
class Matched:
    """Turns in the order of recall, and what was done with each facet of the intent, in words."""

    ranked: tuple[Ranked, ...]
    facets: dict[Facet, str]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns taken, best first."""
        return tuple(one.turn for one in self.ranked if one.taken)


def match_intent(
    request: str,
    intent: Intent,
    store: Store,
    limits: Limits = Limits(),
    without: Collection[Facet] = (),
) -> Matched:
    """The turns that fit a request and its intent.

    Args:
        request: the words that similarity goes by.
        intent: the labels that it goes by; they are labels of `store.notebook`.
        store: where.
        limits: how much is recalled.
        without: facets that do not count.
    """
    similarity = store.index.score(request).turns
    masks, said = _masks(intent, store, without, limits.trusted)
    density = np.zeros(len(similarity), np.float32)
    for mask in masks.values():
        density += np.float32(-math.log(mask.mean())) * mask
    order = list(islice(_order(density, similarity, limits.alone), 2 * limits.k))
    turns = store.turns_at(at for at, _ in order)
    ranked, left, room = [], limits.tokens, limits.k
    for at, by in order:
        turn = turns.get(at)
        if turn is None or not room:
            continue
        cost = count_tokens(f"{turn.speaker}: {turn.text}") + 1
        taken = cost <= left
        left, room = left - cost * taken, room - taken
        borne: tuple[Facet, ...] = tuple(facet for facet in FACETS if facet in masks and masks[facet][at])
        ranked.append(Ranked(turn, by, borne, float(density[at]), float(similarity[at]), cost, taken))
    return Matched(tuple(ranked), said)


def _masks(
    intent: Intent, store: Store, without: Collection[Facet], trusted: float
) -> tuple[dict[Facet, NDArray[np.bool_]], dict[Facet, str]]:
    """Turns that bear a label of the intent, for each facet that tells turns apart."""
    masks, said = {}, {}
    for facet in FACETS:
        labels = intent.of(facet)
        if facet in without:
            said[facet] = "switched off"
        elif not labels:
            said[facet] = "not determined by the request"
        elif store.notebook.structure[facet] < trusted:
            said[facet] = "its labels are no better than chance in this memory, so they do not count"
        else:
            mask = bearing(store, labels)
            count = int(mask.sum())
            if 0 < count < len(mask):
                masks[facet] = mask
                said[facet] = f"{count} of {len(mask)} turns bear it"
            else:
                said[facet] = "no turn bears it" if not count else "all turns bear it"
    return masks, said


def bearing(store: Store, labels: Collection[str]) -> NDArray[np.bool_]:
    """Which turns bear one of these labels, by position."""
    known = [one for one in labels if store.notebook.bearers([one])]
    mask = store.mask(Filter(labels=known)) if known else None
    return np.zeros(store.size, dtype=bool) if mask is None else mask


def _order(density: NDArray[np.float32], similarity: NDArray[np.float32], alone: bool) -> Iterator[tuple[int, By]]:
    """Positions by label density (ties by similarity) and by similarity, one each in turns, each once.

    `alone`: first all that have a label of the intent, then the others.
    """
    alike = iter(np.argsort(-similarity, kind="stable").tolist())
    by_label = (at for at in np.lexsort((-similarity, -density)).tolist() if density[at] > 0)
    seen: set[int] = set()
    ways: list[tuple[Iterator[int], By]] = [(by_label, "intent"), (alike, "similarity")]
    while ways:
        for way in list(ways[:1] if alone else ways):
            at = next((one for one in way[0] if one not in seen), None)
            if at is None:
                ways.remove(way)
            else:
                seen.add(at)
                yield at, way[1]
