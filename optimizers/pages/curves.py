"""Turns what research reaches within budgets into one HTML page that opens without network: curves and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stitchjam.optimizers.bounds import Bounds, mean_reached
from stitchjam.optimizers.pages.charts import Chart
from stitchjam.optimizers.pages.drawing import COLOURS, Stroke, axes, line, marker, scale, tick_texts, up
from stitchjam.optimizers.pages.sheet import inline, write_sheet

__all__ = ["write_curves"]

_Point = tuple[float, float]


def write_curves(path: Path, report: Bounds) -> None:
    """Write the page; the same report gives the same bytes.

    Args:
        path: an .html file; one that is there is replaced.
        report: what was reached.

    Raises:
        UsageError: the file cannot be written.
    """
    ks = sorted({row.k for row in report.rows})
    reached = {k: [mean_reached(report, k, rounds) for rounds in report.rounds] for k in ks}
    by_rounds = [list(zip(map(float, report.rounds), (one[0] for one in reached[k]), strict=True)) for k in ks]
    by_reads = [[(read, recall) for recall, read in reached[k]] for k in ks]
    labels = [f"{k} session{'s' * (k != 1)} a search" for k in ks]
    content: dict[str, Any] = {
        **inline("page.css", script="curves.js"),
        "report": report,
        "questions": len({(row.history, row.id) for row in report.rows}),
        "histories": len({row.history for row in report.rows}),
        "ks": ks,
        "rows": [(rounds, [reached[k][at] for k in ks]) for at, rounds in enumerate(report.rounds)],
        "labels": labels,
        "charts": [
            _chart("Source recall by rounds", "rounds, at most", by_rounds, labels, report.rounds),
            _chart("Source recall by sessions read", "sessions read, mean", by_reads, labels),
        ],
    }
    write_sheet(path, "curves.html", content, {"percent": lambda share: f"{100 * share:.1f}"})


def _chart(
    title: str, below: str, curves: Sequence[Sequence[_Point]], labels: Sequence[str], ticks: Sequence[int] = ()
) -> Chart:
    values = [x for curve in curves for x, _ in curve]
    low, high = min(values), max(values)
    x = scale(low, high, log=high > 4 * max(low, 1e-9))
    strokes, texts = axes(below, "source recall")
    texts += tick_texts([(x(tick), f"{tick:g}") for tick in (ticks or (low, (low * high) ** 0.5, high))])
    for number, curve in enumerate(curves):
        points = [(x(value), up(recall)) for value, recall in curve]
        strokes.append(Stroke(line(points), f"line c{number % len(COLOURS)} d{number % 4}"))
        for point, (value, recall) in zip(points, curve, strict=True):
            tip = f"{labels[number]}: {recall:.3f} at {value:g}"
            strokes.append(Stroke(marker(*point, number), f"mark c{number % len(COLOURS)}", tip))
    words = "; ".join(stroke.tip for stroke in strokes if stroke.tip)
    return Chart(title, strokes=strokes, texts=texts, shown=range(len(curves)), words=words)
