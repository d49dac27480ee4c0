"""Turns two reports on the same questions into the gain of one over the other, with an interval."""

import random
from collections.abc import Sequence
from statistics import fmean

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Record
from stitchjam.optimizers.rows import Report, Row

__all__ = ["Comparison", "compare"]

_RESAMPLES = 2000


class Comparison(Record):
    """A paired comparison on the same examples. `low` and `high` bound 95 % of the bootstrapped mean gains.

    `clusters` is how many histories were drawn instead of single questions, 0 where there was only one. `kinds` holds
    for each type of question their number and the scores before and after.
    """

    n: int
    before: float
    after: float
    gain: float
    low: float
    high: float
    better: int
    worse: int
    clusters: int = 0
    kinds: dict[str, tuple[int, float, float]] = {}


def compare(before: Report, after: Report) -> Comparison:
    """Paired bootstrap (percentile interval, seeded, so the same rows give the same interval).

    Questions about one history share its luck: where there are several histories, whole ones are drawn.

    Raises:
        UsageError: there are no rows, they are not of the same examples in the same order, or metrics differ.
    """
    pairs = list(zip(before.rows, after.rows, strict=False))
    if not pairs or list(map(_name, before.rows)) != list(map(_name, after.rows)):
        raise UsageError("two reports can be compared when both hold the same examples; evaluate both on the same ones")
    if before.metric != after.metric:
        raise UsageError(f"one report is in {before.metric!r}, the other in {after.metric!r}; use the same --metric")
    gains = [b.value - a.value for a, b in pairs]
    clusters = _clusters([a.history for a, _ in pairs], gains)
    means = _means(clusters)
    return Comparison(
        n=len(gains),
        before=round(before.score, 6),
        after=round(after.score, 6),
        gain=round(fmean(gains), 6),
        low=round(means[int(0.025 * _RESAMPLES)], 6),
        high=round(means[int(0.975 * _RESAMPLES) - 1], 6),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        clusters=len(clusters) if len(clusters) < len(gains) else 0,
        kinds=_kinds(pairs),
    )


def _name(row: Row) -> tuple[str, str]:
    return row.history, row.id


def _clusters(histories: Sequence[str], gains: Sequence[float]) -> list[list[float]]:
    """The gains of each history; each gain alone where there is one history."""
    found: dict[str, list[float]] = {}
    for history, gain in zip(histories, gains, strict=True):
        found.setdefault(history, []).append(gain)
    return list(found.values()) if len(found) > 1 else [[gain] for gain in gains]


def _means(clusters: Sequence[list[float]]) -> list[float]:
    """Mean gains of as many clusters drawn with replacement, in ascending order."""
    rng = random.Random(0)
    sums = [(sum(gains), len(gains)) for gains in clusters]
    drawn = (rng.choices(sums, k=len(sums)) for _ in range(_RESAMPLES))
    return sorted(sum(total for total, _ in some) / sum(count for _, count in some) for some in drawn)


def _kinds(pairs: Sequence[tuple[Row, Row]]) -> dict[str, tuple[int, float, float]]:
    names = sorted({a.kind for a, _ in pairs})
    of = {name: [(a.value, b.value) for a, b in pairs if a.kind == name] for name in names}
    return {
        name: (len(some), round(fmean(a for a, _ in some), 6), round(fmean(b for _, b in some), 6))
        for name, some in of.items()
    }
