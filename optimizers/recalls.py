"""Turns labelled memories and questions with gold evidence into what each way of recall finds, and at which budget.

The intent of a question is read once, by one call, and shared by STITCH and its ablations: they differ in what they do
with it. No answer is asked for.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import dspy

from stitchjam.data.cases import Case
from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.index.ranking import BM25
from stitchjam.data.intents.matching import Limits, match_intent, spoken
from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.records import Context, Question, Record, Turn
from stitchjam.data.store import Store
from stitchjam.optimizers.compare import interval
from stitchjam.optimizers.metrics import make_metric
from stitchjam.optimizers.show import table
from stitchjam.programs.render import quoted
from stitchjam.programs.stitch.intent import IntentReader
from stitchjam.programs.stitch.recall import ABLATIONS

__all__ = ["Found", "RecallReport", "Way", "measure_recall", "recall_tables"]

Way = str
_METRICS = ("evidence_at_budget", "evidence_near", "answer_in_context")
_FULL = "stitch"
Tick = Callable[[str], None]


class Found(Record):
    """What a way of recall found for a question; a figure is None where the question has nothing to be rated by."""

    history: str
    id: str
    kind: str
    way: Way
    turns: int
    tokens: int
    figures: dict[str, float | None]


class RecallReport(Record):
    """All that was found, and the intents that were read: names of labels by facet."""

    k: int
    budget: int
    rows: tuple[Found, ...]
    intents: dict[str, dict[Facet, tuple[str, ...]]]
    unread: dict[str, str]


def measure_recall(cases: Iterable[Case], reader: IntentReader, limits: Limits, tick: Tick) -> RecallReport:
    """Recall for every question with evidence, by BM25, by hybrid search, and by STITCH with each ablation.

    Raises:
        UsageError: no question has evidence, or a memory has no notes.
        BackendError, BudgetStop: from the step that reads intents.
    """
    rows, intents, unread = list[Found](), {}, {}
    for case in cases:
        if not case.store.notebook.size:
            raise UsageError(f"nothing is noted of {case.name!r}; label it first: stitchjam label --bench")
        for question in (one for one in case.questions if one.evidence):
            try:
                intent = reader(request=question.text, notebook=case.store.notebook).intent
            except ModelOutputError as error:
                intent, unread[question.id] = Intent(), str(error)
            intents[question.id] = case.store.notebook.names(intent)
            found = _ways(question, intent, case.store, limits)
            rows += [_found(case, question, way, turns, limits.tokens) for way, turns in found.items()]
            tick(question.id)
    if not rows:
        raise UsageError("no question names evidence, so recall cannot be measured; choose other questions")
    return RecallReport(k=limits.k, budget=limits.tokens, rows=tuple(rows), intents=intents, unread=unread)


def _ways(question: Question, intent: Intent, store: Store, limits: Limits) -> dict[Way, Sequence[Turn]]:
    found: dict[Way, Sequence[Turn]] = {}
    hits = store.search(question.text, limits.k, weights=BM25)
    found["bm25"] = _fitting([hit.turn for hit in hits], limits.tokens)
    for name, without in ABLATIONS.items():
        way = {"": _FULL, "similarity-only": "hybrid"}.get(name, f"{_FULL} {name}")
        found[way] = match_intent(question.text, intent, store, limits, without).turns
    paper = Limits(limits.k, limits.tokens, 0.0, alone=True)
    found[f"{_FULL} as in the paper"] = match_intent(question.text, intent, store, paper).turns
    return found


def _fitting(turns: Sequence[Turn], budget: int) -> list[Turn]:
    kept, left = [], budget
    for turn in turns:
        cost = spoken(turn)
        if cost <= left:
            kept.append(turn)
            left -= cost
    return kept


def _found(case: Case, question: Question, way: Way, turns: Sequence[Turn], budget: int) -> Found:
    claims = tuple(quoted(turn) for turn in case.store.in_order(turn.id for turn in turns))
    context = Context(request=question.text, claims=claims)
    figures: dict[str, float | None] = {}
    for name in _METRICS:
        metric = make_metric(name, [question], case.store, **({"tokens": budget} if "budget" in name else {}))
        rated = not metric.unrated(question)
        figures[name] = metric.score(question, dspy.Prediction(context=context)).value if rated else None
    cost = sum(map(spoken, turns))
    return Found(
        history=case.name, id=question.id, kind=question.kind, way=way, turns=len(turns), tokens=cost, figures=figures
    )


def recall_tables(report: RecallReport) -> list[Any]:
    """Evidence recall and answers in the context, in percent, by way and by type of question."""
    ways, kinds = list(dict.fromkeys(row.way for row in report.rows)), sorted({row.kind for row in report.rows})
    shown = [*kinds, ""] if len(kinds) > 1 else [""]
    lines: list[Any] = [
        f"{len(report.intents)} questions, at most {report.k} turns and {report.budget:,} tokens; n in brackets",
    ]
    titles = ("evidence recall", "evidence recall, itself or the turn beside it", "answer in the context, word by word")
    for metric, title in zip(_METRICS, titles, strict=True):
        heads = ["way", *(kind or "all" for kind in shown), *(["over hybrid", "95 %"] if metric == _METRICS[0] else [])]
        rows = [_row(report, way, metric, shown) for way in ways]
        lines += [f"{title}, in percent", table(heads, [row[: len(heads)] for row in rows], heads[1:])]
    lines.append(_determined(report))
    return lines + [f"intent of {name} not read: {why}" for name, why in report.unread.items()]


def _row(report: RecallReport, way: Way, metric: str, kinds: Sequence[str]) -> list[str]:
    cells = []
    for kind in kinds:
        values = _values(report, way, metric, kind)
        cells.append(f"{100 * fmean(values.values()):.1f} ({len(values)})" if values else "-")
    base, mine = (_values(report, one, metric, "") for one in ("hybrid", way))
    gains: dict[str, list[float]] = {}
    for (history, question), value in mine.items():
        gains.setdefault(history, []).append(value - base[history, question])
    if way == "hybrid" or not gains:
        return [way, *cells, "", ""]
    low, high = interval(gains)
    mean = fmean(gain for some in gains.values() for gain in some)
    return [way, *cells, f"{100 * mean:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}"]


def _values(report: RecallReport, way: Way, metric: str, kind: str) -> dict[tuple[str, str], float]:
    """The figures of a way by history and question, of one type of question or, for "", of all."""
    rows = (row for row in report.rows if row.way == way and kind in ("", row.kind))
    rated = ((row.history, row.id, row.figures[metric]) for row in rows)
    return {(history, question): value for history, question, value in rated if value is not None}


def _determined(report: RecallReport) -> str:
    """For how many questions a facet was determined at all."""
    counts = {facet: sum(bool(intent[facet]) for intent in report.intents.values()) for facet in FACETS}
    said = ", ".join(f"{facet} {count}" for facet, count in counts.items())
    return f"questions that determine a facet, of {len(report.intents)}: {said}"
