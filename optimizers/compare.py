"""Turns two reports on the same questions into the gain of one over the other, with an interval."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Record
from stitchjam.optimizers.rows import Key, Report, Row

__all__ = ["Comparison", "Interval", "bootstrap", "compare", "interval"]

_RESAMPLES = 5000


class Interval(NamedTuple):
    """Bounds of 95 % of bootstrapped figures."""

    low: float
    high: float


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
    """Paired bootstrap, see `interval`, on the questions that are rated in both.

    Raises:
        UsageError: they do not hold the same examples, none is rated in both, or metrics differ.
    """
    if before.metric != after.metric:
        raise UsageError(f"one report is in {before.metric!r}, the other in {after.metric!r}; use the same --metric")
    others = {row.key: row for row in after.rows}
    _require_same({row.key for row in before.rows}, set(others), [before, after])
    for part, what in (("questions", "the questions or their gold"), ("metric", "the settings of the metric")):
        if before.settled.get(part) != after.settled.get(part):
            raise UsageError(f"{what} are not the same in both reports; evaluate both on the same data, in one way")
    pairs = [(row, others[row.key]) for row in before.rows]
    pairs = [(a, b) for a, b in pairs if "not_rated" not in (a.outcome, b.outcome)]
    if not pairs:
        raise UsageError("no question is rated in both reports; use another --metric")
    gains = [b.value - a.value for a, b in pairs]
    by_history = _by_history(pairs)
    bounds = interval(by_history)
    return Comparison(
        n=len(pairs),
        before=round(fmean(a.value for a, _ in pairs), 6),
        after=round(fmean(b.value for _, b in pairs), 6),
        gain=round(fmean(gains), 6),
        low=round(bounds.low, 6),
        high=round(bounds.high, 6),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        clusters=len(by_history) if 1 < len(by_history) < len(gains) else 0,
        kinds=_kinds(pairs),
    )


def _require_same(first: set[Key], second: set[Key], reports: Sequence[Report]) -> None:
    if first and first == second:
        return
    for report in reports:
        if len(report.rows) < report.asked:
            raise UsageError(
                f"{report.name or 'a run'} holds {len(report.rows)} of {report.asked} questions; run the same command "
                f"to finish it"
            )
    raise UsageError(
        f"two reports can be compared when both hold the same examples: {len(first & second)} are in both, "
        f"{len(first - second)} only in the first, {len(second - first)} only in the second; evaluate both on the same"
    )


def bootstrap(count: int, figure: Callable[[np.ndarray], float]) -> Interval:
    """Percentile interval of a figure over items drawn with replacement; seeded, so it is the same each time.

    Args:
        count: of items.
        figure: from the places of items drawn, as many as there are.
    """
    rng = np.random.RandomState(0)  # the one generator whose numbers stay the same in later versions of numpy
    found = sorted(float(figure(rng.randint(count, size=count, dtype=np.int64))) for _ in range(_RESAMPLES))
    return Interval(found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES) - 1])


def interval(values_by_history: Mapping[str, Sequence[float]]) -> Interval:
    """Bounds of the mean of all values.

    Questions about one history share its luck: where there are several histories, whole ones are drawn; with one,
    single values are. Few of either make the interval narrower than it should be.

    Args:
        values_by_history: at least one value in all.
    """
    several = [values for values in values_by_history.values() if values]
    clusters = several if len(several) > 1 else [[value] for value in several[0]]
    sums, counts = np.array([sum(some) for some in clusters]), np.array([len(some) for some in clusters])
    return bootstrap(len(clusters), lambda drawn: sums[drawn].sum() / counts[drawn].sum())


def _by_history(pairs: Sequence[tuple[Row, Row]]) -> dict[str, list[float]]:
    gains: dict[str, list[float]] = {}
    for before, after in pairs:
        gains.setdefault(before.history, []).append(after.value - before.value)
    return gains


def _kinds(pairs: Sequence[tuple[Row, Row]]) -> dict[str, tuple[int, float, float]]:
    names = sorted({a.kind for a, _ in pairs})
    of = {name: [(a.value, b.value) for a, b in pairs if a.kind == name] for name in names}
    return {
        name: (len(some), round(fmean(a for a, _ in some), 6), round(fmean(b for _, b in some), 6))
        for name, some in of.items()
    }
