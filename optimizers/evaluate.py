"""Turns a program and examples into a report that hides nothing: a failed example counts as zero and stays visible.

dspy's evaluator turns a revoked key into a score, runs slow examples twice, and loses all results at ten errors.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import dspy

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.replay import replies
from stitchjam.backends.usage import Budget, Ledger, Usage, metered
from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import BackendError, ModelError, ModelOutputError, UsageError
from stitchjam.data.records import Record
from stitchjam.data.secrets import hide_secrets
from stitchjam.optimizers.metrics import Metric, cited
from stitchjam.programs.step import map_ordered, settings_for

__all__ = [
    "BACKEND_ERRORS",
    "OUTPUT_ERRORS",
    "Report",
    "Row",
    "Trial",
    "evaluate",
    "evaluate_kept",
    "require_answers",
    "write_rows",
]

# A step of the user's own, or a plain dspy module, raises dspy's errors instead of ours.
OUTPUT_ERRORS = (ModelOutputError, dspy.AdapterParseError)
BACKEND_ERRORS = (BackendError, dspy.LMError)


class Trial(NamedTuple):
    """What a program is asked about one history: examples with an `id`, and the metric that knows their gold."""

    examples: Sequence[dspy.Example]
    metric: Metric
    history: str = ""


class Row(Record):
    """One example: what came out and what it cost. `why` is the metric's reason, or the error.

    `history` is the one that was asked about, `kind` the benchmark's type of question, `metric` names what `value` is.
    `note` is what the system says of its answer, such as that it saw a part of the history only.
    """

    id: str
    history: str = ""
    kind: str = ""
    metric: str = ""
    outcome: Literal["ok", "output_error", "backend_error"]
    value: float
    why: str
    note: str = ""
    parts: dict[str, float] = {}
    answer: str = ""
    cited: tuple[str, ...] = ()
    rounds: int = 0
    calls: int = 0
    cache_hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0


class Report(Record):
    """All rows of one evaluation."""

    metric: str
    rows: tuple[Row, ...]

    @property
    def score(self) -> float:
        """Mean value over all rows, failures included as zero."""
        return fmean(row.value for row in self.rows) if self.rows else 0.0

    @property
    def coverage(self) -> float:
        """Share of rows that the program really answered."""
        return fmean(row.outcome == "ok" for row in self.rows) if self.rows else 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Mean of each part of the metric, failures included as zero."""
        names = sorted({name for row in self.rows for name in row.parts})
        return {name: fmean(row.parts.get(name, 0.0) for row in self.rows) for name in names}

    @property
    def kinds(self) -> dict[str, tuple[int, float]]:
        """Number of rows and score of each type of question, failures included as zero."""
        names = sorted({row.kind for row in self.rows})
        of = {name: [row.value for row in self.rows if row.kind == name] for name in names}
        return {name: (len(values), fmean(values)) for name, values in of.items()}

    def summary(self) -> dict[str, Any]:
        """The figures, for `--json` and manifests: nothing in it depends on the machine."""
        return {
            "metric": self.metric,
            "score": round(self.score, 6),
            "n": len(self.rows),
            "coverage": round(self.coverage, 6),
            "parts": {name: round(value, 6) for name, value in self.parts.items()},
        }


def evaluate(
    program: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Metric,
    threads: int = 1,
    progress: Callable[[Row], None] | None = None,
) -> Report:
    """Run a program on every example, once each.

    Args:
        program: takes the examples' inputs.
        examples: with an `id` that the metric's gold knows.
        threads: examples at once.
        progress: called after each example, from its thread.

    Raises:
        BudgetStop: the ambient budget ended; replies so far are in the replay cache, so running again goes on.
    """

    def one(example: dspy.Example) -> Row:
        with metered() as ledger:
            row = _run(program, example, metric)
        row = row.model_copy(update=_usage(ledger.total()) | {"kind": metric.gold[row.id].kind, "metric": metric.name})
        if progress is not None:
            progress(row)
        return row

    with dspy.context(trace=None):  # a trace would hold every prompt until the end
        return Report(metric=metric.name, rows=tuple(map_ordered(one, examples, threads)))


def evaluate_kept(  # noqa: PLR0913
    program: dspy.Module,
    trials: Iterable[Trial],
    bindings: Bindings,
    kept: Path,
    threads: int = 1,
    progress: Callable[[Row], None] | None = None,
) -> tuple[Report, Ledger]:
    """`evaluate` on one history after the other under bindings, with replies kept in the file `kept`.

    A stopped run goes on, and a dead backend stops.

    Raises:
        BudgetStop: the backend is out.
    """
    with replies(kept), settings_for(bindings, threads), metered(budget=Budget()) as ledger:
        reports = [(one, evaluate(program, one.examples, one.metric, threads, progress)) for one in trials]
        rows = (row.model_copy(update={"history": one.history}) for one, report in reports for row in report.rows)
        return Report(metric=reports[0][0].metric.name if reports else "", rows=tuple(rows)), ledger


def require_answers(report: Report, kept: Path) -> None:
    """Refuse a report in which no question was answered.

    Raises:
        ModelError: with the first reason, and what to do about replies that were kept.
    """
    if report.rows and not report.coverage:
        again = f"Mend that, delete {kept} and run again" if any(row.cache_hits for row in report.rows) else ""
        raise ModelError(f"no question was answered; first: {report.rows[0].why} {again}".rstrip())


def write_rows(path: Path, report: Report) -> None:
    """Write one row a line (jsonl).

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        with whole_file(path) as file:
            file.writelines(row.model_dump_json() + "\n" for row in report.rows)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); choose another file") from None


def _run(program: dspy.Module, example: dspy.Example, metric: Metric) -> Row:
    try:
        prediction = program(**example.inputs())
    except OUTPUT_ERRORS as error:
        return Row(id=example.id, outcome="output_error", value=0.0, why=hide_secrets(str(error)))
    except BACKEND_ERRORS as error:
        return Row(id=example.id, outcome="backend_error", value=0.0, why=hide_secrets(str(error)))
    score = metric(example, prediction)
    answer, context = prediction.get("answer"), prediction.get("context")
    return Row(
        id=example.id,
        outcome="ok",
        value=score.value,
        why=score.why,
        note=prediction.get("note") or "",
        parts=score.parts,
        answer=answer.text if answer else "",
        cited=cited(prediction),
        rounds=len(context.rounds) if context else 0,
    )


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls,
        "cache_hits": usage.cache_hits,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "seconds": round(usage.seconds, 3),
        "cost": usage.cost,
    }
