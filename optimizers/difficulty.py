"""Turns worlds into how hard they are: what the solver answers from all evidence, from BM25's hits, and from nothing.

No model takes part. The solver is the generator's own; it gets the turns that a reader would see and knows what they
state, so a miss is a miss of retrieval. Closed book is a guess: the answer that is right most often among all other
questions that ask for the same kind of value.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from stitchjam.data.records import Record, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import stem, words
from stitchjam.data.worlds.asking import FAMILIES
from stitchjam.data.worlds.checks import answer_from, faults
from stitchjam.data.worlds.folder import World
from stitchjam.data.worlds.query import known_from
from stitchjam.data.worlds.records import Statement, WorldQuestion

__all__ = ["Difficulty", "Row", "Scored", "measure"]

K = 10
Search = Callable[[str], Sequence[str]]


class Scored(Record):
    """One question: whether each reader answered it, and the share of its evidence among the first turns found."""

    id: str
    type: str
    family: str
    hops: int
    styles: tuple[str, ...]
    evidence: int
    oracle: bool
    closed: bool
    bm25: bool
    hybrid: bool | None
    recall: float | None
    hybrid_recall: float | None
    faults: tuple[str, ...]


class Row(Record):
    """Means over some questions; recall over those that have evidence."""

    name: str
    questions: int
    oracle: float
    closed: float
    bm25: float
    recall: float
    hybrid: float | None = None
    hybrid_recall: float | None = None


class Difficulty(Record):
    """The figures of some worlds, over all questions and by type, family and number of hops."""

    worlds: tuple[str, ...]
    k: int
    together: Row
    types: tuple[Row, ...]
    families: tuple[Row, ...]
    hops: tuple[Row, ...]
    faulty: dict[str, tuple[str, ...]] = {}


def measure(worlds: Sequence[World], k: int = K, hybrid: bool = False) -> Difficulty:
    """Answer every question by every reader.

    Args:
        worlds: which.
        k: turns that a search hands over.
        hybrid: also use the search of this package, which takes a few milliseconds a turn to encode.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for world in worlds:
        for question in world.asked:
            counts[question.value][question.answer] += 1
    scored = [one for world in worlds for one in _score(world, k, hybrid, counts)]
    return Difficulty(
        worlds=tuple(world.name for world in worlds),
        k=k,
        together=_row("all", scored),
        types=_rows(scored, [name for types in FAMILIES.values() for name in types], lambda one: one.type),
        families=_rows(scored, list(FAMILIES), lambda one: one.family),
        hops=_rows(scored, ["1", "2", "3", "4"], lambda one: str(one.hops)),
        faulty={one.id: one.faults for one in scored if one.faults},
    )


def _score(world: World, k: int, hybrid: bool, counts: dict[str, Counter[str]]) -> list[Scored]:
    external = {turn.id: turn.external_id for turn in world.history.turns}
    bm25 = bm25_search(world.history.turns, k)
    search = _hybrid_search(world, k) if hybrid else None

    def scored(question: WorldQuestion) -> Scored:
        about = world.known.about(question.query)
        found = [external[id] for id in bm25(question.text)]
        best = [external[id] for id in search(question.text)] if search else None
        return Scored(
            id=question.id,
            type=question.type,
            family=question.family,
            hops=question.hops,
            styles=question.styles,
            evidence=len(question.evidence),
            oracle=_right(question, about, question.turns),
            closed=_guess(question, counts[question.value]) == question.answer,
            bm25=_right(question, about, found),
            hybrid=_right(question, about, best) if best is not None else None,
            recall=_recall(question, found),
            hybrid_recall=_recall(question, best) if best is not None else None,
            faults=tuple(f"{one.kind}: {one.why}" for one in faults(question, world.known)),
        )

    return [scored(question) for question in world.asked]


def _right(question: WorldQuestion, about: Sequence[Statement], turns: Sequence[str]) -> bool:
    """Whether the solver gets the answer from these turns."""
    return answer_from(question.query, known_from(about, turns)) == question.answer


def _recall(question: WorldQuestion, found: Sequence[str]) -> float | None:
    return len(set(found) & set(question.turns)) / len(question.turns) if question.turns else None


def _guess(question: WorldQuestion, answers: Counter[str]) -> str:
    """The commonest answer of the other questions; among equals the first in the alphabet."""
    others = answers - Counter([question.answer])
    return min(others, key=lambda answer: (-others[answer], answer)) if others else ""


def bm25_search(turns: Sequence[Turn], k: int) -> Search:
    """Plain BM25 over turns by the bm25s library: speaker and words, stemmed; gives turn ids, best first."""
    import bm25s
    import numpy as np

    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index([stem(words(f"{turn.speaker} {turn.text}")) for turn in turns], show_progress=False)

    def search(query: str) -> Sequence[str]:
        known = [word for word in stem(words(query)) if word in index.vocab_dict]
        scores = index.get_scores(known) if known else np.zeros(0)
        best = np.argsort(-scores, kind="stable")[:k]
        return [turns[at].id for at in best if scores[at] > 0]

    return search


def _hybrid_search(world: World, k: int) -> Search:
    store = Store.of(world.history)
    return lambda query: [hit.turn.id for hit in store.search(query, k)]


def _rows(scored: Sequence[Scored], names: Iterable[str], key: Callable[[Scored], str]) -> tuple[Row, ...]:
    groups = {name: [one for one in scored if key(one) == name] for name in names}
    return tuple(_row(name, group) for name, group in groups.items() if group)


def _row(name: str, scored: Sequence[Scored]) -> Row:
    hybrid = [one for one in scored if one.hybrid is not None]
    return Row(
        name=name,
        questions=len(scored),
        oracle=_mean(one.oracle for one in scored),
        closed=_mean(one.closed for one in scored),
        bm25=_mean(one.bm25 for one in scored),
        recall=_mean(one.recall for one in scored if one.recall is not None),
        hybrid=_mean(bool(one.hybrid) for one in hybrid) if hybrid else None,
        hybrid_recall=_mean(one.hybrid_recall for one in hybrid if one.hybrid_recall is not None) if hybrid else None,
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0
