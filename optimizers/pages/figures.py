"""Turns reports on one benchmark into the figures of systems that can be set beside each other."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from stitchjam.data.text import one_line, printable
from stitchjam.optimizers.compare import Interval, interval
from stitchjam.optimizers.rows import Key, Report, Row

__all__ = ["Estimate", "Price", "System", "by_question", "estimate", "labels", "price", "systems"]

_NUMBER = re.compile(r"\d{1,15}")
_NOTES = 3  # kinds of notes shown of a system


class Estimate(NamedTuple):
    """A mean of `n` values. One value has no interval."""

    n: int
    value: float
    bounds: Interval | None

    def as_value(self) -> dict[str, Any]:
        """As a JSON object."""
        low, high = self.bounds or (None, None)
        return {"n": self.n, "mean": self.value, "low": low, "high": high}


class System(NamedTuple):
    """One run. `score` is None when nothing was rated; from rounds to dollars the figures are means of a question."""

    label: str
    model: str
    metric: str
    asked: int
    run: int
    rated: int
    score: Estimate | None
    coverage: float
    histories: int
    rounds: float
    calls: float
    cache_hits: float
    input_tokens: float
    output_tokens: float
    seconds: float
    cost: float
    notes: tuple[str, ...]
    outcomes: dict[str, int]
    kinds: dict[str, Estimate]
    recall: tuple[tuple[int, float], ...]
    with_evidence: int

    def as_value(self) -> dict[str, Any]:
        """As a JSON object."""
        kinds = {kind: found.as_value() for kind, found in self.kinds.items()}
        score = self.score.as_value() if self.score else None
        return self._asdict() | {"score": score, "kinds": kinds, "recall": dict(self.recall)}


class Price(NamedTuple):
    """What a question costs with each system, in the one unit that is known of all; else why there is none."""

    unit: str
    values: tuple[float, ...]
    why: str = ""


def systems(reports: Sequence[Report]) -> list[System]:
    """The figures of each report, under labels of which no two are equal."""
    evidence = {row.key for report in reports for row in report.rows if row.recall}
    return [_system(report, label, evidence) for report, label in zip(reports, labels(reports), strict=True)]


def by_question(reports: Sequence[Report]) -> dict[Key, dict[int, Row]]:
    """For each question, in the order first seen, the rows of it by the number of their report."""
    found: dict[Key, dict[int, Row]] = {}
    for number, report in enumerate(reports):
        for row in report.rows:
            found.setdefault(row.key, {})[number] = row
    return found


def price(found: Sequence[System]) -> Price:
    """Dollars where all systems have them, else tokens, else seconds."""
    if not any(one.run for one in found):
        return Price("", (), "No question was asked.")
    for unit, values in (
        ("dollars", tuple(one.cost for one in found)),
        ("tokens", tuple(one.input_tokens + one.output_tokens for one in found)),
        ("seconds of waiting for the model", tuple(one.seconds for one in found)),
    ):
        # Without calls nothing is spent; with replies from disk what they cost is not known.
        pairs = list(zip(found, values, strict=True))
        if any(values) and all(value or not one.calls for one, value in pairs):
            return Price(unit, values)
    if not any(one.calls for one in found):
        return Price("", (), "No system called a model.")
    return Price("", (), "There is no measure of cost that all systems have: replies kept on disk cost nothing anew.")


def labels(reports: Sequence[Report]) -> list[str]:
    """Names; where two are equal with the model, and where that is equal too with a number."""
    names = [_named(one) for one in reports]
    models = [one_line(printable(one.model)) for one in reports]
    alike = Counter(names)
    pairs = zip(names, models, strict=True)
    full = [f"{name} ({model})" if alike[name] > 1 and model not in ("", name) else name for name, model in pairs]
    taken: list[str] = []
    for label in full:
        taken.append(next(one for one in _numbered(label, full.count(label) > 1) if one not in taken))
    return taken


def _named(report: Report) -> str:
    name = one_line(printable(report.name)) or one_line(printable(report.model)) or "system"
    return f"{name}, rollout {report.rollout}" if report.rollout else name


def _numbered(label: str, repeated: bool) -> Iterable[str]:
    if not repeated:
        yield label
    yield from (f"{label} #{number}" for number in range(1, 1_000_000))


def _system(report: Report, label: str, evidence: set[Key]) -> System:
    rated = report.rated
    asked = [row for row in report.rows if row.key in evidence]
    return System(
        label=label,
        model=report.model,
        metric=report.metric,
        asked=max(report.asked, len(report.rows)),
        run=len(report.rows),
        rated=len(rated),
        score=estimate(rated),
        coverage=report.coverage,
        histories=len({row.history for row in rated}),
        rounds=_mean(row.rounds for row in report.rows),
        calls=_mean(row.calls + row.cache_hits for row in report.rows),
        cache_hits=_mean(row.cache_hits for row in report.rows),
        input_tokens=_mean(row.input_tokens for row in report.rows),
        output_tokens=_mean(row.output_tokens for row in report.rows),
        seconds=_mean(row.seconds for row in report.rows),
        cost=_mean(row.cost for row in report.rows),
        notes=_notes([row.note for row in report.rows]),
        outcomes=report.outcomes,
        kinds=_kinds(rated),
        recall=_recall(asked),
        with_evidence=len(asked),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


def estimate(rows: Sequence[Row]) -> Estimate | None:
    """Mean value of rated rows; None without any."""
    if not rows:
        return None
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.history, []).append(row.value)
    return Estimate(len(rows), fmean(row.value for row in rows), interval(values) if len(rows) > 1 else None)


def _kinds(rows: Sequence[Row]) -> dict[str, Estimate]:
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(row.kind, []).append(row)
    return {kind: found for kind in sorted(of) if (found := estimate(of[kind]))}


def _recall(rows: Sequence[Row]) -> tuple[tuple[int, float], ...]:
    """Mean recall at each budget. A question without figures, since the system failed there, counts as zero."""
    budgets = sorted({budget for row in rows for budget in row.recall})
    return tuple((budget, fmean(row.recall.get(budget, 0.0) for row in rows)) for budget in budgets)


def _notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes that differ in numbers only in one line, with the range of each number."""
    alike: dict[str, list[list[int]]] = {}
    for note in map(one_line, map(printable, notes)):
        if note:
            alike.setdefault(_NUMBER.sub("\0", note), []).append([int(digits) for digits in _NUMBER.findall(note)])
    most = sorted(alike.items(), key=lambda item: -len(item[1]))
    lines = [f"on {len(found):,} of {len(notes):,} questions: {_ranges(form, found)}" for form, found in most[:_NOTES]]
    more = sum(len(found) for _, found in most[_NOTES:])
    return (*lines, f"other notes on {more:,} questions") if more else tuple(lines)


def _ranges(form: str, numbers: Sequence[Sequence[int]]) -> str:
    spans = [(min(column), max(column)) for column in zip(*numbers, strict=True)]
    shown = iter(f"{low}" if low == high else f"{low} to {high}" for low, high in spans)
    return re.sub("\0", lambda _: next(shown), form)
