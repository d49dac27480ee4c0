"""Turns intents of turns into how far labels can be trusted: those put on by chance know nothing of order.

Turns that stand beside each other share labels more often than any two turns do (a topic goes on), or those two apart
do (a question follows a question). Labels of which neither holds say nothing, and recall should not go by them.
"""

import math
from collections.abc import Iterable, Sequence
from random import Random

from stitchjam.data.intents.records import FACETS, Facet, Intent

__all__ = ["TRUSTED", "structure"]

TRUSTED = 4.0  # in standard errors; labels put on at random reach 3.7 in worlds where a turn has several
_PAIRS = 4_000
_LEAST = 8
_SPREAD = 1.5  # neighbouring pairs overlap, so they vary more than independent ones


def structure(intents: Iterable[tuple[str, Intent]]) -> dict[Facet, float]:
    """For each facet, by how many standard errors turns nearby share labels more, or less, often than any two do.

    0 where there are too few labelled turns to say, or where all labels are the same.

    Args:
        intents: of each turn its session and its intent, in the order of the turns within their session.
    """
    sessions: dict[str, list[Intent]] = {}
    for session_id, intent in intents:
        sessions.setdefault(session_id, []).append(intent)
    return {facet: _facet([[frozenset(x.of(facet)) for x in one] for one in sessions.values()]) for facet in FACETS}


def _facet(sessions: Sequence[Sequence[frozenset[str]]]) -> float:
    labels = [labels for session in sessions for labels in session if labels]
    if len(labels) < _LEAST:
        return 0.0
    dice = Random(0)
    chance = sum(not dice.choice(labels).isdisjoint(dice.choice(labels)) for _ in range(_PAIRS)) / _PAIRS
    return max(abs(_beyond(sessions, distance, chance)) for distance in (1, 2))


def _beyond(sessions: Sequence[Sequence[frozenset[str]]], distance: int, chance: float) -> float:
    pairs = [
        not one.isdisjoint(other)
        for session in sessions
        for one, other in zip(session, session[distance:], strict=False)
        if one and other
    ]
    spread = _SPREAD * chance * (1 - chance)
    if len(pairs) < _LEAST or not spread:
        return 0.0
    return (sum(pairs) / len(pairs) - chance) / math.sqrt(spread / len(pairs))
