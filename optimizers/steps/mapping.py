"""Turns sets of labels in a program's own words and in those of gold into how well one can be told from the other."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from stitchjam.optimizers.steps.clusters import v_measure

__all__ = ["assign", "best_of_each", "one_to_one", "typing_figures"]

Sets = Sequence[Sequence[str]]


def typing_figures(gold: Sets, given: Sets) -> dict[str, float]:
    """Figures of the labels of turns, all of which have a gold label; a turn may have several.

    mapped: each given label stands for the gold label that it is most often beside (`best_of_each`), several for the
    same one if need be; the figure is the share of turns at which one of the given labels stands for one of the gold
    labels. It can be had by giving each turn a label of its own, or every label to each turn: see `ratio`, `per_turn`.
    mapped_once: the same, but no two labels stand for the same gold label (`one_to_one`), and the rest for nothing.
    v_measure: of the first labels; a turn without one has "" for its label.
    per_turn: labels given to a turn, on average. ratio: different labels given, for each gold label.
    """
    turns = [(set(one), set(other)) for one, other in zip(gold, given, strict=True)]
    beside = Counter((label, of) for of_turn, labels in turns for label in labels for of in of_turn)
    first = [[labels[0] if labels else "" for labels in side] for side in (gold, given)]
    return {
        "mapped": _hits(turns, best_of_each(beside)),
        "mapped_once": _hits(turns, one_to_one(beside)),
        "v_measure": v_measure(*first)["v_measure"],
        "per_turn": sum(len(labels) for _, labels in turns) / len(turns),
        "ratio": len(set().union(*(labels for _, labels in turns))) / len(set().union(*(one for one, _ in turns))),
    }


def _hits(turns: Sequence[tuple[AbstractSet[str], AbstractSet[str]]], means: Mapping[str, str]) -> float:
    return sum(any(means.get(label) in gold for label in given) for gold, given in turns) / len(turns)


def best_of_each(beside: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """The gold label that each label is most often beside; the first by name among equals."""
    found: dict[str, tuple[int, str]] = {}
    for (label, gold), count in sorted(beside.items()):
        if label not in found or count > found[label][0]:
            found[label] = count, gold
    return {label: gold for label, (_, gold) in found.items()}


def one_to_one(beside: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """The pairs, each label in one at most, that are beside each other most often in sum.

    With several labels a turn that is not always the choice with the most hits, but close to it.
    """
    if not beside:
        return {}
    labels, golds = (sorted({pair[side] for pair in beside}) for side in (0, 1))
    counts = np.array([[beside.get((label, gold), 0) for label in labels] for gold in golds])
    flipped = len(golds) > len(labels)
    found = assign(-(counts.T if flipped else counts))
    pairs = [(column, row) if flipped else (row, column) for row, column in enumerate(found)]
    return {labels[label]: golds[gold] for gold, label in pairs if counts[gold, label]}


def assign(costs: np.ndarray) -> list[int]:
    """A column for each row, no two the same, at the least cost in sum (Hungarian method); no more rows than columns.

    Rows are added one by one; each time the cheapest way to a free column is followed, through columns that change
    their row. `up` and `left` are the prices that keep costs of pairs in use at 0; column 0 is where a row starts.
    """
    rows, columns = costs.shape
    up, left = np.zeros(rows + 1), np.zeros(columns + 1)
    owner = np.zeros(columns + 1, dtype=int)
    for row in range(1, rows + 1):
        owner[0], column = row, 0
        cheapest, way = np.full(columns + 1, np.inf), np.zeros(columns + 1, dtype=int)
        used = np.zeros(columns + 1, dtype=bool)
        while owner[column]:
            used[column] = True
            reduced = costs[owner[column] - 1] - up[owner[column]] - left[1:]
            closer = ~used[1:] & (reduced < cheapest[1:])
            cheapest[1:][closer], way[1:][closer] = reduced[closer], column
            best = 1 + int(np.argmin(np.where(used[1:], np.inf, cheapest[1:])))
            step = cheapest[best]
            up[owner[used]] += step
            left[used] -= step
            cheapest[~used] -= step
            column = best
        while column:
            owner[column], column = owner[way[column]], int(way[column])
    taken = {int(row): column for column, row in enumerate(owner[1:]) if row}
    return [taken[row] for row in range(1, rows + 1)]
