"""Turns two labellings of sessions into how well the places agree at which the label changes.

Only changes within a session count: that a session begins is known to everyone. In a session, two neighbours with
different scopes have a boundary between them. Plain numpy, since nltk takes one sequence as text of 0 and 1.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Labelling", "segmentation", "window_size"]


class Labelling(NamedTuple):
    """Labels of the turns of a session by gold and by a program, in order."""

    gold: tuple[str, ...]
    given: tuple[str, ...]


def segmentation(sessions: Sequence[Labelling]) -> dict[str, tuple[float, int]]:
    """Figures of the sessions of one history, each with the number of turns that it rests on.

    pk: the share of windows whose ends lie in one segment by gold and not by the program, or the other way round.
    window_diff: the share of windows in which they have different numbers of boundaries. Of both, less is better.
    A window goes over as many boundaries as half a gold segment has turns; a session that is no longer has no window.
    boundary_precision, _recall, _f1: boundaries at exactly the same place, 0 where the program has none; left out where
    gold has none, as false ones show in the windows.
    """
    size = window_size([one.gold for one in sessions])
    pairs = [(_boundaries(one.gold), _boundaries(one.given)) for one in sessions]
    figures: dict[str, tuple[float, int]] = {}
    wide = [(_counts(gold, size), _counts(given, size), len(gold) + 1) for gold, given in pairs if len(gold) >= size]
    if wide:
        gold, given = (np.concatenate([pair[side] for pair in wide]) for side in (0, 1))
        turns = sum(pair[2] for pair in wide)
        figures["pk"] = float(np.mean((gold > 0) != (given > 0))), turns
        figures["window_diff"] = float(np.mean(gold != given)), turns
    turns = sum(len(one.gold) for one in sessions)
    return figures | {name: (value, turns) for name, value in _exact(pairs)}


def window_size(golds: Sequence[Sequence[str]]) -> int:
    """Half the mean length of a gold segment, rounded, and at least 1."""
    turns = sum(map(len, golds))
    segments = sum(1 + int(_boundaries(gold).sum()) for gold in golds if gold)
    return max(1, round(turns / segments / 2)) if segments else 1


def _boundaries(labels: Sequence[str]) -> np.ndarray:
    """For each turn but the last whether the next one has another label."""
    return np.array([one != other for one, other in zip(labels, labels[1:], strict=False)], dtype=int)


def _counts(boundaries: np.ndarray, size: int) -> np.ndarray:
    """The number of boundaries in each window."""
    sums = np.concatenate([[0], np.cumsum(boundaries)])
    return sums[size:] - sums[:-size]


def _exact(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[str, float]]:
    gold, given = (sum(int(pair[side].sum()) for pair in pairs) for side in (0, 1))
    both = sum(int((one & other).sum()) for one, other in pairs)
    if gold:
        yield "boundary_precision", both / given if given else 0.0
        yield "boundary_recall", both / gold
        yield "boundary_f1", 2 * both / (gold + given)
