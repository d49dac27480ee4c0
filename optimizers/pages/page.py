"""Turns reports on one benchmark into one HTML page that opens without network: figures, plots and every question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stitchjam.data.errors import UsageError
from stitchjam.data.text import one_line
from stitchjam.optimizers.compare import Comparison, compare
from stitchjam.optimizers.pages.charts import cost_chart, kinds_chart, recall_chart
from stitchjam.optimizers.pages.figures import System, by_question, price, systems
from stitchjam.optimizers.pages.sheet import Cutter, inline, write_sheet
from stitchjam.optimizers.rows import Report, Row

__all__ = ["write_page"]

_BYTES = 8_500_000  # of the questions: what browsers, also of phones, open without waiting
_FRAME = 330  # bytes of HTML around the texts of one answer
_CELLS = 15_000  # questions times systems
_SHORTEST, _LONGEST = 80, 2000  # bytes to which texts are cut
_FILTERS = {
    "score": lambda value: f"{value:.3f}",
    "signed": lambda value: f"{value:+.3f}",
    "percent": lambda value: f"{value:.0%}" if value in (0, 1) else f"{value:.1%}",
    "few": lambda value: f"{value:,.1f}",
    "dollars": lambda value: f"{value:.4f}" if value else "-",
}
_FEW = 10  # histories or questions: with fewer the bootstrap is known to be too sure


class _Run(NamedTuple):
    """What one system made of a question; `mark` is its score for the line of the question."""

    row: Row | None
    mark: str
    answer: str = ""
    why: str = ""
    spent: str = ""


class _Asked(NamedTuple):
    """A question. `state` has a letter for each filter it passes: d scores differ, f failed, w below 1 everywhere."""

    name: str
    kind: str
    text: str
    state: str
    runs: Sequence[_Run]


class _Gain(NamedTuple):
    made: Comparison | None
    why: str = ""


def write_page(path: Path, reports: Sequence[Report]) -> None:
    """Write one page that holds all it shows; the same reports give the same bytes.

    Args:
        path: an .html file; one that is there is replaced.
        reports: on the same benchmark, one a system; gains are those over the first.

    Raises:
        UsageError: there are no reports, or the file cannot be written.
    """
    if not reports:
        raise UsageError("no report to show; evaluate a system first: stitchjam eval")
    write_sheet(path, "page.html", _content(reports), _FILTERS)


def _content(reports: Sequence[Report]) -> dict[str, Any]:
    found = systems(reports)
    questions = by_question(reports)
    shown = _spread(list(questions), max(1, _CELLS // len(reports)))
    cutter = Cutter(_limit(len(shown), len(reports)))
    asked = [_asked(name, questions[name], len(reports), cutter) for name in shown]
    metrics = sorted({report.metric for report in reports})
    return {
        **inline("page.css", script="page.js"),
        "labels": [one.label for one in found],
        "title": _title({report.bench for report in reports}),
        "metrics": metrics,
        "found": found,
        "questions": len(questions),
        "histories": len({history for history, _ in questions}),
        "warnings": _warnings(reports, questions),
        "how": _how(found),
        "noted": [one for one in found if one.notes],
        "charts": [recall_chart(found), cost_chart(found, price(found)), kinds_chart(found)],
        "kinds": sorted({kind for one in found for kind in one.kinds}),
        "gains": [_gain(reports[0], report) for report in reports[1:]],
        "outcomes": sorted({name for one in found for name in one.outcomes}, key=lambda name: (name != "ok", name)),
        "asked": asked,
        "cut": cutter.cut,
        "limit": cutter.limit,
    }


def _title(benches: set[str]) -> str:
    named = sorted(one_line(bench) for bench in benches if bench)
    return f"Evaluation on {', '.join(named)}" if named else "Evaluation"


def _warnings(reports: Sequence[Report], questions: dict[tuple[str, str], dict[int, Row]]) -> list[str]:
    """What forbids to read scores side by side."""
    found = []
    if len({report.bench for report in reports}) > 1:
        found.append("The reports are of different benchmarks: their scores cannot be compared.")
    if len({report.metric for report in reports}) > 1:
        found.append("The reports are in different metrics: their scores cannot be compared.")
    for part, what in (("questions", "questions or their gold"), ("metric", "settings of the metric")):
        if len({report.settled.get(part, "") for report in reports}) > 1:
            found.append(f"The {what} are not the same in all reports: their scores cannot be compared.")
    if missing := sum(len(rows) < len(reports) for rows in questions.values()):
        found.append(
            f"Not all systems were asked the same: {missing:,} of {len(questions):,} questions are missing from some. "
            "Scores of systems that were asked different questions cannot be compared."
        )
    return found


def _how(found: Sequence[System]) -> str:
    """How intervals came about, and when not to trust them."""
    rated = [one for one in found if one.rated]
    if not rated:
        return ""
    several = all(one.histories > 1 for one in rated)
    drawn = min(one.histories if one.histories > 1 else one.rated for one in rated)
    what = "histories" if several else "questions"
    doubt = f" With {drawn} {what} they are too narrow." if drawn < _FEW else ""
    return f"Intervals are bootstrapped over {what}; one of no width says that all values are equal.{doubt}"


def _gain(first: Report, other: Report) -> _Gain:
    try:
        return _Gain(compare(first, other))
    except UsageError as error:
        return _Gain(None, str(error))


def _spread(names: list[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most so many of them, from all over: those of one history follow each other."""
    return names if len(names) <= most else [names[at * len(names) // most] for at in range(most)]


def _limit(questions: int, runs: int) -> int:
    """To how many bytes texts are cut, so that all fit: a question, and of each run the answer and why."""
    texts = max(1, questions * (1 + 2 * runs))
    room = _BYTES - questions * runs * _FRAME
    return min(max(room // texts, _SHORTEST), _LONGEST)


def _asked(name: tuple[str, str], rows: dict[int, Row], runs: int, cutter: Cutter) -> _Asked:
    known = list(rows.values())
    rated = [row for row in known if row.outcome != "not_rated"]
    differ = len({round(row.value, 6) for row in rated}) > 1
    failed = any(row.outcome not in ("ok", "not_rated") for row in known)
    wrong = bool(rated) and all(row.value < 1 for row in rated)
    return _Asked(
        name=cutter(" / ".join(part for part in name if part)),
        kind=known[0].kind,
        text=cutter(next((row.question for row in known if row.question), "")),
        state="".join(letter for letter, holds in (("d", differ), ("f", failed), ("w", wrong)) if holds),
        runs=[_run(rows.get(number), cutter) for number in range(runs)],
    )


def _run(row: Row | None, cutter: Cutter) -> _Run:
    if row is None:
        return _Run(None, "–")
    return _Run(
        row=row,
        mark="–" if row.outcome == "not_rated" else f"{row.value:.2f}",
        answer=cutter(row.answer),
        why=cutter("\n".join(part for part in (row.why, row.note) if part)),
        spent=_spent(row),
    )


def _spent(row: Row) -> str:
    parts = (
        (row.calls, f"{row.calls} calls"),
        (row.cache_hits, f"{row.cache_hits} kept"),
        (row.input_tokens + row.output_tokens, f"{row.input_tokens + row.output_tokens:,} tokens"),
        (row.seconds, f"{row.seconds:.1f} s"),
        (row.cost, f"${row.cost:.4f}"),
    )
    return ", ".join(text for value, text in parts if value)
