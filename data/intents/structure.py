"""Turns intents of turns into how far labels can be trusted: those put on by chance know nothing of order.

Turns that stand beside each other share labels more often than any two turns do (a topic goes on), or those two apart
do (a question follows a question). Labels of which neither holds say nothing, and recall should not go by them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from stitchjam.data.intents.records import FACETS, Facet, Intent

__all__ = ["TRUSTED", "structure"]

TRUSTED = 4.0  # in standard errors; labels put on at random reach 3.7 in worlds where a turn has several
_LEAST = 8
_MOST = 6  # labels of a turn that count: each doubles what there is to count
_SPREAD = 1.5  # neighbouring pairs overlap, so they vary more than independent ones

_Labels = frozenset[str]


def structure(intents: Iterable[tuple[str, Intent]]) -> dict[Facet, float]:
    """For each facet, by how many standard errors turns nearby share labels more, or less, often than any two do.

    0 where there are too few labelled turns to say, or where all labels are the same.

    Args:
        intents: of each turn its session and its intent, in the order of the turns within their session.
    """
    sessions: dict[str, list[Intent]] = {}
    for session_id, intent in intents:
        sessions.setdefault(session_id, []).append(intent)
    return {
        facet: _facet([[frozenset(x.of(facet)[:_MOST]) for x in one] for one in sessions.values()]) for facet in FACETS
    }


def _facet(sessions: Sequence[Sequence[_Labels]]) -> float:
    labels = [labels for session in sessions for labels in session if labels]
    if len(labels) < _LEAST:
        return 0.0
    chance = _chance(labels)
    return max(abs(_beyond(sessions, distance, chance)) for distance in (1, 2))


def _chance(labels: Sequence[_Labels]) -> float:
    """How often two turns share a label, of all pairs of turns.

    Counted and not sampled: in a long memory the error of a sample is larger than what is to be found.
    """
    kinds, bearing = Counter(labels), Counter[_Labels]()
    for kind, times in kinds.items():
        for some in _subsets(kind):
            bearing[some] += times
    # Turns with one of two labels are those with the first and those with the second, less those with both.
    sharing = sum(
        times * sum(bearing[some] * (-1) ** (len(some) + 1) for some in _subsets(kind)) for kind, times in kinds.items()
    )
    return (sharing - len(labels)) / (len(labels) * (len(labels) - 1))


def _subsets(labels: _Labels) -> Iterator[_Labels]:
    return (frozenset(some) for size in range(1, len(labels) + 1) for some in combinations(labels, size))


def _beyond(sessions: Sequence[Sequence[_Labels]], distance: int, chance: float) -> float:
    pairs = [
        not one.isdisjoint(other)
        for session in sessions
        for one, other in zip(session, session[distance:], strict=False)
        if one and other
    ]
    if len(pairs) < _LEAST or not 0 < chance < 1:
        return 0.0
    # One pair more or less proves nothing, also where labels are so rare that hardly any is expected.
    error = math.sqrt(_SPREAD * chance * (1 - chance) * len(pairs) + 1)
    return (sum(pairs) - chance * len(pairs)) / error
