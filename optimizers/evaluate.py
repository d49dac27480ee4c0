"""Turns a program and questions into a report that hides nothing: a failed question counts as zero and stays visible.

dspy's evaluator turns a revoked key into a score, runs slow examples twice, and loses all results at ten errors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import dspy

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.replay import replies
from stitchjam.backends.usage import Budget, Ledger, Usage, metered
from stitchjam.data.errors import (
    BackendError,
    BudgetStop,
    ModelError,
    ModelOutputError,
    StitchjamError,
    UsageError,
)
from stitchjam.data.records import Question
from stitchjam.data.secrets import hide_secrets
from stitchjam.optimizers.metrics import Metric, cited, recall_by_tokens
from stitchjam.optimizers.row_file import Rows
from stitchjam.optimizers.rows import Outcome, Report, Row
from stitchjam.programs.each import each
from stitchjam.programs.step import settings_for

__all__ = ["BACKEND_ERRORS", "OUTPUT_ERRORS", "Terms", "Trial", "evaluate", "evaluate_kept", "require_answers"]

# A step of the user's own, or a plain dspy module, raises dspy's errors instead of ours.
OUTPUT_ERRORS = (ModelOutputError, dspy.AdapterParseError)
BACKEND_ERRORS = (BackendError, dspy.LMError)
PATIENCE = 4  # requests in a row that fail for good; a hung or refused one now and then is that question's own failure


class Trial(NamedTuple):
    """What a program is asked about one history: examples with an `id`, and the metric that knows their gold."""

    examples: Sequence[dspy.Example]
    metric: Metric
    history: str = ""
    kinds: Mapping[str, str] = MappingProxyType({})  # what rows call a type of question, where it is only a number


@dataclass(frozen=True)
class _Asked:
    """One question on its way; `budget` holds its deadline. What was `said` is kept while it is rated."""

    trial: Trial
    example: dspy.Example
    budget: Budget | None
    said: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=lambda: Ledger(dspy.settings.get("ledger")))

    def row(self, outcome: Outcome, why: str, **fields: Any) -> Row:
        """The row of this question."""
        metric, use = self.trial.metric, self.ledger.total()
        gold = metric.gold.get(self.example.id)
        about = {"id": self.example.id, "history": self.trial.history, "metric": metric.name}
        if gold:
            about |= {"kind": self.trial.kinds.get(gold.kind, gold.kind), "question": gold.text}
        known: dict[str, Any] = {"value": 0.0} | about | self.said | _usage(use) | fields
        return Row(outcome=outcome, why=hide_secrets(why), **known)


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
        progress: called after each example, in the order in which they are done.

    Raises:
        BudgetStop: the ambient budget ended; replies so far are in the replay cache, so running again goes on.
    """
    done: dict[Any, Row] = {}
    for row in _rows(program, [Trial(examples, metric)], threads, None):
        done[row.id] = row
        if progress is not None:
            progress(row)
    return Report(metric=metric.name, rows=tuple(done[example.id] for example in examples))


@dataclass(frozen=True)
class Terms:
    """How an evaluation is run.

    Args:
        bindings: models by step.
        kept: file of the replies, so that a stopped run pays for no reply twice.
        threads: questions at once.
        deadline: seconds for one question.
        calls, seconds, cost: the most that all may take.
        again: whether the model is asked where a reply is kept, so that one of no use is replaced.
        ledger: counts the calls that are made, those of judges too.
    """

    bindings: Bindings
    kept: Path
    threads: int = 1
    deadline: float | None = None
    calls: int | None = None
    seconds: float | None = None
    cost: float | None = None
    again: bool = False
    ledger: Ledger = field(default_factory=Ledger)

    @contextmanager
    def open(self) -> Iterator[Budget]:
        """The settings in which programs run, from now on within the limits that are given."""
        budget = Budget(calls=self.calls, seconds=self.seconds, cost=self.cost, patience=PATIENCE)
        kept = replies(self.kept, "again" if self.again else "record")
        with kept, settings_for(self.bindings, self.threads), metered(self.ledger, budget):
            yield budget


def evaluate_kept(
    program: dspy.Module,
    trials: Iterable[Trial],
    rows: Rows,
    terms: Terms,
    progress: Callable[[Row], None] | None = None,
) -> None:
    """Run a program on questions about one history after the other, and add each row to its file.

    Args:
        program: takes the examples' inputs.
        trials: taken one by one, so that no two histories need be held at once.
        rows: questions whose rows it has are not asked again.
        terms: how.
        progress: called after each question.

    Raises:
        BudgetStop: the backend is out, or a limit is reached; the rows so far are kept.
    """
    left = (
        trial._replace(examples=[one for one in trial.examples if (trial.history, one.id) not in rows.done])
        for trial in trials
    )
    held: list[Row] = []  # failures of a backend that may be out: they are no result of their questions if it is

    def keep() -> None:
        while held:
            rows.add(held.pop(0))

    with terms.open() as budget:
        try:
            # More questions than requests at once would only wait for each other, on their own time.
            threads = min(terms.threads, terms.bindings.parallel or terms.threads)
            for row in _rows(program, left, threads, terms.deadline):
                held.append(row)
                if row.outcome not in ("lm_error", "metric_error") or not budget.failing:
                    keep()
                if progress is not None:
                    progress(row)
        except BudgetStop:
            if budget.failing:
                held.clear()
            raise
        finally:
            keep()


def _rows(program: dspy.Module, trials: Iterable[Trial], threads: int, deadline: float | None) -> Iterator[Row]:
    """Rows in the order in which they are done."""
    whole = dspy.settings.get("budget")

    def asked() -> Iterator[_Asked]:
        for trial in trials:
            for example in trial.examples:
                own = None if deadline is None and whole is None else Budget(seconds=deadline, outer=whole)
                yield _Asked(trial, example, own)

    def patience(one: _Asked) -> float | None:
        return one.budget and one.budget.seconds_left

    with dspy.context(trace=None):  # a trace would hold every prompt until the end
        for one, row in each(lambda one: _run(program, one), asked(), threads, patience):
            yield row or _late(one)


def _late(asked: _Asked) -> Row:
    """The row of a question that is left behind."""
    if asked.budget is not None:
        whole = asked.budget.outer
        asked.budget.end()
        if whole is not None and whole.ended:
            whole.reserve()  # raises: it was the end of the whole run
    return _overdue(asked)


def _overdue(asked: _Asked) -> Row:
    outcome, what = ("metric_error", "answered, but not rated") if asked.said else ("budget", "no answer")
    return asked.row(outcome, f"{what} within its deadline; it was left behind. Raise --deadline to wait longer")


def _run(program: dspy.Module, asked: _Asked) -> Row:
    metric, example = asked.trial.metric, asked.example
    if unrated := metric.unrated(metric.gold_of(example)):
        return asked.row("not_rated", f"not rated: {unrated}")
    try:
        with metered(asked.ledger, asked.budget):
            prediction = program(**example.inputs())
        with metered(budget=asked.budget):  # a judge is no part of what is judged, nor of what that costs
            return _rated(asked, prediction)
    except OUTPUT_ERRORS as error:
        return asked.row("parse_error", str(error))
    except BACKEND_ERRORS as error:
        return asked.row("lm_error", str(error))
    except BudgetStop:
        if asked.budget is None or not asked.budget.ended:
            raise
        return _overdue(asked)
    except StitchjamError:
        raise
    except Exception as error:  # a program of the user's own: one question that it cannot bear ends no run
        return asked.row("program_error", f"{type(error).__name__}: {error}")


def _rated(asked: _Asked, prediction: dspy.Prediction) -> Row:
    metric = asked.trial.metric
    try:
        asked.said.update(_said(metric, metric.gold_of(asked.example), prediction))
        score = metric(asked.example, prediction)
        return asked.row("ok", score.why, value=score.value, parts=score.parts)
    except UsageError:
        raise
    except Exception as error:  # a judge's model, or a metric of the user's own: the answer stays, to be judged again
        return asked.row("metric_error", f"the metric failed: {error}")


def _said(metric: Metric, gold: Question, prediction: dspy.Prediction) -> dict[str, Any]:
    answer, context = prediction.get("answer"), prediction.get("context")
    return {
        "note": prediction.get("note") or "",
        "answer": answer.text if answer else "",
        "cited": cited(prediction),
        "recall": recall_by_tokens(gold, prediction, metric.store),
        "rounds": len(context.rounds) if context else 0,
    }


def require_answers(report: Report, kept: Path) -> None:
    """Refuse a report in which no question was answered.

    Raises:
        ModelError: with the first reason, and what to do about replies that were kept.
    """
    if report.rated and not report.coverage:
        again = f"Mend that, delete {kept} and run again" if any(row.cache_hits for row in report.rows) else ""
        raise ModelError(f"no question was answered; first: {report.rated[0].why} {again}".rstrip())


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls,
        "cache_hits": usage.cache_hits,
        "input_tokens": usage.input_tokens + usage.kept_input_tokens,
        "output_tokens": usage.output_tokens + usage.kept_output_tokens,
        "seconds": round(usage.seconds, 3),
        "cost": usage.cost,
    }
