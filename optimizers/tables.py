"""Turns evaluations into tables and lines for people: one system by itself, or several beside each other."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from rich.table import Table
from rich.text import Text

from stitchjam.data.errors import UsageError
from stitchjam.data.text import printable
from stitchjam.optimizers.compare import Comparison, compare
from stitchjam.optimizers.pages.figures import Estimate, System, estimate, labels
from stitchjam.optimizers.rows import Report
from stitchjam.optimizers.show import table

__all__ = [
    "gain_lines",
    "head_lines",
    "kind_changes",
    "kinds_tables",
    "note_lines",
    "report_line",
    "report_table",
    "rollout_lines",
    "systems_table",
]


def report_line(report: Report) -> str:
    """The score in one line."""
    parts = ", ".join(f"{name} {value:.3f}" for name, value in report.parts.items())
    rated, found = len(report.rated), estimate(report.rated)
    of = f" of {report.asked}" if report.asked > len(report.rows) else ""
    left = f", {len(report.rows) - rated} not rated" if rated < len(report.rows) else ""
    ends = found and found.bounds
    bounds = f" (95 % interval {ends.low:.3f} to {ends.high:.3f})" if ends else ""
    return (
        f"{report.metric} {report.score:.3f}{bounds} on {rated}{of} questions{left}; "
        f"answered {report.coverage:.0%}; {parts}"
    )


def report_table(report: Report) -> Table:
    """One line an example."""
    table = Table("id", "score", "outcome", "why", box=None)
    for row in report.rows:
        table.add_row(Text(printable(row.id)), f"{row.value:.2f}", row.outcome, Text(printable(row.why)))
    return table


def kinds_tables(found: Sequence[System]) -> list[Table]:
    """The score of each type of question, a column a system; nothing where there is one type."""
    kinds = sorted({kind for one in found for kind in one.kinds})
    if len(kinds) < 2:
        return []
    columns = [one.label for one in found] if len(found) > 1 else ["score"]
    rows = []
    for kind in kinds:
        n = max(one.kinds[kind].n for one in found if kind in one.kinds)
        rows.append((kind or "-", f"{n:,}", *(_with_bounds(one.kinds.get(kind), n) for one in found)))
    return [table(("type", "questions", *columns), rows, right=("questions", *columns))]


def _with_bounds(found: Estimate | None, of: int | None = None) -> str:
    """A mean with its interval, and on how many questions, where those are not all."""
    if found is None:
        return "-"
    bounds = f"{found.bounds.low:.2f} to {found.bounds.high:.2f}" if found.bounds else ""
    fewer = f"n {found.n:,}" if of not in (None, found.n) else ""
    facts = "; ".join(part for part in (bounds, fewer) if part)
    return f"{found.value:.3f}" + (f" ({facts})" if facts else "")


def systems_table(found: Sequence[System]) -> Table:
    """A line a system: what it scored, on how many questions, and what a question cost."""
    rows = [
        (
            one.label,
            one.model or "-",
            f"{one.rated:,} of {one.asked:,}",
            _with_bounds(one.score),
            f"{one.coverage:.0%}",
            f"{one.rounds:.1f}" if one.rounds else "-",
            f"{one.calls:.1f}",
            f"{one.input_tokens + one.output_tokens:,.0f}",
            f"{one.seconds:.1f}",
            f"${one.cost:.4f}" if one.cost else "-",
        )
        for one in found
    ]
    numbers = ("rated", "score", "answered", "rounds", "calls", "tokens", "seconds", "cost")
    return table(("system", "model", *numbers), rows, right=numbers)


def head_lines(reports: Sequence[Report]) -> list[str]:
    """What the figures are: metric, benchmark and judge; a line each where they are not the same for all."""
    told = [
        f"{one.metric}{f' on {one.bench}' if one.bench else ''}{f', judged by {one.judge}' if one.judge else ''}"
        for one in reports
    ]
    if len(set(told)) == 1:
        return told[:1]
    return [f"{label}: {what}" for label, what in zip(labels(reports), told, strict=True)]


def note_lines(found: Sequence[System]) -> list[str]:
    """What systems say of their answers, such as that they saw a part of the history only."""
    return [f"{one.label}: {note}" for one in found for note in one.notes]


def rollout_lines(reports: Sequence[Report]) -> list[str]:
    """Mean and spread over the rollouts of each system, where there are several of it."""
    runs: dict[tuple[Any, ...], dict[int, float]] = {}
    for one in reports:
        same = {part: value for part, value in one.settled.items() if part not in ("rollout", "model")}
        asked = tuple(sorted(row.key for row in one.rows))  # not a part of them, of a run that was stopped
        runs.setdefault((one.name, one.model, one.metric, str(same), asked), {})[one.rollout] = one.score
    return [
        f"{name or model}: mean {fmean(scores.values()):.3f} over {len(scores)} rollouts "
        f"(standard deviation {stdev(scores.values()):.3f})"
        for (name, model, *_), scores in runs.items()
        if len(scores) > 1
    ]


def gain_lines(reports: Sequence[Report]) -> list[str]:
    """The gain of each further report over the first, or why there is none."""
    lines, (first, *others) = [], labels(reports)
    for label, report in zip(others, reports[1:], strict=True):
        try:
            c = compare(reports[0], report)
        except UsageError as error:
            lines.append(f"{label}: not compared with {first}: {error}")
            continue
        lines.append(f"{label} over {first}: {c.gain:+.3f} ({c.low:+.3f} to {c.high:+.3f}; n {c.n})")
    return lines


def kind_changes(comparison: Comparison) -> list[Table]:
    """Scores of each type of question in both reports; nothing where there is one type."""
    if len(comparison.kinds) < 2:
        return []
    rows = [
        (kind or "-", f"{n:,}", f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}")
        for kind, (n, before, after) in comparison.kinds.items()
    ]
    columns = ("questions", "first", "second", "gain")
    return [table(("type", *columns), rows, right=columns)]
