"""Turns questions with gold evidence into what research can find at which budget, without a model.

Source recall is the share of the sessions with gold evidence that were read. A run with many rounds is, up to any of
them, the run with fewer; so one run for each number of sessions a search gives the whole curve.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from stitchjam.data.cases import Case
from stitchjam.data.errors import UsageError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.records import Context, Question, Record
from stitchjam.data.store import Store
from stitchjam.optimizers.planners import Planner, planned
from stitchjam.optimizers.show import table
from stitchjam.programs.jam.researcher import Limits

__all__ = ["Bounds", "Reached", "bound_tables", "mean_reached", "measure_bounds"]


class Reached(Record):
    """How far research came for one question, with `k` sessions a search.

    `recall` and `read` are the source recall and the sessions read after each round; `stop` is why it ended.
    """

    history: str
    id: str
    kind: str
    k: int
    sources: int
    recall: tuple[float, ...]
    read: tuple[int, ...]
    stop: str
    dropped: int


class Bounds(Record):
    """What a planner reaches; `skipped` questions name no evidence."""

    planner: str
    actions: int
    rounds: tuple[int, ...]
    rows: tuple[Reached, ...]
    skipped: int = 0


def measure_bounds(
    cases: Iterable[Case],
    planner: Planner,
    rounds: Sequence[int],
    ks: Sequence[int],
    actions: int = 5,
    tick: Tick = quiet,
    **switches: Any,
) -> Bounds:
    """Research every question with gold evidence.

    Args:
        cases: histories with questions.
        planner: see `planned`.
        rounds: budgets to report.
        ks: sessions that a search finds, each in turn.
        actions: of a round.
        tick: is told how many questions are through.
        switches: of `Researcher`, such as tree=False.

    Raises:
        UsageError: no question names evidence, or from `planned`.
    """
    rows, skipped = list[Reached](), 0
    for case in cases:
        asked = [question for question in case.questions if question.evidence]
        skipped += len(case.questions) - len(asked)
        for done, question in enumerate(asked, 1):
            for k in ks:
                limits = Limits(max(rounds), actions, k)
                context = planned(planner, question, case.store, limits, **switches)(
                    question=question.text, store=case.store
                ).context
                rows.append(_reached(case, question, k, context))
            tick(case.name[:24], done, len(asked))
    if not rows:
        raise UsageError("no question names evidence, so there is no source recall; choose other questions")
    return Bounds(planner=planner, actions=actions, rounds=tuple(rounds), rows=tuple(rows), skipped=skipped)


def _reached(case: Case, question: Question, k: int, context: Context) -> Reached:
    gold = _sources(question, case.store)
    recall, read, opened = [], [], set[str]()
    for one in context.rounds:
        opened.update(one.read)
        recall.append(len(gold & opened) / len(gold))
        read.append(len(opened))
    return Reached(
        history=case.name,
        id=question.id,
        kind=question.kind,
        k=k,
        sources=len(gold),
        recall=tuple(recall),
        read=tuple(read),
        stop=context.stop,
        dropped=context.dropped,
    )


def _sources(question: Question, store: Store) -> set[str]:
    return {turn.session_id for turn in store.in_order(question.evidence)}


def bound_tables(report: Bounds) -> list[Any]:
    """Source recall in percent and sessions read, by rounds and sessions a search; then why runs ended."""
    ks = sorted({row.k for row in report.rows})
    questions = len({(row.history, row.id) for row in report.rows})
    heads = ["rounds", *(f"k={k}" for k in ks), *(f"read, k={k}" for k in ks)]
    rows = [
        [str(rounds), *(f"{100 * mean_reached(report, k, rounds)[0]:.1f}" for k in ks),
         *(f"{mean_reached(report, k, rounds)[1]:.1f}" for k in ks)]
        for rounds in report.rounds
    ]  # fmt: skip
    stops = {
        stop: sum(row.stop == stop for row in report.rows) for stop in dict.fromkeys(row.stop for row in report.rows)
    }
    used = [len(row.recall) for row in report.rows]
    lines: list[Any] = [
        f"planner {report.planner}: {questions} questions, at most {report.actions} actions a round; source recall in "
        "percent, and sessions read",
        table(heads, rows, heads),
    ]
    kinds = sorted({row.kind for row in report.rows})
    if len(kinds) > 1:
        lines.append(
            table(["type", "n", *(f"k={k}" for k in ks)], list(_by_kind(report, kinds, ks)), ["n", *heads[1:]])
        )
    ended = ", ".join(f"{stop} {count}" for stop, count in stops.items())
    lines.append(f"rounds used: mean {fmean(used):.2f}, most {max(used)}; ended: {ended}")
    return lines + ([f"{report.skipped} questions name no evidence"] if report.skipped else [])


def mean_reached(report: Bounds, k: int, rounds: int, kind: str = "") -> tuple[float, float]:
    """Mean source recall and mean number of sessions read after so many rounds."""
    rows = [row for row in report.rows if row.k == k and kind in ("", row.kind)]
    at = [min(rounds, len(row.recall)) - 1 for row in rows]
    recall = fmean(row.recall[one] if one >= 0 else 0.0 for row, one in zip(rows, at, strict=True))
    return recall, fmean(row.read[one] if one >= 0 else 0 for row, one in zip(rows, at, strict=True))


def _by_kind(report: Bounds, kinds: Sequence[str], ks: Sequence[int]) -> Iterator[list[str]]:
    for kind in kinds:
        n = len({(row.history, row.id) for row in report.rows if row.kind == kind})
        yield [kind or "-", str(n), *(f"{100 * mean_reached(report, k, max(report.rounds), kind)[0]:.1f}" for k in ks)]
