"""Turns two labellings of turns into how far the groups that they make agree; names of labels do not matter."""

from collections import Counter
from collections.abc import Collection, Sequence
from math import log

__all__ = ["b_cubed", "v_measure"]


def v_measure(gold: Sequence[str], given: Sequence[str]) -> dict[str, float]:
    """Homogeneity, completeness and their harmonic mean (Rosenberg and Hirschberg 2007), in parts of 1.

    homogeneity: whether a label that was given stands for one gold label; completeness: whether a gold label was given
    one label. Each is 1 where there is a single label to tell apart.
    """
    both = Counter(zip(gold, given, strict=True))
    golds, givens = Counter(gold), Counter(given)
    mutual = _entropy(golds.values()) + _entropy(givens.values()) - _entropy(both.values())
    homogeneity = _part(mutual, _entropy(golds.values()))
    completeness = _part(mutual, _entropy(givens.values()))
    return {
        "homogeneity": homogeneity,
        "completeness": completeness,
        "v_measure": _harmonic(homogeneity, completeness),
    }


def b_cubed(gold: Sequence[str], given: Sequence[str]) -> dict[str, float]:
    """B-cubed precision, recall and F1 (Bagga and Baldwin 1998).

    b3_precision: for a turn, the share of turns under its given label that have its gold label, averaged over turns;
    b3_recall: the share of turns of its gold label that were given its label.
    """
    both = Counter(zip(gold, given, strict=True))
    golds, givens = Counter(gold), Counter(given)
    precision = sum(n * n / givens[label] for (_, label), n in both.items()) / len(gold)
    recall = sum(n * n / golds[label] for (label, _), n in both.items()) / len(gold)
    return {"b3_precision": precision, "b3_recall": recall, "b3_f1": _harmonic(precision, recall)}


def _entropy(counts: Collection[int]) -> float:
    total = sum(counts)
    return -sum(n / total * log(n / total) for n in counts)


def _part(mutual: float, whole: float) -> float:
    """A share of information; a difference of sums may be a hair below 0 or above 1."""
    return min(1.0, max(0.0, mutual / whole)) if whole else 1.0


def _harmonic(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other else 0.0
