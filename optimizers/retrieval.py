"""Turns search and questions with gold evidence into recall figures, without a model; and chooses search's weights.

Recall@k is the share of a question's gold turns among the first k turns found, averaged over questions. Questions
without evidence have no recall and are left out and counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
from rich.table import Table

from stitchjam.data.cases import Case
from stitchjam.data.errors import UsageError
from stitchjam.data.index.ranking import Weights, top_k
from stitchjam.data.progress import Tick
from stitchjam.data.records import Record

__all__ = ["SearchReport", "evaluate_search", "search_tables"]

TURNS, SESSIONS = (5, 10, 20), (1, 3, 5, 10)
_CHOICES = tuple(
    Weights(lexical=lexical, near=near, far=far, beside=beside, speaker=speaker)
    for lexical, (near, far), beside, speaker in product(
        (0.45, 0.5, 0.55, 0.6), ((0.7, 0.5), (0.8, 0.7)), (0.2, 0.4), (0.0, 0.05, 0.1, 0.15)
    )
)


class Found(Record):
    """What search found for one question: recall by k, for turns and for sessions."""

    id: str
    kind: str
    turns: dict[int, float]
    sessions: dict[int, float]


class Figures(Record):
    """Means over questions: recall of turns and sessions by k, and of turns by type of question."""

    name: str
    questions: int
    turns: dict[int, float]
    sessions: dict[int, float]
    kinds: dict[str, dict[int, float]]


class SearchReport(Record):
    """Figures for each history and for all; `chosen` when weights were chosen on the other histories."""

    encoder: str
    weights: dict[str, float]
    histories: tuple[Figures, ...]
    together: Figures
    chosen: Figures | None = None
    chosen_weights: dict[str, dict[str, float]] = {}
    without_evidence: int = 0
    problems: tuple[str, ...] = ()


def evaluate_search(cases: Sequence[Case], choose: bool, tick: Tick) -> SearchReport:
    """Search for every question in its own history.

    Args:
        cases: histories with questions.
        choose: also choose weights for each history on all the others, and score them on it.
        tick: is given what is being done, how much is through, and how much there is.

    Raises:
        UsageError: no question has evidence, or weights are to be chosen on a single history.
    """
    scored = {case.name: [q for q in case.questions if q.evidence] for case in cases}
    if not any(scored.values()):
        raise UsageError("no question names evidence; give --questions with evidence, or a LoCoMo file as --history")
    if choose and len(cases) < 2:
        raise UsageError("weights are chosen on the other histories, and there is only one; give several")
    found = {}
    for done, case in enumerate(cases, 1):
        found[case.name] = _search(case, Weights())
        tick("search", done, len(cases))
    figures = tuple(_figures(name, rows) for name, rows in found.items() if rows)
    report = SearchReport(
        encoder=cases[0].store.encoder,
        weights=vars(Weights()),
        histories=figures,
        together=_figures("all", [row for rows in found.values() for row in rows]),
        without_evidence=sum(len(case.questions) - len(scored[case.name]) for case in cases),
        problems=tuple(problem for case in cases for problem in case.problems),
    )
    return _with_choice(report, cases, tick) if choose else report


def _with_choice(report: SearchReport, cases: Sequence[Case], tick: Tick) -> SearchReport:
    """Leave one history out: the weights that are best on the others find the evidence in it."""
    tried: list[dict[str, list[Found]]] = []
    for done, weights in enumerate(_CHOICES, 1):
        tried.append({case.name: _search(case, weights) for case in cases})
        tick("weights", done, len(_CHOICES))
    rows: list[Found] = []
    chosen = {}
    for case in cases:
        others = [
            _recall_at_10(row for name, found in one.items() if name != case.name for row in found) for one in tried
        ]
        best = int(np.argmax(others))
        chosen[case.name] = vars(_CHOICES[best])
        rows += tried[best][case.name]
    return report.model_copy(update={"chosen": _figures("all", rows), "chosen_weights": chosen})


def _recall_at_10(rows: Iterable[Found]) -> float:
    return fmean(row.turns[10] for row in rows)


def _search(case: Case, weights: Weights) -> list[Found]:
    index = replace(case.store.index, weights=weights)
    rows = []
    for question in case.questions:
        if question.evidence:
            scores = index.score(question.text)
            gold = set(case.store.positions(question.evidence).values())
            turns = [at for at, _ in top_k(scores.turns, max(TURNS))]
            sessions = [at for at, _ in top_k(scores.sessions, max(SESSIONS))]
            homes = {int(index.columns.sessions[at]) for at in gold}
            rows.append(
                Found(
                    id=question.id,
                    kind=question.kind,
                    turns={k: len(gold.intersection(turns[:k])) / len(gold) for k in TURNS},
                    sessions={k: len(homes.intersection(sessions[:k])) / len(homes) for k in SESSIONS},
                )
            )
    return rows


def _figures(name: str, rows: Sequence[Found]) -> Figures:
    kinds = sorted({row.kind for row in rows if row.kind})
    of = {kind: [row for row in rows if row.kind == kind] for kind in kinds}
    return Figures(
        name=name,
        questions=len(rows),
        turns={k: fmean(row.turns[k] for row in rows) for k in TURNS},
        sessions={k: fmean(row.sessions[k] for row in rows) for k in SESSIONS},
        kinds={kind: {k: fmean(row.turns[k] for row in of[kind]) for k in TURNS} for kind in kinds},
    )


def search_tables(report: SearchReport) -> list[Any]:
    """The figures as tables, in percent."""
    table = Table("history", "questions", box=None, pad_edge=False)
    for head in [*(f"R@{k}" for k in TURNS), *(f"session R@{k}" for k in SESSIONS)]:
        table.add_column(head, justify="right")
    rows = [*report.histories, report.together] if len(report.histories) > 1 else [report.together]
    if report.chosen:
        rows.append(report.chosen.model_copy(update={"name": "all *"}))
    for row in rows:
        table.add_row(row.name, str(row.questions), *_percent(row.turns), *_percent(row.sessions))
    lines: list[Any] = [
        f"evidence recall of search (encoder {report.encoder}), macro over questions, in percent",
        table,
    ]
    if report.together.kinds:
        kinds = Table("question type", *(f"R@{k}" for k in TURNS), box=None, pad_edge=False)
        for kind, values in (report.chosen or report.together).kinds.items():
            kinds.add_row(kind, *_percent(values))
        lines.append(kinds)
    if report.chosen:
        lines.append("* and the types: each history is searched with weights that were chosen on the others")
    if report.without_evidence:
        lines.append(f"left out: {report.without_evidence} questions without evidence")
    return [*lines, *report.problems]


def _percent(values: dict[int, float]) -> list[str]:
    return [f"{100 * value:.1f}" for value in values.values()]
