"""Turns gold labels of turns into what recall by intent could find at best, and what wrong labels cost; no model.

The labels of a question are those of its evidence turns: an upper bound, which no reader of intents can know. Then
labels of turns are replaced by those of another turn, chosen by chance, for a share of the turns; or whole runs of
equal labels are, so that the labels are wrong and still hang together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.matching import Limits, match_intent
from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.labelled import LabelledHistory
from stitchjam.data.labelled.gold import Labels, facets_of, gold_entries, intent_of
from stitchjam.data.progress import Tick
from stitchjam.data.records import Question, Record
from stitchjam.data.store import Store
from stitchjam.optimizers.compare import interval
from stitchjam.optimizers.show import table

__all__ = ["DESIGNS", "Level", "OracleReport", "measure_oracle", "oracle_tables"]

Damage = Literal["turns", "runs"]
RATES, _SEEDS = (0.1, 0.3, 0.5, 1.0), 3
# How recall uses labels: by label density alone (the paper), in turns with similarity, or only those with structure.
DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "density alone (paper)": {"alone": True, "trusted": 0.0},
    "in turns": {"trusted": 0.0},
    "in turns, if trusted": {},
}


class Level(Record):
    """One line: a design at a share of wrong labels. `recall` is the mean evidence recall of `n` questions in [0, 1].

    `over` is the mean gain over similarity alone, with bounds of 95 % of its bootstrap; `kinds` has recall by type.
    """

    design: str
    damage: Damage | Literal[""]
    rate: float
    n: int
    recall: float
    over: float
    low: float
    high: float
    kinds: dict[str, float]


class OracleReport(Record):
    """Levels of one set, and of similarity alone."""

    histories: int
    turns: int
    questions: int
    tokens: int
    k: int
    chosen: tuple[str, ...]
    similarity: float
    similarity_kinds: dict[str, float]
    levels: tuple[Level, ...]


class _Case(NamedTuple):
    """A history with its questions and the gold labels of its turns; `store` has an index and no notes.

    `alike` is how similar each turn is to a question, by id: it does not depend on labels.
    """

    name: str
    store: Store
    questions: tuple[Question, ...]
    labels: Labels
    alike: Mapping[str, NDArray[np.float32]]


Recalls = dict[tuple[str, str], float]  # evidence recall by history and question


@dataclass(frozen=True)
class Plan:
    """What is measured: types of questions ("" for all), how much is recalled, and shares of wrong labels."""

    kinds: tuple[str, ...] = ()
    k: int = 40
    tokens: int = 4096
    rates: tuple[float, ...] = RATES
    seeds: int = _SEEDS


def measure_oracle(histories: Iterable[LabelledHistory], plan: Plan, tick: Tick) -> OracleReport:
    """Evidence recall at the token budget with gold labels, with damaged ones, and by similarity alone.

    Raises:
        UsageError: no question of these types has evidence.
    """
    cases = [case for one in histories if (case := _case(one, plan.kinds))]
    if not cases:
        raise UsageError("no question of these types names evidence; leave out --kind, or choose another set")
    alike = _merged(_recalls(case, case.store, plan, {}, without=FACETS) for case in cases)
    kinds = {(case.name, question.id): question.kind for case in cases for question in case.questions}
    levels = []
    steps = [("", 0.0), *(("turns", rate) for rate in plan.rates), *(("runs", rate) for rate in plan.rates)]
    for number, (damage, rate) in enumerate(steps):
        for design, found in _at(cases, plan, damage, rate).items():
            levels.append(_level(design, damage, rate, found, alike, kinds))
        tick("oracle", number + 1, len(steps))
    return OracleReport(
        histories=len(cases),
        turns=sum(case.store.size for case in cases),
        questions=len(alike),
        tokens=plan.tokens,
        k=plan.k,
        chosen=plan.kinds,
        similarity=fmean(alike.values()),
        similarity_kinds=_by_kind(alike, kinds),
        levels=tuple(levels),
    )


def _case(one: LabelledHistory, kinds: Sequence[str]) -> _Case | None:
    questions = tuple(q for q in one.questions if q.evidence and (not kinds or q.kind in kinds))
    labels = {turn_id: facets_of(gold) for turn_id, gold in one.labels.items()}
    if not questions:
        return None
    store = Store.of(one.history)
    alike = {question.id: store.index.score(question.text).turns for question in questions}
    return _Case(one.name, store, questions, labels, alike)


def _at(cases: Sequence[_Case], plan: Plan, damage: str, rate: float) -> dict[str, Recalls]:
    """Recall of each design with so many wrong labels: the mean over some ways to choose them."""
    runs: dict[str, list[Recalls]] = {design: [] for design in DESIGNS}
    for seed in range(plan.seeds if rate else 1):
        found: dict[str, list[Recalls]] = {design: [] for design in DESIGNS}
        for case in cases:
            labels = _damaged(case, damage, rate, seed) if rate else case.labels
            store = case.store.noted(gold_entries(case.store.turns, labels))
            for design, settings in DESIGNS.items():
                found[design].append(_recalls(case, store, plan, settings))
        for design in DESIGNS:
            runs[design].append(_merged(found[design]))
    return {design: {key: fmean(run[key] for run in some) for key in some[0]} for design, some in runs.items()}


def _recalls(case: _Case, store: Store, plan: Plan, settings: Mapping[str, Any], without: Any = ()) -> Recalls:
    limits, found = Limits(plan.k, plan.tokens, **settings), {}
    for question in case.questions:
        wanted = set(question.evidence)
        intent, alike = _of(question, case.labels), case.alike[question.id]
        matched = match_intent(question.text, intent, store, limits, without, alike)
        found[case.name, question.id] = len(wanted & {turn.id for turn in matched.turns}) / len(wanted)
    return found


def _merged(parts: Iterable[Recalls]) -> Recalls:
    return {key: value for part in parts for key, value in part.items()}


def _of(question: Question, labels: Labels) -> Intent:
    """The labels of all evidence of a question."""
    evidence = [labels.get(turn_id, {}) for turn_id in question.evidence]
    return intent_of({facet: [name for one in evidence for name in one.get(facet, ())] for facet in FACETS})


def _damaged(case: _Case, damage: str, rate: float, seed: int) -> Labels:
    """Labels of which a share was taken from other turns: turn by turn, or a run of equal ones at a time."""
    dice, ids = Random(f"{case.name}/{damage}/{seed}"), [turn.id for turn in case.store.turns]
    drawn = [case.labels.get(id, {}) for id in ids]
    if damage == "turns":
        return {id: dice.choice(drawn) if dice.random() < rate else case.labels.get(id, {}) for id in ids}
    wrong: dict[str, dict[Facet, tuple[str, ...]]] = {id: {} for id in ids}
    for facet in FACETS:
        own = {id: case.labels.get(id, {}).get(facet, ()) for id in ids}
        for labels, run in groupby(ids, key=own.__getitem__):
            put = dice.choice(drawn).get(facet, ()) if dice.random() < rate else labels
            for id in run:
                wrong[id][facet] = put
    return wrong


def _level(design: str, damage: Any, rate: float, found: Recalls, alike: Recalls, kinds: Mapping[Any, str]) -> Level:
    gains = {key: found[key] - alike[key] for key in found}
    grouped: dict[str, list[float]] = {}
    for (history, _), gain in gains.items():
        grouped.setdefault(history, []).append(gain)
    low, high = interval(grouped)
    return Level(
        design=design,
        damage=damage,
        rate=rate,
        n=len(found),
        recall=fmean(found.values()),
        over=fmean(gains.values()),
        low=low,
        high=high,
        kinds=_by_kind(found, kinds),
    )


def _by_kind(found: Recalls, kinds: Mapping[Any, str]) -> dict[str, float]:
    names = sorted({kinds[key] for key in found if kinds[key]})
    return {name: fmean(value for key, value in found.items() if kinds[key] == name) for name in names}


def oracle_tables(report: OracleReport) -> list[Any]:
    """The figures as lines and a table, in percent."""
    said = f" of type {', '.join(report.chosen)}" if report.chosen else ""
    rows = [
        (one.design, {"": "", "turns": "single turns", "runs": "whole runs"}[one.damage], f"{one.rate:.0%}")
        + (f"{100 * one.recall:.1f}", f"{100 * one.over:+.1f}", f"{100 * one.low:+.1f} to {100 * one.high:+.1f}")
        for one in report.levels
    ]
    heads = ("labels are used", "wrong", "share", "recall", "over similarity", "95 %")
    return [
        f"{report.questions} questions{said} on {report.turns:,} turns in {report.histories} histories; at most "
        f"{report.k} turns and {report.tokens:,} tokens",
        f"evidence recall by similarity alone: {100 * report.similarity:.1f}",
        table(heads, rows, heads[2:]),
        "in turns: one by labels, one by similarity; if trusted, as recall is: only facets whose labels have order",
    ]
