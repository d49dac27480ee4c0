"""Turns the intent of a request into the turns to recall (STITCH section 3.6, "retrieval", made safe).

The paper ranks by label density and breaks ties by similarity. Wrong labels then push out what similarity would have
found, so here both rankings take turns: label density, weighted by how rare the labels are, and similarity, one each.
Facets whose labels are put on by chance do not count. A label never excludes a turn.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.intents.structure import TRUSTED
from stitchjam.data.records import Filter, Turn
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens

__all__ = ["By", "LeftOut", "Limits", "Matched", "Ranked", "Standing", "match_intent", "spoken", "standing"]

_NO_ORDER = "its labels are no better than chance in this memory"
_TOO_FEW = "too few turns have a label, or all the same"
By = Literal["intent", "similarity"]
LeftOut = Literal["", "tokens", "k"]  # taken; did not fit the budget; `k` turns were taken before it
_LOOKED_AT = 50  # turns at least among which those that fit are looked for


@dataclass(frozen=True)
class Ranked:
    """A turn in the order of recall: why it is there, what of the intent it bears, and why it was not taken if so."""

    turn: Turn
    by: By
    facets: tuple[Facet, ...]
    density: float
    similarity: float
    tokens: int
    left_out: LeftOut = ""

    @property
    def taken(self) -> bool:
        """Whether it is recalled."""
        return not self.left_out


def spoken(turn: Turn) -> int:
    """Tokens of "speaker: text", as CAME-Bench counts."""
    return count_tokens(f"{turn.speaker}: {turn.text}") + 1


@dataclass(frozen=True)
class Limits:
    """How much is recalled: at most `k` turns, of at most so many tokens as `cost` counts.

    A turn that does not fit is left out, and smaller ones behind it may still fit. `trusted`: from which structure on
    labels count; see `structure.py`. 0 trusts all. `alone`: label density ranks alone, as in the paper.
    """

    k: int = 40
    tokens: int = 4096
    trusted: float = TRUSTED
    alone: bool = False
    cost: Callable[[Turn], int] = spoken


@dataclass(frozen=True)
class Matched:
    """Turns in the order of recall, and what was done with each facet of the intent, in words."""

    ranked: tuple[Ranked, ...]
    facets: dict[Facet, str]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns taken, best first."""
        return tuple(one.turn for one in self.ranked if one.taken)


@dataclass(frozen=True)
class Standing:
    """Where one turn stands among all. Places count from 1 on: in the order of recall, and in the two it is made of.

    `by_intent` is None when the turn bears nothing of the intent that counts, and is then not in that order.
    """

    place: int
    by: By
    by_intent: int | None
    by_similarity: int
    facets: tuple[Facet, ...]
    density: float
    similarity: float
    tokens: int


@dataclass(frozen=True)
class _Scores:
    """By position: similarity, which turns bear a label of the intent, and how much that tells, over all facets."""

    similarity: NDArray[np.float32]
    density: NDArray[np.float32]
    masks: dict[Facet, NDArray[np.bool_]]
    said: dict[Facet, str]

    def borne(self, at: int) -> tuple[Facet, ...]:
        """The facets of the intent that the turn at a position bears."""
        return tuple(facet for facet in FACETS if facet in self.masks and self.masks[facet][at])


def match_intent(
    request: str,
    intent: Intent,
    store: Store,
    limits: Limits = Limits(),
    without: Collection[Facet] = (),
    similarity: NDArray[np.float32] | None = None,
) -> Matched:
    """The turns that fit a request and its intent.

    Args:
        request: the words that similarity goes by.
        intent: the labels that it goes by; they are labels of `store.notebook`.
        store: where.
        limits: how much is recalled.
        without: facets that do not count.
        similarity: of each turn to the request, where it is known; default: `store.index.score(request).turns`.
    """
    alike = store.index.score(request).turns if similarity is None else similarity
    scores = _scores(alike, intent, store, without, limits.trusted)
    order = list(islice(_order(scores.density, scores.similarity, limits.alone), max(2 * limits.k, _LOOKED_AT)))
    turns = store.turns_at(at for at, _ in order)
    ranked, left, room = [], limits.tokens, limits.k
    for at, by in order:
        turn = turns.get(at)
        if turn is None:
            continue
        if not room and len(ranked) >= 2 * limits.k:
            break
        cost = limits.cost(turn)
        out: LeftOut = "k" if not room else "tokens" if cost > left else ""
        left, room = (left, room) if out else (left - cost, room - 1)
        told = float(scores.density[at]), float(scores.similarity[at])
        ranked.append(Ranked(turn, by, scores.borne(at), *told, cost, out))
    return Matched(tuple(ranked), scores.said)


def standing(
    turn: Turn,
    request: str,
    intent: Intent,
    store: Store,
    without: Collection[Facet] = (),
    trusted: float = TRUSTED,
) -> Standing:
    """Where a turn of the store stands for a request and its intent, also far behind those that are recalled.

    Raises:
        UsageError: it is not, or no longer, in the store.
    """
    at = store.positions([turn.id]).get(turn.id)
    if at is None:
        raise UsageError(f"turn {turn.id} is not in this memory; name one that is there")
    scores = _scores(store.index.score(request).turns, intent, store, without, trusted)
    order = enumerate(_order(scores.density, scores.similarity), 1)
    found: tuple[int, By] = next((number, by) for number, (one, by) in order if one == at)
    # The same keys as `_order`: ties go by position, which is how a stable sort breaks them.
    by_intent = np.lexsort((-scores.similarity, -scores.density))
    return Standing(
        *found,
        _rank(by_intent, at) if scores.density[at] > 0 else None,
        _rank(np.argsort(-scores.similarity, kind="stable"), at),
        scores.borne(at),
        float(scores.density[at]),
        float(scores.similarity[at]),
        spoken(turn),
    )


def _rank(order: NDArray[np.intp], at: int) -> int:
    return int(np.flatnonzero(order == at)[0]) + 1


def _scores(
    similarity: NDArray[np.float32], intent: Intent, store: Store, without: Collection[Facet], trusted: float
) -> _Scores:
    masks, said = _masks(intent, store, without, trusted)
    density = np.zeros(len(similarity), np.float32)
    for mask in masks.values():
        density += np.float32(-math.log(mask.mean())) * mask
    return _Scores(similarity, density, masks, said)


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
        elif (found := store.notebook.structure[facet]) < trusted:
            said[facet] = (_NO_ORDER if found else _TOO_FEW) + ", so they do not count"
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
    known = {store.notebook.bank.canonical(one) for one in labels if store.notebook.bearers([one])}
    mask = store.mask(Filter(labels=sorted(known))) if known else None
    return np.zeros(store.size, dtype=bool) if mask is None else mask


def _order(
    density: NDArray[np.float32], similarity: NDArray[np.float32], alone: bool = False
) -> Iterator[tuple[int, By]]:
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
